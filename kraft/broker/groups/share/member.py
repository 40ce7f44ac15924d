"""Member of a share group: its subscription and its assignment. Neither ever changes; records replace them."""

from __future__ import annotations

from typing import Final, NamedTuple

from kraft.broker.groups.consumer.member import JOINING_EPOCH, Partitions

NO_PARTITIONS: Final[Partitions] = {}
STABLE: Final = 0
"""State of every member in its record: a member need not give partitions up before it gets others."""


class Subscription(NamedTuple):
    """Properties of a member, from its record of type 10."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()


class Current(NamedTuple):
    """Assignment of a member, from its record of type 14."""

    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    state: int = STABLE
    assigned: Partitions = NO_PARTITIONS


NEW_MEMBER: Final = Current()
