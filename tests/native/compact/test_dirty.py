"""Groups of segments that are compacted together, and the dirty ratio of a log, against the rules on sizes alone."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_native.batch.batch import LEADER_EPOCH_AT, LENGTH_AT, MAGIC_AT
from kraft_native.facade.log import Log
from kraft_native.segment.checkpoints import write_offsets
from tests.native.compact.test_cleaner import START_MS, batch, config

SEGMENT_BYTES, INDEX_BYTES = 1500, 64
RELATIVE_MAX = 2**31 - 1


def grouped(log: Log) -> list[int]:
    """Return base offsets of the groups. Each accepts the next segment while log and indexes stay within a segment's
    limits; an empty segment has no offsets (Kafka's groupSegmentsBySize)."""
    groups: list[list[int]] = []
    sums = [0, 0, 0]
    for segment in log.segments[:-1]:
        path = os.fsdecode(segment.path)
        sizes = [os.path.getsize(path.replace(".log", suffix)) for suffix in (".log", ".index", ".timeindex")]
        together = [total + size for total, size in zip(sums, sizes, strict=True)]
        fits = all(size <= most for size, most in zip(together, (SEGMENT_BYTES, INDEX_BYTES, INDEX_BYTES), strict=True))
        if groups and fits and (segment.size == 0 or segment.next_base - 1 - groups[-1][0] <= RELATIVE_MAX):
            groups[-1].append(segment.base_offset)
            sums = together
        else:
            groups.append([segment.base_offset])
            sums = sizes
    return [group[0] for group in groups]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 500), st.sampled_from([0, 0, 0, 0, 2**30, 2**31])),
                min_size=1, max_size=25))
def test_neighbours_that_fit_into_one_segment_become_one(tmp_path_factory: pytest.TempPathFactory,
                                                         sealed: list[tuple[int, int, int]]) -> None:
    """`sealed` has the number of batches of each segment, their size, and the number of missing offsets before them.
    No key occurs twice, so that all records stay."""
    directory = tmp_path_factory.mktemp("groups") / "log"
    with Log(directory, config(segment_bytes=SEGMENT_BYTES, segment_index_bytes=INDEX_BYTES,
                               index_interval_bytes=1)) as log:
        for number, (batches, value_bytes, gap) in enumerate(sealed):
            log.roll()
            for turn in range(batches):
                offset = log.log_end_offset + (gap if turn == 0 else 0)
                data = bytearray(batch([(b"%d-%d" % (number, turn), bytes(value_bytes))]))
                data[:LENGTH_AT], data[LEADER_EPOCH_AT:MAGIC_AT] = offset.to_bytes(8, "big"), bytes(4)
                log.append_as_follower(data)
        log.roll()
        wanted = grouped(log)
        log.compact(START_MS)
        assert [segment.base_offset for segment in log.segments[:-1]] == wanted
    shutil.rmtree(directory)


def test_the_share_of_dirty_bytes(tmp_path: Path) -> None:
    with Log(tmp_path / "log", config(max_compaction_lag_ms=10_000)) as log:
        assert log.compaction_due(START_MS) == 0.0
        for number in range(20):
            log.append(batch([(b"k%d" % number, b"v" * 100)]), now_ms=START_MS)
        log.roll()
        assert log.compaction_due(START_MS) == 1.0, "all of it, and no record is too old"
        assert log.compaction_due(START_MS + 10_001) == 2.0
        log.compact(START_MS)
        assert log.compaction_due(START_MS) == 0.0
        clean_bytes = log.size_bytes
        log.append(batch([(b"k", b"v")]), now_ms=START_MS)
        assert log.compaction_due(START_MS) == 0.0, "the active segment is not counted"
        log.roll()
        assert log.compaction_due(START_MS) == (log.size_bytes - clean_bytes) / log.size_bytes


@pytest.mark.parametrize(("note", "share"), [
    ({("log", 0): 10}, 0.5), ({("log", 0): 0}, 1.0), ({("log", 0): 99}, 1.0), ({("log", 1): 10}, 1.0), (None, 1.0),
])
def test_kafkas_cleaner_file_names_the_first_dirty_offset(
        tmp_path: Path, note: dict[tuple[str, int], int] | None, share: float) -> None:
    """An offset outside of the log, or an unreadable file, is ignored: all is dirty."""
    directory = tmp_path / "log-0"
    with Log(directory, config()) as log:
        for _ in range(2):
            log.append(batch([(b"k%d" % number, b"v") for number in range(10)]))
            log.roll()
    (directory / "kraft-log-state").unlink()
    path = tmp_path / "cleaner-offset-checkpoint"
    if note is None:
        path.write_bytes(b"\xffnot this")
    else:
        write_offsets(path, note)
    with Log(directory, config(), clean=True, recovery_point=20) as log:
        assert log.compaction_due(START_MS) == share
