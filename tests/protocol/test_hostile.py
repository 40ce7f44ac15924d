"""Hostile bytes: every message, every version, truncated, flipped, with lengths that lie.

Decoding gives a message or `MalformedMessageError`, soon, and with no more memory than the bytes justify.
"""

import contextlib
import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from kraft.protocol.message import Message
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest
from kraft_native.base.errors import MalformedMessageError
from kraft_native.base.wire import WireReader, WireWriter
from tests.protocol.json_form import message_class, schemas
from tests.protocol.samples import sample


def every_message() -> Iterator[tuple[type[Message], int, Any]]:
    for name, schema in schemas().items():
        for version in message_class(name).VERSIONS:
            yield message_class(name), version, sample(schema, version, random.Random(f"{name} {version}"))


def outcome(message: type[Message], data: bytes | bytearray, version: int) -> Message | None:
    """Return None when it was refused. An accepted message must survive another round."""
    try:
        found = message.decode(data, version)
    except MalformedMessageError:
        return None
    data = found.encode(version)
    assert message.decode(data, version, exact=True).encode(version) == data
    return found


def test_samples_are_whole() -> None:
    for message, version, value in every_message():
        assert message.decode(value.encode(version), version, exact=True) == value


def test_every_truncation_is_refused() -> None:
    for message, version, value in every_message():
        data = value.encode(version)
        step = max(1, len(data) // 60)
        for size in {*range(0, len(data), step), *range(max(0, len(data) - 20), len(data))}:
            with pytest.raises(MalformedMessageError):
                message.decode(memoryview(data)[:size], version)


def test_random_flips() -> None:
    taken = refused = 0
    for message, version, value in every_message():
        good = value.encode(version)
        source = random.Random(f"flips {message.__name__} {version}")
        for _ in range(12):
            data = bytearray(good)
            for _ in range(source.choice((1, 1, 2, 8))):
                if data:
                    data[source.randrange(len(data))] = source.choice((0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)))
            if outcome(message, data, version) is None:
                refused += 1
            else:
                taken += 1
    assert min(taken, refused) > 1000


def test_random_bytes() -> None:
    source = random.Random("random bytes")
    for message, version, _ in every_message():
        for size in (0, 1, 4, 30):
            outcome(message, source.randbytes(size), version)
        outcome(message, bytes(40), version)
        outcome(message, b"\xff" * 40, version)


def memory_of(message: type[Message], data: bytes, version: int) -> int:
    """Return the most memory that an attempt to decode holds at one time."""
    tracemalloc.start()
    try:
        with contextlib.suppress(MalformedMessageError):
            message.decode(data, version)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("message", "version", "head"), [
    (MetadataRequest, 0, "7fffffff"), (MetadataRequest, 8, "7fffffff"), (MetadataRequest, 9, "ffffffff0f"),
    (MetadataRequest, 12, "8080808008"), (MetadataResponse, 0, "7fffffff"),
    (MetadataResponse, 12, "00000000ffffffff07"), (OffsetFetchRequest, 8, "ffffffff0f"),
    (FetchRequest, 4, "00" * 17 + "7fffffff"),
])
def test_a_count_that_lies_takes_no_memory(message: type[Message], version: int, head: str) -> None:
    """A few bytes announce 2^31 elements. The first call also loads what decoding needs; the second is measured."""
    data = bytes.fromhex(head) + bytes(10)
    for size in (len(data), len(data) + 100):
        outcome(message, data.ljust(size, b"\0"), version)
        assert memory_of(message, data.ljust(size, b"\0"), version) < 20_000


def test_the_smallest_elements_take_bounded_memory() -> None:
    """An element of two bytes becomes an object of about a hundred; the limit on elements bounds their sum."""
    elements = 20_000
    w = WireWriter(True)
    w.uvarint(elements + 1)
    w.raw(bytes([1, 0]) * elements)
    data = w.finish() + bytes(4)
    assert memory_of(MetadataRequest, data, 9) < len(data) * 150
    r = WireReader(data, True, elements_max=elements - 1)
    with pytest.raises(MalformedMessageError, match="more array elements"):
        MetadataRequest.read(r, 9)


def test_nested_tags_that_lie() -> None:
    """The size of a tag bounds the size that its value may claim."""
    value = FetchRequest(cluster_id="c").encode(12)
    assert outcome(FetchRequest, value, 12) == FetchRequest(cluster_id="c")
    for size in (0, 1, 3, 4, 0x7F):
        data = bytearray(value)
        data[-3] = size
        with pytest.raises(MalformedMessageError):
            FetchRequest.decode(data, 12)
