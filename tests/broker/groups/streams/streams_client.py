"""Members of streams groups in one line each, for tests. The application has two subtopologies: the first reads
`orders` and writes a repartition topic, the second reads that and has a state."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from kraft.broker.coordinator.answer import RequestContext
from kraft.broker.groups.streams import requests
from kraft.broker.groups.streams.configuring import StatusCode
from kraft.broker.groups.streams.group import StreamsGroup
from kraft.broker.groups.streams.serving import Outcome
from kraft.broker.groups.streams.topology import InternalTopic
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kraft.protocol.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.broker.node import Node

REPARTITION = "app-repartition"
CHANGELOG = "app-changelog"
INTERNAL = {REPARTITION: (UUID(int=0xE1), 8), CHANGELOG: (UUID(int=0xE2), 8)}
TASKS = {"0": tuple(range(8)), "1": tuple(range(8))}
Tasks = dict[str, list[int]]


def topology(epoch: int = 0, **second: Any) -> Topology:
    """Return the application's topology. `second` replaces fields of the second subtopology."""
    return Topology(epoch=epoch, subtopologies=[
        Subtopology(subtopology_id="0", source_topics=["orders"], repartition_sink_topics=[REPARTITION]),
        Subtopology(**{
            "subtopology_id": "1", "repartition_source_topics": [TopicInfo(name=REPARTITION)],
            "state_changelog_topics": [TopicInfo(name=CHANGELOG, topic_configs=[
                KeyValue(key="cleanup.policy", value="compact")])], **second})])


def copartition(sources: list[int], repartition: list[int]) -> CopartitionGroup:
    return CopartitionGroup(source_topics=sources, repartition_source_topics=repartition)


class StreamsNode(Node):
    """A node whose cluster has the internal topics, unless `has_internal` is False. `missing`: the topics that the last
    heartbeat named."""

    def __init__(self, partition_count: int = 1, *, has_internal: bool = True, **options: Any) -> None:
        self.missing: tuple[InternalTopic, ...] = ()
        super().__init__(partition_count, **options)
        if has_internal:
            self.topics.topics.update(INTERNAL)

    def _handle(self, request: Message, context: RequestContext, respond: Callable[[Message], None]) -> None:
        def done(outcome: Outcome) -> None:
            self.missing = outcome.missing
            respond(outcome.response)

        if isinstance(request, StreamsGroupHeartbeatRequest):
            requests.heartbeat(self.coordinator, request, context, done, self.now_ms)
        elif isinstance(request, StreamsGroupDescribeRequest):
            requests.describe(self.coordinator, request, context, respond, self.now_ms)
        else:
            super()._handle(request, context, respond)


def ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=partitions) for each, partitions in tasks.items()]


class Member:
    """A client: it keeps its epoch and its tasks, and names them with each heartbeat."""

    def __init__(self, node: Node, name: str, process: str = "", group: str = "g") -> None:
        self.node = node
        self.member_id = name
        self.process = process or name
        self.group = group
        self.epoch = 0
        self.active: Tasks = {}
        self.standby: Tasks = {}
        self.response: Any = None

    def send(self, **changes: Any) -> Any:
        """Send a heartbeat with these fields; the group, the member, its epoch and its tasks are set."""
        self.response = self.node.call(StreamsGroupHeartbeatRequest(**{
            "group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch,
            "active_tasks": ids(self.active), "standby_tasks": ids(self.standby), "warmup_tasks": [], **changes}), 0)
        return self.response

    def follow(self, response: Any) -> int:
        """Take over what an answer says; return its error."""
        if not response.error_code:
            self.epoch = response.member_epoch
            if response.active_tasks is not None:
                self.active = {each.subtopology_id: list(each.partitions) for each in response.active_tasks}
                self.standby = {each.subtopology_id: list(each.partitions) for each in response.standby_tasks}
        error: int = response.error_code
        return error

    def join(self, **changes: Any) -> int:
        self.epoch, self.active, self.standby = 0, {}, {}
        return self.follow(self.send(**{"topology": topology(), "rebalance_timeout_ms": 30_000,
                                        "process_id": self.process, **changes}))

    def beat(self, **changes: Any) -> int:
        return self.follow(self.send(**changes))

    def leave(self) -> int:
        error: int = self.send(member_epoch=-1, active_tasks=None, standby_tasks=None, warmup_tasks=None).error_code
        return error

    @property
    def statuses(self) -> list[StatusCode]:
        """Status codes of the last answer."""
        return [StatusCode(each.status_code) for each in self.response.status]


def settle(node: Node, *members: Member) -> None:
    """Let members send heartbeats until they have what is theirs."""
    for _ in range(5):
        for member in members:
            assert member.beat() == ErrorCode.NONE, member.response
        node.advance(1_100)


def stable(*names: str, **options: Any) -> tuple[StreamsNode, list[Member]]:
    """Return a node and members with all of their tasks. A name may be `member@process`."""
    node = StreamsNode(**options)
    members = [Member(node, *name.split("@")) for name in names]
    for member in members:
        assert member.join() == ErrorCode.NONE
    node.advance(3_000)
    settle(node, *members)
    return node, members


def group_of(node: Node, group_id: str = "g") -> StreamsGroup:
    group = node.group(group_id)
    assert isinstance(group, StreamsGroup)
    return group
