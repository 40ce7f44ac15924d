"""States of share partitions in one data directory, on a node of ours, then of Kafka's, then of ours again."""

import time
from typing import Any, Self

import pytest

from kraft.broker.share_state.state import ShareKey
from kraft.client import Cluster
from kraft.client.connection import Connection
from kraft.client.topics import create_topic
from kraft.config.node_config import NodeConfig
from kraft.config.properties import read_properties
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse
from tests.broker.share_state.share_node import code_of, initialize, read, summarize, write
from tests.peer.kafka import KafkaNode, require_kafka
from tests.runtime.nodes import with_node

pytestmark = pytest.mark.peer

TOPIC = "orders"
WAITS = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
         ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
SECONDS = 60.0


class Client:
    """Requests of a broker to the share coordinator of the node at an address."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._connection = Connection(host, int(port), timeout=SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def key(self) -> ShareKey:
        [topic] = self._connection.send(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]),
                                        MetadataResponse).topics
        key = ShareKey("g", topic.topic_id, 0)
        self._connection.send(FindCoordinatorRequest(key_type=2, coordinator_keys=[key.text]), FindCoordinatorResponse)
        return key

    def call(self, request: Message) -> Any:
        """Send a request until the coordinator serves."""
        deadline = time.monotonic() + SECONDS
        while True:
            response: Any = self._connection.send(request, API_BY_KEY[request.API_KEY].response)
            code, message = code_of(response)
            if code not in WAITS or time.monotonic() > deadline:
                assert (code, message) == (ErrorCode.NONE, None)
                return response.results[0].partitions[0]
            time.sleep(0.1)


def state_of(part: Any) -> tuple[int, int, list[tuple[int, int, int, int]]]:
    return part.state_epoch, part.start_offset, [
        (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in part.state_batches]


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """State epoch, start offset and batches that Kafka reads of ours, then those that we read of its, and our summary:
    leader epoch and count. In a fixture, as the other process has descriptors here."""
    require_kafka()
    kafka = KafkaNode(tmp_path_factory.mktemp("turns"))
    config = NodeConfig(read_properties(kafka.properties))
    found: list[Any] = []

    def first(cluster: Cluster, _node: object) -> None:
        create_topic(cluster, TOPIC, 1)
        with Client(kafka.bootstrap) as client:
            key = client.key()
            client.call(initialize(state_epoch=3, key=key))
            client.call(read(1, key))
            client.call(write((0, 9, 2, 1), (10, 12, 0, 1), state_epoch=3, leader_epoch=1, key=key, count=10))

    def last(_cluster: Cluster, _node: object) -> None:
        with Client(kafka.bootstrap) as client:
            key = client.key()
            found.append(state_of(client.call(read(2, key))))
            part = client.call(summarize(key))
            found.append((part.leader_epoch, part.delivery_complete_count))

    with_node(config, first)
    kafka.start()
    try:
        with Client(kafka.bootstrap) as client:
            key = client.key()
            found.append(state_of(client.call(read(1, key))))
            client.call(read(2, key))
            client.call(write((12, 12, 4, 2), state_epoch=3, leader_epoch=2, start_offset=5, key=key, count=6))
        kafka.stop()
    finally:
        kafka.kill()
    with_node(config, last)
    return found


def test_kafka_continues_our_states_and_we_continue_its(turns: list[Any]) -> None:
    assert turns == [
        (3, 0, [(0, 9, 2, 1), (10, 12, 0, 1)]),
        (3, 5, [(5, 9, 2, 1), (10, 11, 0, 1), (12, 12, 4, 2)]),
        (2, 6)]
