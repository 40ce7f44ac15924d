"""Look-ups and loads whose data is not in memory: another thread reads the data, and they run once it is in memory."""

import os
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.broker.api import RequestContext
from kraft.broker.apis.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP, list_offsets
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.list_offsets_response import ListOffsetsResponse
from kraft.steps import finish
from kraft_native.batch.records import BatchBuilder
from kraft_native.facade.log import Log
from kraft_native.partition.cold_read import ColdReader
from kraft_native.partition.partition import Partition
from kraft_native.segment.config import LogConfig
from tests.native.logs import START_MS, batch

BATCHES = 40
SEGMENT_BATCHES = 10
BATCH_BYTES = 100_000
CONFIG = {"segment_bytes": SEGMENT_BATCHES * (BATCH_BYTES + 200), "index_interval_bytes": 4096}


def evict(directory: Path) -> None:
    """Remove the log's files from the page cache, as far as the system permits."""
    for path in directory.iterdir():
        if path.suffix in (".log", ".index", ".timeindex"):
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def fill(log: Log, key: Callable[[int], bytes]) -> None:
    for number in range(BATCHES):
        builder = BatchBuilder()
        builder.append(os.urandom(BATCH_BYTES), key(number), START_MS + number)
        log.append(builder.build())


@contextmanager
def cold_reader() -> Iterator[ColdReader]:
    """Provide a cold reader. Not a fixture: its value would outlive its test, and count as a leak."""
    reader = ColdReader()
    try:
        yield reader
    finally:
        reader.close()


@contextmanager
def cold_log(tmp_path: Path, **settings: Any) -> Iterator[tuple[Log, ColdReader]]:
    """Open four segments of which nothing was read since they were opened. The end of the last one counts as in
    memory."""
    with Log(tmp_path / "t-0", LogConfig(**CONFIG)) as made:
        fill(made, lambda number: b"%d" % number)
    with cold_reader() as cold, Log(tmp_path / "t-0", LogConfig(**CONFIG, **settings)) as log:
        assert len(log.segments) == BATCHES // SEGMENT_BATCHES
        evict(tmp_path / "t-0")
        yield log, cold


def settle(cold: ColdReader, is_done: Callable[[], object]) -> int:
    """Run the loop's part until the condition holds; return how many reads that took."""
    before = cold.ranges_total
    while not is_done():
        assert cold.pending_count > 0
        assert select.select([cold.eventfd], [], [], 10)[0]
        cold.poll()
    return cold.ranges_total - before + 1


def need(is_needed: bool) -> None:
    if not is_needed:
        pytest.skip("the system keeps the data in memory")


@pytest.mark.parametrize("number", [0, 5, 15, 25])
def test_an_offset_for_a_time(number: int, tmp_path: Path) -> None:
    """The reads are the indexes of each segment on the way, the data with its largest time, and the data that is
    searched."""
    with cold_log(tmp_path) as (log, cold):
        found: list[object] = []
        need(cold.warm_time(log, START_MS + number, lambda: found.append(log.offset_for_time(START_MS + number))))
        assert found == []
        assert settle(cold, lambda: found) >= 3 * (number // SEGMENT_BATCHES + 1)
        assert found == [(number, START_MS + number, 0)]
        assert not cold.warm_time(log, START_MS + number, found.clear)


def test_the_largest_time(tmp_path: Path) -> None:
    with cold_log(tmp_path) as (log, cold):
        found: list[object] = []
        need(cold.warm_max_timestamp(log, lambda: found.append(log.max_timestamp())))
        assert found == []
        settle(cold, lambda: found)
        assert found == [(BATCHES - 1, START_MS + BATCHES - 1, 0)]
        assert not cold.warm_max_timestamp(log, found.clear)


def test_a_read(tmp_path: Path) -> None:
    """The reads are the two indexes of its segment, and the data."""
    with cold_log(tmp_path) as (log, cold):
        found: list[int] = []
        need(cold.warm_read(log, 15, 1, lambda: found.append(log.read(15, 1, "log_end").next_offset)))
        assert settle(cold, lambda: found) == 3
        assert found == [16]
        assert not cold.warm_read(log, 15, 1, found.clear)


def test_retention(tmp_path: Path) -> None:
    """The reads are the two indexes and the end of each segment that may be deleted this time."""
    with cold_log(tmp_path, retention_ms=1000) as (log, cold):
        now_ms = START_MS + 2000
        deleted: list[int] = []
        need(cold.warm_retention(log, now_ms, lambda: deleted.append(log.apply_retention(now_ms, segments_max=2)),
                                 segments_max=2))
        assert settle(cold, lambda: deleted) == 2 * 3
        assert deleted == [2]
        assert not cold.warm_retention(log, now_ms, deleted.clear, segments_max=0)


def test_retention_without_a_time_reads_nothing(tmp_path: Path) -> None:
    with cold_log(tmp_path, retention_ms=-1) as (log, cold):
        assert not cold.warm_retention(log, START_MS, lambda: None, segments_max=5)


def test_a_read_behind_what_compaction_has_left_of_a_segment(tmp_path: Path) -> None:
    """The read continues in the next segment."""
    settings = LogConfig(**CONFIG, cleanup_policy="compact")
    last = SEGMENT_BATCHES - 1
    with Log(tmp_path / "t-0", settings) as made:
        # A later record replaces the last record of the first segment.
        fill(made, lambda number: b"%d" % (number if number != last else BATCHES // 2))
        made.compact(force=True)
    with cold_reader() as cold, Log(tmp_path / "t-0", settings) as log:
        assert [each.base_offset for each in log.segments][:2] == [0, last + 1]
        evict(tmp_path / "t-0")
        found: list[int] = []
        need(cold.warm_read(log, last, 1, lambda: found.append(log.read(last, 1, "log_end").next_offset)))
        assert settle(cold, lambda: found) == 2 * 3
        assert found == [last + 2]


def test_a_log_that_is_closed_meanwhile_is_not_read(tmp_path: Path) -> None:
    with cold_log(tmp_path) as (log, cold):
        reported: list[bool] = []
        need(cold.warm_time(log, START_MS + 35, lambda: reported.append(log.closed)))
        log.close()
        assert settle(cold, lambda: reported) == 1
        assert reported == [True]
        assert not cold.warm_time(log, START_MS + 35, reported.clear)


def test_too_much_is_not_waited_for(tmp_path: Path) -> None:
    with cold_log(tmp_path) as (log, _):
        reader = ColdReader(pending_max=1)
        need(reader.warm_time(log, START_MS, lambda: None))
        assert not reader.warm_read(log, 0, 1 << 20, lambda: None)
        reader.close()


# --- requests


def test_list_offsets_answers_when_all_pages_are_in_memory(tmp_path: Path) -> None:
    with cold_log(tmp_path) as (log, cold):
        partition = Partition(log, "t", bytes(16), 0)
        partition.become_leader(0, node_id=1)
        broker: Any = SimpleNamespace(partition=lambda *_: partition, cold_reader=cold)
        context = RequestContext(7, "", "", "", 0)
        answers: list[ListOffsetsResponse] = []
        times = (START_MS + 15, MAX_TIMESTAMP, START_MS + 5)
        is_needed = [ListOffsetsTopic(name=f"t{number}", partitions=[ListOffsetsPartition(timestamp=timestamp)])
                     for number, timestamp in enumerate(times)]
        finish(list_offsets(broker, ListOffsetsRequest(topics=is_needed), context, answers.append))
        need(not answers)
        assert cold.pending_count == len(times)
        settle(cold, lambda: answers)
        [answer] = answers
        assert [(each.error_code, each.offset) for topic in answer.topics for each in topic.partitions] == [
            (ErrorCode.NONE, 15), (ErrorCode.NONE, BATCHES - 1), (ErrorCode.NONE, 5)]
        finish(list_offsets(broker, ListOffsetsRequest(topics=is_needed), context, answers.append))
        assert len(answers) == 2               # both are answered at once


@pytest.mark.parametrize(("version", "code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE),
                                               (11, ErrorCode.OFFSET_NOT_AVAILABLE)])
def test_list_offsets_of_a_leader_that_does_not_know_the_end(tmp_path: Path, version: int, code: ErrorCode) -> None:
    with cold_log(tmp_path, high_watermark="manual") as (log, cold):
        partition = Partition(log, "t", bytes(16), 0)
        for epoch in (0, 1):
            partition.become_leader(epoch, node_id=1, replicas=[1, 2], isr=[1, 2])
            partition.append(batch(1))
        broker: Any = SimpleNamespace(partition=lambda *_: partition, cold_reader=cold)
        answers: list[ListOffsetsResponse] = []
        for replica_id, timestamp in ((-1, LATEST), (-1, EARLIEST), (2, LATEST)):
            request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name="t", partitions=[
                ListOffsetsPartition(timestamp=timestamp)])])
            finish(list_offsets(broker, request, RequestContext(version, "", "", "", 0), answers.append))
        parts = [part for answer in answers for topic in answer.topics for part in topic.partitions]
        assert [(each.error_code, each.offset) for each in parts] == [
            (code, -1), (ErrorCode.NONE, 0), (ErrorCode.NONE, BATCHES + 2)]
