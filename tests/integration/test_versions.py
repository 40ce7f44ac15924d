"""Every API is answered in every version that the node announces. Requests captured between real clients and Kafka are
sent again. The usual requests are sent about a topic and a group that exist."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kraft.client.connection import Connection
from kraft.protocol.apis import API_BY_KEY, API_BY_NAME
from kraft.protocol.headers import decode_response_header, encode_request_header
from kraft.protocol.message import Message
from kraft.protocol.messages import describe_configs_request as describe_configs
from kraft.protocol.messages import fetch_request as fetch
from kraft.protocol.messages import list_offsets_request as list_offsets
from kraft.protocol.messages import metadata_request as metadata
from kraft.protocol.messages import offset_commit_request as commit
from kraft.protocol.messages import offset_fetch_request as offset_fetch
from kraft.protocol.messages import offset_for_leader_epoch_request as epochs
from kraft.protocol.messages import produce_request as produce
from kraft.protocol.messages.metadata_response import MetadataResponse
from tests.golden import golden, needs_golden
from tests.integration.admin import connect, create
from tests.integration.clients import START_MS, Record, librdkafka_produce
from tests.integration.process import NodeProcess
from tests.native.logs import batch

FRAMES_EACH = 3
# They change the cluster for other tests, have no answer, or wait half a minute for a voter that is missing.
LEFT_OUT = {"UpdateFeatures", "UnregisterBroker", "DeleteTopics", "ApiVersions", "AddRaftVoter"}


def captured(api: str, version: int) -> Iterator[bytes]:
    """Yield the bodies of captured requests."""
    path = golden("wire", f"{api}.jsonl")
    if not path.exists():
        return
    count = 0
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            frame: dict[str, Any] = json.loads(line)
            if frame["version"] == version and count < FRAMES_EACH and frame.get("request", {}).get("acks") != 0:
                count += 1
                header = API_BY_NAME[api].request_header_version(version)
                yield body_of(bytes.fromhex(frame["request_hex"]), header)


def body_of(request: bytes, header_version: int) -> bytes:
    """Return what follows the header: key, version, correlation id, client id, and from header 2 on an empty set of
    tags."""
    at = 10 + max(0, int.from_bytes(request[8:10], "big", signed=True))
    return request[at + (header_version >= 2):]


def exchange(connection: Connection, key: int, version: int, body: bytes) -> Message:
    api = API_BY_KEY[key]
    content = encode_request_header(api, version, 7, "versions") + body
    connection.socket.sendall(len(content).to_bytes(4, "big") + content)
    with connection.socket.makefile("rb") as received:
        size = received.read(4)
        if len(size) < 4:
            raise ConnectionResetError(f"{api.name} version {version}")
        answer = received.read(int.from_bytes(size, "big"))
    header, rest = decode_response_header(answer, api, version)
    assert header.correlation_id == 7
    return api.response.decode(rest, version)


@needs_golden
def test_captured_requests_are_answered(node: NodeProcess) -> None:
    connection = connect(node)
    requested = {(key, version) for key, (low, high) in connection.versions.items() for version in range(low, high + 1)
                 if API_BY_KEY[key].name not in LEFT_OUT}
    answered = set()
    closed = []
    for key, version in sorted(requested):
        for body in captured(API_BY_KEY[key].name, version):
            try:
                exchange(connection, key, version, body)
                answered.add((key, version))
            except ConnectionError as error:
                closed.append(str(error))
                connection.close()
                connection = connect(node)
    connection.close()
    assert closed == []
    assert len(answered) > len(requested) * 0.75, sorted(requested - answered)


def usual(api: str, version: int, topic: str, topic_id: Any) -> Message:
    """Build a request about a topic that exists, in the form of this version."""
    by_id: dict[str, Any] = {"topic_id": topic_id}
    name: dict[str, Any] = {"name": topic}
    match api:
        case "Produce":
            data = [produce.PartitionProduceData(index=0, records=batch(2, timestamp_ms=START_MS))]
            return produce.ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[
                produce.TopicProduceData(**(by_id if version >= 13 else name), partition_data=data)])
        case "Fetch":
            wanted = fetch.FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)
            return fetch.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[
                fetch.FetchTopic(**(by_id if version >= 13 else {"topic": topic}), partitions=[wanted])],
                **({"session_epoch": -1} if version >= 7 else {}))
        case "ListOffsets":
            return list_offsets.ListOffsetsRequest(replica_id=-1, topics=[list_offsets.ListOffsetsTopic(
                name=topic, partitions=[list_offsets.ListOffsetsPartition(partition_index=0, timestamp=START_MS)])])
        case "Metadata":
            return metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=topic)])
        case "OffsetCommit":
            part = commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="m")
            return commit.OffsetCommitRequest(group_id=topic, topics=[
                commit.OffsetCommitRequestTopic(**(by_id if version >= 10 else name), partitions=[part])])
        case "OffsetFetch":
            if version < 8:
                old = offset_fetch.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
                return offset_fetch.OffsetFetchRequest(group_id=topic, topics=[old])
            new = offset_fetch.OffsetFetchRequestTopics(**(by_id if version >= 10 else name), partition_indexes=[0])
            return offset_fetch.OffsetFetchRequest(groups=[
                offset_fetch.OffsetFetchRequestGroup(group_id=topic, topics=[new])])
        case "OffsetForLeaderEpoch":
            return epochs.OffsetForLeaderEpochRequest(topics=[epochs.OffsetForLeaderTopic(
                topic=topic, partitions=[epochs.OffsetForLeaderPartition(partition=0, leader_epoch=0)])],
                **({"replica_id": -1} if version >= 3 else {}))
        case "DescribeConfigs":
            return describe_configs.DescribeConfigsRequest(resources=[
                describe_configs.DescribeConfigsResource(resource_type=2, resource_name=topic,
                                                         configuration_keys=None)])
    raise AssertionError(api)


def errors(answer: object) -> list[int]:
    """Return every error code of a message."""
    found = []
    for name in getattr(answer, "__slots__", ()):
        value = getattr(answer, name)
        if name == "error_code":
            found.append(value)
        for each in value if isinstance(value, list) else ():
            found += errors(each)
    return found


@pytest.mark.parametrize("api", ["Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch",
                                 "OffsetForLeaderEpoch", "DescribeConfigs"])
def test_usual_requests_succeed_in_every_version(node: NodeProcess, name: str, api: str) -> None:
    create(node, name)
    librdkafka_produce(node, name, [Record(b"k", b"v")])
    with connect(node) as connection:
        topic_id = connection.send(usual("Metadata", 12, name, None), MetadataResponse).topics[0].topic_id
        key = API_BY_NAME[api].key
        low, high = connection.versions[key]
        connection.send(usual("OffsetCommit", 8, name, topic_id), API_BY_NAME["OffsetCommit"].response, version=8)
        for version in range(max(low, API_BY_NAME[api].versions.start), high + 1):
            answer = exchange(connection, key, version, usual(api, version, name, topic_id).encode(version))
            found = errors(answer)
            assert found, f"{api} version {version}: no error code in {answer}"
            assert not any(found), f"{api} version {version}: {answer}"
