"""Assignor `simple`: a partition may have several members, as many as it takes to give every member about as many.

Where all members subscribe to the same topics, their partitions are divided together. Otherwise each topic is divided
among its own subscribers. Each division has these rules, balance before stickiness:

1. With n members and p partitions each partition has ceil(n / p) members.
2. Members have as many partitions as each other, within one.
3. Members keep what they had as far as the first two rules allow.

It is pure, gives the same result for the same input, and works in steps. Like that of Kafka it ignores racks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kraft.broker.groups.consumer.member import Partitions

STEP: Final = 64
"""Partitions or members that one step visits."""

Place: TypeAlias = tuple[UUID, int]
"""A partition by its topic and index."""
Sets: TypeAlias = dict[str, dict[Place, None]]
"""Partitions of each member."""


class SharingMember(NamedTuple):
    """Member of a group: the existing topics that it subscribes to, and its previous target."""

    topics: Mapping[UUID, None]
    previous: Partitions


class Spec(NamedTuple):
    """Members by id, and the partitions of every topic that may be assigned, in order."""

    members: Mapping[str, SharingMember]
    assignable: Mapping[UUID, Sequence[int]]

    @property
    def is_homogeneous(self) -> bool:
        """True when all members subscribe to the same topics."""
        members = iter(self.members.values())
        first = next(members, None)
        return first is None or all(
            each.topics is first.topics or each.topics.keys() == first.topics.keys() for each in members)


def assign_simply(spec: Spec) -> Generator[None, None, dict[str, Partitions]]:
    """Return the partitions of each member, in steps."""
    assigned: Sets = {member_id: {} for member_id in spec.members}
    if spec.is_homogeneous:
        yield from _divide(spec, sorted(spec.members), sorted(spec.assignable), assigned)
    else:
        subscribers: dict[UUID, list[str]] = {}
        for member_id in sorted(spec.members):
            for topic_id in spec.members[member_id].topics:
                subscribers.setdefault(topic_id, []).append(member_id)
            yield
        for topic_id in sorted(subscribers):
            yield from _divide(spec, subscribers[topic_id], [topic_id], assigned)
    found: dict[str, Partitions] = {}
    for member_id, places in assigned.items():
        topics: dict[UUID, list[int]] = {}
        for topic_id, index in places:
            topics.setdefault(topic_id, []).append(index)
        found[member_id] = {topic_id: tuple(sorted(topics[topic_id])) for topic_id in sorted(topics)}
        yield
    return found


class _Division:
    """Division of partitions among members, in the making."""

    def __init__(self, quotas: Mapping[str, int], sharing: int) -> None:
        self.holders: dict[Place, dict[str, None]] = {}
        self.held: Sets = {member_id: {} for member_id in quotas}
        self.quotas = quotas
        self.sharing = sharing

    def add(self, places: Iterable[Place]) -> None:
        """Add partitions that no member has."""
        self.holders.update((place, {}) for place in places)

    def has_room(self, member_id: str) -> bool:
        return len(self.held[member_id]) < self.quotas[member_id]

    def is_open(self, place: Place) -> bool:
        return len(self.holders[place]) < self.sharing

    def give(self, member_id: str, place: Place) -> None:
        self.holders[place][member_id] = None
        self.held[member_id][place] = None

    def take(self, member_id: str, place: Place) -> None:
        del self.holders[place][member_id]
        del self.held[member_id][place]


def _divide(spec: Spec, members: Sequence[str], topic_ids: Iterable[UUID],
            assigned: Sets) -> Generator[None, None, None]:
    """Divide the partitions of some topics among the members that subscribe to all of them; add them to
    `assigned`."""
    places: list[Place] = []
    for topic_id in topic_ids:
        indexes = spec.assignable.get(topic_id, ())
        for start in range(0, len(indexes), STEP):
            places += ((topic_id, index) for index in indexes[start:start + STEP])
            yield
    if not places or not members:
        return
    sharing = -(-len(members) // len(places))
    known = dict.fromkeys(places)
    previous: dict[str, list[Place]] = {}
    work = 0
    for member_id in members:
        had = spec.members[member_id].previous
        previous[member_id] = [(topic_id, index) for topic_id, indexes in had.items() for index in indexes
                               if (topic_id, index) in known]
        work += 1 + sum(map(len, had.values()))
        if work >= STEP:
            work = 0
            yield
    # A member that has more than another is the first to be allowed one more, so it need not give that up.
    ranked = sorted(members, key=lambda member_id: -len(previous[member_id]))
    division = _Division(_quotas(ranked, sharing * len(places)), sharing)
    for start in range(0, len(places), STEP):
        division.add(places[start:start + STEP])
        yield
    for member_id in ranked:
        for place in previous[member_id]:
            if division.has_room(member_id) and division.is_open(place):
                division.give(member_id, place)
        work += 1 + len(previous[member_id])
        if work >= STEP:
            work = 0
            yield
    yield from _fill(division, ranked)
    for member_id in members:
        assigned[member_id].update(division.held[member_id])
    yield


def _quotas(ranked: Sequence[str], total: int) -> dict[str, int]:
    least, extra = divmod(total, len(ranked))
    return {member_id: least + (position < extra) for position, member_id in enumerate(ranked)}


def _fill(division: _Division, ranked: Sequence[str]) -> Generator[None, None, None]:
    """Give the members what they have room for. Members and partitions have the same room together."""
    open_places = deque(place for place in division.holders if division.is_open(place))
    work = 0
    for member_id in ranked:
        while division.has_room(member_id):
            place = _first_new(division, member_id, open_places)
            if place is None:
                place = _exchanged(division, member_id, open_places)
            division.give(member_id, place)
            if division.is_open(place):
                open_places.append(place)
            work += 1
            if work >= STEP:
                work = 0
                yield


def _first_new(division: _Division, member_id: str, open_places: deque[Place]) -> Place | None:
    """Remove and return the first open partition that the member does not have; None when it has all of them."""
    for _ in range(len(open_places)):
        place = open_places.popleft()
        if member_id not in division.holders[place]:
            return place
        open_places.append(place)
    return None


def _exchanged(division: _Division, member_id: str, open_places: deque[Place]) -> Place:
    """Let another member exchange a partition that this one does not have for an open one; return it.

    There is such a member: this one has fewer partitions than there are, so it lacks one. That one is not open, so it
    has more members than an open one, and one of them does not have the open one.
    """
    wanted = next(place for place in division.holders if member_id not in division.holders[place])
    offered = open_places.popleft()
    other = next(each for each in division.holders[wanted] if each not in division.holders[offered])
    division.take(other, wanted)
    division.give(other, offered)
    if division.is_open(offered):
        open_places.append(offered)
    return wanted
