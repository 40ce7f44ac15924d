"""Quotas of clients, of addresses and of topic changes, as clients experience them. What they count is tested in
`native/request/test_client_quotas`, `broker/test_client_quotas` and `controller/test_mutation_quotas`."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.client.connection import Connection
from kraft.client.fetcher import Limits, fetch_request
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.metadata_response import MetadataResponse
from tests.integration.admin import create
from tests.integration.clients import (
    SECONDS,
    Record,
    librdkafka_consumer,
    librdkafka_produce,
    take,
)
from tests.integration.hostile import request
from tests.integration.process import NodeProcess

# Windows as short as possible: a client waits for about one of them.
SETTINGS = {"quota.window.num": "2", "quota.window.size.seconds": "1", "controller.quota.window.num": "1"}
MIB = 1 << 20


@pytest.fixture(scope="module")
def limiting_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path_factory.mktemp("limiting") / "data", SETTINGS)
    node.start()
    yield node
    node.stop()
    assert node.alarms() == []


@pytest.fixture
def limit(limiting_process: NodeProcess) -> Iterator[Callable[[str, str, str, float], None]]:
    """Set a limit of an entity by type and name; all limits are removed after the test."""
    made: list[tuple[str, str, str]] = []

    def alter(kind: str, name: str, key: str, value: float | None) -> None:
        change = AlterClientQuotasRequest(entries=[EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name)],
            ops=[OpData(key=key, value=value or 0.0, remove=value is None)])])
        with Connection("127.0.0.1", limiting_process.port, timeout=SECONDS) as connection:
            answer = connection.send(change, AlterClientQuotasResponse)
        assert answer.entries[0].error_code == ErrorCode.NONE

    def limit(kind: str, name: str, key: str, value: float) -> None:
        alter(kind, name, key, value)
        made.append((kind, name, key))

    yield limit
    for kind, name, key in made:
        alter(kind, name, key, None)


Limit = Callable[[str, str, str, float], None]


def test_a_throttled_consumer_gets_all_in_the_end(limiting_process: NodeProcess, limit: Limit, name: str) -> None:
    """librdkafka requests again what an empty answer did not bring."""
    node = limiting_process
    create(node, name)
    sent = [Record(None, bytes(9_000)) for _ in range(60)]
    librdkafka_produce(node, name, sent, batch_num_messages=1)
    limit("client-id", "reader", "consumer_byte_rate", 400_000)
    consumer = librdkafka_consumer(node, client_id="reader")
    consumer.assign([TopicPartition(name, 0, 0)])
    assert [each.offset() for each in take(consumer, len(sent), 30)] == list(range(len(sent)))
    consumer.close()


def test_the_answer_to_a_throttled_fetch(limiting_process: NodeProcess, limit: Limit, name: str) -> None:
    node = limiting_process
    create(node, name)
    librdkafka_produce(node, name, [Record(None, bytes(50_000)) for _ in range(6)], batch_num_messages=1)
    limit("client-id", "greedy", "consumer_byte_rate", 60_000)
    fetch = fetch_request(name, 0, 0, Limits(MIB, MIB, wait_ms=0))
    with Connection("127.0.0.1", node.port, timeout=SECONDS, client_id="greedy") as connection:
        first = connection.send(fetch, FetchResponse, version=11)
        assert 50_000 < len(first.responses[0].partitions[0].records) < 110_000, "what may come at once"
        answers = [connection.send(fetch, FetchResponse, version=11) for _ in range(3)]
    throttled = [each for each in answers if each.throttle_time_ms]
    assert throttled and all(each.responses == [] for each in throttled)


def test_the_time_of_a_clients_requests(limiting_process: NodeProcess, limit: Limit, name: str) -> None:
    """A client that requests metadata all the time receives a throttle time, and is made to wait."""
    node = limiting_process
    limit("client-id", "curious", "request_percentage", 0.001)
    with Connection("127.0.0.1", node.port, timeout=SECONDS, client_id="curious") as connection:
        answers = [connection.send(MetadataRequest(topics=None), MetadataResponse, version=9) for _ in range(2)]
        assert any(0 < each.throttle_time_ms <= 1000 for each in answers)
    with Connection("127.0.0.1", node.port, timeout=SECONDS, client_id="other") as connection:
        assert connection.send(MetadataRequest(topics=None), MetadataResponse, version=9).throttle_time_ms == 0


def test_changes_to_topics(limiting_process: NodeProcess, limit: Limit, name: str) -> None:
    """A client that knows the error receives it. An older request of librdkafka is carried out, and its client is
    slowed down."""
    node = limiting_process
    limit("client-id", "maker", "controller_mutation_rate", 4.0)
    client = AdminClient({"bootstrap.servers": node.address, "log_level": 2, "client.id": "maker"})
    for number in range(2):
        topic = f"{name}-{number}"
        client.create_topics([NewTopic(topic, 6, 1)])[topic].result(SECONDS)
    limit("client-id", "asker", "controller_mutation_rate", 0.1)
    topics = [CreatableTopic(name=f"{name}-new-{number}", num_partitions=1, replication_factor=1)
              for number in range(2)]
    with Connection("127.0.0.1", node.port, timeout=SECONDS, client_id="asker") as connection:
        answer = connection.send(CreateTopicsRequest(topics=topics, timeout_ms=1000), CreateTopicsResponse, version=7)
    assert [each.error_code for each in answer.topics] == [ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert answer.throttle_time_ms > 0


def test_an_address_that_connects_too_often(limiting_process: NodeProcess, limit: Limit) -> None:
    """Its connections are closed unread, after a while; others are served."""
    limit("ip", "127.0.0.3", "connection_creation_rate", 1.0)

    def is_answered(host: str) -> bool:
        with socket.create_connection(("127.0.0.1", limiting_process.port), SECONDS, (host, 0)) as peer:
            try:
                peer.sendall(request("ApiVersions", 0, b""))
                return peer.recv(1) != b""
            except ConnectionError:
                return False

    answered = [is_answered("127.0.0.3")]
    with ThreadPoolExecutor(20) as crowd:
        answered += crowd.map(is_answered, ["127.0.0.3"] * 20)
    assert answered[0] and not all(answered)
    assert is_answered("127.0.0.4")
