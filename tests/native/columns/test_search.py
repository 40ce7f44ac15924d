"""Search of batches: beside a search by the record iterator, over batches of every codec, limits and damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_native.base.errors import CorruptRecordError, InvalidArgumentError
from kraft_native.batch.batch import HEADER_BYTES
from kraft_native.batch.control import marker
from kraft_native.batch.records import BatchBuilder, records
from kraft_native.columns.search import HEADERS, KEYS, VALUES, find_records

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TEXTS = st.binary(max_size=6, ).map(lambda data: bytes(byte % 3 + 97 for byte in data))
CONTENT = st.lists(st.lists(st.tuples(
    st.none() | TEXTS, st.none() | TEXTS, st.lists(st.tuples(st.sampled_from(["a", "ab", "é"]), st.none() | TEXTS),
                                                   max_size=2), st.integers(0, 50)), min_size=1, max_size=5),
                   min_size=1, max_size=4)


def build(content, base_offset=0, codec="none") -> bytes:
    builder = BatchBuilder(codec)
    for key, value, headers, time_ms in content:
        builder.append(value, key=key, headers=headers, timestamp_ms=time_ms)
    return builder.build(base_offset)


def built(batches, codec="none") -> bytes:
    data, offset = b"", 0
    for batch in batches:
        data += build(batch, offset, codec)
        offset += len(batch)
    return data


def by_records(data, needle, where, start, end, from_ms, to_ms) -> list[int]:
    """Offsets of the records that match, by plain Python."""
    found = []
    for record in records(data):
        fields = []
        if where & KEYS:
            fields.append(record.key)
        if where & VALUES:
            fields.append(record.value)
        if where & HEADERS:
            fields += [part for name, value in record.headers for part in (name.encode(), value)]
        if (start <= record.offset < end and from_ms <= record.timestamp_ms <= to_ms
                and (not needle or any(each is not None and needle in each for each in fields))):
            found.append(record.offset)
    return found


@given(CONTENT, TEXTS, st.integers(1, 7), st.sampled_from(CODECS), st.tuples(st.integers(0, 8), st.integers(0, 20)),
       st.tuples(st.integers(0, 30), st.integers(0, 60)))
def test_the_same_records_as_one_by_one(content, needle, where, codec, offsets, times) -> None:
    data = built(content, codec)
    found = find_records(data, needle, where=where, start_offset=offsets[0], end_offset=offsets[1], from_ms=times[0],
                         to_ms=times[1])
    assert [each.offset for each in found.records] == by_records(data, needle, where, *offsets, *times)


@given(CONTENT, TEXTS, st.integers(1, 3), st.sampled_from(CODECS))
def test_a_search_in_pieces_finds_the_same(content, needle, at_once, codec) -> None:
    data = built(content, codec)
    position = offset = 0
    found: list[int] = []
    for _ in range(100):
        part = find_records(data, needle, position=position, start_offset=offset, max_records=at_once)
        found += [each.offset for each in part.records]
        if (part.next_position, part.next_offset) == (position, offset):
            break
        position, offset = part.next_position, part.next_offset
    assert found == [each.offset for each in find_records(data, needle).records]
    assert position == len(data)


def test_bytes_of_two_fields_are_no_match() -> None:
    data = build([(b"ab", b"cd", [], 0), (b"x", None, [("ab", b"cd")], 0)])
    assert find_records(data, b"bc").records == []
    assert [each.key for each in find_records(data, b"ab", where=HEADERS).records] == [b"x"]
    [record] = find_records(data, b"cd", where=VALUES).records
    assert (record.offset, record.key, record.value, record.headers) == (0, b"ab", b"cd", ())


def test_control_batches_are_passed_over() -> None:
    data = marker(commit=True, base_offset=0, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0)
    found = find_records(data + build([(None, b"v", [], 0)], 1), b"")
    assert [each.offset for each in found.records] == [1]


def test_what_is_cut_off_or_damaged_ends_the_search() -> None:
    first, second = build([(None, b"needle", [], 0)]), build([(None, b"needle", [], 0)], 1)
    found = find_records(first + second[:-3], b"needle")
    assert ([each.offset for each in found.records], found.next_position) == ([0], len(first))
    damaged = bytearray(second)
    damaged[HEADER_BYTES] = 0x7F         # the length of the record
    found = find_records(first + damaged, b"needle")
    assert [each.offset for each in found.records] == [0]
    with pytest.raises(CorruptRecordError, match="batch at offset 1"):
        find_records(first + damaged, b"needle", position=found.next_position, start_offset=1)


def test_arguments() -> None:
    for wrong in ({"position": -1}, {"position": 1}, {"max_records": 0}, {"where": 0}, {"where": 8}):
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            find_records(b"", b"x", **wrong)
    assert find_records(b"", b"x") == ([], 0, 0)
