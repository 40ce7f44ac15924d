"""Brokers of both kinds in one cluster, under controllers of either.

They replicate from each other and lead alternately. All know what was acknowledged or committed, and their logs are
equal byte for byte.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kraft.client import Cluster
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from tests.integration.admin import wait_until
from tests.integration.clients import Reachable, Record, librdkafka_consumer, librdkafka_produce
from tests.integration.load import Producer
from tests.peer.cluster import MixedCluster, mixed_cluster
from tests.peer.kafka import require_kafka
from tests.peer.quorum import JAVA, OURS, SECONDS

pytestmark = pytest.mark.peer

TOPIC = "mixed"
CUT = "cut"
TRIMMED = "trimmed"
MOVED = "moved"
PARTITIONS = 3
GROUPS = [f"group-{number}" for number in range(6)]


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process."""


@pytest.fixture(autouse=True)
def kafka() -> None:
    require_kafka()


def commit(cluster: MixedCluster, offset: int) -> None:
    """Commit this offset in each group. Its coordinator is the current leader of its `__consumer_offsets` partition."""
    for group in GROUPS:
        consumer = librdkafka_consumer(cluster, group)
        wait_until(lambda consumer=consumer: _commits(consumer, offset), f"{group} commits {offset}", SECONDS)
        consumer.close()


def _commits(consumer: Consumer, offset: int) -> bool:
    try:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    except KafkaException:
        return False
    return True


def committed(cluster: MixedCluster) -> set[int]:
    """Offsets that the groups' coordinators know."""
    found = set()
    for group in GROUPS:
        consumer = librdkafka_consumer(cluster, group)
        found |= {each.offset for each in consumer.committed([TopicPartition(TOPIC, 0)], SECONDS)}
        consumer.close()
    return found


def send(cluster: Reachable, topic: str, index: int, *values: bytes, acks: str = "all") -> None:
    """Send each value after the previous one is acknowledged."""
    for value in values:
        librdkafka_produce(cluster, topic, [Record(None, value)], partition=index, acks=acks)


def kill_with_a_tail(cluster: MixedCluster, victim: int) -> None:
    """Kill a leader that has a record which no other broker has: its followers are stopped.

    The first record that it acknowledges may answer fetches that the followers had sent; the second cannot.
    """
    index = victim - 11
    send(cluster, CUT, index, b"common")
    assert cluster.replicas(CUT, index).leader == victim
    others = [broker for node_id, broker in cluster.brokers.items() if node_id != victim]
    for each in others:
        os.kill(each.pid, signal.SIGSTOP)
    try:
        victims = cluster.brokers[victim]
        send(victims, CUT, index, b"perhaps", b"tail", acks="1")
        assert b"tail" in cluster.log_of(victim, CUT, index)
        victims.kill()
    finally:
        for each in others:
            os.kill(each.pid, signal.SIGCONT)


def lose_a_leader(cluster: MixedCluster, victim: int, producers: list[Producer]) -> None:
    """Kill a leader, and start it again once other brokers lead, acknowledge and coordinate.

    It drops the records that only it had, and catches up. Meanwhile the log start of another partition has moved beyond
    the end of the killed broker's replica.
    """
    index = victim - 11
    assert cluster.replicas(TOPIC, index).leader == victim
    commit(cluster, victim)
    kill_with_a_tail(cluster, victim)
    for topic in (TOPIC, CUT):
        wait_until(lambda topic=topic: cluster.replicas(topic, index).leader not in (victim, -1), "another one leads",
                   SECONDS)
    await_acknowledged(producers)
    assert committed(cluster) == {victim}
    send(cluster, CUT, index, b"later")
    wait_until(lambda: victim not in cluster.replicas(TRIMMED).isr, "the killed one is out", SECONDS)
    send(cluster, TRIMMED, 0, *(b"%d" % number for number in range(5)))
    ends = cluster.admin.delete_records([TopicPartition(TRIMMED, 0, cluster.end_of(TRIMMED))])
    assert [each.result(SECONDS).low_watermark for each in ends.values()] == [cluster.end_of(TRIMMED)]
    cluster.start_brokers([victim])
    for topic in (TOPIC, CUT, TRIMMED):
        cluster.await_in_sync(topic)
    send(cluster, TRIMMED, 0, b"on")
    cluster.check_logs(CUT, index)
    assert b"later" in cluster.log_of(victim, CUT, index)
    assert b"tail" not in cluster.log_of(victim, CUT, index)


def move(cluster: MixedCluster) -> None:
    """Swap two partitions, with everything in them, between a broker of ours and one of Kafka's."""
    kept = {}
    for index in range(2):
        send(cluster, MOVED, index, *(b"%d of %d" % (number, index) for number in range(20)))
        kept[index] = cluster.log_of(cluster.replicas(MOVED, index).leader, MOVED, index)
    wanted = {0: [11], 1: [12]}
    with Cluster(cluster.address, timeout=SECONDS) as client:
        answer = client.send(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=MOVED, partitions=[
            ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas in wanted.items()])]),
            AlterPartitionReassignmentsResponse)
    assert [part.error_code for part in answer.responses[0].partitions] == [ErrorCode.NONE, ErrorCode.NONE]
    for index, replicas in wanted.items():
        wait_until(lambda index=index, replicas=replicas: cluster.replicas(MOVED, index) == (
            replicas[0], replicas, replicas), f"{MOVED}-{index} is on {replicas}", SECONDS)
        assert cluster.log_of(replicas[0], MOVED, index) == kept[index]


def await_acknowledged(producers: list[Producer], more: int = 50) -> None:
    """Wait until each producer receives acknowledgements of records that it sent after this call."""
    sent = [len(each.offsets) + more for each in producers]
    wait_until(lambda: all(len(each.offsets) > count and each.offsets[count] >= 0
                           for each, count in zip(producers, sent, strict=True)), "records are acknowledged", SECONDS)


def check_producers(cluster: MixedCluster, producers: list[Producer]) -> None:
    """Check that everything was acknowledged, and nothing is lost, duplicate or out of order, on any replica."""
    assert [failure for each in producers for failure in each.failures] == []
    assert [each.unfinished for each in producers] == [0] * PARTITIONS
    for each in producers:
        assert list(each.offsets) == list(range(len(each.offsets)))
        cluster.check_logs(TOPIC, each.partition)


@contextmanager
def producing(cluster: MixedCluster) -> Iterator[list[Producer]]:
    """Run one producer for each partition."""
    producers = [Producer(cluster, TOPIC, index, idempotent=True) for index in range(PARTITIONS)]
    for each in producers:
        each.start()
    try:
        await_acknowledged(producers)
        yield producers
    finally:
        for each in producers:
            each.end()
            each.join()


@pytest.mark.parametrize(("controller", "brokers"), [(OURS, "ojo"), (JAVA, "ojj")])
def test_brokers_of_both_kinds_replicate_each_other(controller: str, brokers: str, tmp_path: Path) -> None:
    with mixed_cluster(tmp_path, controller, brokers) as cluster:
        cluster.start()
        cluster.create(TOPIC, [[11, 12, 13], [12, 13, 11], [13, 11, 12]], min_insync_replicas="2")
        cluster.create(CUT, [[11, 12, 13], [12, 13, 11]])
        cluster.create(TRIMMED, [[13, 11, 12]])
        cluster.create(MOVED, [[12], [11]])
        with producing(cluster) as producers:
            cluster.await_in_sync(TOPIC)
            lose_a_leader(cluster, 12, producers)       # Kafka's
            lose_a_leader(cluster, 11, producers)       # ours
            move(cluster)
        check_producers(cluster, producers)
        for index in range(PARTITIONS):
            cluster.check_logs("__consumer_offsets", index)
        for broker in cluster.brokers.values():
            broker.stop()
            assert broker.alarms() == []


def test_brokers_of_kafka_outlive_controllers_of_ours(tmp_path: Path) -> None:
    """The active controller dies together with a broker of Kafka's that leads.

    Only the next controller can elect other leaders, and the brokers that it did not know find it.
    """
    with mixed_cluster(tmp_path, 3 * OURS, "ojj") as cluster:
        cluster.start()
        cluster.create(TOPIC, [[11, 12, 13], [12, 13, 11], [13, 11, 12]], min_insync_replicas="2")
        with producing(cluster) as producers:
            for number, victim in enumerate((12, 13)):
                cluster.await_in_sync(TOPIC)
                active, index = cluster.quorum.leader, victim - 11
                active.kill()
                cluster.brokers[victim].kill()
                wait_until(lambda index=index, victim=victim: cluster.replicas(TOPIC, index).leader not in (victim, -1),
                           "another one leads", SECONDS)
                assert cluster.quorum.leader is not active
                await_acknowledged(producers)
                cluster.create(f"after-{number}", [[11, 25 - victim]])
                active.launch()
                cluster.start_brokers([victim])
            cluster.await_in_sync(TOPIC)
        check_producers(cluster, producers)
        for broker in cluster.brokers.values():
            broker.stop()
            assert broker.alarms() == []
