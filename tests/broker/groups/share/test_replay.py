"""Every compaction of every prefix of the log of a share group loads to the same state.

Histories: all sequences of `DEPTH` steps of one group's clients and operators, and random longer ones. `consumer.
test_replay` describes what the cleaner may have removed.
"""

import itertools
import random
from collections.abc import Callable, Collection
from typing import Any

import pytest

from kraft.broker.groups.share.group import ShareGroup
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from tests.broker.groups.consumer.test_replay import compactions
from tests.broker.groups.share.share_client import Member, ShareNode
from tests.broker.groups.share.test_states import alter, delete
from tests.broker.node import TOPICS

DEPTH = 3
LONG_DEPTH = 4
RANDOM_HISTORIES = 60
LONG_RANDOM_HISTORIES = 3_000
RANDOM_LENGTH = 25


class World:
    """One group `g`, its members and operators, and its topics."""

    def __init__(self) -> None:
        self.node = ShareNode()
        self.first = Member(self.node, "a", "orders")
        self.second = Member(self.node, "b", "orders", "clicks")

    def beat(self, member: Member) -> None:
        member.beat()
        self.node.advance(1_100)

    def subscribe(self) -> None:
        self.first.beat(subscribed_topic_names=["clicks"])

    def expire(self) -> None:
        self.node.advance(46_000)

    def fail(self) -> None:
        """Let the share coordinators refuse one partition, or no longer."""
        self.node.share.errors = {} if self.node.share.errors else {
            ("orders", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}

    def delete_topic(self) -> None:
        topics = self.node.topics
        if "clicks" in topics.topics:
            topics.change("clicks", None)
            self.node.coordinator.partitions_deleted([("clicks", index) for index in range(4)], self.node.now_ms)
            self.node.advance(0)
            self.node.share.drop_topic(TOPICS["clicks"][0])
        else:
            topics.change("clicks", *TOPICS["clicks"])

    def delete_group(self) -> None:
        self.node.send(DeleteGroupsRequest(groups_names=["g"]))

    def steps(self) -> list[Callable[[], object]]:
        return [self.first.join, lambda: self.beat(self.first), self.second.join, lambda: self.beat(self.second),
                self.first.leave, self.expire, self.delete_topic, lambda: alter(self.node, "orders", {0: 3}),
                lambda: delete(self.node, "orders"), self.delete_group, self.fail]


def state_of(node: ShareNode) -> Any:
    """Return everything that outlives a restart."""
    return {group_id: (group.epoch, group.metadata_hash, group.target_epoch, group.target_computed_ms,
                       group.subscriptions, group.currents, group.targets, group.states, group.has_states,
                       group.topic_counts())
            for group_id, group in node.state_of("g").groups.items() if isinstance(group, ShareGroup)}


def loaded(node: ShareNode, dropped: Collection[int]) -> Any:
    """Return the state that a new leader loads from the log without the `dropped` offsets."""
    fresh = ShareNode(load=False)
    fresh.logs, fresh.topics, fresh.now_ms = node.logs, node.topics, node.now_ms
    fresh.coordinator = fresh._new_coordinator()
    assert fresh.coordinator.shards.start_load(0, 1)
    entry = fresh.coordinator.shards._loading(0)
    node.logs.replay(0, entry.state, dropped)
    entry.phase = type(entry.phase).ACTIVE
    return state_of(fresh)


def check(world: World, rng: random.Random | None = None) -> None:
    node = world.node
    expected = loaded(node, ())
    assert state_of(node) == expected, "the state in memory is not the one of the log"
    for dropped in compactions(node.logs.records[0], rng):
        assert loaded(node, dropped) == expected, f"without {sorted(dropped)} of {len(node.logs.records[0])} records"


def run(choices: tuple[int, ...]) -> World:
    world = World()
    steps = world.steps()
    for choice in choices:
        steps[choice]()
    return world


def test_all_short_histories() -> None:
    for choices in itertools.product(range(len(World().steps())), repeat=DEPTH):
        check(run(choices))


def random_history(seed: int) -> None:
    rng = random.Random(seed)
    world = World()
    steps = [*world.steps(), world.node.kill, world.subscribe, lambda: world.beat(world.first),
             lambda: world.beat(world.second)]
    for _ in range(RANDOM_LENGTH):
        rng.choice(steps)()
    check(world, rng)
    world.node.share.errors = {}
    come_to_rest(world)


def come_to_rest(world: World) -> None:
    """Members have all partitions of their topics after a while without changes."""
    world.node.topics.change("clicks", *TOPICS["clicks"])
    for member in (world.first, world.second):
        assert member.join() == ErrorCode.NONE, member.response
    for _ in range(6):
        for member in (world.first, world.second):
            assert member.beat() == ErrorCode.NONE, member.response
        world.node.advance(1_100)
    held = {(topic, index) for member in (world.first, world.second)
            for topic, indexes in member.partitions.items() for index in indexes}
    assert held == {(topic, index) for topic in ("orders", "clicks") for index in range(TOPICS[topic][1])}


def test_random_histories() -> None:
    for seed in range(RANDOM_HISTORIES):
        random_history(seed)


@pytest.mark.long
def test_all_histories() -> None:
    for choices in itertools.product(range(len(World().steps())), repeat=LONG_DEPTH):
        check(run(choices), random.Random(str(choices)))


@pytest.mark.long
def test_many_random_histories() -> None:
    for seed in range(RANDOM_HISTORIES, LONG_RANDOM_HISTORIES):
        random_history(seed)
