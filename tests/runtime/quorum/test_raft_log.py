"""The core's ports on files: they report what the log in memory reports."""

import random
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraft.metadata import snapshot as snapshot_module
from kraft.metadata.control_records import QuorumRecords
from kraft.metadata.snapshot import DECODED_STEP, Record, encode_snapshot
from kraft.protocol.messages.config_record import ConfigRecord
from kraft.protocol.record_frames import decode_record
from kraft.raft.records import KRaftVersion, LeaderChange, Voters, voters_record
from kraft.raft.types import OffsetAndEpoch
from kraft.raft.voters import VoterSet
from kraft.runtime.quorum.raft_log import Proposal, RaftLog
from kraft.runtime.quorum.raft_snapshots import RaftSnapshots
from kraft.runtime.storage.metadata_directory import MetadataLogSettings
from kraft.runtime.storage.snapshot_files import SnapshotId, list_snapshots, write_snapshot
from kraft.testing.memory_log import MemoryLog
from kraft_native.base.errors import CorruptRecordError
from kraft_native.facade.log import Log
from tests.raft.world import key, voter

SETTINGS = MetadataLogSettings(segment_bytes=1 << 20)
CHANGE = LeaderChange(1, (key(1),), (key(1),))


@contextmanager
def opened(directory: Path) -> Iterator[RaftLog]:
    directory.mkdir(exist_ok=True)
    with Log(directory / "__cluster_metadata-0", SETTINGS.log_config()) as log:
        yield RaftLog(log)


def append(log: RaftLog, epoch: int, count: int = 1) -> int:
    return log.append(Proposal([b"x"] * count, 5), epoch, 7)


def test_as_in_memory(tmp_path: Path) -> None:
    """Ends and epochs agree after any sequence of appends and cuts."""
    with opened(tmp_path) as log:
        draw = random.Random(1)
        memory, epoch, cuts = MemoryLog(), 1, [0]
        for _ in range(200):
            if draw.random() < 0.15:
                cut = draw.choice([each for each in cuts if each <= log.end.offset])
                log.truncate(cut)
                memory.truncate(cut)
                cuts = [each for each in cuts if each <= cut]
                epoch += 1
            elif draw.random() < 0.2:
                epoch += draw.randrange(1, 3)
                assert log.append_control([CHANGE], epoch, 7) == memory.append_control([CHANGE], epoch, 7)
            else:
                count = draw.randrange(1, 4)
                assert append(log, epoch, count) == memory.append(["x"] * count, epoch, 7)
            cuts.append(log.end.offset)
            assert log.end == memory.end
            for each_epoch in range(-1, epoch + 2):
                assert log.end_of_epoch(each_epoch) == memory.end_of_epoch(each_epoch), each_epoch
        assert [each.offset for each in log.controls()] == [each.offset for each in memory.controls()]


def test_fetched(tmp_path: Path) -> None:
    """A follower has the leader's bytes, and its control records."""
    with opened(tmp_path / "a") as log, opened(tmp_path / "b") as other:
        log.append_control([CHANGE, KRaftVersion(1), Voters(VoterSet.of(voter(1)))], 2, 7)
        append(log, 2, 3)
        data = log.read(0, 1 << 20)
        assert data is not None
        with pytest.raises(CorruptRecordError, match="cannot come from the leader of epoch 1"):
            other.append_fetched(data, 1)
        controls = other.append_fetched(data, 2)
        assert [each.offset for each in controls] == [0, 1, 2]
        assert controls[1].record == KRaftVersion(1)
        assert other.end == log.end == OffsetAndEpoch(6, 2)
        assert other.read(0, 1 << 20) == data
        assert other.read(6, 1 << 20) is None
        assert other.controls() == controls
        with pytest.raises(CorruptRecordError, match="does not continue"):
            other.append_fetched(data, 2)
        broken = bytearray(data)
        broken[-1] ^= 1
        other.truncate(0)
        with pytest.raises(CorruptRecordError):
            other.append_fetched(bytes(broken), 2)
        assert other.end == OffsetAndEpoch(0, 0)


def test_the_last_batch_is_at_hand(tmp_path: Path) -> None:
    """The log returns the last batch, which followers fetch next, as it was written, and never after its place holds
    something else."""
    with opened(tmp_path) as log:
        append(log, 2, 3)
        append(log, 2, 2)
        last = log.read(3, 1)
        assert last is log.read(3, 1), "read again"
        assert last == bytes(log.log.read(3, 1 << 20, "log_end"))
        both = log.read(0, 1 << 20)
        assert both is not None
        assert both.endswith(last)
        log.truncate(3)
        assert log.read(3, 1 << 20) is None
        append(log, 3, 1)
        again = log.read(3, 1 << 20)
        assert again == bytes(log.log.read(3, 1 << 20, "log_end"))
        log.restart_at(OffsetAndEpoch(3, 3))
        assert log.read(3, 1 << 20) is None


def test_records_that_the_core_need_not_see(tmp_path: Path) -> None:
    """Plain records are appended during a lease. Anything unusual waits for the core."""
    with opened(tmp_path / "a") as log, opened(tmp_path / "b") as other:
        log.append_control([CHANGE], 2, 7)
        control = log.read(0, 1 << 20)
        assert control is not None
        assert other.append_leased(control) == -1, "a control record, and of a new epoch"
        assert other.end == OffsetAndEpoch(0, 0)
        other.append_fetched(control, 2)
        append(log, 2, 3)
        data = log.read(1, 1 << 20)
        assert data is not None
        broken = bytearray(data)
        broken[-1] ^= 1
        assert other.append_leased(bytes(broken)) == -1
        assert other.end == OffsetAndEpoch(1, 2)
        assert other.append_leased(data) == 4
        assert other.append_leased(data) == -1, "it does not continue the log"
        assert (other.end, other.read(0, 1 << 20)) == (log.end, log.read(0, 1 << 20))


def snapshot_bytes(voters: VoterSet) -> bytes:
    quorum = QuorumRecords(kraft_version=1, voters=voters_record(voters))
    return b"".join(encode_snapshot((), epoch=3, now_ms=1, last_timestamp_ms=1, quorum=quorum))


def test_snapshot_replaces_the_log(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        snapshots = RaftSnapshots(Path(log.log.directory), log)
        append(log, 2, 3)
        voters = VoterSet.of(voter(1), voter(2))
        data = snapshot_bytes(voters)
        wanted = OffsetAndEpoch(10, 3)
        snapshots.begin(wanted)
        snapshots.append(data[:7])
        assert snapshots.latest() is None
        part = Path(log.log.directory) / (SnapshotId(*wanted).file_name + ".part")
        assert part.read_bytes() == data[:7]
        snapshots.begin(wanted)
        snapshots.append(data[:7])
        snapshots.append(data[7:])
        snapshots.install()
        assert snapshots.latest() == log.start == log.end == wanted
        assert log.end_of_epoch(5) == log.end_of_epoch(1) == wanted
        assert snapshots.controls(wanted) == (KRaftVersion(1), Voters(voters))
        assert not part.exists()
        piece = snapshots.read(wanted, 5, 9)
        assert piece is not None
        assert (piece.size, piece.data) == (len(data), data[5:14])
        assert snapshots.read(OffsetAndEpoch(9, 3), 0, 9) is None
        append(log, 4)
        assert log.end == OffsetAndEpoch(11, 4)
        assert log.end_of_epoch(3) == wanted


def test_a_snapshot_from_the_leader_takes_the_place_of_older_ones(tmp_path: Path) -> None:
    """Also of one that is being written: the log cannot continue after its end any more."""
    with opened(tmp_path) as log:
        directory = Path(log.log.directory)
        snapshots = RaftSnapshots(directory, log)
        append(log, 2, 5)
        data = snapshot_bytes(VoterSet.of(voter(1)))
        for end_offset in (2, 3):
            write_snapshot(directory, SnapshotId(end_offset, 2), [data])
            assert snapshots.add(SnapshotId(end_offset, 2))
        snapshots.begin(OffsetAndEpoch(10, 3))
        snapshots.append(data)
        write_snapshot(directory, SnapshotId(4, 2), [data])
        snapshots.install()
        assert snapshots.ids == (SnapshotId(10, 3),)
        assert not snapshots.add(SnapshotId(4, 2))
        assert list_snapshots(directory) == [SnapshotId(10, 3)]


def test_a_file_that_is_no_snapshot_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        snapshots = RaftSnapshots(Path(log.log.directory), log)
        append(log, 2, 3)
        snapshots.begin(OffsetAndEpoch(10, 3))
        snapshots.append(snapshot_bytes(VoterSet.of(voter(1)))[:-80])
        with pytest.raises(CorruptRecordError):
            snapshots.install()
        assert (snapshots.latest(), log.end) == (None, OffsetAndEpoch(3, 2))
        assert list(Path(log.log.directory).glob("*.checkpoint*")) == []


def large_snapshot(records: int) -> bytes:
    content = [Record(ConfigRecord(resource_type=2, resource_name=f"t{number}", name="n", value="1"))
               for number in range(records)]
    return b"".join(encode_snapshot(content, epoch=3, now_ms=1, last_timestamp_ms=1))


def test_a_snapshot_from_the_leader_is_decoded_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once takes a second for a hundred thousand partitions."""
    decoded = 0

    def counted(value: bytes) -> object:
        nonlocal decoded
        decoded += 1
        return decode_record(value)

    monkeypatch.setattr(snapshot_module, "decode_record", counted)
    count, wanted = 2_000, OffsetAndEpoch(10, 3)
    with opened(tmp_path) as log:
        work: list[Generator[None, None, None]] = []
        checked: list[int] = []
        snapshots = RaftSnapshots(Path(log.log.directory), log, work.append, lambda: checked.append(decoded))
        for is_damaged in (True, False):
            decoded = 0
            snapshots.begin(wanted)
            snapshots.append(large_snapshot(count)[:-80 if is_damaged else None])
            assert not snapshots.install()
            assert not snapshots.install(), "one check"
            [steps] = work
            largest = before = 0
            for _ in steps:
                largest, before = max(largest, decoded - before), decoded
            assert checked.pop() == decoded
            assert is_damaged or decoded == count
            assert largest <= DECODED_STEP
            work.clear()
            assert (snapshots.latest(), log.end) == (None, OffsetAndEpoch(0, 0))
            if is_damaged:
                with pytest.raises(CorruptRecordError, match=r"\.checkpoint: "):
                    snapshots.install()
                assert list(Path(log.log.directory).glob("*.checkpoint*")) == []
        assert snapshots.install()
        assert snapshots.latest() == log.end == wanted
        content = snapshots.content(wanted)
        assert len(content.messages) == count
        assert sum(1 for _ in content.free_steps()) > count // 512
        assert content.messages == []


def test_a_check_ends_with_its_snapshot(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        work: list[Generator[None, None, None]] = []
        snapshots = RaftSnapshots(Path(log.log.directory), log, work.append)
        for _ in range(2):
            snapshots.begin(OffsetAndEpoch(10, 3))
            snapshots.append(large_snapshot(200))
            assert not snapshots.install()
            next(work[-1])
        assert list(work[0]) == [], "another one was begun"
        snapshots.close()
        assert list(work[1]) == []
        assert list(Path(log.log.directory).glob("*.checkpoint*")) == []


def test_an_incomplete_snapshot_does_not_stay(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        snapshots = RaftSnapshots(Path(log.log.directory), log)
        for end in (snapshots.abandon, snapshots.close):
            snapshots.begin(OffsetAndEpoch(10, 3))
            snapshots.append(b"some")
            end()
            assert list(Path(log.log.directory).glob("*.checkpoint*")) == []


def test_trimmed(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        snapshots = RaftSnapshots(Path(log.log.directory), log)
        data = snapshot_bytes(VoterSet.of(voter(1)))
        for epoch in (1, 2, 3):
            append(log, epoch, 2)
        for end_offset, epoch in ((2, 1), (4, 2)):
            write_snapshot(Path(log.log.directory), SnapshotId(end_offset, epoch), [data])
            assert snapshots.add(SnapshotId(end_offset, epoch))
        snapshots.trim_log(OffsetAndEpoch(4, 2))
        assert (log.start, log.end) == (OffsetAndEpoch(4, 2), OffsetAndEpoch(6, 3))
        assert snapshots.ids == (SnapshotId(4, 2),)
        assert log.end_of_epoch(2) == OffsetAndEpoch(4, 2)
