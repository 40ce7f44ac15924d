"""Primitives of Kafka's messages, as used by messages without a compiled handler."""

import pytest

from kraft_native.base.wire import WireReader, WireWriter

STRINGS = [f"topic-{number}" for number in range(1_000)]


def written(flexible):
    writer = WireWriter(flexible)
    writer.array(writer.string, STRINGS)
    writer.array(writer.int64, range(1_000))
    return writer.finish()


@pytest.mark.parametrize("flexible", [False, True], ids=["old", "flexible"])
def test_write(benchmark, flexible):
    assert len(benchmark(written, flexible)) > 16_000


@pytest.mark.parametrize("flexible", [False, True], ids=["old", "flexible"])
def test_read(benchmark, flexible):
    data = written(flexible)

    def read():
        reader = WireReader(data, flexible)
        return reader.array(reader.string), reader.array(reader.int64)

    assert benchmark(read) == (STRINGS, list(range(1_000)))
