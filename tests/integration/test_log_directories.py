"""Brokers with two log directories each, one of which fails while the other serves."""

import shutil

import pytest
from confluent_kafka.admin import NewTopic

from kraft.client import Cluster
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from tests.integration.admin import admin, metadata, wait_until
from tests.integration.clients import Record, librdkafka_produce, librdkafka_read
from tests.integration.process import NodeProcess
from tests.integration.quorum import SECONDS, MakeQuorum
from tests.integration.test_records import numbered, plain

TOPIC = "spread"
PARTITIONS = 4


def directories(node: NodeProcess) -> dict[str, tuple[int, list[int]]]:
    """Return the error of each directory and the topic's partitions in it, as DescribeLogDirs reports them."""
    with Cluster(node.address) as cluster:
        found = cluster.send(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse).results
    return {each.log_dir: (each.error_code, sorted(part.partition_index for topic in each.topics
                                                   for part in topic.partitions if topic.name == TOPIC))
            for each in found}


def partitions(node: NodeProcess) -> dict[int, tuple[int, list[int]]]:
    """Leader and in-sync replicas of each partition."""
    found = metadata(admin(node), TOPIC).topics[TOPIC].partitions
    return {index: (each.leader, sorted(each.isrs)) for index, each in found.items()}


def test_a_directory_fails_and_the_other_one_serves(new_quorum: MakeQuorum) -> None:
    made = new_quorum(3, is_broker=True, session_ms=5000, directories=2)
    made.start()
    nodes = made.nodes
    config = {"segment.bytes": str(1 << 20), "min.insync.replicas": "2"}
    admin(nodes[1]).create_topics([NewTopic(TOPIC, PARTITIONS, 3, config=config)])[TOPIC].result(SECONDS)
    for index in range(PARTITIONS):
        librdkafka_produce(nodes[1], TOPIC, plain(10, index), partition=index, acks="all")
    victim = nodes[2]
    first, second = map(str, victim.directories)
    before = directories(victim)
    assert {path: error for path, (error, _) in before.items()} == {first: 0, second: 0}
    lost, kept = before[second][1], before[first][1]
    assert sorted([*lost, *kept]) == list(range(PARTITIONS)) and lost and kept
    for path in victim.directories[1].glob(f"{TOPIC}-*"):
        shutil.rmtree(path)            # the next segment cannot be created
    value = Record(None, bytes(200_000))
    librdkafka_produce(nodes[1], TOPIC, [value] * 12, partition=lost[0], acks="all", message_timeout_ms=20_000)
    others = [node_id for node_id in nodes if node_id != 2]
    wait_until(lambda: all(partitions(nodes[1])[index] == (partitions(nodes[1])[index][0], others)
                           and partitions(nodes[1])[index][0] in others for index in lost),
               "replicas in the failed directory take no part")
    assert directories(victim) == {first: (ErrorCode.NONE, kept), second: (ErrorCode.KAFKA_STORAGE_ERROR, [])}
    for index in range(PARTITIONS):
        librdkafka_produce(nodes[1], TOPIC, plain(10, 10 + index), partition=index, acks="all")
    assert all(2 in partitions(nodes[1])[index][1] for index in kept)
    here = kept[0]
    assert librdkafka_read(nodes[1], TOPIC, 20, partition=here) == numbered([*plain(10, here), *plain(10, 10 + here)])
    assert any("has failed, its" in line for line in victim.alarms())
    victim.log_path.write_text("")     # the failure was expected


def test_a_node_starts_without_a_directory_that_cannot_be_opened(new_quorum: MakeQuorum) -> None:
    made = new_quorum(3, is_broker=True, session_ms=5000, directories=2)
    made.start()
    nodes, victim = made.nodes, made.nodes[2]
    admin(nodes[1]).create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(SECONDS)
    for index in range(PARTITIONS):
        librdkafka_produce(nodes[1], TOPIC, plain(10, index), partition=index, acks="all")
    first, second = map(str, victim.directories)
    before = directories(victim)
    lost, kept = before[second][1], before[first][1]
    assert lost and kept
    victim.stop()
    aside = victim.directories[1].rename(f"{second}-aside")
    victim.directories[1].write_text("no directory")
    victim.start()
    wait_until(lambda: all((2 in partitions(nodes[1])[index][1]) == (index in kept) for index in range(PARTITIONS)),
               "what lies in the other directory is in sync")
    assert directories(victim) == {first: (ErrorCode.NONE, kept), second: (ErrorCode.KAFKA_STORAGE_ERROR, [])}
    for index in range(PARTITIONS):
        librdkafka_produce(nodes[1], TOPIC, plain(10, 10 + index), partition=index, acks="all")
    assert not any(2 in partitions(nodes[1])[index][1] for index in lost)
    assert any("cannot be opened" in line for line in victim.alarms())
    victim.stop()
    victim.log_path.write_text("")     # it was expected to fail
    victim.directories[1].unlink()
    aside.rename(second)
    victim.start()
    wait_until(lambda: all(2 in partitions(nodes[1])[index][1] for index in range(PARTITIONS)), "everything is back")
    assert directories(victim) == before


def test_a_leader_that_cannot_make_its_log_gives_way(new_quorum: MakeQuorum) -> None:
    """The others serve the partition. The replica takes part again once its broker was started with room for it."""
    made = new_quorum(3, is_broker=True, session_ms=5000)
    made.start()
    nodes, victim = made.nodes, made.nodes[2]
    in_its_place = victim.directory / f"{TOPIC}-0"
    in_its_place.write_text("no directory")
    new = NewTopic(TOPIC, 2, replica_assignment=[[2, 1, 3], [1, 2, 3]])
    admin(nodes[1]).create_topics([new])[TOPIC].result(SECONDS)
    wait_until(lambda: partitions(nodes[1])[0][0] in (1, 3) and partitions(nodes[1])[0][1] == [1, 3], "another leads")
    for index in range(2):
        librdkafka_produce(nodes[1], TOPIC, plain(10, index), partition=index, acks="all")
    assert partitions(nodes[1])[1] == (1, [1, 2, 3])
    assert any("cannot be served" in line for line in victim.alarms())
    victim.stop()
    victim.log_path.write_text("")     # it was expected to fail
    in_its_place.unlink()
    victim.start()
    wait_until(lambda: partitions(nodes[1])[0][1] == [1, 2, 3], "it takes part again")
    assert librdkafka_read(victim, TOPIC, 10) == numbered(plain(10, 0))


def test_a_directory_that_is_added_is_formatted_first(new_quorum: MakeQuorum) -> None:
    """Like Kafka's: no node mistakes a disk that is not mounted for a new one."""
    made = new_quorum(1)
    made.start()
    broker = made.new_broker(7)
    broker.start()
    admin(broker).create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(SECONDS)
    broker.stop()
    added = broker.directory.with_name("added")
    broker.directories.append(added)
    with pytest.raises(AssertionError, match="added: it is not formatted"):
        broker.start()
    broker.log_path.write_text("")
    broker.format()
    try:
        broker.start()
        assert directories(broker) == {str(broker.directory): (0, [0]), str(added): (0, [])}
    finally:
        broker.kill()


def test_no_node_starts_without_the_metadata_log(new_quorum: MakeQuorum) -> None:
    made = new_quorum(1, is_broker=True, directories=2)
    node = made.nodes[1]
    aside = node.directory.rename(f"{node.directory}-aside")
    node.directory.write_text("no directory")
    with pytest.raises(AssertionError, match="no directory"):
        node.start()
    node.directory.unlink()
    aside.rename(node.directory)
    node.log_path.write_text("")
    node.start()
