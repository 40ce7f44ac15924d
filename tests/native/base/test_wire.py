"""`kraft_native.base.wire`: both encodings of every primitive, and the refused input."""

import math
import pickle
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_native.base import wire
from kraft_native.base.errors import InvalidArgumentError, MalformedMessageError
from kraft_native.base.wire import WireReader, WireWriter

INTEGERS = {"int8": (-(2**7), 2**7 - 1), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1),
            "int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "int64": (-(2**63), 2**63 - 1),
            "uvarint": (0, 2**32 - 1)}


def written(method: str, *arguments: Any, flexible: bool = False) -> bytes:
    w = WireWriter(flexible)
    getattr(w, method)(*arguments)
    assert len(w) == len(w.finish())
    return w.finish()


def read(method: str, data: bytes, *arguments: Any, flexible: bool = False) -> Any:
    r = WireReader(data, flexible)
    value = getattr(r, method)(*arguments)
    r.finish()
    assert (r.position, r.remaining) == (len(data), 0)
    return value


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers(kind: str) -> None:
    low, high = INTEGERS[kind]
    for value in {low, low + 1, 0, 1, 127, high // 2, high - 1, high}:
        if low <= value <= high:
            data = written(kind, value)
            if kind != "uvarint":
                assert data == value.to_bytes(len(data), "big", signed=low < 0)
            assert read(kind, data) == value
    for value in (low - 1, high + 1):
        with pytest.raises(OverflowError):
            written(kind, value)


@pytest.mark.parametrize(("value", "data"), [
    (0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f"),
])
def test_uvarint(value: int, data: str) -> None:
    assert written("uvarint", value).hex() == data
    assert read("uvarint", bytes.fromhex(data)) == value


@pytest.mark.parametrize("data", ["", "80", "ffffffff", "ffffffff10", "ffffffffff01"])
def test_a_varint_that_is_cut_off_or_too_large(data: str) -> None:
    with pytest.raises(MalformedMessageError, match="varint"):
        read("uvarint", bytes.fromhex(data))


def test_other_fixed_sizes() -> None:
    for value in (0.0, -1.5, 1e300, math.inf):
        assert read("float64", written("float64", value)) == value
    assert math.isnan(read("float64", written("float64", math.nan)))
    assert [read("boolean", bytes([byte])) for byte in (0, 1, 2, 255)] == [False, True, True, True]
    assert written("boolean", True) + written("boolean", False) == b"\1\0"


def test_uuid_is_like_any_other() -> None:
    for value in (UUID(int=0), UUID(int=1), UUID(int=2**127 + 5), UUID(int=2**128 - 1)):
        again = read("uuid", written("uuid", value))
        assert again == value and hash(again) == hash(value) and str(again) == str(value)
        assert again.is_safe is value.is_safe and pickle.loads(pickle.dumps(again)) == value


@pytest.mark.parametrize(("flexible", "value", "data"), [
    (False, None, "ffff"), (False, "", "0000"), (False, "aé", "000361c3a9"),
    (True, None, "00"), (True, "", "01"), (True, "aé", "0461c3a9"),
])
def test_strings(flexible: bool, value: str | None, data: str) -> None:
    assert written("nullable_string", value, flexible=flexible).hex() == data
    assert read("nullable_string", bytes.fromhex(data), flexible=flexible) == value
    if value is None:
        with pytest.raises(MalformedMessageError, match="null"):
            read("string", bytes.fromhex(data), flexible=flexible)
        with pytest.raises(InvalidArgumentError, match="null"):
            written("string", None, flexible=flexible)
    else:
        assert read("string", written("string", value, flexible=flexible), flexible=flexible) == value


def test_the_longest_string() -> None:
    """32767 bytes in both encodings, as in Kafka."""
    for flexible in (False, True):
        longest = "é" * 16383 + "a"
        assert read("string", written("string", longest, flexible=flexible), flexible=flexible) == longest
        with pytest.raises(InvalidArgumentError, match="32768"):
            written("string", longest + "a", flexible=flexible)
    with pytest.raises(MalformedMessageError, match="32768"):
        read("string", written("uvarint", 32769) + b"a" * 32768, flexible=True)


def test_text_that_is_none() -> None:
    with pytest.raises(MalformedMessageError, match="UTF-8"):
        read("string", b"\0\2\xc3\x28")
    with pytest.raises(InvalidArgumentError, match="UTF-8"):
        written("string", "\ud800")


def test_legacy_strings_keep_their_encoding() -> None:
    for flexible in (False, True):
        for value, data in ((None, "ffff"), ("ab", "00026162")):
            assert written("legacy_nullable_string", value, flexible=flexible).hex() == data
            assert read("legacy_nullable_string", bytes.fromhex(data), flexible=flexible) == value
    r = WireReader(b"\0\1a\2b", True)
    assert (r.legacy_nullable_string(), r.string()) == ("a", "b")


@pytest.mark.parametrize(("flexible", "value", "data"), [
    (False, None, "ffffffff"), (False, b"", "00000000"), (False, b"\0\1", "000000020001"),
    (True, None, "00"), (True, b"", "01"), (True, b"\0\1", "030001"),
])
def test_blobs(flexible: bool, value: bytes | None, data: str) -> None:
    assert written("nullable_blob", value, flexible=flexible).hex() == data
    assert read("nullable_blob", bytes.fromhex(data), flexible=flexible) == value
    if value is None:
        with pytest.raises(MalformedMessageError, match="null"):
            read("blob", bytes.fromhex(data), flexible=flexible)
        with pytest.raises(InvalidArgumentError, match="null"):
            written("blob", None, flexible=flexible)
    else:
        assert written("blob", memoryview(value), flexible=flexible).hex() == data
        assert written("blob", bytearray(value), flexible=flexible).hex() == data


def read_array(data: bytes, flexible: bool, element: Callable[[WireReader], Callable[[], Any]]) -> Any:
    r = WireReader(data, flexible)
    return r.nullable_array(element(r))


@given(st.lists(st.integers(-(2**31), 2**31 - 1)) | st.none(), st.booleans())
def test_arrays(values: list[int] | None, flexible: bool) -> None:
    w = WireWriter(flexible)
    w.nullable_array(w.int32, values)
    assert read_array(w.finish(), flexible, lambda r: r.int32) == values
    if values is None:
        with pytest.raises(InvalidArgumentError, match="null"):
            w.array(w.int32, None)
        r = WireReader(w.finish(), flexible)
        with pytest.raises(MalformedMessageError, match="null"):
            r.array(r.int32)


class Pair:
    """A struct with two fields; `second` from version 1 on."""

    def __init__(self, first: int, second: int) -> None:
        self.first, self.second = first, second

    def write(self, w: WireWriter, version: int) -> None:
        w.int8(self.first)
        if version >= 1:
            w.int8(self.second)

    @classmethod
    def read(cls, r: WireReader, version: int) -> "Pair":
        return cls(r.int8(), r.int8() if version >= 1 else 0)


def test_structs() -> None:
    assert written("structs", [Pair(1, 2), Pair(3, 4)], 1).hex() == "0000000201020304"
    assert written("structs", [Pair(1, 2), Pair(3, 4)], 0, flexible=True).hex() == "030103"
    assert [(each.first, each.second) for each in read("structs", b"\3\1\2\3\4", Pair.read, 1, flexible=True)] == \
        [(1, 2), (3, 4)]
    assert written("nullable_structs", None, 0, flexible=True) == b"\0"
    assert read("nullable_structs", b"\xff\xff\xff\xff", Pair.read, 0) is None
    with pytest.raises(MalformedMessageError, match="null"):
        read("structs", b"\0", Pair.read, 0, flexible=True)
    with pytest.raises(InvalidArgumentError, match="null"):
        written("structs", None, 0)


def test_nullable_struct() -> None:
    assert written("nullable_struct", None, 0) == b"\xff"
    assert read("nullable_struct", b"\xff", Pair.read, 0) is None
    assert written("nullable_struct", Pair(7, 8), 1) == b"\1\7\x08"
    assert read("nullable_struct", b"\1\7\x08", Pair.read, 1).second == 8


def test_tagged_struct() -> None:
    """Null is marked differently as the value of a tag."""
    assert written("tagged_struct", None, 0, flexible=True) == b"\0"
    assert read("tagged_struct", b"\0", Pair.read, 0, flexible=True) is None
    assert written("tagged_struct", Pair(7, 8), 1, flexible=True) == b"\1\7\x08"
    assert read("tagged_struct", b"\1\7\x08", Pair.read, 1, flexible=True).second == 8


def test_tags() -> None:
    data = written("tags", [(5, b"ab"), (0, b""), (300, b"c")], flexible=True)
    assert data == b"\3" + b"\0\0" + b"\5\2ab" + b"\xac\2\1c"
    assert read("unknown_tags", data, flexible=True) == ((0, b""), (5, b"ab"), (300, b"c"))
    tags = [(tag, value.rest()) for tag, value in read("tags", data, flexible=True)]
    assert tags == [(0, b""), (5, b"ab"), (300, b"c")]
    assert written("tags", (), flexible=True) == b"\0"
    assert read("unknown_tags", b"\0", flexible=True) == ()


def test_tags_may_come_in_any_order_but_once() -> None:
    assert read("unknown_tags", bytes([2, 9, 0, 3, 0]), flexible=True) == ((9, b""), (3, b""))
    with pytest.raises(MalformedMessageError, match="tag 3 stands twice"):
        read("unknown_tags", bytes([3, 3, 0, 9, 0, 3, 0]), flexible=True)


def test_tags_outlive_their_reader_and_stay_inside_their_size() -> None:
    value = WireReader(bytes([1, 9, 1, 7, 55]), True).tags()[0][1]
    assert value.int8() == 7
    with pytest.raises(MalformedMessageError, match="0 are left"):
        value.int8()
    wide = WireReader(bytes([1, 9, 2, 7, 55]), True).tags()[0][1]
    wide.int8()
    with pytest.raises(MalformedMessageError, match="left over"):
        wide.finish()


def test_tags_need_a_flexible_version() -> None:
    assert (written("tags", ()), read("unknown_tags", b""), read("tags", b"")) == (b"", (), [])
    with pytest.raises(InvalidArgumentError, match="tagged fields are set"):
        written("tags", ((1, b""),))
    with pytest.raises(InvalidArgumentError, match="twice"):
        written("tags", ((1, b"a"), (1, b"b")), flexible=True)
    with pytest.raises(OverflowError):
        written("tags", ((-1, b""),), flexible=True)


@pytest.mark.parametrize(("method", "flexible", "data"), [
    ("nullable_string", False, "fffe"), ("nullable_string", False, "8000"), ("nullable_string", False, "000261"),
    ("nullable_string", True, "0361"), ("nullable_string", True, "ffffffff0f61"),
    ("nullable_blob", False, "fffffffe"), ("nullable_blob", False, "80000000"), ("nullable_blob", False, "7fffffff00"),
    ("nullable_blob", True, "ffffffff0f00"), ("nullable_blob", True, "0300"),
    ("uuid", False, "00" * 15), ("int64", False, "00" * 7), ("int8", False, ""), ("float64", True, "00"),
    ("tags", True, "01"), ("tags", True, "0100"), ("tags", True, "01000200"), ("tags", True, "ffffffff0f"),
])
def test_lengths_that_lie(method: str, flexible: bool, data: str) -> None:
    with pytest.raises(MalformedMessageError):
        read(method, bytes.fromhex(data), flexible=flexible)


@pytest.mark.parametrize(("flexible", "data"), [
    (False, "fffffffe"), (False, "7fffffff" + "00" * 6), (False, "00000007" + "00" * 6),
    (True, "ffffffff0f" + "00" * 5), (True, "8080808008" + "00" * 5),
])
def test_counts_that_lie(flexible: bool, data: str) -> None:
    """The count alone is refused: no element is read."""
    def fail(*arguments: object) -> None:
        raise AssertionError("an element was read")

    for method, arguments in (("nullable_array", (fail,)), ("nullable_structs", (fail, 0))):
        with pytest.raises(MalformedMessageError):
            read(method, bytes.fromhex(data), *arguments, flexible=flexible)


def test_the_number_of_elements_has_a_limit() -> None:
    """The limit is for all levels together: an element takes a hundred times as much memory as it may take on the
    wire."""
    def inner(r: WireReader, version: int) -> list[int]:
        return r.array(r.int8)

    data = bytes([4]) + bytes([3, 1, 1]) * 3
    assert len(WireReader(data, True, elements_max=9).structs(inner, 0)) == 3
    with pytest.raises(MalformedMessageError, match="more array elements"):
        WireReader(data, True, elements_max=8).structs(inner, 0)
    tags = WireReader(bytes([1, 0, 3, 3, 0, 0]), True, elements_max=3).tags()
    assert len(tags[0][1].array(tags[0][1].int8)) == 2
    for limit in (0, 2):
        with pytest.raises(MalformedMessageError, match="more array elements"):
            value = WireReader(bytes([1, 0, 3, 3, 0, 0]), True, elements_max=limit).tags()[0][1]
            value.array(value.int8)
    too_many = wire.ELEMENTS_MAX + 1
    with pytest.raises(MalformedMessageError, match=f"{too_many} tags before byte"):
        read("unknown_tags", written("uvarint", too_many) + bytes(2), flexible=True)


def test_a_reader_pins_what_it_reads() -> None:
    data = bytearray(b"\0\1a")
    r = WireReader(memoryview(data))
    with pytest.raises(BufferError):
        data.append(0)
    assert r.string() == "a"
    del r
    data.append(0)
    with pytest.raises(TypeError):
        WireReader("text")  # type: ignore[arg-type]


def test_raw_and_growth() -> None:
    w = WireWriter()
    for _ in range(1000):
        w.raw(b"0123456789")
        w.raw(b"")
    assert w.finish() == b"0123456789" * 1000
    assert WireWriter().finish() == b""
