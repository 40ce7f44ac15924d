"""Kafka's own `__consumer_offsets`, replayed, and its recorded conversations with members of groups, repeated."""

import base64
import json
from typing import Any
from uuid import UUID

import pytest

from kraft.broker.coordinator.hashing import java_hash, partition_of
from kraft.broker.coordinator.loading import load_batches
from kraft.broker.coordinator.shard import Producer, StoredRecord
from kraft.broker.groups.classic.group import ClassicGroup, GroupState
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.consumer.records import deletion
from kraft.broker.groups.group_records import (
    ChangeReplay,
    GroupReplay,
    OffsetReplay,
    decode,
    group_record,
    offset_record,
    record_of,
)
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.headers import decode_request, decode_response_header
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.join_group_request import JoinGroupRequest
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kraft_native.batch.batch import walk
from kraft_native.batch.records import records
from tests.broker.groups.group_client import commit, errors_of, fetch
from tests.broker.node import Logs, Node
from tests.golden import golden, load_json, needs_golden

pytestmark = needs_golden

PARTITIONS = 3


def log_bytes(partition: int, *data: str) -> bytes:
    directory = golden(*(data or ("log", "data")), f"__consumer_offsets-{partition}")
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def data_records(partition: int) -> list[StoredRecord]:
    return [StoredRecord(record.offset, record.key, record.value)
            for batch in walk(log_bytes(partition)) if not batch.is_control
            for record in records(batch) if record.key is not None]


def golden_node(*data: str) -> Node:
    """A node that loaded the logs that Kafka wrote, and appends after their records."""
    node = Node(PARTITIONS, load=False)
    node.logs = node.coordinator.shards._port = GoldenLogs(PARTITIONS)
    node.coordinator.shards.partition_count = PARTITIONS
    for partition in range(PARTITIONS):
        assert node.coordinator.shards.start_load(partition, 8)
        end_offset = max(load_batches(node.coordinator.shards, partition, log_bytes(partition, *data)), default=0)
        node.logs.base[partition] = node.logs.committed[partition] = end_offset
        node.coordinator.shards.finish_load(partition, end_offset, end_offset, node.now_ms)
    return node


class GoldenLogs(Logs):
    """Logs that continue after the golden ones."""

    def __init__(self, partition_count: int) -> None:
        super().__init__(partition_count)
        self.base = [0] * partition_count

    def append(self, partition: int, records: Any, producer: Producer | None = None) -> int:
        offset = super().append(partition, records, producer) + self.base[partition]
        self.committed[partition] = offset + len(records)
        return offset


def test_hashes_of_group_ids() -> None:
    for vector in load_json(golden("vectors.json"))["group_partition"]:
        assert java_hash(vector["id"]) == vector["java_hash_code"]
        for count, partition in vector["partition_of"].items():
            assert partition_of(vector["id"], int(count)) == partition


def test_the_groups_and_offsets_are_those_that_kafka_showed() -> None:
    node = golden_node()
    listed = {group.group_id: group for group in node.call(ListGroupsRequest()).groups}
    expected = load_json(golden("log", "expected", "cluster.json"))["groups"]
    assert listed.keys() == expected.keys()
    for group_id, group in expected.items():
        assert listed[group_id].group_type == group["type"].lower()
        assert listed[group_id].group_state == group["state"]
        assert listed[group_id].protocol_type == group["protocol"]
        state = node.state_of(group_id)
        offsets = {f"{topic}-{partition}": {"offset": offset.offset, "leader_epoch": offset.leader_epoch,
                                            "metadata": offset.metadata}
                   for topic, partitions in state.offsets.of_group(group_id).items()
                   for partition, offset in partitions.items()}
        assert offsets == group["offsets"], group_id
        if group["type"] != "Share":
            assert fetch(node, group_id, version=9) == {
                (name.rpartition("-")[0], int(name.rpartition("-")[2])): offset["offset"]
                for name, offset in group["offsets"].items()}


def test_the_groups_of_a_whole_node() -> None:
    node = golden_node("node", "data")
    for group_id, offsets in load_json(golden("node", "expected.json"))["groups"].items():
        assert fetch(node, group_id) == {
            (name.rpartition("-")[0], int(name.rpartition("-")[2])): offset for name, offset in offsets.items()}


@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_records_encode_to_the_bytes_that_kafka_wrote(partition: int) -> None:
    """Records of commits, classic, consumer and share groups are decoded to our own classes and encoded again."""
    seen = 0
    for record in data_records(partition):
        replayed = decode(record)
        if isinstance(replayed, OffsetReplay):
            again = offset_record(replayed.group_id, replayed.topic, replayed.partition, replayed.offset, 0)
        elif isinstance(replayed, GroupReplay):
            again = group_record(replayed.group_id, replayed.value, 0)
        elif isinstance(replayed, ChangeReplay):
            again = record_of(replayed.group_id, replayed.change, 0)
        else:
            continue
        seen += 1
        assert (again.key, again.value) == (record.key, record.value)
    assert seen or partition == 2


def test_every_state_on_the_way_replays() -> None:
    """Each prefix of the log is a state that a coordinator can start from."""
    for partition in range(PARTITIONS):
        batches = list(walk(log_bytes(partition)))
        for count in range(1, len(batches) + 1):
            node = Node(PARTITIONS, load=False)
            node.coordinator.shards.start_load(partition, 1)
            end = max(load_batches(node.coordinator.shards, partition, b"".join(bytes(b) for b in batches[:count])))
            node.coordinator.shards.finish_load(partition, end, end, node.now_ms)
            _, state = node.coordinator.shards.serving(partition, node.now_ms)
            for group in state.groups.values():
                if isinstance(group, ClassicGroup) and group.members:
                    assert group.state is GroupState.STABLE
                    assert group.leader_id in group.members
                    assert all(member.assignment for member in group.members.values())


def test_a_consumer_group_is_deleted_record_by_record() -> None:
    node = golden_node()
    state = node.state_of("consumer-g")
    group = state.groups["consumer-g"]
    assert isinstance(group, ConsumerGroup)
    keys = {record_of("consumer-g", change, 0).key for change in deletion(group)}
    offsets = len(list(state.offsets.keys_of_group("consumer-g")))
    assert keys
    assert offsets == 5
    (result,) = node.call(DeleteGroupsRequest(groups_names=["consumer-g"])).results
    assert result.error_code == ErrorCode.NONE
    written = [record for log in node.logs.records for record in log]
    assert {record.key for record in written[offsets:]} == keys
    assert all(record.value is None for record in written)
    assert int.from_bytes(written[-1].key[:2], "big") == 3     # the group itself comes last
    assert "consumer-g" not in state.groups
    assert not state.offsets.of_group("consumer-g")


# -------------------------------------------------------------------- conversations

CLIENT = "version-sweep"
ASSIGNMENT = base64.b64decode("AAEAAAABAAJ3YwAAAAEAAAAAAAAAAA==")
CONVERSATION = ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch", "DescribeGroups", "LeaveGroup")


def uuid_of(text: str) -> UUID:
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def conversation(group_id: str) -> list[dict[str, Any]]:
    """Frames of one client about one group, in its order."""
    frames = []
    for name in CONVERSATION:
        for line in golden("wire", f"{name}.jsonl").read_text("utf-8").splitlines():
            frame = json.loads(line)
            if frame["library"] == "own-raw-client" and f'"{group_id}"' in line:
                frames.append(frame)
    return sorted(frames, key=lambda frame: frame["correlation_id"])


@pytest.mark.parametrize("number", range(10))
def test_the_conversations_of_a_member(number: int) -> None:
    group_id = f"raw-g-{number}"
    frames = conversation(group_id)
    joins = [frame for frame in frames if frame["name"] == "JoinGroup"]
    assert joins
    member_id = joins[0]["response"]["memberId"]
    node = Node()
    node.new_uuid = lambda: UUID(member_id[-36:])
    node.topics.topics["wc"] = (uuid_of("D4yTi3-mSbuFcTfw2yqLjg"), 2)
    talk(node, number, frames, member_id)


def talk(node: Node, number: int, frames: list[dict[str, Any]], member_id: str) -> None:
    """Repeat the frames; requests that were not recorded are built from those that were."""
    group_id = f"raw-g-{number}"
    for name in CONVERSATION:
        found = [frame for frame in frames if frame["name"] == name]
        for frame in found:
            repeat(node, frame)
        if name == "JoinGroup" and found[-1]["response"]["errorCode"] == ErrorCode.MEMBER_ID_REQUIRED:
            _, header, body = decode_request(bytes.fromhex(found[-1]["request_hex"]))
            request = JoinGroupRequest.decode(body, header.request_api_version).replace(member_id=member_id)
            assert node.call(request, header.request_api_version, CLIENT).error_code == ErrorCode.NONE
        elif name == "SyncGroup" and not found:
            assignment = SyncGroupRequestAssignment(member_id=member_id, assignment=ASSIGNMENT)
            request = SyncGroupRequest(group_id=group_id, generation_id=1, member_id=member_id,
                                       assignments=[assignment])
            assert node.call(request, 3, CLIENT).error_code == ErrorCode.NONE
        elif name == "OffsetCommit" and not found:
            assert errors_of(commit(node, {("wc", 0): number}, group_id, member=member_id, generation=1,
                                    metadata=f"v{number}")) == [0]


def repeat(node: Node, frame: dict[str, Any]) -> None:
    """Send a golden request and expect the golden response, byte by byte."""
    api, header, body = decode_request(bytes.fromhex(frame["request_hex"]))
    version = header.request_api_version
    response = node.call(api.request.decode(body, version), version, header.client_id)
    _, expected = decode_response_header(bytes.fromhex(frame["response_hex"]), api, version)
    assert response == api.response.decode(expected, version), frame["name"]
    assert response.encode(version) == bytes(expected)
