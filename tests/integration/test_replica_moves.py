"""Replicas that move from one log directory of a broker to another (KIP-113), on real processes with a real client."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource, NewTopic

from kraft.client import Cluster
from kraft.client.log_dirs import PlacedReplica, move_replicas, placed_replicas
from kraft.protocol.error_codes import ErrorCode
from tests.integration.admin import admin, alter, create, end_offset, start_offset, wait_until
from tests.integration.clients import Record, librdkafka_produce, librdkafka_producer, librdkafka_read
from tests.integration.process import NodeProcess
from tests.integration.quorum import SECONDS, MakeQuorum, Quorum
from tests.integration.test_records import START_MS, numbered, plain
from tests.integration.test_replication import segments

TOPIC = "moved"
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
BULKY = [Record(b"%d" % number, bytes(20_000), (), START_MS) for number in range(300)]
"""Some megabytes: one step copies one megabyte."""


@pytest.fixture
def quorum(new_quorum: MakeQuorum) -> Quorum:
    """One node with two directories."""
    made = new_quorum(1, is_broker=True, directories=2)
    made.start()
    return made


def replicas(node: NodeProcess, node_id: int = 1) -> list[PlacedReplica]:
    with Cluster(node.address) as cluster:
        return [each for each in placed_replicas(cluster, node_id) if each.partition[0] == TOPIC]


def homes(node: NodeProcess, node_id: int = 1) -> dict[int, str]:
    """Return the directory of each partition of the topic, without those that are being moved."""
    found = replicas(node, node_id)
    moving = [each.partition for each in found if each.is_future]
    return {each.partition[1]: each.path for each in found if each.partition not in moving}


def move(node: NodeProcess, path: str, *indexes: int, node_id: int = 1, topic: str = TOPIC) -> list[int]:
    with Cluster(node.address) as cluster:
        return list(move_replicas(cluster, node_id, path, [(topic, index) for index in indexes]).values())


def throttle(node: NodeProcess, bytes_per_second: int) -> None:
    alter(node, "1", THROTTLE, str(bytes_per_second), kind=ConfigResource.Type.BROKER)


def other_than(node: NodeProcess, path: str) -> str:
    first, second = map(str, node.directories)
    return second if path == first else first


def move_to_other_directory(node: NodeProcess, node_id: int = 1) -> str:
    """Begin a move of partition 0 to the other directory, and return that directory."""
    target = other_than(node, homes(node, node_id)[0])
    assert move(node, target, 0, node_id=node_id) == [0]
    return target


def await_move(node: NodeProcess, target: str, node_id: int = 1) -> None:
    wait_until(lambda: homes(node, node_id).get(0) == target, "the replica lies in the other directory")
    left = [path for directory in node.directories for path in directory.glob(f"{TOPIC}-0*")
            if not path.name.endswith("-delete")]
    assert left == [Path(target) / f"{TOPIC}-0"]


@contextmanager
def under_load(node: NodeProcess) -> Iterator[list[int]]:
    """Run an idempotent producer until the end of the block; yield the offsets that were acknowledged, in order."""
    producer = librdkafka_producer(node, enable_idempotence=True, linger_ms=1)
    offsets: list[int] = []
    problems: list[object] = []
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            producer.produce(TOPIC, b"x" * 500, partition=0, on_delivery=lambda error, message: (
                problems.append(error) if error else offsets.append(message.offset())))
            producer.poll(0.001)
        producer.flush()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        wait_until(lambda: len(offsets) > 20, "records are acknowledged")
        yield offsets
    finally:
        done.set()
        thread.join()
    assert problems == []


def test_a_replica_moves_while_it_is_written(quorum: Quorum) -> None:
    node = quorum.nodes[1]
    create(node, TOPIC, config={"segment.bytes": str(1 << 20)})
    librdkafka_produce(node, TOPIC, BULKY)
    with under_load(node) as offsets:
        for _ in range(3):
            target = move_to_other_directory(node)
            await_move(node, target)
            before = len(offsets)
            wait_until(lambda count=before: len(offsets) > count + 20, "it is written on")  # type: ignore[misc]
    assert offsets == list(range(300, 300 + len(offsets)))
    assert end_offset(node, TOPIC) == 300 + len(offsets)
    assert librdkafka_read(node, TOPIC, 300) == numbered(BULKY)
    node.kill()
    node.start()
    assert homes(node)[0] == target
    assert end_offset(node, TOPIC) == 300 + len(offsets)
    assert librdkafka_read(node, TOPIC, 300) == numbered(BULKY)


def test_a_move_that_a_kill_interrupts_continues(quorum: Quorum) -> None:
    node = quorum.nodes[1]
    create(node, TOPIC)
    librdkafka_produce(node, TOPIC, BULKY)
    throttle(node, 1)
    target = move_to_other_directory(node)

    def future() -> PlacedReplica | None:
        return next((each for each in replicas(node) if each.is_future and 0 < each.offset_lag < 300), None)

    wait_until(lambda: future() is not None, "a part of it is copied")
    copied = future()
    assert copied is not None
    assert (copied.path, homes(node)) == (target, {})
    node.kill()
    node.start()
    wait_until(lambda: future() is not None, "the move continues")
    resumed = future()
    assert resumed is not None and resumed.path == target
    assert 0 < copied.size_bytes <= resumed.size_bytes
    librdkafka_produce(node, TOPIC, plain(5, 1))
    throttle(node, 1 << 40)
    await_move(node, target)
    assert librdkafka_read(node, TOPIC, 305) == numbered([*BULKY, *plain(5, 1)])


def test_a_kill_between_the_renames_loses_nothing(quorum: Quorum) -> None:
    node = quorum.nodes[1]
    create(node, TOPIC)
    librdkafka_produce(node, TOPIC, plain(100, 1))
    target = move_to_other_directory(node)
    await_move(node, target)
    node.kill()
    moved = Path(target) / f"{TOPIC}-0"
    moved.rename(moved.with_name(f"{moved.name}.{'0' * 32}-future"))
    node.start()
    assert homes(node) == {0: target}
    assert librdkafka_read(node, TOPIC, 100) == numbered(plain(100, 1))


def test_refused_moves_and_cancelled_moves(quorum: Quorum) -> None:
    node = quorum.nodes[1]
    first, second = map(str, node.directories)
    assert move(node, "/nowhere", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
    for target in (second, first):
        assert move(node, target, 0, 1) == 2 * [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    create(node, TOPIC, partitions=2)
    wait_until(lambda: homes(node) == {0: first, 1: first}, "they are made where they were wanted")
    librdkafka_produce(node, TOPIC, BULKY)
    throttle(node, 1)
    assert move(node, second, 0) == [0]
    wait_until(lambda: 0 not in homes(node), "it moves")
    assert move(node, second, 0) == [0]
    assert move(node, first, 0) == [0]
    assert homes(node) == {0: first, 1: first}
    assert not any(path.name.endswith("-future") for path in node.directories[1].iterdir())
    assert librdkafka_read(node, TOPIC, 300) == numbered(BULKY)
    assert move(node, second, 0) == [0]
    wait_until(lambda: 0 not in homes(node), "it moves again")
    admin(node).delete_topics([TOPIC])[TOPIC].result(SECONDS)
    wait_until(lambda: not any(path.name.startswith(TOPIC) for directory in node.directories
                               for path in directory.iterdir()), "nothing is left of it")


def test_leader_and_followers_move(new_quorum: MakeQuorum) -> None:
    made = new_quorum(3, is_broker=True, directories=2)
    made.start()
    node = made.nodes[1]
    admin(node).create_topics([NewTopic(TOPIC, 1, 3, config={"min.insync.replicas": "2"})])[TOPIC].result(SECONDS)
    with under_load(node) as offsets:
        targets = {node_id: move_to_other_directory(each, node_id) for node_id, each in made.nodes.items()}
        for node_id, each in made.nodes.items():
            await_move(each, targets[node_id], node_id)
        before = len(offsets)
        wait_until(lambda: len(offsets) > before + 20, "it is written on")
    assert offsets == list(range(len(offsets)))
    assert (start_offset(node, TOPIC), end_offset(node, TOPIC)) == (0, len(offsets))

    def logs() -> list[bytes]:
        return [segments(Path(targets[node_id]), TOPIC) for node_id in made.nodes]

    wait_until(lambda: len(set(logs())) == 1, "the logs are the same")
    assert len(logs()[0]) > 500 * len(offsets)
