"""Logs with messages of formats v0 and v1: opened, read, continued, recovered, compacted, replicated, audited."""

import os
import random
import shutil
import struct
from pathlib import Path

import pytest

from kraft_native.base.errors import CorruptLogError
from kraft_native.batch.batch import first_batch, walk
from kraft_native.batch.records import records
from kraft_native.facade.log import Log
from kraft_native.facade.reader import LogReader
from kraft_native.segment.audit import SegmentAudit
from kraft_native.segment.checkpoints import write_offsets
from kraft_native.segment.config import LogConfig
from kraft_native.segment.index import OffsetIndex
from tests.golden import golden_root, needs_golden
from tests.native.logs import batch, files, read_all, readable, small
from tests.oracle.batch import assemble
from tests.oracle.legacy import Message, Outer, decode, encode, message_set, sample

SEGMENT = "00000000000000000000.log"


def directory_of(tmp_path: Path, *segments: bytes, clean: bool = False) -> Path:
    """Create a partition as Kafka left it: `.log` files only, each of which begins where the one before ended."""
    top = tmp_path / "data"
    directory = top / "old-0"
    directory.mkdir(parents=True)
    base = 0
    for data in segments:
        (directory / f"{base:020}.log").write_bytes(data)
        base = max((each.next_offset for each in walk(data)), default=base)
    if clean:
        (top / ".kafka_cleanshutdown").write_bytes(b"")
        write_offsets(top / "recovery-point-offset-checkpoint", {("old", 0): base})
    return directory


def messages_of(outers: list[Outer]) -> list[Message]:
    return [message for outer in outers for message in outer.messages]


def stored(log: Log) -> list[Message]:
    return [Message(each.offset, each.key, each.value, each.timestamp_ms) for each in records(read_all(log))]


def untouched(directory: Path) -> dict[str, bytes]:
    return files(directory, ".log")


# --- reading ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_a_log_of_old_segments(tmp_path: Path, seed: int, clean: bool) -> None:
    """It is read whole and from every offset; nothing is cut or rebuilt except the indexes. A clean stop changes
    nothing."""
    source = random.Random(seed)
    first = sample(source, 0, 30)
    second = sample(source, list(walk(first))[-1].next_offset, 30)
    directory = directory_of(tmp_path, first, second, clean=clean)
    before = untouched(directory)
    expected = decode(first) + decode(second)
    for reopened in (False, True):
        with Log(directory, LogConfig(index_interval_bytes=200)) as log:
            report = log.recovery
            assert report.intact
            assert not report.cut
            assert not report.ignored
            assert report.clean == (clean or reopened)
            assert stored(log) == messages_of(expected)
            assert log.log_end_offset == expected[-1].messages[-1].offset + 1
            for outer in expected:
                for offset in (outer.messages[0].offset, outer.messages[-1].offset):
                    piece = log.read(offset, 1)
                    assert bytes(piece) == (first + second)[:][piece_start(expected, outer, first):][:outer.size]
            assert log.epochs.latest_epoch == -1
    assert untouched(directory) == before


def piece_start(expected: list[Outer], outer: Outer, first: bytes) -> int:
    position = 0
    for each in expected:
        if each is outer:
            return position
        position += each.size
    raise AssertionError


def test_times(tmp_path: Path) -> None:
    """v0 has no times; in v1 the record is found inside the compressed message (Kafka's fetchOffsetByTimestamp)."""
    data = (message_set([Message(0, None, b"x"), Message(1, None, b"y")], 0, "gzip")
            + message_set([Message(2, b"k", b"a", 1_000), Message(3, b"k", b"b", 3_000), Message(4, b"k", b"c", 2_000)],
                          1, "lz4")
            + message_set([Message(5, b"k", b"d", 500)], 1)
            + message_set([Message(6, b"k", b"e", 7_000), Message(7, b"k", b"f", 7_000)], 1, "snappy",
                          log_append_time=True))
    directory = directory_of(tmp_path, data)
    with Log(directory) as log:
        assert log.offset_for_time(0) == (2, 1_000, -1)
        assert log.offset_for_time(1_001) == (3, 3_000, -1)
        assert log.offset_for_time(3_000) == (3, 3_000, -1)
        assert log.offset_for_time(3_001) == (6, 7_000, -1)
        assert log.offset_for_time(7_001) is None
        assert log.max_timestamp() == (6, 7_000, -1)
    with LogReader(directory) as reader:
        assert reader.offset_for_time(1_001) == (3, 3_000, -1)


def test_a_log_without_times(tmp_path: Path) -> None:
    directory = directory_of(tmp_path, sample(random.Random(1), 0, 20, (0,)))
    os.utime(directory / SEGMENT, (1_000, 1_000))
    with Log(directory) as log:
        assert log.offset_for_time(0) is None
        assert log.max_timestamp() is None
        assert (directory / SEGMENT.replace(".log", ".timeindex")).stat().st_size % 12 == 0
        log.append(batch(timestamp_ms=5_000_000), leader_epoch=2)
        assert log.offset_for_time(0) == (log.log_end_offset - 1, 5_000_000, 2)


def test_entries_of_the_offset_index_that_name_first_offsets(tmp_path: Path) -> None:
    """Kafka before 0.11 noted the first offset of an append, which may be inside a compressed message."""
    sets = [message_set([Message(10 * number + each, b"k", bytes(20), 5) for each in range(10)], 1, "gzip")
            for number in range(20)]
    directory = directory_of(tmp_path, b"".join(sets), message_set([Message(200, None, b"x", 6)], 1))
    index = OffsetIndex.create(directory / SEGMENT.replace(".log", ".index"), 0, 1 << 16)
    position = 0
    for number, data in enumerate(sets):
        if number % 4 == 3:
            index.append(10 * number, position)
        position += len(data)
    index.seal()
    (directory / SEGMENT.replace(".log", ".timeindex")).write_bytes(struct.pack(">qi", 5, 9))
    before = files(directory, ".index", ".timeindex")
    with Log(directory, recovery_point=201, clean=True) as log:
        for offset in range(200):
            assert log.read(offset, 1).first_offset == offset // 10 * 10
        assert not log.segments[0].indexes_rebuilt
    assert files(directory, *before) == before


# --- continued appends ------------------------------------------------------------------------------------------------

def test_appended_batches_are_v2(tmp_path: Path) -> None:
    data = sample(random.Random(3), 0, 30)
    directory = directory_of(tmp_path, data, clean=True)
    old = messages_of(decode(data))
    with Log(directory) as log:
        for _ in range(3):
            log.append(batch(2), leader_epoch=4)
        assert log.epochs.entries() == [(4, len(old))]
        assert log.end_offset_for_epoch(4) == (4, len(old) + 6)
    for _ in range(2):
        with Log(directory) as log:
            assert log.recovery.clean
            assert log.epochs.entries() == [(4, len(old))]
            found = list(walk(read_all(log)))
            assert [each.magic for each in found[-4:]] == [found[-4].magic, 2, 2, 2]
            assert stored(log)[:len(old)] == old
            assert [each.offset for each in stored(log)] == list(range(len(old) + 6))


def test_segments_roll_and_the_epochs_file_is_lost(tmp_path: Path) -> None:
    data = sample(random.Random(4), 0, 20)
    directory = directory_of(tmp_path, data)
    with Log(directory, small()) as log:
        old = log.log_end_offset
        for _ in range(40):
            log.append(batch(2, value=bytes(100)), leader_epoch=4)
        assert len(log.segments) > 2
    (directory / "leader-epoch-checkpoint").unlink()
    (directory / "kraft-log-state").unlink()
    with Log(directory, small()) as log:
        assert log.epochs.entries() == [(4, old)]
        assert log.recovery.intact
        assert log.log_end_offset == old + 80


def test_a_log_that_went_back_to_an_old_format(tmp_path: Path) -> None:
    """message.format.version was lowered: messages of v1 behind batches with leader epochs."""
    directory = tmp_path / "old-0"
    with Log(directory) as log:
        log.append(batch(3), leader_epoch=2)
        log.append_as_follower(message_set([Message(3, b"k", b"x", 5), Message(4, b"k", b"y", 6)], 1, "gzip"))
        log.append_as_follower(batch(2, base_offset=5, leader_epoch=3))
        assert log.epochs.entries() == [(2, 0), (3, 5)]
    for _ in range(2):
        with Log(directory) as log:
            assert log.recovery.intact
            assert [each.offset for each in stored(log)] == list(range(7))
        (directory / "kraft-log-state").unlink()


def test_cut_and_begun_within_a_compressed_message(tmp_path: Path) -> None:
    sets = [message_set([Message(10 * number + each, b"k", b"v", 5) for each in range(10)], 1, "gzip")
            for number in range(4)]
    directory = directory_of(tmp_path, b"".join(sets))
    with Log(directory) as log:
        log.delete_records(13)
        assert log.log_start_offset == 13
        assert first_batch(log.read(13, 1)).base_offset == 10
        log.truncate_to(25)
        assert log.log_end_offset == 20
        log.append(batch(2), leader_epoch=1)
    with Log(directory) as log:
        assert (log.log_start_offset, log.log_end_offset) == (13, 22)
        assert [each.offset for each in stored(log)] == list(range(10, 22))


def test_one_read_checks_a_bounded_part_of_what_is_compressed(tmp_path: Path) -> None:
    """Messages that were checked before come in one piece."""
    noise = random.Random(1).randbytes(50_000)
    sets = [message_set([Message(number, b"k", noise, 5)], 1, "gzip") for number in range(40)]
    directory = directory_of(tmp_path, b"".join(sets), encode(Message(40, b"k", b"last", 5), 1), clean=True)
    with Log(directory) as log:
        log.append(batch(), leader_epoch=0)
        log.read(0)                    # builds the indexes, for which everything is checked
    with Log(directory) as log:
        first = log.read(0, 8 << 20)
        assert 500_000 < len(first) < 1_200_000
        assert read_all(log).startswith(b"".join(sets))
        assert len(log.read(0, 8 << 20)) == sum(map(len, sets))


# --- after a crash ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(3))
def test_a_torn_end_is_cut_where_the_last_whole_message_ends(tmp_path: Path, seed: int) -> None:
    data = sample(random.Random(seed), 0, 12)
    outers = decode(data)
    source = random.Random(seed)
    for number in range(6):
        size = source.randrange(1, len(data))
        whole = [outer for outer in outers if outer.position + outer.size <= size]
        directory = directory_of(tmp_path / str(number), data[:size])
        with Log(directory) as log:
            end = whole[-1].position + whole[-1].size if whole else 0
            assert log.recovery.cut_bytes == size - end
            assert log.recovery.intact
            assert stored(log) == messages_of(whole)
            assert log.append(batch()).first_offset == len(messages_of(whole))
        shutil.rmtree(directory)


@pytest.mark.parametrize("seed", range(4))
def test_damage_in_the_interior_stays_and_is_reported(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    data = bytearray(sample(source, 0, 25))
    outers = decode(bytes(data))
    bad = source.choice(outers[1:-2])
    position = bad.position + source.randrange(12, bad.size)
    data[position] ^= 0x55
    directory = directory_of(tmp_path, b"")
    (directory / SEGMENT).write_bytes(data)
    with Log(directory) as log:
        (damage,) = log.recovery.damage
        assert (damage.position, damage.end_position) == (bad.position, bad.position + bad.size)
        assert (damage.offset, damage.next_offset) == (bad.messages[0].offset, bad.messages[-1].offset + 1)
        found, met = readable(log)
        assert len(met) == 1
        assert found == [(each.messages[0].offset, each.messages[-1].offset) for each in outers if each is not bad]
        with SegmentAudit(directory / SEGMENT, 0) as audit:
            while audit.step():
                pass
            assert [each[:4] for each in audit.damage] == [
                (bad.position, bad.position + bad.size, bad.messages[0].offset, bad.messages[-1].offset + 1)]
    assert (directory / SEGMENT).read_bytes() == bytes(data)


def test_a_message_that_is_not_there_is_a_loss(tmp_path: Path) -> None:
    """The offset of a compressed message is its last one: a loss before it shows only inside."""
    sets = [message_set([Message(10 * number + each, b"k", bytes(20), 5) for each in range(10)], magic, "snappy")
            for number, magic in enumerate((1, 0, 1, 1))]
    directory = directory_of(tmp_path, b"")
    (directory / SEGMENT).write_bytes(sets[0] + sets[2] + sets[3])
    with Log(directory) as log:
        assert [(each.offset, each.next_offset) for each in log.recovery.lost_ranges] == [(10, 20)]
        with pytest.raises(CorruptLogError):
            log.read(10)
        assert log.read(0, 1 << 20).next_offset == 10
        assert log.read(20, 1 << 20).next_offset == 40


@pytest.mark.parametrize("where", ["whole", "behind"])
@pytest.mark.parametrize("magic", [3, 4, 127])
def test_a_format_that_is_not_known_is_refused_untouched(tmp_path: Path, magic: int, where: str) -> None:
    """A batch of an unknown format is not a torn end."""
    old = b"" if where == "whole" else sample(random.Random(5), 0, 10)
    start = len(messages_of(decode(old)))
    younger = assemble(b"whatever it means", 0, 1, 5, 6, 2, base_offset=start, magic=magic, crc=12345)
    directory = directory_of(tmp_path, b"")
    (directory / SEGMENT).write_bytes(old + younger + younger)
    before = files(directory)
    for _ in range(2):
        with pytest.raises(CorruptLogError, match=f"magic {magic}.*format younger.*was not changed"):
            Log(directory)
        assert files(directory) == before


def test_a_changed_magic_byte_at_the_end_is_a_torn_end(tmp_path: Path) -> None:
    whole = [bytearray(batch(2, base_offset=2 * number, leader_epoch=1)) for number in range(3)]
    whole[2][16] = 3
    directory = directory_of(tmp_path, b"")
    (directory / SEGMENT).write_bytes(b"".join(whole))
    with Log(directory) as log:
        assert log.log_end_offset == 4
        assert log.recovery.cut_bytes == len(whole[2])


# --- compaction -------------------------------------------------------------------------------------------------------

def compacted(**settings: object) -> LogConfig:
    return LogConfig(**{"cleanup_policy": "compact", "segment_bytes": 100_000, "index_interval_bytes": 200,
                        "delete_retention_ms": 1_000, "min_cleanable_dirty_ratio": 0.0} | settings)


@pytest.mark.parametrize("seed", range(4))
def test_compaction_makes_batches_of_v2(tmp_path: Path, seed: int) -> None:
    """Kafka's cleaner does so since 4.0: the rest of a message becomes a batch of v2 with the same records and
    codec."""
    source = random.Random(seed)
    parts: list[bytes] = []
    for _ in range(4):
        start = list(walk(parts[-1]))[-1].next_offset if parts else 0
        parts.append(sample(source, start, 25))
    directory = directory_of(tmp_path, *parts)
    outers = [outer for part in parts for outer in decode(part)]
    latest = {message.key: message.offset for message in messages_of(outers) if message.key is not None}
    kept = [message for message in messages_of(outers)
            if message.key is not None and latest[message.key] == message.offset]
    with Log(directory, compacted()) as log:
        log.roll()
        stats = log.compact(2_000_000_000_000)
        assert stats.records_read == len(messages_of(outers))
        found = list(walk(read_all(log)))
        assert {each.magic for each in found} == {2}
        assert stored(log) == kept
        assert log.log_end_offset == len(messages_of(outers))
        by_offset = {message.offset: outer for outer in outers for message in outer.messages}
        for each in found:
            if each.record_count:
                outer = by_offset[each.last_offset]
                assert (each.codec, each.leader_epoch) == (outer.codec, -1)
                assert each.timestamp_type == ("LogAppendTime" if outer.log_append_time else "CreateTime")
        log.compact(2_000_000_000_000 + 5_000, force=True)
        assert stored(log) == [message for message in kept if message.value is not None]
    for forget in (False, True):
        if forget:
            (directory / "kraft-log-state").unlink()
        with Log(directory, compacted()) as log:
            assert log.recovery.intact
            assert stored(log) == [message for message in kept if message.value is not None]
        copy = tmp_path / f"follower-{forget}"
        with Log(directory, compacted()) as log, Log(copy, compacted()) as follower:
            follower.append_as_follower(read_all(log))
            assert stored(follower) == stored(log)


def test_conversion_does_not_make_a_segment_larger_than_twice_the_limit(tmp_path: Path) -> None:
    """The header of v2 alone is larger than a small message of v0."""
    small_ones = b"".join(encode(Message(number, b"%03d" % number, b""), 0) for number in range(130))
    directory = directory_of(tmp_path, small_ones, encode(Message(130, b"last", b""), 0))
    with Log(directory, compacted(segment_bytes=4_000)) as log:
        assert log.segments[0].size <= log.config.segment_bytes
        before = stored(log)
        log.roll()
        for force in (False, True):
            log.compact(2_000_000_000_000 + 5_000 * force, force=force)
            assert log.segments[0].size <= 2 * log.config.segment_bytes
        assert {each.magic for each in walk(read_all(log))} == {0, 2}
        assert stored(log) == before
        assert log.recovery.intact


def test_a_large_segment_is_read_ahead_of_the_compaction(tmp_path: Path) -> None:
    """A thread reads it, and needs the interpreter lock for compressed messages."""
    noise = random.Random(1).randbytes(150_000)
    data = b"".join(message_set([Message(2 * number + each, b"%d" % (number % 50), noise, 5) for each in (0, 1)], 1,
                                "snappy") for number in range(60))
    assert len(data) > 16 << 20
    directory = directory_of(tmp_path, data, encode(Message(120, b"last", b"", 5), 1))
    with Log(directory, compacted(segment_bytes=64 << 20)) as log:
        log.roll()
        assert log.compact(2_000_000_000_000).records_kept == 51
        assert [each.offset for each in records(read_all(log, max_bytes=32 << 20))] == [*range(21, 120, 2), 120]


# --- replication ------------------------------------------------------------------------------------------------------

def test_a_follower_appends_what_its_leader_has(tmp_path: Path) -> None:
    data = sample(random.Random(8), 0, 60)
    with Log(tmp_path / "follower-0", small()) as log:
        position = 0
        for outer in decode(data):
            log.append_as_follower(data[position:position + outer.size])
            position += outer.size
        log.append_as_follower(batch(2, base_offset=log.log_end_offset, leader_epoch=9))
        assert stored(log)[:-2] == messages_of(decode(data))
        assert log.epochs.entries() == [(9, log.log_end_offset - 2)]
        assert len(log.segments) > 1


# --- from another process ---------------------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(2))
def test_a_reader_beside_the_owner(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    first = sample(source, 0, 40)
    second = sample(source, list(walk(first))[-1].next_offset, 40)
    directory = directory_of(tmp_path, first, second, clean=True)
    expected = messages_of(decode(first) + decode(second))

    def read(reader: LogReader) -> list[Message]:
        found = b""
        offset = 0
        while offset < len(expected):
            piece = reader.read(offset, 3_000)
            found += bytes(piece)
            offset = piece.next_offset
        return [Message(each.offset, each.key, each.value, each.timestamp_ms) for each in records(found)]

    with LogReader(directory) as reader:
        assert read(reader) == expected
        for offset in range(0, len(expected), 7):
            assert first_batch(reader.read(offset, 1)).base_offset <= offset
    with Log(directory, small()) as log, LogReader(directory) as reader:
        log.append(batch(2), leader_epoch=1)
        assert read(reader)[:len(expected)] == expected


def test_damage_as_a_reader_sees_it(tmp_path: Path) -> None:
    outers = [encode(Message(number, b"k", b"v" * 40, 5), number % 2) for number in range(20)]
    data = bytearray(b"".join(outers))
    data[len(b"".join(outers[:10])) + 30] ^= 1
    directory = directory_of(tmp_path, b"")
    (directory / SEGMENT).write_bytes(data)
    with LogReader(directory) as reader:
        assert reader.read(0).next_offset == 10
        with pytest.raises(CorruptLogError) as caught:
            reader.read(10)
        assert caught.value.next_offset == 11
        assert reader.read(11).next_offset == 20


# --- audit ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(2))
def test_the_audit_counts_what_is_there(tmp_path: Path, seed: int) -> None:
    big = message_set([Message(each, b"k", random.Random(seed).randbytes(9_000), 50) for each in range(3)], 1, "gzip")
    data = big + sample(random.Random(seed), 3, 60)
    path = tmp_path / SEGMENT
    path.write_bytes(data + b"\0" * 3)
    outers = decode(data)
    with SegmentAudit(path, 0, window_bytes=4_096) as audit:
        parts = []
        while audit.step():
            parts.append(audit.stretch())
        assert b"".join(parts) == data
        assert (audit.batch_count, audit.record_count) == (len(outers), len(messages_of(outers)))
        assert [each[:4] for each in audit.damage] == [(len(data), len(data) + 3, len(messages_of(outers)), -1)]


# --- logs that Kafka wrote --------------------------------------------------------------------------------------------

def archive(version: str, target: Path) -> Path:
    root = golden_root()
    assert root is not None
    path = root.parent / "faults" / f"kafka-{version}-data.tgz"
    if not path.exists():
        pytest.skip(f"no {path.name} beside the golden data")
    shutil.unpack_archive(path, target)
    return target / version / "data"


@needs_golden
@pytest.mark.parametrize(("version", "counts"), [("0.9.0.1", (26, 34)), ("0.10.2.2", (104, 136))])
def test_directories_that_kafka_0_9_and_0_10_wrote(tmp_path: Path, version: str, counts: tuple[int, int]) -> None:
    data = archive(version, tmp_path)
    for partition, count in enumerate(counts):
        directory = data / f"old.orders-{partition}"
        before = untouched(directory)
        expected = messages_of(decode((directory / SEGMENT).read_bytes()))
        assert [message.offset for message in expected] == list(range(count))
        for _ in range(2):
            with Log(directory) as log:
                assert log.recovery.clean
                assert log.recovery.intact
                assert stored(log) == expected
                assert log.offset_for_time(0) == (None if version == "0.9.0.1" else (0, expected[0].timestamp_ms, -1))
        assert untouched(directory) == before
