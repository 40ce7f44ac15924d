"""Members of consumer groups in one line each, for tests."""

from typing import Any
from uuid import UUID

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.broker.node import TOPICS, Node

REBALANCE_MS = 30_000
IDS = {topic_id: name for name, (topic_id, _) in TOPICS.items()}

Partitions = dict[str, list[int]]


def owned(partitions: Partitions) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=TOPICS[name][0], partitions=indexes) for name, indexes in partitions.items()]


def assignment(response: Any) -> Partitions | None:
    """Return the assignment in a heartbeat's answer, by topic name; None without one."""
    if response.assignment is None:
        return None
    return {IDS[each.topic_id]: sorted(each.partitions)
            for each in sorted(response.assignment.topic_partitions, key=lambda each: each.topic_id.int)}


class Member:
    """A client: it keeps its epoch and its partitions, and gives up what is taken from it at its next heartbeat."""

    def __init__(self, node: Node, name: str, *topics: str, group: str = "g", instance: str | None = None,
                 regex: str | None = None, assignor: str | None = None) -> None:
        self.node = node
        self.member_id = name
        self.group = group
        self.instance = instance
        self.topics = list(topics)
        self.regex = regex
        self.assignor = assignor
        self.epoch = 0
        self.partitions: Partitions = {}
        self.response: Any = None

    def send(self, **changes: Any) -> Any:
        """Send a heartbeat with these fields; the group, the member and its epoch are set."""
        fields = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch,
                  "instance_id": self.instance, **changes}
        version = fields.pop("version", 1)
        self.response = self.node.call(ConsumerGroupHeartbeatRequest(**fields), version)
        return self.response

    def follow(self, response: Any) -> int:
        """Take over what an answer says; return its error."""
        if not response.error_code:
            self.epoch = response.member_epoch
            partitions = assignment(response)
            if partitions is not None:
                self.partitions = partitions
        error: int = response.error_code
        return error

    def join(self, **changes: Any) -> int:
        """Join, or join again, without partitions."""
        self.epoch, self.partitions = 0, {}
        return self.follow(self.send(**{
            "rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": self.topics,
            "subscribed_topic_regex": self.regex, "server_assignor": self.assignor, "topic_partitions": [], **changes}))

    def beat(self, **changes: Any) -> int:
        """Send a heartbeat that names the member's partitions."""
        return self.follow(self.send(**{"topic_partitions": owned(self.partitions), **changes}))

    def leave(self, epoch: int = -1) -> int:
        error: int = self.send(member_epoch=epoch).error_code
        return error

    @property
    def state(self) -> Any:
        """The member's assignment in the coordinator."""
        return self.node.group(self.group).current(self.member_id)


def settle(node: Node, *members: Member) -> None:
    """Let members send heartbeats until their group is stable."""
    for _ in range(20):
        for member in members:
            assert member.beat() == ErrorCode.NONE, (member.member_id, member.response)
        node.advance(1_000)
        if describe(node, members[0].group).group_state == "Stable":
            return
    raise AssertionError("the group does not come to rest")


def describe(node: Node, group: str = "g", version: int = 1) -> Any:
    return node.call(ConsumerGroupDescribeRequest(group_ids=[group]), version).groups[0]


def form(node: Node, size: int, *topics: str, group: str = "g", **options: Any) -> list[Member]:
    """Return the members of a stable group."""
    members = [Member(node, f"m{number}", *(topics or ("orders",)), group=group, **options) for number in range(size)]
    for member in members:
        assert member.join() == ErrorCode.NONE, member.response
    settle(node, *members)
    return members


def ids(partitions: Partitions) -> dict[UUID, list[int]]:
    return {TOPICS[name][0]: indexes for name, indexes in partitions.items()}
