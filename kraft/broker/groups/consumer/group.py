"""State of a consumer group. Each of its records has a place of its own here.

So the state after a load does not depend on which superseded records the log still has, nor on the order of records
with different keys (KAFKA-19862).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.consumer.member import NEW_MEMBER, Current, Owned, Partitions, Subscription
from kraft.broker.groups.epochs import EpochGroup, count
from kraft.protocol.error_codes import ErrorCode

CONSUMER_TYPE: Final = "consumer"


class GroupState(Enum):
    """States of a consumer group, with their names in ListGroups."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Resolved(NamedTuple):
    """Record of type 16: the topics that match a regular expression, since a version of the metadata."""

    topics: tuple[str, ...] = ()
    version: int = 0
    timestamp_ms: int = 0


class ConsumerGroup(EpochGroup[Partitions]):
    """One group. `apply` of a change in `records` calls the setters, and nothing else does."""

    __slots__ = ("_regex_counts", "classic_count", "currents", "has_partition_metadata", "owners", "regexes", "search",
                 "searched_names", "static_members", "subscriptions", "unconfirmed")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.subscriptions: dict[str, Subscription] = {}
        """Members, in the order of joining."""
        self.currents: dict[str, Current] = {}
        self.regexes: dict[str, Resolved] = {}
        self.has_partition_metadata = False
        """True while the log has a record of type 4, which older versions of Kafka wrote."""
        # What follows from the records:
        self.owners: dict[tuple[UUID, int], str] = {}
        self.static_members: dict[str, str] = {}        # instance id -> member id
        self.classic_count = 0
        self._regex_counts: Counter[str] = Counter()
        # Memory only:
        self.unconfirmed: dict[str, int] = {}           # since when a member has not named what it is assigned
        self.search: Generator[None, None, None] | None = None     # for topics of regular expressions
        self.searched_names: object = None              # names of topics that the last search read

    # ---------------------------------------------------------------- reading

    @property
    def is_blank(self) -> bool:
        """True without any record: the group does not exist."""
        return not (self._epoch or self._target_epoch or self.subscriptions or self.currents or self.targets
                    or self.regexes or self.has_partition_metadata)

    @property
    def is_empty(self) -> bool:
        """True without members."""
        return not self.subscriptions

    @property
    def state(self) -> GroupState:
        if not self.subscriptions:
            return GroupState.EMPTY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        if all(self.current(each).is_reconciled_to(self.target_epoch) for each in self.subscriptions):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def current(self, member_id: str) -> Current:
        """Return the assignment of a member; that of a new one when it has none."""
        return self.currents.get(member_id, NEW_MEMBER)

    def is_free_for(self, member_id: str, topic_id: UUID, partition: int) -> bool:
        """Return whether no member but this one has the partition."""
        return self.owners.get((topic_id, partition), member_id) == member_id

    def regex_counts(self) -> dict[str, int]:
        """Return how many members subscribe by each regular expression."""
        return dict(self._regex_counts)

    @property
    def has_regexes(self) -> bool:
        """True when a member subscribes by a regular expression."""
        return bool(self._regex_counts)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether any member reads `topic`."""
        return topic in self._topic_counts or any(
            topic in resolved.topics for regex, resolved in self.regexes.items() if regex in self._regex_counts)

    def preferred_assignor(self, replaced: dict[str, Subscription | None] | None = None) -> str | None:
        """Return the assignor that most members prefer; None when none prefers one. `replaced` are members that change;
        None for one that leaves. Between equals the earlier member's choice counts."""
        members = self.subscriptions if not replaced else {**self.subscriptions, **replaced}
        votes = Counter(each.server_assignor for each in members.values()
                        if each is not None and each.server_assignor is not None)
        return max(votes, key=votes.__getitem__) if votes else None

    # ---------------------------------------------------------------- checks

    def member(self, member_id: str) -> Subscription:
        """Return a member; refuse with UNKNOWN_MEMBER_ID."""
        found = self.subscriptions.get(member_id)
        if found is None:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID,
                               f"Member {member_id} is not a member of group {self.group_id}.")
        return found

    def check_offset_commit(self, member_id: str, epoch: int, api_has_epochs: bool,
                            partitions: Iterator[tuple[UUID, int]]) -> None:
        """Refuse a commit of another epoch than the member's: STALE_MEMBER_EPOCH, for which the member waits for its
        next heartbeat. Members of the classic protocol get ILLEGAL_GENERATION. A member of the consumer protocol
        needs an API that has member epochs.

        A member that has entered a later epoch meanwhile may commit those `partitions` that it has had since then
        (KIP-1251). Commits without member come from operators, and need an empty group.
        """
        if epoch < 0 and not self.subscriptions:
            return
        subscription = self.member(member_id)
        current = self.current(member_id)
        if subscription.classic is None and not api_has_epochs:
            raise RefusedError(ErrorCode.UNSUPPORTED_VERSION)
        if epoch == current.epoch:
            return
        if subscription.classic is not None:
            raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
        if epoch > current.epoch or not all(
                self._has_since(current, topic_id, index, epoch) for topic_id, index in partitions):
            raise RefusedError(ErrorCode.STALE_MEMBER_EPOCH,
                               f"The member epoch {epoch} is not the expected {current.epoch}.")

    @staticmethod
    def _has_since(current: Current, topic_id: UUID, index: int, epoch: int) -> bool:
        for owned in (current.assigned, current.revoking):
            since = owned.get(topic_id, {}).get(index)
            if since is not None:
                return since <= epoch
        return False

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        """Refuse a fetch by a member in another epoch than the named one: UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH,
        never an answer without offsets. Fetches that name no member pass."""
        if member_id is None and epoch < 0:
            return
        self.member(member_id or "")
        if epoch != self.current(member_id or "").epoch:
            raise RefusedError(ErrorCode.STALE_MEMBER_EPOCH)

    # ---------------------------------------------------------------- replay

    def set_subscription(self, member_id: str, subscription: Subscription | None) -> None:
        """Set the properties of a member; None removes it."""
        before = self.subscriptions.get(member_id)
        if before is not None:
            self._count(before, -1)
            if before.instance_id is not None and self.static_members.get(before.instance_id) == member_id:
                del self.static_members[before.instance_id]
        if subscription is None:
            self.subscriptions.pop(member_id, None)
            self.unconfirmed.pop(member_id, None)
            return
        self.subscriptions[member_id] = subscription
        self._count(subscription, 1)
        if subscription.instance_id is not None:
            self.static_members[subscription.instance_id] = member_id

    def _count(self, subscription: Subscription, change: int) -> None:
        count(self._topic_counts, subscription.topic_names, change)
        count(self._regex_counts, (subscription.topic_regex,) if subscription.topic_regex else (), change)
        self.classic_count += change * (subscription.classic is not None)

    def set_current(self, member_id: str, current: Current | None) -> None:
        """Set the assignment of a member; None removes it.

        A partition that two members seem to have, because the log lacks the record by which the first one gave it up,
        is the later one's.
        """
        before = self.currents.get(member_id)
        if before is not None:
            for key in _keys(before):
                if self.owners.get(key) == member_id:
                    del self.owners[key]
        if current is None:
            self.currents.pop(member_id, None)
            return
        self.currents[member_id] = current
        for key in _keys(current):
            self.owners[key] = member_id

    def set_regex(self, regex: str, resolved: Resolved | None) -> None:
        """Set the topics of a regular expression; None removes it."""
        if resolved is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = resolved


def _keys(current: Current) -> Iterator[tuple[UUID, int]]:
    owned: Owned
    for owned in (current.assigned, current.revoking):
        for topic_id, partitions in owned.items():
            for index in partitions:
                yield topic_id, index
