"""Share coordinators in memory, and members of share groups in one line each, for tests."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kraft.broker.coordinator.answer import RequestContext
from kraft.broker.groups.ports import SharePort
from kraft.broker.groups.share import requests
from kraft.broker.groups.share.group import ShareGroup
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages import (
    delete_share_group_state_response,
    initialize_share_group_state_response,
    read_share_group_state_summary_response,
)
from kraft.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from tests.broker.node import TOPICS, Node

SHARE_KEYS = (ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
              ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS)
IDS = {topic_id: name for name, (topic_id, _) in TOPICS.items()}

Partitions = dict[str, list[int]]


class StoredState(NamedTuple):
    """State of one share partition."""

    state_epoch: int
    start_offset: int
    delivered: int = 0


class ShareStates:
    """The share coordinators of the cluster. `held`: answers wait for `finish`. `errors`: by topic name and
    partition."""

    def __init__(self) -> None:
        self.states: dict[tuple[str, UUID, int], StoredState] = {}
        self.errors: dict[tuple[str, int], ErrorCode] = {}
        self.ends_of: dict[tuple[str, int], int] = {}
        self.held = False
        self.sent: list[Any] = []
        self.open: list[Callable[[int], None]] = []

    @property
    def is_ready(self) -> bool:
        return True

    def send(self, request: Message, answer: Callable[[Any, int], None]) -> None:
        self.sent.append(request)
        self.open.append(lambda now_ms: answer(self.serve(request), now_ms))

    def ends(self, places: Sequence[tuple[str, int]], answer: Callable[[Mapping[tuple[str, int], int], int], None]
             ) -> None:
        self.open.append(lambda now_ms: answer(
            {place: self.ends_of[place] for place in places if place in self.ends_of}, now_ms))

    def finish(self, now_ms: int) -> None:
        """Send the answers that wait."""
        while self.open:
            self.open.pop(0)(now_ms)

    def drop_topic(self, topic_id: UUID) -> None:
        """Delete the states of a topic that was deleted."""
        self.states = {key: state for key, state in self.states.items() if key[1] != topic_id}

    def serve(self, request: Any) -> Any:
        serve_one, module, result = {
            ApiKey.INITIALIZE_SHARE_GROUP_STATE: (
                self.initialize, initialize_share_group_state_response, "InitializeState"),
            ApiKey.DELETE_SHARE_GROUP_STATE: (self.delete, delete_share_group_state_response, "DeleteState"),
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (
                self.summarize, read_share_group_state_summary_response, "ReadStateSummary"),
        }[ApiKey(request.API_KEY)]
        response = next(each for name, each in vars(module).items()
                        if name.endswith(("StateResponse", "SummaryResponse")))
        return response(results=[
            getattr(module, f"{result}Result")(topic_id=topic.topic_id, partitions=[
                module.PartitionResult(partition=part.partition, **self.checked(
                    topic.topic_id, part, serve_one, (request.group_id, topic.topic_id, part.partition)))
                for part in topic.partitions])
            for topic in request.topics])

    def checked(self, topic_id: UUID, part: Any, serve_one: Any, key: tuple[str, UUID, int]) -> dict[str, Any]:
        error = self.errors.get((IDS.get(topic_id, ""), part.partition), ErrorCode.NONE)
        if error:
            return {"error_code": error, "error_message": error.message}
        found: dict[str, Any] = serve_one(key, part)
        return found

    def initialize(self, key: tuple[str, UUID, int], part: Any) -> dict[str, Any]:
        known = self.states.get(key)
        if known is not None and part.state_epoch < known.state_epoch:
            return {"error_code": ErrorCode.FENCED_STATE_EPOCH}
        if known is None or part.state_epoch > known.state_epoch or part.start_offset > known.start_offset:
            self.states[key] = StoredState(part.state_epoch, part.start_offset)
        return {}

    def delete(self, key: tuple[str, UUID, int], _part: Any) -> dict[str, Any]:
        self.states.pop(key, None)
        return {}

    def summarize(self, key: tuple[str, UUID, int], _part: Any) -> dict[str, Any]:
        known = self.states.get(key)
        if known is None:
            return {"start_offset": -1, "delivery_complete_count": -1}
        return {"state_epoch": known.state_epoch, "start_offset": known.start_offset, "leader_epoch": 0,
                "delivery_complete_count": known.delivered}


class ShareNode(Node):
    """A node with share coordinators."""

    def __init__(self, partition_count: int = 1, **options: Any) -> None:
        self.share = ShareStates()
        super().__init__(partition_count, **options)

    def _share_port(self) -> SharePort | None:
        return self.share

    def _handle(self, request: Message, context: RequestContext, respond: Callable[[Message], None]) -> None:
        if request.API_KEY in SHARE_KEYS:
            requests.handle(self.coordinator, request, context, respond, self.now_ms)
        else:
            super()._handle(request, context, respond)

    def _settle(self) -> None:
        super()._settle()
        while self.share.open and not self.share.held:
            self.share.finish(self.now_ms)
            super()._settle()

    def kill(self) -> None:
        self.share.open.clear()
        super().kill()
        self._settle()

    def release(self) -> None:
        """Let the share coordinators answer."""
        self.share.held = False
        self._settle()


class Member:
    """A client: it keeps its epoch and its partitions."""

    def __init__(self, node: Node, name: str, *topics: str, group: str = "g") -> None:
        self.node = node
        self.member_id = name
        self.group = group
        self.topics = list(topics)
        self.epoch = 0
        self.partitions: Partitions = {}
        self.response: Any = None

    def send(self, **changes: Any) -> Any:
        """Send a heartbeat with these fields; the group, the member and its epoch are set."""
        self.response = self.node.call(ShareGroupHeartbeatRequest(**{
            "group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch, **changes}), 1)
        return self.response

    def follow(self, response: Any) -> int:
        """Take over what an answer says; return its error."""
        if not response.error_code:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.partitions = {IDS[each.topic_id]: list(each.partitions)
                                   for each in response.assignment.topic_partitions}
        error: int = response.error_code
        return error

    def join(self, **changes: Any) -> int:
        self.epoch, self.partitions = 0, {}
        return self.follow(self.send(**{"subscribed_topic_names": self.topics, **changes}))

    def beat(self, **changes: Any) -> int:
        return self.follow(self.send(**changes))

    def leave(self) -> int:
        error: int = self.send(member_epoch=-1).error_code
        return error


def settle(node: Node, *members: Member) -> None:
    """Let members send heartbeats until they have what is theirs."""
    for _ in range(4):
        for member in members:
            assert member.beat() == ErrorCode.NONE, member.response
        node.advance(1_100)


def group_of(node: Node, group_id: str = "g") -> ShareGroup:
    group = node.group(group_id)
    assert isinstance(group, ShareGroup)
    return group


def describe(node: Node, group: str = "g") -> Any:
    return node.call(ShareGroupDescribeRequest(group_ids=[group]), 1).groups[0]
