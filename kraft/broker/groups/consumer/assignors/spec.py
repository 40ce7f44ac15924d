"""Input of an assignor."""

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from kraft.broker.groups.consumer.member import Partitions

STEP: Final = 64
"""Partitions or members that an assignor visits in one step."""


class AssignedMember(NamedTuple):
    """Member of a group: the existing topics that it subscribes to, and its previous target."""

    instance_id: str | None
    topics: Mapping[UUID, None]
    previous: Partitions


class Spec(NamedTuple):
    """Members by id, and the number of partitions of every topic that one of them subscribes to."""

    members: Mapping[str, AssignedMember]
    partition_counts: Mapping[UUID, int]

    def ordered(self) -> list[str]:
        """Return the member ids: static members first, by instance, then the others. A static member that comes back
        with another member id keeps its place."""
        return sorted(self.members, key=self._place)

    def _place(self, member_id: str) -> tuple[bool, str]:
        instance_id = self.members[member_id].instance_id
        return instance_id is None, member_id if instance_id is None else instance_id

    @property
    def is_homogeneous(self) -> bool:
        """True when all members subscribe to the same topics."""
        members = iter(self.members.values())
        first = next(members, None)
        return first is None or all(
            each.topics is first.topics or each.topics.keys() == first.topics.keys() for each in members)
