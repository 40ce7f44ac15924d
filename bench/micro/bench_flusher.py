"""Group commit of small records with 256 in flight, beside the same pattern in C alone (`bench/c/group_commit.c`).

The C program runs one writer in three ways: with a minimal second thread that flushes (`plain`), with the engine's
flusher (`kraft`), and without a second thread (`lockstep`). They alternate, since the speed of a disk changes from
second to second; `kraft/plain` is the median of the ratios. The other benchmarks go through Python: a writer that
submits a window of records per call to the flusher, and the cost of one submission.
"""

import json
import os
import subprocess
from statistics import median

import pytest

from kraft_native.log.flusher import Flusher
from tools.tree import ROOT

RECORDS = 20_000
RECORD_BYTES = 1024
IN_FLIGHT = 256
ROUNDS = 7


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    target = tmp_path_factory.mktemp("c") / "group_commit"
    native = ROOT / "kraft_native" / "_c"
    subprocess.run([os.environ.get("CC", "cc").split()[-1], "-O2", "-std=c11", f"-I{native}", "-o", target,
                    ROOT / "bench" / "c" / "group_commit.c", native / "log/flusher.c", native / "file/file_io.c",
                    "-lpthread"], check=True)
    return target


@pytest.fixture
def scratch_file():
    """File in the file system of the working copy: a temporary directory may be in memory, where a flush costs nothing.
    """
    directory = ROOT / "bench" / "out"
    directory.mkdir(exist_ok=True)
    path = directory / "group_commit.log"
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("blocks", ["append", "recycled"])
def test_group_commit(benchmark, program, scratch_file, blocks):
    """Measure group commit. The time is that of all three together; the extra info has the single figures."""
    results: dict[str, list[dict[str, float]]] = {"plain": [], "kraft": [], "lockstep": []}

    def run():
        for mode, done in results.items():
            command = [program, mode, blocks, scratch_file, str(RECORDS), str(RECORD_BYTES), str(IN_FLIGHT)]
            line = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            done.append(json.loads(line))

    benchmark.pedantic(run, rounds=ROUNDS)
    for mode, done in results.items():
        benchmark.extra_info[mode] = {name: median(result[name] for result in done) for name in done[0]}
    benchmark.extra_info["kraft/plain"] = round(median(
        ours["records_per_s"] / theirs["records_per_s"]
        for ours, theirs in zip(results["kraft"], results["plain"], strict=True)), 3)


@pytest.mark.parametrize("blocks", ["append", "recycled"])
def test_windows_from_python(benchmark, scratch_file, blocks):
    """Measure an owner that writes half of the permitted window per call, while the other half is being flushed."""
    half = IN_FLIGHT // 2
    window = [b"r" * RECORD_BYTES] * half

    def setup():
        fd = os.open(scratch_file, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        if blocks == "recycled":
            os.pwrite(fd, b"r" * RECORDS * RECORD_BYTES, 0)
        os.fsync(fd)
        return (fd,), {}

    def run(fd):
        with Flusher() as flusher:
            handle = flusher.register(scratch_file.parent)
            for end in range(half, RECORDS + 1, half):
                handle.wait(end - IN_FLIGHT)
                os.pwritev(fd, window, (end - half) * RECORD_BYTES)
                handle.submit(fd, end, half * RECORD_BYTES)
        os.close(fd)

    benchmark.pedantic(run, setup=setup, rounds=ROUNDS)
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["records_per_s"] = round(RECORDS / benchmark.stats.stats.median)


def test_submit_while_the_log_gathers(benchmark, scratch_file):
    """Measure one submission that joins others, from Python."""
    fd = os.open(scratch_file, os.O_RDWR | os.O_CREAT)
    with Flusher(linger_us=60_000_000, bytes_trigger=1 << 40) as flusher:
        handle = flusher.register(scratch_file.parent)
        handle.submit(fd, 1, 100)
        benchmark(handle.submit, fd, 1, 100)
    os.close(fd)
