"""Members join, leave and die. Afterwards each partition has one owner; nothing is lost, and nothing is seen twice
after it was committed."""

import asyncio
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from confluent_kafka import TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor as PythonRange
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as PythonRoundRobin

from tests.golden import REPOSITORY
from tests.integration.admin import admin, create, wait_until
from tests.integration.clients import START_MS, librdkafka_consumer, librdkafka_producer
from tests.integration.process import NodeProcess

PARTITIONS = 64
Place = tuple[int, int]
"""Partition and offset."""
FAST = {"session_timeout_ms": 1_000, "heartbeat_interval_ms": 100, "fetch_wait_max_ms": 50}


class Member:
    """A consumer in this process that commits what it saw before it requests more."""

    def __init__(self, node: NodeProcess, group: str, topic: str, **settings: Any) -> None:
        self.consumer = librdkafka_consumer(node, group, **{**FAST, **settings})
        self.seen: list[Place] = []
        self.revoked: list[int] = []
        self.consumer.subscribe([topic], on_revoke=self._revoked)

    def _revoked(self, _: object, partitions: Sequence[TopicPartition]) -> None:
        self.revoked += [each.partition for each in partitions]

    @property
    def partitions(self) -> list[int]:
        return sorted(each.partition for each in self.consumer.assignment())

    def turn(self) -> None:
        """See the new records and commit them; records that cannot be committed because of a rebalance do not count as
        seen."""
        messages = [each for each in self.consumer.consume(100, 0.02) if each.error() is None]
        if not messages:
            return
        try:
            self.consumer.commit(asynchronous=False)
        except confluent_kafka.KafkaException as refused:
            code = refused.args[0].code()
            assert code in {confluent_kafka.KafkaError.REBALANCE_IN_PROGRESS,
                            confluent_kafka.KafkaError.ILLEGAL_GENERATION,
                            confluent_kafka.KafkaError._NO_OFFSET}, refused
            return
        self.seen += [(each.partition() or 0, each.offset() or 0) for each in messages]


class Group:
    """Members that are polled one after the other."""

    def __init__(self, node: NodeProcess, name: str) -> None:
        self.node, self.name = node, name
        self.members: list[Member] = []

    def join(self, **settings: Any) -> Member:
        member = Member(self.node, self.name, self.name, **settings)
        self.members.append(member)
        return member

    def leave(self, member: Member) -> None:
        self.members.remove(member)
        member.consumer.close()

    def settle(self, *shares: Sequence[int], seconds: float = 30) -> None:
        """Poll the members in rotation until their numbers of partitions match one of `shares` and each partition has
        one owner."""
        wanted = [sorted(each) for each in shares]

        def settled() -> bool:
            for member in self.members:
                member.turn()
            owned = [member.partitions for member in self.members]
            found = sorted(map(len, owned))
            return found in wanted and len({p for each in owned for p in each}) == sum(found)

        try:
            wait_until(settled, f"shares of {shares}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; there are {[len(member.partitions) for member in self.members]}") from None


@pytest.fixture
def group(node: NodeProcess, name: str) -> Iterator[Group]:
    create(node, name, PARTITIONS)
    made = Group(node, name)
    yield made
    for member in made.members:
        member.consumer.close()


def send(node: NodeProcess, topic: str, each: int) -> None:
    """Send `each` more records to every partition."""
    producer = librdkafka_producer(node, linger_ms=5)
    for partition in range(PARTITIONS):
        for _ in range(each):
            producer.produce(topic, b"v", partition=partition)
    assert producer.flush(10) == 0


def test_join_leave_and_kill(node: NodeProcess, group: Group) -> None:
    left: list[Member] = []
    send(node, group.name, 5)
    group.join()
    group.settle([64])
    group.join()
    group.join()
    send(node, group.name, 5)
    group.settle([21, 21, 22])
    left.append(group.members[0])
    group.leave(group.members[0])
    send(node, group.name, 5)
    group.settle([32, 32])
    lines: list[str] = []
    settings = [f"{name.replace('_', '.')}={value}" for name, value in FAST.items()]
    command = [sys.executable, "-m", "tests.integration.member", node.address, group.name, group.name, *settings]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as doomed:
        assert doomed.stdout is not None
        reader = threading.Thread(target=lambda out: lines.extend(out), args=(doomed.stdout,))
        reader.start()
        group.settle([21, 21], [21, 22])  # of 64: the third share belongs to the other process, whichever it is
        send(node, group.name, 5)
        wait_until(lambda: any("committed" in line for line in lines), "the other process sees records")
        doomed.kill()
        reader.join()
    group.settle([32, 32])
    send(node, group.name, 5)
    everything = {(partition, offset) for partition in range(PARTITIONS) for offset in range(25)}
    elsewhere, unsure = parsed(lines)
    missing: set[Place] = set()

    def seen() -> Counter[Place]:
        for member in group.members:
            member.turn()
        return Counter([*elsewhere, *(each for member in [*left, *group.members] for each in member.seen)])

    def seen_by_all() -> bool:
        nonlocal missing
        missing = everything - set(seen()) - unsure
        return not missing

    try:
        wait_until(seen_by_all, "every record was seen")
    except AssertionError as error:
        raise AssertionError(f"{error}; not {sorted(missing)}") from None
    assert not [each for each, count in seen().items() if count > 1], "seen again after it was committed"


def parsed(lines: list[str]) -> tuple[list[Place], set[Place]]:
    """Return what the other process committed, and what it may or may not have committed when it was killed."""
    found: dict[str, list[Place]] = {"committing": [], "committed": []}
    for line in lines:
        if line.endswith("\n"):
            what, places = json.loads(line)
            found[what] += [(partition, offset) for partition, offset in places]
    return found["committed"], set(found["committing"]) - set(found["committed"])


def test_four_join_at_once(node: NodeProcess, group: Group) -> None:
    for _ in range(4):
        group.join()
    group.settle([16] * 4)
    described = admin(node).describe_consumer_groups([group.name])[group.name].result(10)
    assert described.state.name == "STABLE"
    assert sorted(len(each.assignment.topic_partitions) for each in described.members) == [16] * 4


def test_cooperative_rebalancing_takes_only_what_moves(node: NodeProcess, group: Group) -> None:
    first = group.join(partition_assignment_strategy="cooperative-sticky")
    group.settle([64])
    second = group.join(partition_assignment_strategy="cooperative-sticky")
    group.settle([32, 32])
    assert len(first.revoked) == 32
    kept = first.partitions
    group.join(partition_assignment_strategy="cooperative-sticky")
    group.settle([21, 21, 22])
    assert len(first.revoked) <= 32 + 11
    assert len(second.revoked) <= 11
    assert set(first.partitions) <= set(kept)
    send(node, group.name, 2)
    wait_until(lambda: (group.settle([21, 21, 22]), sum(len(each.seen) for each in group.members))[1] == 128,
               "every record was seen once")


def test_a_static_member_comes_back_without_a_rebalance(node: NodeProcess, group: Group) -> None:
    settings = {"session_timeout_ms": 6_000}
    stays = group.join(group_instance_id="a", **settings)
    goes = group.join(group_instance_id="b", **settings)
    group.settle([32, 32])
    had = goes.partitions
    stays.revoked.clear()
    group.leave(goes)
    for _ in range(5):
        stays.turn()
    assert len(stays.partitions) == 32
    again = group.join(group_instance_id="b", **settings)
    group.settle([32, 32])
    assert again.partitions == had
    assert stays.revoked == []


def test_a_second_static_member_of_a_name_fences_the_first(group: Group) -> None:
    first = group.join(group_instance_id="a", session_timeout_ms=6_000)
    group.settle([64])
    errors: list[int] = []
    second = Member(group.node, group.name, group.name, group_instance_id="a", session_timeout_ms=6_000)

    def fenced() -> bool:
        second.turn()
        message = first.consumer.poll(0.02)
        if message is not None and message.error() is not None:
            errors.append(message.error().code())
        return confluent_kafka.KafkaError._FATAL in errors or len(second.partitions) == 64

    wait_until(fenced, "the second takes over")
    second.consumer.close()


@pytest.mark.long  # closing such a consumer deadlocked once inside librdkafka 2.16, which blocks the whole suite
def test_a_consumer_that_does_not_poll_is_replaced(node: NodeProcess, group: Group) -> None:
    """Trap 11: the group rebalances once after max.poll.interval.ms and continues; a consumer that polls again
    joins."""
    lazy = Member(node, group.name, group.name, max_poll_interval_ms=1_500, session_timeout_ms=1_000)
    wait_until(lambda: lazy.turn() is None and len(lazy.partitions) == 64, "one member has all")
    group.join()
    group.settle([64])
    send(node, group.name, 1)
    wait_until(lambda: (group.settle([64]), len(group.members[0].seen))[1] == 64, "the other sees everything")
    group.members.append(lazy)
    group.settle([32, 32])


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_three_clients_in_one_group(node: NodeProcess, name: str, strategy: str) -> None:
    create(node, name, 12)
    seen: dict[str, set[tuple[int, int]]] = {"librdkafka": set(), "aiokafka": set(), "kafka-python": set()}
    done = threading.Event()

    def librdkafka_member() -> None:
        consumer = librdkafka_consumer(node, name, partition_assignment_strategy=strategy, **FAST)
        consumer.subscribe([name])
        while not done.is_set():
            for each in consumer.consume(10, 0.05):
                seen["librdkafka"].add((each.partition() or 0, each.offset() or 0))
        consumer.close()

    def kafka_python_member() -> None:
        assignor = {"range": PythonRange, "roundrobin": PythonRoundRobin}[strategy]
        consumer = kafka.KafkaConsumer(
            name, bootstrap_servers=node.address, group_id=name, auto_offset_reset="earliest",
            partition_assignment_strategy=[assignor], heartbeat_interval_ms=100, session_timeout_ms=3_000,
            max_poll_interval_ms=10_000)
        while not done.is_set():
            for messages in consumer.poll(50).values():
                seen["kafka-python"].update((each.partition, each.offset) for each in messages)
        consumer.close()

    async def aiokafka_member() -> None:
        assignor = {"range": AioRange, "roundrobin": AioRoundRobin}[strategy]
        consumer = aiokafka.AIOKafkaConsumer(
            name, bootstrap_servers=node.address, group_id=name, auto_offset_reset="earliest",
            partition_assignment_strategy=[assignor], heartbeat_interval_ms=100, session_timeout_ms=3_000)
        async with consumer:
            while not done.is_set():
                for messages in (await consumer.getmany(timeout_ms=50)).values():
                    seen["aiokafka"].update((each.partition, each.offset) for each in messages)

    members: list[Callable[[], Any]] = [librdkafka_member, kafka_python_member,
                                        lambda: asyncio.run(aiokafka_member())]
    with ExitStack() as ends:
        for member in members:
            thread = threading.Thread(target=member)
            thread.start()
            ends.callback(thread.join)
        ends.callback(done.set)

        def shares() -> list[int]:
            described = admin(node).describe_consumer_groups([name])[name].result(10)
            return [len(each.assignment.topic_partitions) for each in described.members if each.assignment]

        wait_until(lambda: shares() == [4, 4, 4], "each has a third")
        producer = librdkafka_producer(node)
        for partition in range(12):
            producer.produce(name, b"v", partition=partition, timestamp=START_MS)
        assert producer.flush(10) == 0
        wait_until(lambda: sum(map(len, seen.values())) == 12, "every record was seen")
    assert [len(each) for each in seen.values()] == [4, 4, 4]
    assert set().union(*seen.values()) == {(partition, 0) for partition in range(12)}
