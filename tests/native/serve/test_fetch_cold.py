"""Fetch of data that is not in memory: another thread reads it, and the reply waits for that."""

import errno
import os
import select
import time
from pathlib import Path

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import StorageError
from kraft_native.partition.cold_read import ColdReader
from tests.native.logs import batch, read_all
from tests.native.serving import fetched, serving


def evict(partition_directory: str) -> None:
    """Drop the log's data and indexes from the page cache, as far as the system permits."""
    for path in Path(partition_directory).iterdir():
        if path.suffix not in (".log", ".index", ".timeindex"):
            continue
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def test_cold_data_is_read_by_the_other_thread(tmp_path: Path) -> None:
    with serving(tmp_path) as node:
        partition = node.partition()
        for _ in range(40):
            partition.append(batch(1, value=os.urandom(100_000)))
        directory, everything = partition.log.directory, read_all(partition.log)
    cold = ColdReader()
    try:
        with serving(tmp_path, cold_reader=cold) as node:
            node.partition()
            evict(directory)           # opening the log read some of it, too
            reply = node.fetch(("t", 0, 5), partition_max_bytes=1 << 20)
            if cold.ranges_total == 0:
                pytest.skip("the system keeps the data in memory")
            assert not reply.answered and cold.pending_count == 1
            assert select.select([cold.eventfd], [], [], 10)[0]
            os.eventfd_read(cold.eventfd)
            cold.poll()
            [part] = fetched(reply)
            size = len(everything) // 40
            assert part.records == everything[5 * size:15 * size] and cold.pending_count == 0
            # The data is in memory now.
            assert node.fetch(("t", 0, 5), partition_max_bytes=1 << 20).answered
            reply = None  # type: ignore[assignment]
    finally:
        cold.close()


def test_pages_count_as_resident_for_a_moment_only(tmp_path: Path) -> None:
    """Small consecutive reads are not checked one by one, but data further ahead is checked."""
    with serving(tmp_path) as node:
        partition = node.partition()
        for _ in range(40):
            partition.append(batch(1, value=os.urandom(100_000)))
        directory = partition.log.directory
    cold = ColdReader()
    try:
        with serving(tmp_path, cold_reader=cold) as node:
            node.partition()
            evict(directory)
            Path(directory, f"{0:020}.log").read_bytes()
            assert node.fetch(("t", 0, 0), partition_max_bytes=1).answered and cold.ranges_total == 0
            evict(directory)
            reply = node.fetch(("t", 0, 20), partition_max_bytes=1)
            if cold.ranges_total == 0:
                pytest.skip("the system keeps the data in memory")
            assert not reply.answered
            end = time.monotonic() + 0.15
            while time.monotonic() < end:      # longer than a check of the memory stays valid
                evict(directory)
            reply = node.fetch(("t", 0, 5), partition_max_bytes=1)
            assert not reply.answered and cold.ranges_total == 2
            reply = None  # type: ignore[assignment]
    finally:
        cold.close()


def test_cold_indexes_are_read_by_the_other_thread(tmp_path: Path) -> None:
    """First the indexes of an unused segment, one after the other, then the data."""
    settings = {"segment_bytes": 1_100_000, "index_interval_bytes": 4096}
    with serving(tmp_path) as node:
        partition = node.partition(**settings)
        for _ in range(40):
            partition.append(batch(1, value=os.urandom(100_000)))
    cold = ColdReader()
    try:
        with serving(tmp_path, cold_reader=cold) as node:
            evict(node.partition(**settings).log.directory)
            reply = node.fetch(("t", 0, 15), partition_max_bytes=1)
            if cold.ranges_total == 0:
                pytest.skip("the system keeps the data in memory")
            while not reply.answered:      # a poll continues with everything that was read until it returns
                assert cold.pending_count == 1
                assert select.select([cold.eventfd], [], [], 10)[0]
                cold.poll()
            [part] = fetched(reply)
            assert len(part.records or b"") > 100_000 and cold.ranges_total == 3
            reply = None  # type: ignore[assignment]
    finally:
        cold.close()


def test_a_fetch_checks_six_times_at_most(tmp_path: Path) -> None:
    """Each of three partitions is reached when the one before it has left room. Each needs three queries: two
    indexes and the data. Those of the third partition are read on the spot."""
    max_bytes, sizes = 100_000, (60_000, 25_000, 8_000)
    settings = [{"segment_bytes": 11 * size, "index_interval_bytes": 4096} for size in sizes]
    with serving(tmp_path) as node:
        for index, size in enumerate(sizes):
            partition = node.partition("t", index, **settings[index])
            for _ in range(40):
                partition.append(batch(1, value=os.urandom(size)))
    cold = ColdReader()
    try:
        with serving(tmp_path, cold_reader=cold) as node:
            for index in range(len(sizes)):
                evict(node.partition("t", index, **settings[index]).log.directory)
            reply = node.fetch(*(("t", index, 15) for index in range(len(sizes))), max_bytes=max_bytes)
            while not reply.answered:      # each query is for one range: none follows a pending one
                assert cold.pending_count == 1
                assert select.select([cold.eventfd], [], [], 10)[0]
                cold.poll()
            assert cold.ranges_total <= 6
            parts = fetched(reply)
            assert [len(part.records or b"") // size for part, size in zip(parts, sizes, strict=True)] == [1, 1, 1]
            reply = None  # type: ignore[assignment]
            if cold.ranges_total < 6:
                pytest.skip("the system keeps some of the data in memory")
    finally:
        cold.close()


def test_a_cold_reader_that_is_full_is_not_waited_for(tmp_path: Path) -> None:
    """The reply goes without the data."""
    with serving(tmp_path) as node:
        for index in range(2):
            partition = node.partition("t", index)
            for _ in range(20):
                partition.append(batch(1, value=os.urandom(100_000)))
    cold = ColdReader(pending_max=1)
    try:
        with serving(tmp_path, cold_reader=cold) as node:
            for index in range(2):
                evict(node.partition("t", index).log.directory)
            waiting = node.fetch(("t", 0, 0))
            if cold.ranges_total == 0:
                pytest.skip("the system keeps the data in memory")
            [part] = fetched(node.fetch(("t", 1, 0)))
            assert (part.error_code, part.high_watermark, part.records) == (ErrorCode.NONE, 20, b"")
            # Closing drops pending reads; their requests are not answered.
            cold.close()
            assert cold.pending_count == 0 and not waiting.answered
            waiting = None  # type: ignore[assignment]
    finally:
        cold.close()


def test_a_part_of_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """Touching that part would end the process with SIGBUS. Here another process cut the file; a failing device
    looks the same. The log is not read there again."""
    with serving(tmp_path) as node:
        partition = node.partition()
        for _ in range(60):
            partition.append(batch(1, value=os.urandom(100_000)))
        partition.log.roll()
        partition.append(batch(1))
        directory = partition.log.directory
    cold = ColdReader()
    try:
        with serving(tmp_path, cold_reader=cold) as node:
            partition = node.partition()
            failures: list[StorageError] = []
            partition.watch_failure(lambda _: None, failures.append)
            evict(directory)

            def read(offset: int) -> int:
                reply = node.fetch(("t", 0, offset), partition_max_bytes=1)
                while not reply.answered:
                    assert select.select([cold.eventfd], [], [], 10)[0]
                    cold.poll()
                return fetched(reply)[0].error_code

            assert read(0) == 0
            if cold.ranges_total == 0:
                pytest.skip("the system keeps the data in memory")
            os.truncate(Path(directory, f"{0:020}.log"), 200_000)
            assert read(55) == 56
            assert [failure.errno for failure in failures] == [errno.EIO]
            assert read(0) == 56, "of that segment nothing is read any more"
            assert read(60) == 0, "the others are"
            with pytest.raises(StorageError):
                partition.offset_for_time(1, "read_uncommitted")
            assert len(failures) == 3
    finally:
        cold.close()
