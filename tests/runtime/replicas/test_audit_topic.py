"""Audit events in the topic, on one node."""

import json
from pathlib import Path
from typing import Any

from kraft.client import Cluster
from kraft.client.fetcher import AT_ONCE, fetch_request
from kraft.client.producer import produce_request
from kraft.client.topics import create_topic
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraft.protocol.messages.delete_records_response import DeleteRecordsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.runtime.server_node import ServerNode
from kraft.security.audit.kinds import AUDIT_TOPIC
from kraft_native.batch.batch import walk
from kraft_native.batch.records import BatchBuilder, records
from tests.runtime.nodes import config, with_node

TOPIC_ON = {"kraft.audit.topic.enable": "true"}


def events_in(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the events that are committed."""
    request = fetch_request(AUDIT_TOPIC, 0, 0, AT_ONCE)
    answer = cluster.leader(AUDIT_TOPIC, 0).send(request, FetchResponse, version=11)
    part = answer.responses[0].partitions[0]
    assert part.error_code == ErrorCode.NONE
    return [json.loads(record.value) for batch in walk(bytes(part.records or b"")) for record in records(batch)]


def wait_for(cluster: Cluster, node: ServerNode, count: int) -> None:
    """Wait until so many events are committed."""
    assert node.audit is not None
    while node.audit.destinations["topic"].written < count:
        cluster.metadata([])


def test_events_are_records_of_a_topic_that_the_node_creates(tmp_path: Path) -> None:
    def work(cluster: Cluster, node: ServerNode) -> tuple[list[dict[str, Any]], bool]:
        create_topic(cluster, "orders", partitions=1)
        create_topic(cluster, "payments", partitions=1)
        wait_for(cluster, node, 2)
        return events_in(cluster), cluster.topic(AUDIT_TOPIC).is_internal

    events, is_internal = with_node(config(tmp_path / "data", **TOPIC_ON), work)
    assert [each["resources"][0]["name"] for each in events] == ["orders", "payments"]
    assert all(each["unmapped"]["metadata_offsets"] for each in events)
    assert is_internal


def test_the_last_events_are_written_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    settings = config(tmp_path / "data", **TOPIC_ON, **{"kraft.audit.file": str(path)})

    def begin(cluster: Cluster, node: ServerNode) -> None:
        create_topic(cluster, "orders", partitions=1)
        wait_for(cluster, node, 1)
        for number in range(20):
            create_topic(cluster, f"t{number}", partitions=1)

    with_node(settings, begin)
    assert len(with_node(settings, lambda cluster, _node: events_in(cluster))) == 21
    assert len(path.read_text().splitlines()) == 21


def test_clients_read_the_topic_and_change_nothing_in_it(tmp_path: Path) -> None:
    """A forged event, a deletion of records and one of the topic are refused without an authorizer, too."""
    builder = BatchBuilder("none")
    builder.append(b"{}", None, 0)
    forged = produce_request({(AUDIT_TOPIC, 0): builder.build()}, -1, 1000)

    def work(cluster: Cluster, node: ServerNode) -> tuple[list[int], list[dict[str, Any]]]:
        create_topic(cluster, "orders", partitions=1)
        wait_for(cluster, node, 1)
        leader = cluster.leader(AUDIT_TOPIC, 0)
        produced = leader.send(forged, ProduceResponse, version=9)
        trimmed = leader.send(DeleteRecordsRequest(timeout_ms=1000, topics=[DeleteRecordsTopic(
            name=AUDIT_TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])]),
            DeleteRecordsResponse)
        deleted = leader.send(DeleteTopicsRequest(topics=[DeleteTopicState(name=AUDIT_TOPIC)], timeout_ms=1000),
                              DeleteTopicsResponse)
        wait_for(cluster, node, 3)
        return [produced.responses[0].partition_responses[0].error_code, trimmed.topics[0].partitions[0].error_code,
                deleted.responses[0].error_code], events_in(cluster)

    codes, events = with_node(config(tmp_path / "data", **TOPIC_ON), work)
    assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION] * 3
    assert [each["api"]["operation"] for each in events] == ["CreateTopics", "DeleteRecords", "DeleteTopics"]


def test_the_audit_does_not_audit_itself(tmp_path: Path) -> None:
    def work(cluster: Cluster, node: ServerNode) -> list[dict[str, Any]]:
        create_topic(cluster, "orders", partitions=1)
        wait_for(cluster, node, 1)
        for _ in range(5):
            events_in(cluster)
        wait_for(cluster, node, 6)
        return events_in(cluster)

    settings = config(tmp_path / "data", **TOPIC_ON, **{"kraft.audit.events": "changes,data",
                                                        "kraft.audit.data.sample.interval": "1"})
    operations = [each["api"]["operation"] for each in with_node(settings, work)]
    assert operations[:6] == ["CreateTopics", *["Fetch"] * 5]
    assert "Produce" not in operations
