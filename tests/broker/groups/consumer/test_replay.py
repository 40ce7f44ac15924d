"""Every compaction of every prefix of the log loads to the same state.

Histories: all sequences of `DEPTH` steps of the clients of one group, and random longer ones. In any prefix, the
cleaner may have removed any record that a later one of the same key supersedes. It may also have removed any tombstone
that has no earlier record of its key left. A load that meets the cleaner at work reads the same (KAFKA-19862).
"""

import itertools
import random
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest

from kraft.broker.coordinator.shard import Record
from kraft.broker.groups.classic.group import ClassicGroup
from kraft.broker.groups.consumer.group import ConsumerGroup
from tests.broker.groups.consumer.consumer_client import Member
from tests.broker.groups.consumer.test_migration import Classic
from tests.broker.groups.group_client import commit
from tests.broker.node import Node

DEPTH = 3
LONG_DEPTH = 5
RANDOM_HISTORIES = 60
LONG_RANDOM_HISTORIES = 3_000
RANDOM_LENGTH = 25


class World:
    """One group `g` with its clients: two of the consumer protocol, one of them static, and one of the classic one."""

    def __init__(self) -> None:
        self.node = Node(1)
        self.first = Member(self.node, "a", "orders")
        self.second = Member(self.node, "b", regex="cl.*", instance="two")
        self.classic = Classic(self.node)

    def beat(self) -> None:
        self.first.beat()
        self.node.advance(1_000)

    def beat_second(self) -> None:
        self.second.beat()
        self.node.advance(1_000)

    def classic_steps(self) -> None:
        """Have the classic member join, sync, or show that it is alive."""
        if isinstance(self.node.group("g"), ConsumerGroup):
            self.classic.join()
        else:
            pending = self.classic.send_join()
            if pending.answered:
                self.classic.member_id = pending.response.member_id

    def commit(self) -> None:
        commit(self.node, {("orders", 0): 1, ("clicks", 1): 2}, member=self.first.member_id,
               generation=self.first.epoch)
        commit(self.node, {("orders", 1): 3})

    def expire(self) -> None:
        self.node.advance(46_000)

    def grow(self) -> None:
        topic_id, count = self.node.topics.topics["orders"]
        self.node.topics.change("orders", topic_id, count + 1)

    def restart(self) -> None:
        self.node.kill()

    def steps(self) -> list[Callable[[], object]]:
        return [self.first.join, self.beat, self.second.join, self.beat_second, self.first.leave,
                lambda: self.second.leave(-2), self.classic_steps, self.commit, self.expire]


def state_of(node: Node) -> Any:
    """Return everything that outlives a restart, without the order of members."""
    shard = node.state_of("g")
    groups = {}
    for group_id, group in shard.groups.items():
        if isinstance(group, ConsumerGroup):
            groups[group_id] = ("consumer", group.epoch, group.metadata_hash, group.target_epoch,
                                group.target_computed_ms, group.subscriptions, group.currents, group.targets,
                                group.regexes, group.owners, group.static_members, group.topic_counts(),
                                group.classic_count)
        elif isinstance(group, ClassicGroup):
            groups[group_id] = ("classic", group.generation_id, group.protocol_name, group.leader_id, {
                member.member_id: (member.assignment, member.group_instance_id) for member in group.members.values()})
    return groups, {group_id: {
        (topic, index): offset.offset for topic, found in shard.offsets.of_group(group_id).items()
        for index, offset in found.items()} for group_id in shard.offsets.groups()}


def loaded(node: Node, dropped: Collection[int]) -> Any:
    """Return the state that a new leader loads from the log without the `dropped` offsets."""
    fresh = Node(1, load=False)
    fresh.logs, fresh.topics, fresh.now_ms = node.logs, node.topics, node.now_ms
    fresh.coordinator = fresh._new_coordinator()
    assert fresh.coordinator.shards.start_load(0, 1)
    state = fresh.coordinator.shards._loading(0).state
    node.logs.replay(0, state, dropped)
    fresh.coordinator.shards._entries[0].phase = type(fresh.coordinator.shards._entries[0].phase).ACTIVE
    return state_of(fresh)


def compactions(log: list[Record], rng: random.Random | None) -> Iterator[set[int]]:
    """Yield sets of offsets that the cleaner may have removed."""
    ends = range(len(log) + 1) if rng is None else sorted(rng.sample(range(len(log) + 1), min(len(log), 12)))
    for end in ends:
        last = {record.key: offset for offset, record in enumerate(log[:end])}
        superseded = {offset for offset, record in enumerate(log[:end]) if last[record.key] != offset}
        tombstones = {offset for offset in last.values() if log[offset].value is None}
        yield superseded
        yield superseded | tombstones
        if rng is not None:
            yield {offset for offset in superseded if rng.random() < 0.5}


def check(world: World, rng: random.Random | None = None) -> None:
    node = world.node
    log = node.logs.records[0]
    expected = loaded(node, ())
    group = node.group("g")
    if isinstance(group, ConsumerGroup):
        live = state_of(node)
        assert live == expected, "the state in memory is not the one of the log"
    for dropped in compactions(log, rng):
        assert loaded(node, dropped) == expected, f"without {sorted(dropped)} of {len(log)} records"


def run(choices: tuple[int, ...]) -> World:
    world = World()
    steps = world.steps()
    for choice in choices:
        steps[choice]()
    return world


def all_histories(depth: int) -> Iterator[tuple[int, ...]]:
    return itertools.product(range(len(World().steps())), repeat=depth)


def test_all_short_histories() -> None:
    for choices in all_histories(DEPTH):
        check(run(choices))


def random_history(seed: int) -> None:
    rng = random.Random(seed)
    world = World()
    steps = [*world.steps(), world.grow, world.restart, world.beat, world.beat_second, world.classic_steps]
    for _ in range(RANDOM_LENGTH):
        rng.choice(steps)()
    check(world, rng)


def test_random_histories() -> None:
    for seed in range(RANDOM_HISTORIES):
        random_history(seed)


@pytest.mark.long
def test_all_histories() -> None:
    for choices in all_histories(LONG_DEPTH):
        check(run(choices), random.Random(str(choices)))


@pytest.mark.long
def test_many_random_histories() -> None:
    for seed in range(RANDOM_HISTORIES, LONG_RANDOM_HISTORIES):
        random_history(seed)
