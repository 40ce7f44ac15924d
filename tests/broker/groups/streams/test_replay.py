"""Every compaction of every prefix of the log of a streams group loads to the same state.

Histories: all sequences of `DEPTH` steps of one group's clients and operators, and random longer ones. `consumer.
test_replay` describes what the cleaner may have removed.
"""

import itertools
import random
from collections.abc import Callable, Collection
from typing import Any

import pytest

from kraft.broker.groups.streams.group import StreamsGroup
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from tests.broker.groups.consumer.test_replay import compactions
from tests.broker.groups.streams.streams_client import INTERNAL, REPARTITION, TASKS, Member, StreamsNode, group_of

DEPTH = 3
LONG_DEPTH = 5
RANDOM_HISTORIES = 60
LONG_RANDOM_HISTORIES = 3_000
RANDOM_LENGTH = 25


class World:
    """One group `g`, its members and operators, and its topics."""

    def __init__(self) -> None:
        self.node = StreamsNode()
        self.first = Member(self.node, "a", "p")
        self.second = Member(self.node, "b", "q")

    def beat(self, member: Member) -> None:
        member.beat()
        self.node.advance(3_100)

    def expire(self) -> None:
        self.node.advance(46_000)

    def delete_topic(self) -> None:
        topics = self.node.topics
        if REPARTITION in topics.topics:
            topics.change(REPARTITION, None)
        else:
            topics.change(REPARTITION, *INTERNAL[REPARTITION])

    def replicate(self) -> None:
        """Change the number of standby tasks."""
        configs = self.node.topics.configs
        configs["g"] = {} if configs.get("g") else {"streams.num.standby.replicas": "1"}

    def delete_group(self) -> None:
        self.node.send(DeleteGroupsRequest(groups_names=["g"]))

    def steps(self) -> list[Callable[[], object]]:
        return [self.first.join, lambda: self.beat(self.first), self.second.join, lambda: self.beat(self.second),
                self.first.leave, self.expire, self.delete_topic, self.replicate, self.delete_group]


def state_of(node: StreamsNode) -> Any:
    """Return everything that outlives a restart."""
    return {group_id: (group.epoch, group.metadata_hash, group.target_epoch, group.target_computed_ms, group.members,
                       group.currents, group.targets, group.topology, group.validated_topology_epoch,
                       group.assignment_configs)
            for group_id, group in node.state_of("g").groups.items() if isinstance(group, StreamsGroup)}


def loaded(node: StreamsNode, dropped: Collection[int]) -> Any:
    """Return the state that a new leader loads from the log without the `dropped` offsets."""
    fresh = StreamsNode(load=False)
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
    check_owners(node)


def check_owners(node: StreamsNode) -> None:
    """No active task has two members, and no process has a task in two roles, apart from what is being given up."""
    group = node.group("g")
    if not isinstance(group, StreamsGroup):
        return
    owners: dict[tuple[str, int], str] = {}
    for member_id, current in group.currents.items():
        for held in (current.assigned, current.revoking):
            for subtopology, partitions in held.active.items():
                for index in partitions:
                    assert owners.setdefault((subtopology, index), member_id) == member_id


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
    steps = [*world.steps(), world.node.kill, lambda: world.beat(world.first), lambda: world.beat(world.second)]
    for _ in range(RANDOM_LENGTH):
        rng.choice(steps)()
        check_owners(world.node)
    check(world, rng)
    come_to_rest(world)


def come_to_rest(world: World) -> None:
    """Members have all tasks after a while without changes."""
    world.node.topics.change(REPARTITION, *INTERNAL[REPARTITION])
    for member in (world.first, world.second):
        assert member.join() == ErrorCode.NONE, member.response
    for _ in range(6):
        for member in (world.first, world.second):
            assert member.beat() == ErrorCode.NONE, member.response
        world.node.advance(3_100)
    held = sorted((each, index) for member in (world.first, world.second)
                  for each, partitions in member.active.items() for index in partitions)
    assert held == [(each, index) for each, partitions in TASKS.items() for index in partitions]
    assert group_of(world.node).state.value == "Stable"


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
