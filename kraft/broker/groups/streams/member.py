"""Member of a streams group: its properties and its tasks. Neither ever changes; records replace them."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from kraft.broker.groups.consumer.member import JOINING_EPOCH
from kraft.broker.groups.streams.tasks import HOLDS_NOTHING, Held


class MemberState(IntEnum):
    """State of a member on the way to its target, with its number in records."""

    STABLE = 0
    UNREVOKED_TASKS = 1
    """The member has yet to give tasks up."""
    UNRELEASED_TASKS = 2
    """Other members have yet to give up tasks that are meant for this one."""
    UNKNOWN = 127
    """A newer version wrote another state."""

    @classmethod
    def of(cls, number: int) -> MemberState:
        """Return the state of a number in a record."""
        return cls(number) if number in (0, 1, 2) else cls.UNKNOWN


class Endpoint(NamedTuple):
    """Address at which a process answers queries of its state."""

    host: str
    port: int


class Properties(NamedTuple):
    """Properties of a member, from its record of type 19. Members of one process have the same `process_id`."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()


class Current(NamedTuple):
    """Tasks of a member, from its record of type 22. Those in `revoking` are the member's until it gives them up."""

    epoch: int = JOINING_EPOCH
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Held = HOLDS_NOTHING
    revoking: Held = HOLDS_NOTHING

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Return whether the member has all of its target of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


NEW_MEMBER: Final = Current()
