"""The fuzzed parsers: for each target good inputs to start from, and a call that must return or refuse."""

import atexit
import random
import shutil
import struct
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kraft_native.base.crc import checksum
from kraft_native.batch import codecs
from kraft_native.batch.batch import count_batches, walk
from kraft_native.batch.control import control_batch, control_records, marker
from kraft_native.batch.records import BatchBuilder, records
from kraft_native.segment import checkpoints, producer_snapshots
from kraft_native.segment.audit import SegmentAudit
from kraft_native.segment.epochs import LeaderEpochCache
from kraft_native.segment.index import OffsetIndex, TimeIndex
from kraft_native.segment.txn_index import TransactionIndex
from tests.fuzz.mutate import correct_batches, correct_messages, mutate
from tests.oracle.legacy import sample

BYTES_MAX = 1 << 20
RATIO_MAX = 200


@dataclass(frozen=True)
class Target:
    """A fuzzed parser. `corpus` returns good inputs; `call` gets damaged ones."""

    corpus: Callable[[random.Random], list[bytes]]
    call: Callable[[bytes], object]
    correct: Callable[[bytes], bytes] | None = None

    def input(self, source: random.Random, good: list[bytes]) -> bytes:
        data = mutate(source, source.choice(good))
        return self.correct(data) if self.correct is not None and source.random() < 0.7 else data


def scratch_file(name: str) -> Path:
    """Return one file for repeated use, in memory where the machine has such a place. It is removed when the process
    ends."""
    memory = Path("/dev/shm")
    top = Path(tempfile.mkdtemp(prefix="kraft-fuzz-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, top, ignore_errors=True)
    return top / name


# --- batches --------------------------------------------------------------------------------------------------------

def batch_corpus(source: random.Random) -> list[bytes]:
    made = [
        marker(commit=True, producer_id=7, producer_epoch=1, coordinator_epoch=2, timestamp_ms=5, base_offset=3),
        control_batch([(2, b"\x00" * 20)], timestamp_ms=1),
    ]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        for count in (1, 3, 40):
            builder = BatchBuilder(codec, transactional=count == 3)
            for number in range(count):
                key = source.choice((None, b"", source.randbytes(5)))
                value = source.choice((None, b"", source.randbytes(30), bytes(200)))
                headers = source.choice(((), (("name", b"value"), ("", None))))
                builder.append(value, key, 1_000 + number, headers)
            made.append(builder.build(source.randrange(1 << 40), leader_epoch=3, producer_id=9, producer_epoch=0,
                                      base_sequence=source.choice((0, 2**31 - 2))))
    return [*made, made[2] + made[3], b"".join(made)]


def read_batches(data: bytes) -> None:
    for check_crc in (True, False):
        counted, whole_bytes = count_batches(data, check_crc=check_crc)
        assert 0 <= whole_bytes <= len(data)
        assert list(walk(data[:whole_bytes], check_crc=check_crc))[counted:] == []
    for batch in walk(data, check_crc=False):
        assert (61 if batch.magic == 2 else 26) <= batch.size_in_bytes <= len(data)
        assert batch.last_offset >= batch.base_offset


def message_corpus(source: random.Random) -> list[bytes]:
    return [sample(source, source.randrange(1 << 40), sets, (magic,)) for magic in (0, 1) for sets in (1, 1, 1, 2, 6)]


def read_records(data: bytes) -> None:
    for record in records(data, check_crc=False, control=True, max_bytes=BYTES_MAX, max_ratio=RATIO_MAX):
        assert len(record.value or b"") + len(record.key or b"") <= BYTES_MAX
        assert all(isinstance(key, str) for key, _ in record.headers)


def read_control(data: bytes) -> None:
    for record in control_records(data, check_crc=False):
        assert record.type_name is not None


LOG_FILE = scratch_file("00000000000000000000.log")


def audit_log(data: bytes) -> None:
    LOG_FILE.write_bytes(data)
    with SegmentAudit(LOG_FILE, 0, window_bytes=4096) as audit:
        audit.expect_offset_entries(data[:64])
        audit.expect_time_entries(data[-120:])
        sound = 0
        while audit.step():
            sound += len(audit.stretch())
            audit.take_events()
        damaged = sum(end - position for position, end, *_ in audit.damage)
        assert (sound, sound + damaged) == (audit.sound_bytes, len(data))


# --- codecs ---------------------------------------------------------------------------------------------------------

def codec_target(codec: str) -> Target:
    def corpus(source: random.Random) -> list[bytes]:
        return [codecs.compress(codec, data) for data in (
            b"", b"x", source.randbytes(500), bytes(100_000), bytes(range(256)) * 30)]

    def call(data: bytes) -> None:
        assert len(codecs.decompress(codec, data, max_bytes=BYTES_MAX, max_ratio=RATIO_MAX)) <= BYTES_MAX

    return Target(corpus, call)


# --- index files ----------------------------------------------------------------------------------------------------

def index_corpus(layout: str) -> Callable[[random.Random], list[bytes]]:
    def corpus(source: random.Random) -> list[bytes]:
        return [b"".join(struct.pack(layout, 10 * number, 7 * number) for number in range(1, count))
                for count in (1, 2, 40, 600)]
    return corpus


INDEX_FILE = scratch_file("00000000000000000000.index")


def read_index(kind: type[OffsetIndex] | type[TimeIndex]) -> Callable[[bytes], None]:
    def call(data: bytes) -> None:
        INDEX_FILE.write_bytes(data)
        index = kind.open_sealed(INDEX_FILE, 100)
        for target in (0, 100, 350, 2**40, 2**63 - 1):
            index.find(target)
        entries = list(index)
        assert len(entries) == len(index)
        if isinstance(index, OffsetIndex):
            index.check(len(data))
        else:
            index.check()
    return call


TXN_FILE = scratch_file("00000000000000000000.txnindex")


def txn_corpus(source: random.Random) -> list[bytes]:
    return [b"".join(struct.pack(">hqqqq", 0, 7, 10 * number, 10 * number + 5, 10 * number + 6)
                     for number in range(count)) for count in (0, 1, 20)]


def read_txn_index(data: bytes) -> None:
    TXN_FILE.write_bytes(data)
    index = TransactionIndex(TXN_FILE, 0)
    index.check()
    index.collect(3, 120, [])
    assert len(list(index)) == len(index)


# --- small files ----------------------------------------------------------------------------------------------------

SMALL = scratch_file("small")


def written(write: Callable[[Path], object], name: str) -> bytes:
    """Return the content of the file `name` that one of our writers leaves."""
    write(SMALL.parent / name if name == "small" else SMALL.parent)
    return (SMALL.parent / name).read_bytes()


def file_target(name: str, write: Callable[[Path], object], read: Callable[[Path], object]) -> Target:
    """Build the target of a small file: our writer writes it; it is read from the file (`small`) or from its
    directory."""
    def call(data: bytes) -> None:
        (SMALL.parent / name).write_bytes(data)
        read(SMALL if name == "small" else SMALL.parent)

    return Target(lambda _: [written(write, name)], call)


def snapshot_corpus(_: random.Random) -> list[bytes]:
    """Return snapshots in Kafka's layout, built by hand: version, CRC, count, entries."""
    entry = struct.pack(">qhiqiqiq", 7, 0, 5, 99, 4, 1_000, -1, -1)
    made = []
    for count in (0, 1, 9):
        body = struct.pack(">i", count) + b"".join(
            struct.pack(">q", number) + entry[8:] for number in range(count))
        made.append(correct_snapshot(struct.pack(">hI", 1, 0) + body))
    return made


def correct_snapshot(data: bytes) -> bytes:
    return data[:2] + struct.pack(">I", checksum(data[6:])) + data[6:] if len(data) > 6 else data


def read_snapshot(data: bytes) -> None:
    SMALL.write_bytes(data)
    for state in producer_snapshots.read_snapshot(SMALL):
        assert len(state) == 8


TARGETS: dict[str, Target] = {
    "batches": Target(batch_corpus, read_batches, correct_batches),
    "records": Target(batch_corpus, read_records, correct_batches),
    "control": Target(batch_corpus, read_control, correct_batches),
    "audit": Target(batch_corpus, audit_log, correct_batches),
    "messages": Target(message_corpus, read_batches, correct_messages),
    "message-records": Target(message_corpus, read_records, correct_messages),
    **{codec: codec_target(codec) for codec in ("gzip", "snappy", "lz4", "zstd")},
    "offset-index": Target(index_corpus(">ii"), read_index(OffsetIndex)),
    "time-index": Target(index_corpus(">qi"), read_index(TimeIndex)),
    "txn-index": Target(txn_corpus, read_txn_index),
    "snapshot": Target(snapshot_corpus, read_snapshot, correct_snapshot),
    "leader-epochs": file_target("small", lambda path: checkpoints.write_leader_epochs(path, [(0, 0), (3, 70)]),
                                 checkpoints.read_leader_epochs),
    "epoch-cache": file_target("leader-epoch-checkpoint",
                               lambda top: checkpoints.write_leader_epochs(top / "leader-epoch-checkpoint", [(1, 5)]),
                               LeaderEpochCache),
    "offsets": file_target("small", lambda path: checkpoints.write_offsets(path, {("topic", 3): 9, ("t", 0): 1}),
                           checkpoints.read_offsets),
    "log-state": file_target("kraft-log-state",
                             lambda top: checkpoints.write_log_state(top, checkpoints.LogState(3, 9, 12, True)),
                             checkpoints.read_log_state),
    "partition-metadata": file_target("partition.metadata",
                                      lambda top: checkpoints.write_partition_metadata(top, uuid.UUID(int=5)),
                                      checkpoints.read_partition_metadata),
    "meta-properties": file_target("meta.properties",
                                   lambda top: checkpoints.write_meta_properties(
                                       top, checkpoints.MetaProperties(1, "cluster", uuid.UUID(int=6))),
                                   checkpoints.read_meta_properties),
}
