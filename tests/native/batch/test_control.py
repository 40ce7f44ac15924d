"""Control records: markers built and read back, Raft's types, malformed records, and Kafka's records."""

from __future__ import annotations

import struct

import pytest

from kraft_native.base.errors import CorruptRecordError, InvalidArgumentError
from kraft_native.batch.batch import first_batch
from kraft_native.batch.control import TYPES, ControlRecord, control_batch, control_records, marker
from kraft_native.batch.records import BatchBuilder
from tests.golden import needs_golden, partitions
from tests.oracle import batch as oracle


def control_with(key, value, **options):
    return oracle.encode([oracle.OracleRecord(value, key)], attributes=oracle.CONTROL, **options)


@pytest.mark.parametrize("commit", [True, False])
def test_marker(commit):
    data = marker(commit=commit, producer_id=7, producer_epoch=3, coordinator_epoch=70_000, timestamp_ms=99,
                  base_offset=40, leader_epoch=2)
    key = struct.pack(">hh", 0, 1 if commit else 0)
    assert data == oracle.encode([oracle.OracleRecord(struct.pack(">hi", 0, 70_000), key, 99)], base_offset=40,
                                 leader_epoch=2, producer_id=7, producer_epoch=3,
                                 attributes=oracle.TRANSACTIONAL | oracle.CONTROL)
    batch = first_batch(data)
    assert batch.is_control and batch.is_transactional and batch.base_sequence == -1
    (record,) = control_records(data)
    assert (record.offset, record.timestamp_ms, record.leader_epoch) == (40, 99, 2)
    assert (record.producer_id, record.producer_epoch, record.coordinator_epoch) == (7, 3, 70_000)
    assert (record.type, record.type_name, record.key_version) == (int(commit), "COMMIT" if commit else "ABORT", 0)
    assert record.value == struct.pack(">hi", 0, 70_000)
    assert "COMMIT" in repr(record) or not commit
    with pytest.raises(TypeError):
        ControlRecord()


@pytest.mark.parametrize("wrong", ["producer_id", "producer_epoch", "coordinator_epoch"])
def test_marker_needs_ids(wrong):
    fields = {"producer_id": 1, "producer_epoch": 1, "coordinator_epoch": 1, wrong: -1}
    with pytest.raises(InvalidArgumentError, match=f"{wrong} -1"):
        marker(commit=True, timestamp_ms=0, **fields)


def test_rafts_control_batch():
    entries = [(kind, b"message %d" % kind) for kind in range(2, 7)]
    data = control_batch(entries, timestamp_ms=5, base_offset=10, leader_epoch=4)
    batch = first_batch(data)
    assert batch.is_control and not batch.is_transactional and batch.producer_id == -1
    found = control_records(data)
    assert [(record.offset, record.type, record.value) for record in found] == [
        (10 + i, kind, value) for i, (kind, value) in enumerate(entries)]
    assert [record.type_name for record in found] == [TYPES[kind] for kind in range(2, 7)]
    assert all(record.coordinator_epoch is None for record in found)


@pytest.mark.parametrize("entry", [(0, b""), (1, b""), (7, b""), (-1, b""), (2, None), ("2", b"")])
def test_control_batch_refuses(entry):
    with pytest.raises((InvalidArgumentError, TypeError)):
        control_batch([entry], timestamp_ms=0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0\0\0", b""),
        (b"\xff\xff\0\1", b"\0\0\0\0\0\1"),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0\0\0\0\0"),
        (b"\0\0\0\0", b"\xff\xff\0\0\0\1"),
    ],
)
def test_malformed(key, value):
    with pytest.raises(CorruptRecordError, match="control record at offset 0"):
        control_records(control_with(key, value))


def test_later_versions_and_unknown_types_are_read():
    (record,) = control_records(control_with(b"\0\5\0\1extra", b"\0\7\0\0\0\2more"))
    assert (record.type, record.key_version, record.coordinator_epoch) == (1, 5, 2)
    (record,) = control_records(control_with(b"\0\0\0\x63", None))
    assert (record.type, record.type_name, record.value, record.coordinator_epoch) == (99, "UNKNOWN", None, None)


def test_data_batches_are_passed_over_and_empty_ones_have_none():
    builder = BatchBuilder()
    builder.append(b"data")
    empty = oracle.assemble(b"", oracle.CONTROL | oracle.TRANSACTIONAL, 0, -1, 5, 0, producer_id=1, producer_epoch=0)
    assert control_records(builder.build() + empty) == []
    assert len(control_records(builder.build() + control_with(b"\0\0\0\3", b""))) == 1


@needs_golden
def test_markers_that_kafka_wrote():
    kinds = {}
    for partition in partitions():
        for path in sorted(partition.directory.glob("*.log")):
            for record in control_records(path.read_bytes()):
                kinds[record.type_name] = kinds.get(record.type_name, 0) + 1
                assert record.coordinator_epoch is not None and record.producer_id >= 0
    assert kinds["COMMIT"] > 5 and kinds["ABORT"] > 2
