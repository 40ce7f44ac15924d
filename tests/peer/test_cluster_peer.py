"""Brokers of both kinds in one cluster, under controllers of either: they replicate from each other, lead by turns, and
what was acknowledged or committed is known to all, the logs the same byte for byte."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.integration.admin import wait_until
from tests.integration.clients import librdkafka_consumer
from tests.integration.load import Producer
from tests.peer.cluster import MixedCluster, mixed_cluster
from tests.peer.kafka import require_kafka
from tests.peer.quorum import JAVA, OURS, SECONDS

pytestmark = pytest.mark.peer

TOPIC = "mixed"
PARTITIONS = 3
GROUPS = [f"group-{number}" for number in range(6)]


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process."""


@pytest.fixture(autouse=True)
def kafka() -> None:
    require_kafka()


def commit(cluster: MixedCluster, offset: int) -> None:
    """Each group commits this offset; its coordinator is whoever leads its partition of `__consumer_offsets` now."""
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
    """What the groups' coordinators know."""
    found = set()
    for group in GROUPS:
        consumer = librdkafka_consumer(cluster, group)
        found |= {each.offset for each in consumer.committed([TopicPartition(TOPIC, 0)], SECONDS)}
        consumer.close()
    return found


def lose_a_leader(cluster: MixedCluster, victim: int, producers: list[Producer]) -> None:
    """Kills a broker that leads; when others lead, acknowledge and coordinate, it comes back and catches up."""
    assert cluster.replicas(TOPIC, victim - 11).leader == victim
    offset = 10 * victim
    commit(cluster, offset)
    cluster.brokers[victim].kill()
    wait_until(lambda: cluster.replicas(TOPIC, victim - 11).leader not in (victim, -1), "another one leads", SECONDS)
    await_acknowledged(producers)
    assert committed(cluster) == {offset}
    cluster.start_brokers([victim])
    cluster.await_in_sync(TOPIC, PARTITIONS)


def await_acknowledged(producers: list[Producer], more: int = 50) -> None:
    """Waits until each producer heard of records that it sent after now."""
    sent = [len(each.offsets) + more for each in producers]
    wait_until(lambda: all(len(each.offsets) > count and each.offsets[count] >= 0
                           for each, count in zip(producers, sent, strict=True)), "records are acknowledged", SECONDS)


@pytest.mark.parametrize(("controller", "brokers"), [(OURS, "ojo"), (JAVA, "ojj")])
def test_brokers_of_both_kinds_replicate_each_other(controller: str, brokers: str, tmp_path: Path) -> None:
    with mixed_cluster(tmp_path, controller, brokers) as cluster:
        cluster.start()
        cluster.create(TOPIC, [[11, 12, 13], [12, 13, 11], [13, 11, 12]], min_insync_replicas="2")
        producers = [Producer(cluster, TOPIC, index, idempotent=True) for index in range(PARTITIONS)]
        for each in producers:
            each.start()
        try:
            await_acknowledged(producers)
            cluster.await_in_sync(TOPIC, PARTITIONS)
            lose_a_leader(cluster, 12, producers)       # Kafka's
            lose_a_leader(cluster, 11, producers)       # ours
        finally:
            for each in producers:
                each.end()
                each.join()
        assert [failure for each in producers for failure in each.failures] == []
        assert [each.unfinished for each in producers] == [0] * PARTITIONS
        for each in producers:
            assert list(each.offsets) == list(range(len(each.offsets)))     # none lost, none twice, none out of order
            cluster.check_logs(TOPIC, each.partition)
        for index in range(PARTITIONS):
            cluster.check_logs("__consumer_offsets", index)
        for broker in cluster.brokers.values():
            broker.stop()
            assert broker.alarms() == []
