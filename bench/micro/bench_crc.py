"""CRC-32C by kernel and size, beside a copy of the same bytes: `extra_info` has GB/s of the fastest round.

64 bytes is a batch of one small record, 16 KiB the default of a producer's batch, 1 MiB the largest batch.
"""

import pytest

from kraft_native.base import crc

SIZES = [64, 256, 4096, 16384, 1 << 20]
DATA = bytes(range(256)) * (max(SIZES) // 256)


def run(benchmark, size, function, *arguments):
    """Run rounds of about a millisecond, so that the clock's resolution and one disturbance do not matter."""
    iterations = max(1, 2_000_000 // (size + 2_000))
    benchmark.pedantic(function, arguments, iterations=iterations, rounds=50, warmup_rounds=2)
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["GB/s"] = round(size / benchmark.stats.stats.min / 1e9, 2)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kernel", crc.kernels())
def test_checksum(benchmark, kernel, size):
    """Measure through Python: short sizes show the cost of the call, long ones that of the kernel."""
    benchmark.group = f"crc {size:7} bytes"
    run(benchmark, size, crc.checksum_with, kernel, DATA[:size])


@pytest.mark.parametrize("size", SIZES)
def test_copy(benchmark, size):
    benchmark.group = f"crc {size:7} bytes"
    target = memoryview(bytearray(size))
    run(benchmark, size, target.__setitem__, slice(None), DATA[:size])


def test_combine(benchmark):
    benchmark.group = "crc combine"
    benchmark(crc.combine, 1, 2, 1_000_003)
