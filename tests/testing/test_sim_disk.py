"""The simulated disk and the log on it: what survives which death, and how the log starts afterwards."""

from errno import EIO
from random import Random

import pytest

from kraft.raft.ready import HardState
from kraft.raft.records import KRaftVersion
from kraft.raft.types import OffsetAndEpoch
from kraft.testing.sim.batches import Contents, Records, Value
from kraft.testing.sim.disk import PIECE_BYTES, Disk, DiskError
from kraft.testing.sim.log import CHECKPOINT_OFFSETS, DamagedLogError, SimLog
from kraft.testing.sim.snapshots import SimSnapshots, SnapshotContents
from kraft_native.base.errors import CorruptFileError, CorruptRecordError, UnsupportedVersionError


class Bench:
    """A disk, and logs that are opened on it one after the other."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.contents = Contents()
        self.number = 0
        self.log = self.open()

    def open(self) -> SimLog:
        self.log = SimLog(self.disk, self.contents, lambda batch: None)
        return self.log

    def append(self, count: int, epoch: int = 1, size: int = 200) -> None:
        for _ in range(count):
            self.number += 1
            self.log.append(Value(0, self.number, size), epoch, 0)

    def flush(self) -> None:
        self.log.flush_ends(self.log.flush_begins())


def test_flushed_records_survive_and_the_rest_is_cut_to_whole_batches() -> None:
    lengths = []
    for seed in range(100):
        bench = Bench()
        bench.append(3)
        bench.flush()
        bench.append(5, size=3 * PIECE_BYTES)
        before = list(bench.log.batches)
        bench.disk.lose_power(Random(seed))
        after = bench.open().batches
        assert after == before[:len(after)]
        lengths.append(len(after))
    assert min(lengths) == 3
    assert max(lengths) == 8


def test_a_dead_process_loses_nothing() -> None:
    bench = Bench()
    bench.append(4)
    bench.disk.quorum_state.start(HardState(7))
    bench.disk.lose_process()
    assert bench.open().end == OffsetAndEpoch(4, 1)
    assert bench.disk.quorum_state.read() == HardState(7)


def test_truncated_records_are_never_returned_beside_their_replacement() -> None:
    ends = []
    for seed in range(200):
        bench = Bench()
        bench.append(6)
        bench.flush()
        bench.log.truncate(2)
        bench.append(2, epoch=3)
        bench.disk.lose_power(Random(seed))
        log = bench.open()
        assert [batch.epoch for batch in log.batches] in ([1, 1], [1, 1, 3], [1, 1, 3, 3])
        assert [batch.base_offset for batch in log.batches] == list(range(len(log.batches)))
        ends.append(log.end)
    assert OffsetAndEpoch(2, 1) in ends
    assert OffsetAndEpoch(4, 3) in ends


def test_plain_records_are_appended_during_a_lease() -> None:
    source, bench = Bench(), Bench()
    source.append(2, epoch=0)
    assert bench.log.append_leased(source.log.read(0, 1000)) == source.log.end.offset
    assert bench.log.batches == source.log.batches


def test_other_records_wait_for_the_core() -> None:
    source, bench = Bench(), Bench()
    source.append(1, epoch=0)
    source.log.append_control([KRaftVersion(1)], 0, 0)
    source.append(1, epoch=2)
    for start, is_damaged in ((0, True), (1, False), (2, False)):
        records = source.log.read(start, 1)
        assert isinstance(records, Records)
        assert bench.log.append_leased(records._replace(is_damaged=is_damaged)) == -1
        bench.log.append_fetched(records, 2)
    assert bench.log.batches == source.log.batches


def test_a_quorum_state_that_cannot_be_read_is_refused() -> None:
    disk = Disk()
    disk.quorum_state.start(HardState(7))
    disk.quorum_state.finish()
    disk.quorum_state.is_damaged = True
    with pytest.raises(CorruptFileError):
        disk.quorum_state.read()


def test_damage_below_the_checkpoint_is_no_torn_tail() -> None:
    bench = Bench()
    bench.append(CHECKPOINT_OFFSETS + 10)
    bench.flush()
    assert bench.log.flip_bit(Random(1))
    with pytest.raises(DamagedLogError):
        bench.open()


def test_a_failing_disk_says_so() -> None:
    bench = Bench()
    bench.disk.fail_write = EIO
    with pytest.raises(DiskError):
        bench.append(1)
    bench.disk.repair()
    bench.append(1)
    bench.disk.fail_flush = True
    with pytest.raises(DiskError):
        bench.flush()


def test_durable_is_what_a_flush_found_when_it_began() -> None:
    bench = Bench()
    bench.append(2)
    mark = bench.log.flush_begins()
    bench.append(2)
    bench.log.flush_ends(mark)
    assert bench.log.durable_offset == 2
    mark = bench.log.flush_begins()
    bench.log.truncate(3)
    bench.append(1, epoch=2)
    bench.log.flush_ends(mark)
    assert bench.log.durable_offset == 3


def test_epochs_are_those_of_the_log() -> None:
    bench = Bench()
    assert bench.log.end_of_epoch(5) == OffsetAndEpoch(0, 0)
    bench.append(2, epoch=1)
    bench.append(3, epoch=4)
    assert bench.log.end_of_epoch(0) == OffsetAndEpoch(0, 0)
    assert bench.log.end_of_epoch(1) == bench.log.end_of_epoch(3) == OffsetAndEpoch(2, 1)
    assert bench.log.end_of_epoch(9) == OffsetAndEpoch(5, 4)
    bench.log.truncate(2)
    assert bench.log.end_of_epoch(9) == OffsetAndEpoch(2, 1)


def test_a_snapshot_takes_the_place_of_the_log_and_survives() -> None:
    contents = SnapshotContents()
    source = Bench()
    source.append(5)
    at = source.log.id_at(4)
    assert at is not None
    snapshot = contents.encode(at[0], at[1], (), 3000)
    for seed in range(50):
        bench = Bench()
        bench.append(9, epoch=0)
        snapshots = SimSnapshots(bench.disk, bench.log, contents)
        snapshots.begin(snapshot.id)
        snapshots.append(snapshot.data[:1000])
        snapshots.append(snapshot.data[1000:])
        snapshots.install()
        assert (bench.log.start_offset, bench.log.end) == (4, OffsetAndEpoch(4, 1))
        bench.append(1, epoch=1)
        bench.disk.lose_power(Random(seed))
        log = bench.open()
        assert log.start_offset == 4
        assert log.end in (OffsetAndEpoch(4, 1), OffsetAndEpoch(5, 1))


def test_half_a_snapshot_is_refused() -> None:
    bench, contents = Bench(), SnapshotContents()
    snapshots = SimSnapshots(bench.disk, bench.log, contents)
    snapshots.begin(OffsetAndEpoch(4, 1))
    snapshots.append(contents.encode(OffsetAndEpoch(4, 1), 0, (), 3000).data[:-1])
    with pytest.raises(CorruptRecordError):
        snapshots.install()
    assert snapshots.latest() is None


def test_quorum_state_is_the_old_or_the_new_one() -> None:
    found = []
    for seed in range(20):
        disk = Disk()
        disk.quorum_state.start(HardState(1))
        disk.quorum_state.finish()
        disk.quorum_state.start(HardState(2))
        disk.lose_power(Random(seed))
        found.append(disk.quorum_state.read().epoch)
    assert sorted(dict.fromkeys(found)) == [1, 2]
    disk.quorum_state.is_newer = True
    with pytest.raises(UnsupportedVersionError):
        disk.quorum_state.read()
