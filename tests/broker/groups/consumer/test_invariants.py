"""Random lives of consumer groups: no partition is with two members, whatever is lost, and all come to rest."""

import random

import pytest

from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.protocol.error_codes import ErrorCode
from tests.broker.groups.consumer.consumer_client import REBALANCE_MS, Member, owned, settle
from tests.broker.node import TOPICS, Node

SEEDS = 40
LONG_SEEDS = 3_000
STEPS = 60
REJOIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


class World:
    """Members of one group. Each believes that it has what the last answer that reached it says."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.node = Node(1)
        self.members = [Member(self.node, f"m{number}", *topics, instance=f"i{number}" if number == 3 else None,
                               assignor="range" if seed % 3 == 0 else None)
                        for number, topics in enumerate((("orders",), ("orders", "clicks"), ("clicks",), ("orders",)))]
        self.joined: dict[str, Member] = {}
        self.lost: dict[str, Member] = {}

    def step(self) -> None:
        member = self.rng.choice(self.members)
        choice = self.rng.random()
        if member.member_id not in self.joined:
            self.join(member)
        elif choice < 0.5:
            self.beat(member)
        elif choice < 0.65:
            # The answer is lost. A client says everything of itself at the next heartbeat, and is answered so.
            self.lost[member.member_id] = member
            member.send(topic_partitions=None if self.rng.random() < 0.3 else owned(member.partitions))
        elif choice < 0.72:
            member.leave()
            del self.joined[member.member_id]
        elif choice < 0.78:
            self.join(member)
        elif choice < 0.84:
            self.node.kill()
        elif choice < 0.9:
            member.topics = self.rng.choice([["orders"], ["clicks"], ["orders", "clicks"], []])
            self.lost[member.member_id] = member
            self.beat(member)
        elif choice < 0.97:
            self.node.advance(self.rng.choice([300, 1_000, 5_000]))
        else:
            self.node.advance(31_000)

    def join(self, member: Member) -> None:
        error = member.join()
        if error == ErrorCode.UNRELEASED_INSTANCE_ID:
            self.joined.pop(member.member_id, None)
        else:
            assert error == ErrorCode.NONE, member.response
            self.joined[member.member_id] = member

    def beat(self, member: Member) -> None:
        self.follow(member, self.sent(member))

    def sent(self, member: Member) -> int:
        if self.lost.pop(member.member_id, None) is None:
            return member.beat()
        return member.beat(rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=member.topics)

    def follow(self, member: Member, error: int) -> None:
        if error in REJOIN:
            member.partitions = {}
            del self.joined[member.member_id]
        else:
            assert error == ErrorCode.NONE, member.response

    def check(self) -> None:
        group = self.node.group("g")
        if not isinstance(group, ConsumerGroup):
            return
        owners: dict[tuple[str, int], str] = {}
        for member in self.joined.values():
            if member.member_id not in group.subscriptions:
                continue            # its session ended, which it does not know yet
            for topic, indexes in member.partitions.items():
                for index in indexes:
                    other = owners.setdefault((topic, index), member.member_id)
                    assert other == member.member_id, f"{topic}/{index} is with {other} and {member.member_id}"
        assert group.owners == {(topic_id, index): member_id for member_id, current in group.currents.items()
                                for parts in (current.assigned, current.revoking)
                                for topic_id, indexes in parts.items() for index in indexes}
        assert group.currents.keys() <= group.subscriptions.keys()
        assert group.targets.keys() <= group.subscriptions.keys()

    def finish(self) -> None:
        """Let all members come to rest: then they have all partitions of their topics."""
        for member in self.members:
            if member.member_id not in self.joined:
                self.join(member)
        for member in self.members:
            while self.sent(member) in REJOIN:
                self.join(member)
        settle(self.node, *self.members)
        self.check()
        wanted = {(topic, index) for member in self.members for topic in member.topics
                  for index in range(TOPICS[topic][1])}
        assert {(topic, index) for member in self.members for topic, indexes in member.partitions.items()
                for index in indexes} == wanted


def run(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
        world.check()
    world.finish()


def test_no_partition_has_two_members() -> None:
    for seed in range(SEEDS):
        run(seed)


@pytest.mark.long
def test_no_partition_has_two_members_in_many_lives() -> None:
    for seed in range(SEEDS, LONG_SEEDS):
        run(seed)
