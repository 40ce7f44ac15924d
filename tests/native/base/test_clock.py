"""The clocks of compiled code: the system's, or those that a simulation sets."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft_native.base import clock
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.batch.batch import first_batch
from kraft_native.facade.log import Log
from kraft_native.partition.partition import Partition
from kraft_native.partition.purgatory import Purgatory
from kraft_native.partition.purgatory import now_ms as deadline_now_ms
from kraft_native.partition.table import PartitionTable
from kraft_native.segment.config import LogConfig
from tests.native.logs import batch
from tools.tree import ROOT, files

WALL_MS = 1_800_000_000_000
TIME_OUT = 7
NATIVE = ROOT / "kraft_native"
READ_HERE = {"base/clock.pxd", "_c/file/file_io.c", "_c/log/flush_clock.h", "_c/log/live.h",
             "_c/bench/load_generator.c"}
"""`clock` itself, the time that the system gives to files, measurements of real waits of threads, and the load
generator."""


@pytest.fixture(autouse=True)
def system_clock() -> Iterator[None]:
    yield
    clock.use_system()


def test_the_system_is_read_unless_a_simulation_sets_the_time() -> None:
    before = time.monotonic_ns()
    assert before <= clock.now_ns() <= time.monotonic_ns()
    clock.simulate(5_000_000_000, WALL_MS)
    assert (clock.now_ns(), clock.wall_ms(), deadline_now_ms()) == (5_000_000_000, WALL_MS, 5000)
    clock.simulate(0, WALL_MS + 1)
    assert (clock.now_ns(), clock.wall_ms()) == (0, WALL_MS + 1)
    clock.use_system()
    assert clock.now_ns() >= before
    assert abs(clock.wall_ms() - time.time() * 1000) < 60_000


def test_a_time_below_zero_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="now_ns: -1 is below 0"):
        clock.simulate(-1, 0)
    assert clock.now_ns() > 0


def test_deadlines_and_records_follow_the_simulated_time(tmp_path: Path) -> None:
    clock.simulate(1_000_000_000, WALL_MS)
    purgatory = Purgatory()
    table = PartitionTable(purgatory)
    with Log(tmp_path / "t-0", LogConfig(high_watermark="manual", message_timestamp_type="LogAppendTime")) as log:
        partition = Partition(log, "t", bytes(15) + b"\1", 0)
        table.add(partition)
        partition.become_leader(0, node_id=1, replicas=(1, 2), isr=(1, 2))
        end_offset = partition.append(batch()).last_offset + 1
        assert first_batch(log.read(0, isolation="log_end")).max_timestamp_ms == WALL_MS
        outcomes: list[int] = []
        partition.call_when_committed(end_offset, outcomes.append, timeout_ms=300)
        assert purgatory.deadline_ms == 1300
        purgatory.expire(1299)
        assert outcomes == []
        purgatory.expire(1300)
        assert outcomes == [TIME_OUT]
        assert partition.lagging(100) == []
        clock.simulate(1_200_000_000, WALL_MS)
        assert partition.lagging(100) == [2]


def test_all_compiled_code_reads_these_clocks() -> None:
    """A clock that is read elsewhere would run on while a simulation stands still."""
    reads = re.compile(r"clock_gettime|gettimeofday|posix\.time|^ *(c?import time|from time c?import)\b", re.MULTILINE)
    found = {str(path.relative_to(NATIVE)) for path in files(NATIVE)
             if path.suffix in (".pyx", ".pxd") or ("_c" in path.parts and path.suffix in (".c", ".h"))
             if reads.search(path.read_text())}
    assert found == READ_HERE
