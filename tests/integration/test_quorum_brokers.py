"""Brokers of a cluster with several controllers: beside them, and in one process with each."""

import os
import signal
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from kraft.client import Cluster
from kraft.client.quorum import QuorumClient
from kraft.client.refusals import RefusedError
from tests.integration.admin import admin, create, metadata, wait_until
from tests.integration.clients import Record, librdkafka_produce, librdkafka_read
from tests.integration.hostile import Peer, request
from tests.integration.process import NodeProcess
from tests.integration.quorum import SECONDS, MakeQuorum
from tests.integration.test_records import numbered, plain


def topics(node: NodeProcess) -> set[str]:
    return set(metadata(admin(node)).topics) - {"__consumer_offsets"}


def test_broker_beside_three_controllers(new_quorum: MakeQuorum) -> None:
    quorum = new_quorum(3, session_ms=3000)
    broker = quorum.new_broker(10)
    for node in quorum.nodes.values():
        node.launch()
    broker.start()
    try:
        create(broker, "before")
        sent = plain(100, 1)
        librdkafka_produce(broker, "before", sent)
        with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
            admin(broker).create_topics([NewTopic("copied", 1, 2)])["copied"].result(SECONDS)
        with Cluster(broker.address, timeout=SECONDS) as cluster:
            client = QuorumClient(cluster)
            found = client.describe()
            with pytest.raises(RefusedError, match="DUPLICATE_VOTER"):
                client.add(1, found.voters[0].directory_id, [("CONTROLLER", "127.0.0.1", 1)])
        assert [each.node_id for each in found.voters] == [1, 2, 3]
        assert [each.node_id for each in found.observers] == [10]
        for kill in range(2):
            leader = quorum.leader
            leader.kill()
            create(broker, f"after-{kill}")
            leader.start()
        broker.kill()
        broker.start()
        assert topics(broker) == {"before", "after-0", "after-1"}
        assert librdkafka_read(broker, "before", 100) == numbered(sent)
        broker.restart()
        assert librdkafka_produce(broker, "after-1", [Record(b"k", b"v")], idempotent=True) == [0]
    finally:
        broker.stop()
    assert broker.alarms() == []


def test_three_nodes_of_both_roles(new_quorum: MakeQuorum) -> None:
    quorum = new_quorum(3, is_broker=True, session_ms=3000)
    quorum.start()
    for node_id, node in quorum.nodes.items():
        create(node, f"from-{node_id}")
    expected = {"from-1", "from-2", "from-3"}
    killed = quorum.leader
    killed.kill()
    survivors = [node for node in quorum.nodes.values() if node.running]
    for node in survivors:
        create(node, f"again-{node.node_id}")
        expected.add(f"again-{node.node_id}")
    killed.start()
    quorum.describe()
    for node in quorum.nodes.values():
        node.stop()
    quorum.start()
    for node in quorum.nodes.values():
        assert topics(node) == expected


def test_a_node_that_only_sends_its_last_answers_is_no_controller(new_quorum: MakeQuorum) -> None:
    """A node that stops receives nothing any more while its last answers leave: another node is the controller by
    then."""
    quorum = new_quorum(3, is_broker=True)
    quorum.start()
    leader = quorum.leader
    with Peer(leader) as reader:
        reader.socket.setblocking(False)
        with suppress(BlockingIOError):
            while True:                # until the node reads no more, because its answers are not read
                reader.socket.sendall(request("ApiVersions", 0, b""))
        os.kill(leader.pid, signal.SIGTERM)
        wait_until(lambda: quorum.describe().leader != leader.node_id, "another one controls")
        assert leader.running
        assert "this node is Resigned" in leader.log()
    leader.kill()
