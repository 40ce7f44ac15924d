"""Requests leave nothing for the garbage collector. A node seldom collects while requests wait, so clients could fill
its memory with cycles."""

import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.runtime.base.garbage import GarbageSchedule
from kraft.runtime.server_node import ServerNode
from tests.cycles import garbage_of, without_collections
from tests.fuzz_wire.frames import TOPICS, TURN_FRAMES, Corpus
from tests.runtime.nodes import config, with_node

SECONDS = 20
ROUNDS = 10
KEPT_PER_ROUND_MAX = 1
"""Objects of one kind. Those of tasks that run by the clock are fewer."""


def served(cluster: Cluster) -> dict[int, tuple[int, int]]:
    answer = cluster.send(
        ApiVersionsRequest(client_software_name="test", client_software_version="1"), ApiVersionsResponse)
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def sent(port: int, frame: bytes) -> None:
    """Send a frame, and read until the node closes the connection. One that waits for others is given up."""
    with socket.create_connection(("127.0.0.1", port), SECONDS) as opened:
        opened.settimeout(0.2)
        opened.sendall(frame)
        opened.shutdown(socket.SHUT_WR)
        try:
            while opened.recv(1 << 16):
                pass
        except (TimeoutError, ConnectionResetError):
            pass


def left_by(work: Callable[[], None]) -> Counter[str]:
    """Return the garbage of ten rounds after a first one, which loads and caches. The test has disabled all others."""
    work()
    garbage_of()
    for _ in range(ROUNDS):
        work()
    found = garbage_of("kraft", "kraft_native")
    return Counter({name: count for name, count in found.items() if count >= ROUNDS * KEPT_PER_ROUND_MAX})


@pytest.fixture(autouse=True)
def _no_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node itself collects no garbage."""
    monkeypatch.setattr(GarbageSchedule, "run", lambda _schedule, _now_ms, **_idle: None)


def test_no_request_leaves_a_cycle(tmp_path: Path) -> None:
    def work(cluster: Cluster, node: ServerNode) -> None:
        port = node.listeners["PLAINTEXT"].port
        for topic in TOPICS:
            create_topic(cluster, topic, partitions=3)
        corpus = Corpus(1, (UUID(int=1), UUID(int=2)), served(cluster))
        with without_collections():
            for turn, (key, version) in enumerate(corpus.served_targets):
                frames = [corpus.frame(turn * TURN_FRAMES + each).data for each in range(TURN_FRAMES)]
                found = left_by(lambda frames=frames: [sent(port, each) for each in frames])  # type: ignore[misc]
                assert not found, (key, version, found)

    with_node(config(tmp_path), work)


def test_no_transaction_leaves_a_cycle(tmp_path: Path) -> None:
    def work(cluster: Cluster, node: ServerNode) -> None:
        create_topic(cluster, "events", partitions=2)
        address = f"127.0.0.1:{node.listeners['PLAINTEXT'].port}"
        producer = Producer({"bootstrap.servers": address, "transactional.id": "writer", "linger.ms": 0})
        consumer = Consumer({"bootstrap.servers": address, "group.id": "readers", "auto.offset.reset": "earliest",
                             "enable.auto.commit": False, "isolation.level": "read_committed"})
        consumer.subscribe(["events"])
        while not consumer.assignment():  # the metadata of a consumer that still joins names no generation
            assert consumer.poll(0.1) is None
        producer.init_transactions(SECONDS)

        def transaction() -> None:
            producer.begin_transaction()
            for partition in range(2):
                producer.produce("events", b"value", partition=partition)
            producer.send_offsets_to_transaction([TopicPartition("events", 0, 1)], consumer.consumer_group_metadata(),
                                                 SECONDS)
            producer.commit_transaction(SECONDS)
            assert consumer.poll(SECONDS) is not None
            consumer.commit(asynchronous=False)

        with without_collections():
            found = left_by(transaction)
        consumer.close()
        assert not found

    with_node(config(tmp_path), work)
