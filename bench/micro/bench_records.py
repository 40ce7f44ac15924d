"""Records as Python objects and the builder. `extra_info` has million records per second."""

import pytest

from kraft_native.batch.records import BatchBuilder, records

COUNT = 1000


def filled(codec="none", headers=()):
    builder = BatchBuilder(codec)
    for i in range(COUNT):
        builder.append(b"v" * 100, b"key-%d" % i, 1_700_000_000_000 + i, headers)
    return builder


def rate(benchmark):
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["M rec/s"] = round(COUNT / benchmark.stats.stats.min / 1e6, 2)


@pytest.mark.parametrize("headers", [(), [("trace", b"0123456789abcdef")]], ids=["plain", "header"])
def test_read(benchmark, headers):
    benchmark.group = "records, 100 B values"
    data = filled(headers=headers).build()
    assert benchmark(lambda: sum(1 for _ in records(data))) == COUNT
    rate(benchmark)


def test_append(benchmark):
    benchmark.group = "records, 100 B values"
    benchmark(filled)
    rate(benchmark)


def test_one_record_batch(benchmark):
    """Measure append and build of a single record, without compression."""
    benchmark.group = "records, one a batch"
    builder = BatchBuilder()

    def one():
        builder.clear()
        builder.append(b"v" * 100, None, 1_700_000_000_000)
        return builder.build()

    benchmark(one)
