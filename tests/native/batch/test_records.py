"""Records of batches: round trips with the oracle, malformed input, the builder."""

from __future__ import annotations

import contextlib
import hashlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_native.base.errors import CorruptRecordError, InvalidArgumentError
from kraft_native.batch.batch import first_batch, walk
from kraft_native.batch.records import BatchBuilder, Record, records, values_batch
from tests.golden import needs_golden, partitions
from tests.guard import guarded
from tests.oracle import batch as oracle

blobs = st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=60, max_size=70))
header_lists = st.lists(st.tuples(st.text(max_size=5).map(str.encode), blobs), max_size=3)
timestamps = st.one_of(st.integers(-1, 5), st.integers(1_700_000_000_000, 1_700_000_100_000), st.integers(0, 2**63 - 1))
record_lists = st.lists(st.builds(oracle.OracleRecord, blobs, blobs, timestamps, header_lists), min_size=1, max_size=12)


def plain(record):
    return (record.offset, record.timestamp_ms, record.key, record.value,
            [(key.encode("utf-8", "surrogateescape"), value) for key, value in record.headers])


def expected(batch):
    return [(batch.base_offset + record.offset_delta, record.timestamp_ms, record.key, record.value, record.headers)
            for record in batch.records]


def built(items, codec="none", **options):
    builder = BatchBuilder(codec)
    for item in items:
        builder.append(item.value, item.key, item.timestamp_ms, item.headers)
    return builder.build(**options)


@settings(max_examples=200)
@given(record_lists, st.integers(0, 2**40))
def test_builder_writes_what_the_oracle_writes(items, base_offset):
    data = built(items, base_offset=base_offset, leader_epoch=3, producer_id=5, producer_epoch=1, base_sequence=9)
    assert data == oracle.encode(items, base_offset=base_offset, leader_epoch=3, producer_id=5, producer_epoch=1,
                                 base_sequence=9)
    assert [plain(record) for record in records(data)] == expected(oracle.decode(data))


def test_record_object():
    builder = BatchBuilder()
    builder.append(b"v", key=b"k", timestamp_ms=12, headers=[("h", b"1"), ("h", None), (b"\xff", b"")])
    builder.append(None)
    data = builder.build(40, leader_epoch=6)
    first, second = records(data)
    assert isinstance(first, Record)
    assert (first.offset, first.timestamp_ms, first.key, first.value, first.leader_epoch) == (40, 12, b"k", b"v", 6)
    assert first.headers == (("h", b"1"), ("h", None), ("\udcff", b"")) and first.timestamp_type == "CreateTime"
    assert (second.offset, second.key, second.value, second.headers) == (41, None, None, ())
    assert "offset=40" in repr(first)
    with pytest.raises(TypeError):
        Record()


def test_records_of_many_batches_and_of_a_batch():
    one = built([oracle.OracleRecord(b"a"), oracle.OracleRecord(b"b")])
    two = built([oracle.OracleRecord(b"c")], base_offset=2)
    assert [(record.offset, record.value) for record in records(one + two)] == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert [record.value for record in records(first_batch(two))] == [b"c"]
    assert list(records(b"")) == []


def test_control_batches_are_omitted_unless_requested():
    control = BatchBuilder(control=True)
    control.append(b"\0\0\0\0\0\7", key=b"\0\0\0\1")
    data = built([oracle.OracleRecord(b"a")]) + control.build(1)
    assert [record.offset for record in records(data)] == [0]
    assert [record.offset for record in records(data, control=True)] == [0, 1]


def test_builder_gaps_log_append_time_and_reuse():
    builder = BatchBuilder(transactional=True)
    builder.append(b"a", timestamp_ms=5, offset_delta=3)
    builder.append(b"b", timestamp_ms=4, offset_delta=7)
    assert len(builder) == 2
    with pytest.raises(InvalidArgumentError, match="offset delta 7"):
        builder.append(b"c", offset_delta=7)
    data = builder.build(10, log_append_time_ms=99)
    batch = first_batch(data)
    assert (batch.base_offset, batch.last_offset, batch.record_count, batch.is_transactional) == (10, 17, 2, True)
    assert [(record.offset, record.timestamp_ms) for record in records(data)] == [(13, 99), (17, 99)]
    again = builder.build(10)
    assert [(record.offset, record.timestamp_ms) for record in records(again)] == [(13, 5), (17, 4)]
    assert first_batch(again).max_timestamp_ms == 5 and builder.size_in_bytes == len(again)
    builder.clear()
    with pytest.raises(InvalidArgumentError, match="at least one record"):
        builder.build()


@pytest.mark.parametrize(
    "arguments",
    [
        {"value": "text"},
        {"value": b"", "key": 5},
        {"value": b"", "timestamp_ms": -2},
        {"value": b"", "headers": [(None, b"")]},
        {"value": b"", "headers": [("k", "text")]},
        {"value": b"", "headers": [(7, b"")]},
    ],
)
def test_a_refused_record_changes_nothing(arguments):
    builder = BatchBuilder()
    builder.append(b"a")
    before = builder.build()
    with pytest.raises(InvalidArgumentError):
        builder.append(**arguments)
    assert builder.build() == before


def body_of(*encoded):
    return b"".join(encoded)


def batch_of(body, count):
    return oracle.assemble(body, 0, max(count - 1, 0), 0, 0, count)


def test_every_truncation_of_a_record_is_malformed():
    """Test both near the end of the memory (the careful step) and with bytes behind it (the fast one)."""
    item = oracle.OracleRecord(b"v" * 30, b"key", 300, [(b"h", b"x"), (b"", None)])
    encoded = oracle.encode_record(item, 0, 0)
    length = len(encoded) - 1
    for cut in range(1, length + 1):
        shorter = oracle.encode_varint(length - cut) + encoded[1:len(encoded) - cut]
        for rest in (b"", b"\0" * 64):
            with pytest.raises(CorruptRecordError):
                list(records(batch_of(shorter + rest, 1)))
    for cut in range(1, len(encoded)):
        with pytest.raises(CorruptRecordError):
            list(records(batch_of(encoded[:-cut], 1)))


@settings(max_examples=300)
@given(record_lists, st.data())
def test_damaged_bodies_are_judged_as_the_oracle_judges(items, data):
    body = bytearray(b"".join(oracle.encode_record(item, i, 0) for i, item in enumerate(items)))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    batch = batch_of(bytes(body), len(items))
    try:
        want = expected(oracle.decode(batch))
    except oracle.Malformed:
        with pytest.raises(CorruptRecordError):
            list(records(batch))
    else:
        assert [plain(record) for record in records(batch)] == want


@pytest.mark.parametrize("field", range(4))
def test_lengths_beyond_what_is_there(field):
    """Key, value, header count and header key lengths: negative below -1, one too many, and huge."""
    for wrong in (-2, -(2**31), 1, 5, 2**31 - 1):
        parts = [b"\0\0\0", oracle.encode_varint(-1), oracle.encode_varint(-1), oracle.encode_varint(0), b""]
        if field == 3:
            parts[3], parts[4] = oracle.encode_varint(1), oracle.encode_varint(wrong)
        else:
            parts[1 + field] = oracle.encode_varint(wrong)
        inner = b"".join(parts)
        for rest in (b"", oracle.encode_record(oracle.OracleRecord(b"x" * 50), 1, 0)):
            body = oracle.encode_varint(len(inner)) + inner + rest
            with pytest.raises(CorruptRecordError):
                list(records(batch_of(body, 2 if rest else 1)))


def test_bytes_after_the_last_record_are_refused():
    encoded = oracle.encode_record(oracle.OracleRecord(b"v"), 0, 0)
    with pytest.raises(CorruptRecordError, match="after its last record"):
        list(records(batch_of(encoded + b"\0", 1)))
    with pytest.raises(CorruptRecordError, match="record 1 of 2"):
        list(records(batch_of(encoded, 2)))


def test_long_varints():
    """Deltas and lengths of more than three bytes take the careful step and mean the same."""
    items = [oracle.OracleRecord(b"a" * 40, timestamp_ms=0), oracle.OracleRecord(b"b" * 40, timestamp_ms=2**62),
             oracle.OracleRecord(b"c" * (2**20 + 5), timestamp_ms=-1), oracle.OracleRecord(b"", b"k" * 9000)]
    data = built(items)
    assert [plain(record) for record in records(data)] == expected(oracle.decode(data, check_crc=False))


def as_expected(record):
    value = {} if record.value is None else {"sha256": hashlib.sha256(record.value).hexdigest()}
    return {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestamp_type": record.timestamp_type,
        "leader_epoch": record.leader_epoch,
        "key": None if record.key is None else record.key.hex(),
        "value": None if record.value is None else record.value.hex(),
        "headers": [[key, None if value is None else value.hex()] for key, value in record.headers],
        **value,
    }


@needs_golden
@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_every_batch_and_record_that_kafka_wrote(partition):
    start = partition.expected["earliest"]
    found = []
    for path in sorted(partition.directory.glob("*.log")):
        data = path.read_bytes()
        walked = walk(data)
        position = 0
        for batch, facts in zip(walked, partition.files[path.name]["batches"], strict=True):
            assert batch.valid == facts["isvalid"] and position == facts["position"]
            position = walked.position
            assert {
                "baseOffset": batch.base_offset, "lastOffset": batch.last_offset, "count": batch.record_count,
                "baseSequence": batch.base_sequence, "lastSequence": batch.last_sequence,
                "producerId": batch.producer_id, "producerEpoch": batch.producer_epoch,
                "partitionLeaderEpoch": batch.leader_epoch, "isTransactional": batch.is_transactional,
                "isControl": batch.is_control, "deleteHorizonMs": batch.delete_horizon_ms, "size": batch.size_in_bytes,
                "magic": batch.magic, "compresscodec": batch.codec, "crc": batch.crc,
                batch.timestamp_type: batch.max_timestamp_ms,
            }.items() <= facts.items()
            rebuilt(batch)
        assert position == len(data)
        found += [as_expected(record) for record in records(data) if record.offset >= start]
    wanted = partition.records()
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        assert {key: got[key] for key in want if key in got} == {key: want[key] for key in want if key in got}


def rebuilt(batch):
    """Kafka's uncompressed batches, rebuilt record by record with our builder, have the same bytes."""
    if batch.codec != "none" or batch.record_count == 0 or batch.delete_horizon_ms is not None:
        return
    builder = BatchBuilder(transactional=batch.is_transactional, control=batch.is_control)
    for record in records(batch, control=True):
        builder.append(record.value, record.key, record.timestamp_ms, record.headers,
                       offset_delta=record.offset - batch.base_offset)
    late = batch.timestamp_type == "LogAppendTime"
    data = builder.build(batch.base_offset, leader_epoch=batch.leader_epoch, producer_id=batch.producer_id,
                         producer_epoch=batch.producer_epoch, base_sequence=batch.base_sequence,
                         log_append_time_ms=batch.max_timestamp_ms if late else None)
    if not late and len(builder) == batch.last_offset - batch.base_offset + 1:
        assert data == bytes(batch)


def test_nothing_is_read_past_the_end():
    """Test every cut and many flipped bits of a batch that ends at an inaccessible page."""
    items = [oracle.OracleRecord(b"v" * size, b"k" * (size % 7), size * 9000, [(b"h", b"x")] * (size % 3))
             for size in (0, 1, 20, 63, 64, 200)]
    bodies = [b"".join(oracle.encode_record(item, i, 0) for i, item in enumerate(items[:count])) for count in (1, 3, 6)]
    source = random.Random(5)
    with guarded(4096) as memory:
        for body in bodies:
            for size in range(len(body)):
                tried(memory.put(batch_of(body[:size], 6)))
            for _ in range(3000):
                damaged = bytearray(body[:source.randrange(1, len(body) + 1)])
                for _ in range(source.randrange(1, 4)):
                    damaged[source.randrange(len(damaged))] = source.choice((0, 1, 2, 0x7F, 0x80, 0xFF, 3, 64))
                tried(memory.put(batch_of(bytes(damaged), source.randrange(1, 8))))
            whole = batch_of(body, 6)
            for size in range(len(whole)):
                assert list(walk(memory.put(whole[:size]))) == []


def tried(batch):
    with contextlib.suppress(CorruptRecordError):
        for record in records(batch, check_crc=False):
            assert record.offset is not None


def test_a_batch_of_values_is_what_a_builder_makes_of_them() -> None:
    values = [b"", b"a", bytes(200), b"zz"] + [b"%d" % number for number in range(300)]
    builder = BatchBuilder()
    for value in values:
        builder.append(value, timestamp_ms=7)
    assert values_batch(iter(values), 7, base_offset=3, leader_epoch=2) == builder.build(3, leader_epoch=2)


@pytest.mark.parametrize(("values", "timestamp_ms", "base_offset", "refusal"), [
    ([], 7, 0, "at least one record"),
    ([b"x", None], 7, 0, "bytes expected, got NoneType"),
    ([b"x", "text"], 7, 0, "bytes expected, got str"),
    ([bytearray(b"x")], 7, 0, "bytes expected, got bytearray"),
    ([b"x"], -2, 0, "timestamp_ms -2"),
    ([b"x"], 7, -1, "base_offset -1"),
])
def test_values_that_make_no_batch(values: list[bytes], timestamp_ms: int, base_offset: int, refusal: str) -> None:
    with pytest.raises(InvalidArgumentError, match=refusal):
        values_batch(values, timestamp_ms, base_offset=base_offset, leader_epoch=0)
