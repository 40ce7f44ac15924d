"""Member of a consumer group: its subscription and its assignment. Neither ever changes; records replace them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

Partitions: TypeAlias = Mapping[UUID, tuple[int, ...]]
"""Partitions by topic, each tuple in order and not empty."""
Owned: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic, each with the epoch in which its member got it (KIP-1251); no topic is empty."""

NOTHING: Final[Owned] = {}
JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
"""Epoch of a static member that left for a while, and may come back with another member id."""


class MemberState(IntEnum):
    """State of a member on the way to its target, with its number in records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member has yet to give partitions up."""
    UNRELEASED_PARTITIONS = 2
    """Other members have yet to give up partitions that are meant for this one."""
    UNKNOWN = 127
    """A newer version wrote another state."""

    @classmethod
    def of(cls, number: int) -> MemberState:
        """Return the state of a number in a record."""
        return cls(number) if number in (0, 1, 2) else cls.UNKNOWN


class ClassicPart(NamedTuple):
    """Part of a member that uses the classic protocol in a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Subscription(NamedTuple):
    """Properties of a member, from its record of type 5. `topic_regex` is empty without one."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicPart | None = None


class Current(NamedTuple):
    """Assignment of a member, from its record of type 8. Partitions in `revoking` are the member's until it gives them
    up."""

    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Owned = NOTHING
    revoking: Owned = NOTHING

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Return whether the member has all of its target of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


NEW_MEMBER: Final = Current()


def partitions_of(owned: Owned) -> dict[UUID, tuple[int, ...]]:
    """Return the partitions without their epochs."""
    return {topic_id: tuple(sorted(partitions)) for topic_id, partitions in owned.items()}


def sorted_partitions(listed: Iterable[tuple[UUID, Iterable[int]]]) -> dict[UUID, tuple[int, ...]]:
    """Return partitions by topic, each once and in order, without empty topics."""
    found: dict[UUID, dict[int, None]] = {}
    for topic_id, partitions in listed:
        found.setdefault(topic_id, {}).update(dict.fromkeys(partitions))
    return {topic_id: tuple(sorted(partitions)) for topic_id, partitions in found.items() if partitions}
