"""State of a share group. Each of its records has a place of its own here, so the state after a load does not depend on
which superseded records the log still has."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.consumer.member import Partitions
from kraft.broker.groups.epochs import EpochGroup, count
from kraft.broker.groups.share.member import NEW_MEMBER, Current, Subscription
from kraft.protocol.error_codes import ErrorCode

SHARE_TYPE: Final = "share"


class GroupState(Enum):
    """States of a share group, with their names in ListGroups."""

    EMPTY = "Empty"
    STABLE = "Stable"


class StatePartitions(NamedTuple):
    """Partitions of one topic whose state is kept, in order. `name` is the topic's when that was written."""

    name: str
    partitions: tuple[int, ...]


StateTopics = Mapping[UUID, StatePartitions]
"""Partitions whose state is kept, by topic; no entry is empty."""
NO_TOPICS: Final[StateTopics] = {}
NO_NAMES: Final[Mapping[UUID, str]] = {}


class States(NamedTuple):
    """Record of type 15: the partitions whose state the share coordinator is to create, or has; and the topics whose
    state is to be deleted, by name."""

    initializing: StateTopics = NO_TOPICS
    initialized: StateTopics = NO_TOPICS
    deleting: Mapping[UUID, str] = NO_NAMES


NO_STATES: Final = States()


class StateRequest:
    """A request about the states of a group that is under way; the group waits for it until `until_ms` at most."""

    __slots__ = ("until_ms",)

    def __init__(self, until_ms: int) -> None:
        self.until_ms = until_ms


class ShareGroup(EpochGroup[Partitions]):
    """One group. `apply` of a change in `records` calls the setters, and nothing else does."""

    __slots__ = ("_states", "assigned_states", "currents", "request", "retry_ms", "subscriptions")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.subscriptions: dict[str, Subscription] = {}
        """Members, in the order of joining."""
        self.currents: dict[str, Current] = {}
        self._states: States | None = None
        # Memory only:
        self.assigned_states: object = None     # states whose partitions are all in the target
        self.request: StateRequest | None = None
        self.retry_ms = 0                       # time from which states are requested again after a failure

    # ---------------------------------------------------------------- reading

    @property
    def states(self) -> States:
        """States of the group's partitions: the same object until they change."""
        return NO_STATES if self._states is None else self._states

    @property
    def has_states(self) -> bool:
        """True while the log has a record of type 15."""
        return self._states is not None

    @property
    def is_blank(self) -> bool:
        """True without any record: the group does not exist."""
        return not (self.has_epoch or self.has_target_epoch or self.subscriptions or self.currents or self.targets
                    or self.has_states)

    @property
    def is_empty(self) -> bool:
        """True without members."""
        return not self.subscriptions

    @property
    def state(self) -> GroupState:
        return GroupState.STABLE if self.subscriptions else GroupState.EMPTY

    def current(self, member_id: str) -> Current:
        """Return the assignment of a member; that of a new one when it has none."""
        return self.currents.get(member_id, NEW_MEMBER)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether any member reads `topic`."""
        return topic in self._topic_counts

    def subscribed_names(self, replaced: Mapping[str, Subscription | None]) -> list[str]:
        """Return the names of all topics that the group subscribes to after a change of members, in order. None is for
        a member that leaves."""
        counts = self.topic_counts()
        for member_id, after in replaced.items():
            before = self.subscriptions.get(member_id)
            for subscription, change in ((before, -1), (after, 1)):
                for name in () if subscription is None else subscription.topic_names:
                    counts[name] = counts.get(name, 0) + change
        return sorted(name for name, members in counts.items() if members > 0)

    def may_request(self, now_ms: int) -> bool:
        """Return whether a request about states may be sent: none is under way, and none has just failed."""
        return now_ms >= self.retry_ms and (self.request is None or now_ms >= self.request.until_ms)

    # ---------------------------------------------------------------- checks

    def member(self, member_id: str) -> Subscription:
        """Return a member; refuse with UNKNOWN_MEMBER_ID."""
        found = self.subscriptions.get(member_id)
        if found is None:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID,
                               f"Member {member_id} is not a member of group {self.group_id}.")
        return found

    def check_empty(self) -> None:
        """Refuse with NON_EMPTY_GROUP a request that needs a group without members."""
        if self.subscriptions:
            raise RefusedError(ErrorCode.NON_EMPTY_GROUP)

    # ---------------------------------------------------------------- replay

    def set_subscription(self, member_id: str, subscription: Subscription | None) -> None:
        """Set the properties of a member; None removes it."""
        before = self.subscriptions.get(member_id)
        if before is not None:
            count(self._topic_counts, before.topic_names, -1)
        if subscription is None:
            self.subscriptions.pop(member_id, None)
            return
        self.subscriptions[member_id] = subscription
        count(self._topic_counts, subscription.topic_names, 1)

    def set_current(self, member_id: str, current: Current | None) -> None:
        """Set the assignment of a member; None removes it."""
        if current is None:
            self.currents.pop(member_id, None)
        else:
            self.currents[member_id] = current

    def set_states(self, states: States | None) -> None:
        """Set the states of the group's partitions; None removes their record."""
        self._states = states
