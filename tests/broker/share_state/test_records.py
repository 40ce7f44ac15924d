"""Kafka's own `__share_group_state`, replayed, and records in Kafka's encoding."""

import json
from typing import Any
from uuid import UUID

import pytest

from kraft.broker.coordinator.loading import load_batches
from kraft.broker.coordinator.shard import StoredRecord
from kraft.broker.share_state.batches import StateBatch
from kraft.broker.share_state.records import decode, record_of, tombstone_of
from kraft.broker.share_state.state import ShareKey, Snapshot, Update
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.ids import id_of
from kraft.protocol.messages import share_snapshot_value, share_update_value
from kraft.protocol.messages.share_update_key import ShareUpdateKey
from kraft.protocol.record_frames import SHARE_STATES
from kraft_native.base.errors import KraftError
from kraft_native.batch.batch import walk
from kraft_native.batch.records import records
from tests.broker.share_state.share_node import KEY, ShareNode, code_of, read, state_read, write
from tests.golden import golden, needs_golden

MULTI = id_of("ZMOzxY0pT32meZM61__eig")
BATCHES = (StateBatch(0, 9, 2, 1), StateBatch(10, 2**62, 4, 300), StateBatch(2**62 + 5, 2**62 + 5, 0, 1))


def log_bytes(partition: int) -> bytes:
    directory = golden("log", "data", f"__share_group_state-{partition}")
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def stored_records(partition: int) -> list[StoredRecord]:
    return [StoredRecord(record.offset, record.key, record.value) for batch in walk(log_bytes(partition))
            if not batch.is_control for record in records(batch) if record.key is not None]


@needs_golden
@pytest.mark.parametrize("partition", range(2))
def test_records_encode_to_the_bytes_that_kafka_wrote(partition: int) -> None:
    found = stored_records(partition)
    assert found
    for record in found:
        replayed = decode(record)
        assert replayed is not None and replayed.content is not None
        again = record_of(replayed.key, replayed.content, 0)
        assert (again.key, again.value) == (record.key, record.value)


@needs_golden
def test_states_that_kafka_wrote_are_read_and_continued() -> None:
    node = ShareNode(2)
    node.topics.change("multi", MULTI, 3)
    node.coordinator = node._new_coordinator()
    for partition in range(2):
        assert node.coordinator.shards.start_load(partition, 8)
        end_offset = max(load_batches(node.coordinator.shards, partition, log_bytes(partition)))
        node.logs.records[partition] = [record_of(KEY, Update(0, 0, 0, 0, ()), 0)] * end_offset
        node.coordinator.shards.finish_load(partition, end_offset, end_offset, node.now_ms)
    keys = [ShareKey("share-g", MULTI, index) for index in range(3)]
    assert [sorted(node.shard(partition).states) for partition in range(2)] == [[keys[0], keys[2]], [keys[1]]]
    for key in keys:
        state_epoch, start_offset, batches = state_read(node, 6, key)
        assert state_epoch == 2
        assert start_offset >= 0
        assert batches == sorted(batches)
        response = node.call(write((1000, 1000, 2, 1), start_offset=999, state_epoch=2, leader_epoch=6, key=key))
        assert code_of(response)[0] == ErrorCode.NONE
        assert state_read(node, 6, key) == (2, 999, [(1000, 1000, 2, 1)])
        assert code_of(node.call(read(5, key)))[0] == ErrorCode.FENCED_LEADER_EPOCH


def frames(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in golden("wire", f"{name}.jsonl").read_text().splitlines()]


@needs_golden
def test_the_exchanges_of_kafka_brokers_are_repeated() -> None:
    """The life of one share partition, with the answers that Kafka gave."""
    first, second = frames("InitializeShareGroupState")
    life = [first, *frames("ReadShareGroupState"), *frames("WriteShareGroupState"),
            *frames("ReadShareGroupStateSummary"), second, *frames("DeleteShareGroupState")]
    assert len(life) == 8
    node = ShareNode()
    for frame in life:
        api, version = API_BY_KEY[frame["api"]], frame["version"]
        head = 2 + 2 + 4 + 2 + len(frame["client_id"]) + 1
        request: Any = api.request.decode(bytes.fromhex(frame["request_hex"])[head:], version)
        node.topics.change("kafka's", request.topics[0].topic_id, 1)
        assert node.call(request, version).encode(version).hex() == frame["response_hex"][10:], frame["request"]


@pytest.mark.parametrize("count", [-1, 0, 7])
def test_the_bytes_are_those_of_the_schemas(count: int) -> None:
    for batches in ((), BATCHES, BATCHES * 60):
        snapshot = Snapshot(3, 4, 5, 6, count, 7, 8, tuple(batches))
        update = Update(3, 5, 6, count, tuple(batches))
        by_schema = share_snapshot_value.ShareSnapshotValue(
            snapshot_epoch=3, state_epoch=4, leader_epoch=5, start_offset=6, delivery_complete_count=count,
            create_timestamp=7, write_timestamp=8, state_batches=[
                share_snapshot_value.StateBatch(first_offset=a, last_offset=b, delivery_state=c, delivery_count=d)
                for a, b, c, d in batches])
        assert record_of(KEY, snapshot, 0).value == SHARE_STATES.encode_value(by_schema, 0)
        update_by_schema = share_update_value.ShareUpdateValue(
            snapshot_epoch=3, leader_epoch=5, start_offset=6, delivery_complete_count=count, state_batches=[
                share_update_value.StateBatch(first_offset=a, last_offset=b, delivery_state=c, delivery_count=d)
                for a, b, c, d in batches])
        assert record_of(KEY, update, 0).value == SHARE_STATES.encode_value(update_by_schema, 0)
        for content in (snapshot, update):
            record = record_of(KEY, content, 9)
            assert decode(StoredRecord(0, record.key, record.value)) == (KEY, content)


def test_a_tombstone_deletes_and_what_is_unknown_is_skipped() -> None:
    record = tombstone_of(KEY, 1)
    assert decode(StoredRecord(0, record.key, None)) == (KEY, None)
    update_key = SHARE_STATES.encode_key(ShareUpdateKey(group_id="g", topic_id=UUID(int=1), partition=0))
    assert decode(StoredRecord(0, update_key, None)) is None
    assert decode(StoredRecord(0, b"\0\x09rest", b"value")) is None


@pytest.mark.parametrize(("key", "value"), [(b"\0", b""), (b"\0\0\0", b"\0\0"), (None, b"\0\0\0"), (None, b"\0\x09")])
def test_a_malformed_record_raises(key: bytes | None, value: bytes) -> None:
    with pytest.raises(KraftError):
        decode(StoredRecord(0, record_of(KEY, Update(0, 0, 0, 0, ()), 0).key if key is None else key, value))
