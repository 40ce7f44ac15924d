"""ShareFetch and ShareAcknowledge on running nodes: delivery, acknowledgement, locks, and the state after a kill."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest

from kraft.client.connection import Connection
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.ids import id_text
from kraft.protocol.messages import incremental_alter_configs_request as alter
from kraft.protocol.messages import initialize_share_group_state_request as initializing
from kraft.protocol.messages import share_acknowledge_request as acknowledging
from kraft.protocol.messages import share_acknowledge_response as acknowledged
from kraft.protocol.messages import share_fetch_request as fetching
from kraft.protocol.messages import share_fetch_response as fetched
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.protocol.messages.initialize_share_group_state_response import InitializeShareGroupStateResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse
from tests.integration.admin import connect, create
from tests.integration.clients import librdkafka_producer
from tests.integration.process import NodeProcess

GROUP_RESOURCE = 32
SHARE = 2
ACCEPT, RELEASE, REJECT = 1, 2, 3
ATTEMPTS = 50
SETTINGS = {"share.coordinator.state.topic.num.partitions": "4", "group.share.record.lock.duration.ms": "1000",
            "group.share.min.record.lock.duration.ms": "1000"}


class Member:
    """A member of a share group, on a connection of its own. It fetches one partition."""

    def __init__(self, node: NodeProcess, group: str, member: str, topic: str) -> None:
        self.connection: Connection = connect(node)
        self.group, self.member = group, member
        response = self.connection.send(
            MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), MetadataResponse)
        self.topic_id: UUID = response.topics[0].topic_id
        self.epoch = 0
        self._initialize()

    def _initialize(self) -> None:
        """Begin the stored state, as the group coordinator does for a group with members."""
        for _ in range(ATTEMPTS):
            self.connection.send(FindCoordinatorRequest(
                key_type=SHARE, coordinator_keys=[f"{self.group}:{id_text(self.topic_id)}:0"]), FindCoordinatorResponse)
            response = self.connection.send(initializing.InitializeShareGroupStateRequest(
                group_id=self.group, topics=[initializing.InitializeStateData(
                    topic_id=self.topic_id, partitions=[initializing.PartitionData(
                        partition=0, state_epoch=1, start_offset=-1)])]), InitializeShareGroupStateResponse)
            if response.results[0].partitions[0].error_code == ErrorCode.NONE:
                return
            time.sleep(0.1)
        raise AssertionError("the share coordinator does not begin the state")

    def fetch(self, *acks: tuple[int, int, int], **fields: Any) -> list[tuple[int, int, int]]:
        """Return first offset, last offset and delivery count of what was acquired."""
        response = self.connection.send(fetching.ShareFetchRequest(
            group_id=self.group, member_id=self.member, share_session_epoch=self.epoch,
            **{"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500,
               **fields},
            topics=[fetching.FetchTopic(topic_id=self.topic_id, partitions=[fetching.FetchPartition(
                partition_index=0, acknowledgement_batches=[fetching.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=[kind]) for first, last, kind in acks])])]),
            fetched.ShareFetchResponse)
        assert response.error_code == ErrorCode.NONE
        self.epoch += 1
        parts = [part for topic in response.responses for part in topic.partitions]
        assert all(part.error_code == part.acknowledge_error_code == ErrorCode.NONE for part in parts), parts
        return [(each.first_offset, each.last_offset, each.delivery_count)
                for part in parts for each in part.acquired_records]

    def take(self, **fields: Any) -> list[tuple[int, int, int]]:
        """Fetch until something comes: the state of the group is loaded, or its topic created."""
        for _ in range(ATTEMPTS):
            if found := self.fetch(**fields):
                return found
        raise AssertionError("nothing was delivered")

    def acknowledge(self, *acks: tuple[int, int, int]) -> int:
        response = self.connection.send(acknowledging.ShareAcknowledgeRequest(
            group_id=self.group, member_id=self.member, share_session_epoch=self.epoch,
            topics=[acknowledging.AcknowledgeTopic(
                topic_id=self.topic_id, partitions=[acknowledging.AcknowledgePartition(
                    partition_index=0, acknowledgement_batches=[acknowledging.AcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=[kind])
                        for first, last, kind in acks])])]), acknowledged.ShareAcknowledgeResponse)
        assert response.error_code == ErrorCode.NONE
        self.epoch += 1
        return response.responses[0].partitions[0].error_code


@contextmanager
def member(node: NodeProcess, group: str, name: str, topic: str) -> Iterator[Member]:
    made = Member(node, group, name, topic)
    try:
        yield made
    finally:
        made.connection.close()


def begin(node: NodeProcess, topic: str, count: int = 10) -> None:
    """Create a topic with records, for a group of its name that begins with them."""
    create(node, topic)
    begin_with(node, topic, "earliest")
    send(node, topic, count)


def begin_with(node: NodeProcess, group: str, reset: str) -> None:
    """Set where a share group begins."""
    with connect(node) as connection:
        response = connection.send(alter.IncrementalAlterConfigsRequest(resources=[alter.AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=group, configs=[alter.AlterableConfig(
                name="share.auto.offset.reset", config_operation=0, value=reset)])]),
            IncrementalAlterConfigsResponse)
    assert [each.error_code for each in response.responses] == [ErrorCode.NONE]


def send(node: NodeProcess, topic: str, count: int) -> None:
    producer = librdkafka_producer(node)
    for number in range(count):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(30) == 0


def flat(acquired: list[tuple[int, int, int]]) -> list[int]:
    return [offset for first, last, _ in acquired for offset in range(first, last + 1)]


@pytest.fixture
def share_node(new_node: Callable[..., NodeProcess]) -> NodeProcess:
    return new_node(SETTINGS)


def test_records_go_to_one_member_until_they_are_acknowledged(share_node: NodeProcess, name: str) -> None:
    begin(share_node, name)
    with member(share_node, name, "a", name) as first, member(share_node, name, "b", name) as second:
        assert flat(first.take()) == list(range(10))
        assert second.fetch() == []
        assert first.acknowledge((0, 4, ACCEPT), (5, 6, RELEASE), (7, 7, REJECT)) == 0
        assert second.take() == [(5, 6, 2)]
        assert first.acknowledge((0, 0, ACCEPT)) == ErrorCode.INVALID_RECORD_STATE
        first.connection.close()
        assert second.take() == [(8, 9, 1)], "the first one is offline"


def test_a_lock_ends(share_node: NodeProcess, name: str) -> None:
    begin(share_node, name)
    with member(share_node, name, "a", name) as first, member(share_node, name, "b", name) as second:
        first.take()
        assert flat(second.take(max_wait_ms=5_000)) == list(range(10))
        assert first.acknowledge((0, 9, ACCEPT)) == ErrorCode.INVALID_RECORD_STATE


def test_a_killed_node_delivers_nothing_again_that_was_acknowledged(share_node: NodeProcess, name: str) -> None:
    begin(share_node, name, 1_000)
    done: set[int] = set()
    for number in range(3):
        with member(share_node, name, f"m{number}", name) as one:
            for _ in range(4):
                taken = flat(one.take(max_records=50, share_acquire_mode=1))
                assert not done & set(taken)
                kept = taken[:len(taken) // 2]
                assert one.acknowledge((kept[0], kept[-1], ACCEPT)) == 0
                done.update(range(kept[0], kept[-1] + 1))
            share_node.kill()
        share_node.start()
    with member(share_node, name, "last", name) as one:
        rest: set[int] = set()
        while len(done) + len(rest) < 1_000:
            rest.update(flat(one.take()))
        assert rest == set(range(1_000)) - done
