"""A partition's log from a backup: exact offsets, the point in time, and transactions that end."""

import hashlib
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from kraft import Log, LogConfig
from kraft.backups.decisions import AsOf
from kraft.backups.manifest import Commit, PartitionCopy, Segment
from kraft.backups.restored_log import PART_SUFFIX, Ending, restore_log
from kraft.backups.store import Directory, write
from kraft_native.batch.batch import walk
from kraft_native.batch.control import control_records, marker
from kraft_native.batch.records import BatchBuilder, records
from tests.backups.source import files_of

TOPIC_ID: Final = UUID(int=77)
NOW_MS: Final = 1_700_000_900_000
WHOLE: Final = AsOf()


def batch(base: int, times: list[int], deltas: list[int] | None = None, codec: str = "none",
          **producer: int) -> bytes:
    builder = BatchBuilder(codec, transactional="producer_id" in producer)
    for number, time_ms in enumerate(times):
        builder.append(b"v%d" % time_ms, b"k", time_ms, {"h": b"x"},
                       offset_delta=number if deltas is None else deltas[number])
    return builder.build(base, leader_epoch=3, **producer)


@pytest.fixture
def store(tmp_path: Path) -> Directory:
    with Directory(tmp_path / "store") as made:
        return made


def copy_of(store: Directory, files: list[list[bytes]], ends: list[int], start: int = 0) -> PartitionCopy:
    """Store a partition of such files; each ends at one of `ends`."""
    copy = PartitionCopy("orders", TOPIC_ID, 0, start, ends[-1], 5, ())
    segments = []
    for batches, begin, end in zip(files, [start, *ends], ends, strict=False):
        data = b"".join(batches)
        segments.append(Segment(begin, end, 3, len(data), hashlib.sha256(data).hexdigest()))
        write(store, copy.file(segments[-1]), data)
    return copy._replace(segments=tuple(segments))


def ending(as_of: AsOf = WHOLE, *commits: Commit, by_epoch: bool = True) -> Ending:
    return Ending(as_of, commits, by_epoch, NOW_MS)


def kept(directory: Path) -> list[tuple[int, int, bytes | None]]:
    return [(each.offset, each.timestamp_ms, each.value) for each in records(files_of(directory / "orders-0"))]


def open_log(directory: Path) -> Log:
    return Log(directory / "orders-0", LogConfig())


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("time_ms", [0, 999, 1000, 1001, 1004, 1005, 1007, 1010, 9999])
def test_every_time_is_exact(store: Directory, tmp_path: Path, time_ms: int, codec: str) -> None:
    """The records before the first one that is later, within a batch too."""
    times = [[1000, 1001, 1005, 1003], [1004, 1006], [1007, 1007, 1010]]
    files = [[batch(0, times[0], codec=codec), batch(4, times[1], codec=codec)], [batch(6, times[2], codec=codec)]]
    restored = restore_log(store, copy_of(store, files, [6, 9]), tmp_path, ending(AsOf(time_ms=time_ms)))
    flat = [each for part in times for each in part]
    wanted = next((at for at, each in enumerate(flat) if each > time_ms), len(flat))
    assert kept(tmp_path) == [(at, flat[at], b"v%d" % flat[at]) for at in range(wanted)]
    assert restored.log_end_offset == wanted


@pytest.mark.parametrize("offset", range(10))
def test_every_offset_is_exact(store: Directory, tmp_path: Path, offset: int) -> None:
    files = [[batch(0, [1000] * 3)], [batch(3, [1001] * 4), batch(7, [1002] * 2)]]
    copy_ = copy_of(store, files, [3, 9])
    restored = restore_log(store, copy_, tmp_path, ending(AsOf(offset=offset)))
    assert [each[0] for each in kept(tmp_path)] == list(range(min(offset + 1, 9)))
    assert restored.log_end_offset == min(offset + 1, 9)


def test_gaps_and_deleted_records_keep_their_offsets(store: Directory, tmp_path: Path) -> None:
    """Gaps of a compacted log: within a batch, between batches, between files and at the end; a log start within a
    batch."""
    files = [[batch(10, [1000, 1001], [0, 4]), batch(20, [1002])], [batch(31, [1003])]]
    restored = restore_log(store, copy_of(store, files, [25, 40], start=12), tmp_path, ending())
    assert (restored.log_start_offset, restored.log_end_offset) == (12, 40)
    assert [each[0] for each in kept(tmp_path)] == [10, 14, 20, 31]
    with open_log(tmp_path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (12, 40)
        assert [each.offset for each in log.records(12, 40)] == [14, 20, 31]
        assert log.append_record(b"next") == 40


def test_a_partition_whose_records_are_all_deleted(store: Directory, tmp_path: Path) -> None:
    empty = PartitionCopy("orders", TOPIC_ID, 0, 50, 50, 5, ())
    restored = restore_log(store, empty, tmp_path, ending())
    assert (restored.log_start_offset, restored.log_end_offset) == (50, 50)


def ends_in(directory: Path) -> list[tuple[int, str, int]]:
    return [(each.producer_id, each.type_name, each.producer_epoch)
            for one in walk(files_of(directory / "orders-0")) if one.is_control
            for each in control_records(bytes(one))]


@pytest.mark.parametrize(("by_epoch", "epoch", "expected"), [
    (True, 3, "COMMIT"), (True, 2, "ABORT"), (False, 2, "COMMIT"), (False, 1, "ABORT")])
def test_open_transactions_end_as_they_were_decided(store: Directory, tmp_path: Path, by_epoch: bool, epoch: int,
                                                    expected: str) -> None:
    """The commit of producer 7 was decided with that epoch; its records have epoch 2. Producer 8 was undecided."""
    files = [[batch(0, [1000], producer_id=7, producer_epoch=2, base_sequence=0),
              batch(1, [1001], producer_id=8, producer_epoch=4, base_sequence=0),
              batch(2, [1002], producer_id=9, producer_epoch=0, base_sequence=0),
              marker(commit=True, producer_id=9, producer_epoch=1, coordinator_epoch=0, timestamp_ms=1003,
                     base_offset=3, leader_epoch=3)]]
    copy_ = copy_of(store, files, [4])
    commits = (Commit("orders", 0, 7, epoch), Commit("orders", 1, 8, 9))
    restored = restore_log(store, copy_, tmp_path, ending(WHOLE, *commits, by_epoch=by_epoch))
    assert restored.log_end_offset == 6
    assert ends_in(tmp_path) == [(9, "COMMIT", 1), (7, expected, epoch if expected == "COMMIT" else 2),
                                 (8, "ABORT", 4)]
    with open_log(tmp_path) as log:
        assert log.last_stable_offset == 6


def test_commits_of_excluded_transactions_become_aborts(store: Directory, tmp_path: Path) -> None:
    """Those from the limit of their producer on do. Those of another producer, and earlier ones, stay."""
    files = [[batch(base, [1000], producer_id=producer, producer_epoch=epoch, base_sequence=epoch),
              marker(commit=True, producer_id=producer, producer_epoch=epoch + 1, coordinator_epoch=2,
                     timestamp_ms=1003, base_offset=base + 1, leader_epoch=3)]
             for base, producer, epoch in ((0, 7, 2), (2, 7, 3), (4, 7, 4), (6, 8, 9))]
    restored = restore_log(store, copy_of(store, files, [2, 4, 6, 8]), tmp_path, ending()._replace(limits={7: 3}))
    assert ends_in(tmp_path) == [(7, "COMMIT", 3), (7, "ABORT", 4), (7, "ABORT", 5), (8, "COMMIT", 10)]
    assert restored.log_end_offset == 8
    with open_log(tmp_path) as log:
        assert [each.offset for each in log.records(isolation="read_committed")] == [0, 6]


def test_an_interrupted_attempt_is_no_obstacle(store: Directory, tmp_path: Path) -> None:
    part = tmp_path / (hashlib.sha256(b"orders-0").hexdigest()[:32] + PART_SUFFIX)
    part.mkdir()
    (part / f"{0:020d}.log").write_bytes(b"rest of a file")
    copy_ = copy_of(store, [[batch(0, [1000])]], [1])
    first = restore_log(store, copy_, tmp_path, ending())
    assert restore_log(store, copy_, tmp_path, ending()) == first
    assert not part.exists()
