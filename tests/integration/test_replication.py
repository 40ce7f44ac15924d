"""Partitions with several replicas, on three nodes of both roles, with a real client."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource, NewTopic

from kraft.client import Cluster
from kraft.client.producer import produce_request
from kraft.client.reassignments import reassign
from kraft.local.cluster import LocalCluster
from kraft.local.local_node import LocalNode
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.testing.pytest_plugin import NewCluster
from tests.integration.admin import DELETE, admin, alter, metadata, start_offset, wait_until
from tests.integration.clients import Record, librdkafka_consumer, librdkafka_produce, librdkafka_read, take
from tests.integration.process import DEFAULTS, alarms_in
from tests.integration.quorum import SECONDS
from tests.integration.test_records import numbered, plain
from tests.native.logs import batch

TOPIC = "copied"


def partition_of(node: LocalNode, topic: str = TOPIC, index: int = 0) -> tuple[int, list[int], list[int]]:
    """Return (leader, replicas, in-sync replicas) as a client receives them."""
    found = metadata(admin(node), topic).topics[topic].partitions[index]
    return found.leader, sorted(found.replicas), sorted(found.isrs)


def make(node: LocalNode, replicas: int = 3, partitions: int = 1, **config: str) -> None:
    admin(node).create_topics([NewTopic(TOPIC, partitions, replicas, config={
        name.replace("_", "."): value for name, value in config.items()})])[TOPIC].result(SECONDS)


def segments(directory: Path, topic: str = TOPIC, index: int = 0) -> bytes:
    """Return all bytes of a replica's log, without the space reserved past its end."""
    return b"".join(path.read_bytes().rstrip(b"\0") for path in sorted((directory / f"{topic}-{index}").glob("*.log")))


def same_logs(nodes: Sequence[LocalNode]) -> bool:
    first, *others = (segments(node.directory) for node in nodes)
    return first != b"" and all(other == first for other in others)


DAMAGE = "records are missing or damaged"
"""Lines that a node logs about a replica that it finds damaged at its start."""


@pytest.fixture
def stopped(new_kraft_cluster: NewCluster) -> Iterator[LocalCluster]:
    """Three stopped nodes of both roles. Except for `DAMAGE`, their logs must hold no alarm at the end."""
    made = new_kraft_cluster(brokers=3, controllers=0, settings={
        **DEFAULTS, "broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"})
    yield made
    assert [line for node in made.nodes.values() for line in alarms_in(node.log(1_000_000)) if DAMAGE not in line] == []


@pytest.fixture
def cluster(stopped: LocalCluster) -> LocalCluster:
    stopped.start()
    return stopped


def test_replicated_records_survive_the_leader(cluster: LocalCluster) -> None:
    nodes = cluster.nodes
    make(nodes[1], min_insync_replicas="2")
    first = plain(300, 1)
    librdkafka_produce(nodes[1], TOPIC, first, acks="all", idempotent=True)
    leader_id, replicas, isr = partition_of(nodes[1])
    assert (replicas, isr) == ([1, 2, 3], [1, 2, 3])
    nodes[leader_id].kill()
    left = [node for node in nodes.values() if node.running]
    wait_until(lambda: partition_of(left[0])[0] not in (leader_id, -1), "another replica leads")
    assert librdkafka_read(left[0], TOPIC, 300) == numbered(first)
    second = plain(200, 2)
    librdkafka_produce(left[1], TOPIC, second, acks="all", idempotent=True)
    nodes[leader_id].start()
    wait_until(lambda: partition_of(left[0])[2] == [1, 2, 3], "the one that came back is in sync")
    assert librdkafka_read(nodes[leader_id], TOPIC, 500) == numbered([*first, *second])
    wait_until(lambda: same_logs(list(nodes.values())), "the logs are the same")


def test_too_few_replicas_refuse_acks_all(cluster: LocalCluster) -> None:
    nodes = cluster.nodes
    make(nodes[1], min_insync_replicas="3")
    librdkafka_produce(nodes[1], TOPIC, plain(10, 1), acks="all")
    leader_id, _, _ = partition_of(nodes[1])
    victim = next(node for node_id, node in nodes.items() if node_id != leader_id)
    victim.kill()
    left = [node for node in nodes.values() if node.running]
    wait_until(lambda: len(partition_of(left[0])[2]) == 2, "the dead replica is out")
    with pytest.raises((KafkaException, AssertionError), match=r"NOT_ENOUGH_REPLICAS|Not enough"):
        librdkafka_produce(left[0], TOPIC, plain(1, 2), acks="all", message_timeout_ms=1500, retries=0)
    victim.start()
    wait_until(lambda: len(partition_of(left[0])[2]) == 3, "it is back")
    librdkafka_produce(left[0], TOPIC, plain(10, 3), acks="all")


def test_a_client_of_a_broker_without_a_replica_is_redirected(cluster: LocalCluster) -> None:
    """The error is not that of an unknown topic: a client would abandon the topic, or report the error to its user."""
    nodes = cluster.nodes
    make(nodes[1], replicas=1)
    leader_id, _, _ = partition_of(nodes[1])
    other_broker = next(node for node_id, node in nodes.items() if node_id != leader_id)
    errors, leaders = {}, {}
    with Cluster(other_broker.address) as client:
        wait_until(lambda: client.topic(TOPIC).partitions[0].leader_id == leader_id, "it knows the topic")
        for index in (0, 7):
            request = produce_request({(TOPIC, index): batch()}, 1, 1000)
            answer = client.any().send(request, ProduceResponse, version=10)
            part = answer.responses[0].partition_responses[0]
            errors[index] = part.error_code
            leaders[index] = part.current_leader.leader_id, [each.port for each in answer.node_endpoints]
    assert leaders == {0: (leader_id, [nodes[leader_id].port]), 7: (-1, [])}
    assert errors == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def isr_reported_by(node: LocalNode) -> list[int]:
    """Return the in-sync replicas as this node reports them: librdkafka may query the node that is paused."""
    with Cluster(node.address) as cluster:
        return sorted(cluster.topic(TOPIC).partitions[0].isr_nodes)


@pytest.mark.kraft_cluster(brokers=3, controllers=1, settings={
    "broker.session.timeout.ms": "60000", "replica.lag.time.max.ms": "500"})
def test_a_replica_that_lives_and_lags_falls_out_of_sync(kraft_cluster: LocalCluster) -> None:
    """The replica leaves the in-sync replicas long before its session is over. It is not fenced, and is in sync again
    soon after it resumes."""
    nodes = kraft_cluster.brokers
    make(nodes[1], min_insync_replicas="2")
    wait_until(lambda: all(metadata(admin(node), TOPIC).topics[TOPIC].partitions
                           for node in nodes.values()), "all know the topic")
    leader_id, _, _ = partition_of(nodes[1])
    slow = next(node for node_id, node in nodes.items() if node_id != leader_id)
    sent = plain(10, 1)
    slow.pause()
    librdkafka_produce(nodes[leader_id], TOPIC, sent, acks="all")      # acknowledged once it is out of sync
    isr = sorted({1, 2, 3} - {slow.node_id})
    wait_until(lambda: isr_reported_by(nodes[leader_id]) == isr, "it is out of sync")
    assert kraft_cluster.seen_by(leader_id) == {1, 2, 3}
    slow.resume()
    wait_until(lambda: isr_reported_by(nodes[leader_id]) == [1, 2, 3], "it is in sync again")
    wait_until(lambda: same_logs(list(nodes.values())), "the logs are the same")
    assert all("is fenced" not in node.log() for node in kraft_cluster.controllers.values())


def test_a_replica_that_was_offline_catches_up_after_the_log_was_truncated(cluster: LocalCluster) -> None:
    nodes = cluster.nodes
    make(nodes[1], retention_bytes="100000", segment_bytes="1048576", file_delete_delay_ms="0")
    librdkafka_produce(nodes[1], TOPIC, plain(50, 1), acks="all")
    leader_id, _, _ = partition_of(nodes[1])
    victim = next(node for node_id, node in nodes.items() if node_id != leader_id)
    victim.kill()
    left = [node for node in nodes.values() if node.running]
    wait_until(lambda: len(partition_of(left[0])[2]) == 2, "the dead replica is out")
    librdkafka_produce(left[0], TOPIC, plain(400, 2), acks="all")
    end = admin(left[0]).delete_records([TopicPartition(TOPIC, 0, 300)], request_timeout=SECONDS)
    next(iter(end.values())).result(SECONDS)
    victim.start()
    wait_until(lambda: len(partition_of(left[0])[2]) == 3, "it is back")
    librdkafka_produce(left[0], TOPIC, plain(10, 3), acks="all")


def test_a_replica_with_damage_is_not_in_sync_before_it_is_whole_again(cluster: LocalCluster) -> None:
    nodes = cluster.nodes
    make(nodes[1])
    sent = [plain(100, part) for part in range(3)]
    for part in sent:
        librdkafka_produce(nodes[1], TOPIC, part, acks="all")
    leader_id, _, _ = partition_of(nodes[1])
    victim = next(node for node_id, node in nodes.items() if node_id != leader_id)
    victim.kill()
    wait_until(lambda: len(partition_of(nodes[leader_id])[2]) == 2, "the dead replica is out")
    path, = (victim.directory / f"{TOPIC}-0").glob("*.log")
    sound = path.read_bytes().rstrip(b"\0")
    with path.open("r+b") as file:
        file.seek(len(sound) // 2)
        file.write(bytes([sound[len(sound) // 2] ^ 1]))
    victim.start()
    wait_until(lambda: partition_of(nodes[leader_id])[2] == [1, 2, 3], "it is in sync")
    assert segments(victim.directory) == sound
    assert DAMAGE in victim.log(1_000_000), "the damage that it started with is reported"


def test_deleted_records_do_not_come_back_with_another_leader(cluster: LocalCluster) -> None:
    nodes = cluster.nodes
    make(nodes[1])
    librdkafka_produce(nodes[1], TOPIC, plain(100, 1), acks="all")
    leader_id, _, _ = partition_of(nodes[1])
    where = TopicPartition(TOPIC, 0, 40)
    assert admin(nodes[1]).delete_records([where])[where].result(SECONDS).low_watermark == 40
    nodes[leader_id].kill()
    left = [node for node in nodes.values() if node.running]
    wait_until(lambda: partition_of(left[0])[0] not in (leader_id, -1), "another replica leads")
    assert start_offset(left[0], TOPIC) == 40


def test_a_consumer_reads_from_the_replica_in_its_rack(stopped: LocalCluster) -> None:
    nodes = stopped.nodes
    for node in nodes.values():
        node.settings |= {"broker.rack": f"rack-{node.node_id}",
                          "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    stopped.start()
    make(nodes[1])
    librdkafka_produce(nodes[1], TOPIC, plain(100, 1), acks="all")
    leader_id, _, _ = partition_of(nodes[1])
    near = next(node_id for node_id in nodes if node_id != leader_id)
    fetches: dict[int, int] = {}

    def count(text: str) -> None:
        fetches.update({broker["nodeid"]: broker["req"].get("Fetch", 0)
                        for broker in json.loads(text)["brokers"].values()})

    consumer = librdkafka_consumer(nodes[leader_id], client_rack=f"rack-{near}", statistics_interval_ms=20,
                                   stats_cb=count)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    assert [each.offset() for each in take(consumer, 100)] == list(range(100))
    librdkafka_produce(nodes[1], TOPIC, plain(100, 2), acks="all")
    assert [each.offset() for each in take(consumer, 100)] == list(range(100, 200))
    wait_until(lambda: consumer.poll(0.05) is None and fetches.get(near, 0) > 1, "the replica in the rack is used")
    assert fetches[leader_id] == 1, "the leader named the replica once"
    consumer.close()


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_throttled_replica_comes_slowly_and_those_in_sync_do_not(cluster: LocalCluster, role: str) -> None:
    nodes = cluster.nodes
    make(nodes[1], replicas=2)
    values = [Record(None, bytes([number]) * 100_000) for number in range(40)]
    librdkafka_produce(nodes[1], TOPIC, values, acks="all")
    _, replicas, _ = partition_of(nodes[1])
    new = ({1, 2, 3} - set(replicas)).pop()
    alter(nodes[1], TOPIC, f"{role}.replication.throttled.replicas", "*")
    for node_id in nodes:
        alter(nodes[1], str(node_id), f"{role}.replication.throttled.rate", "1", kind=ConfigResource.Type.BROKER)
    with Cluster(nodes[1].address) as client:
        assert reassign(client, {(TOPIC, 0): [*replicas, new]}) == {}
    wait_until(lambda: len(segments(nodes[new].directory)) > 0, "the new replica has its first records")
    for number in range(3):
        librdkafka_produce(nodes[1], TOPIC, plain(10, number), acks="all")
    assert len(segments(nodes[new].directory)) < 2_000_000
    assert new not in partition_of(nodes[1])[2]
    for node_id in nodes:
        alter(nodes[1], str(node_id), f"{role}.replication.throttled.rate", None, DELETE, ConfigResource.Type.BROKER)
    wait_until(lambda: new in partition_of(nodes[1])[2], "without the throttle it is in sync", SECONDS)
