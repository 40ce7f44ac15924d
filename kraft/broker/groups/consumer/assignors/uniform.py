"""Assignor `uniform`: members have as many partitions as each other, within one, and keep what they had.

Where all members subscribe to the same topics, both goals are reached at once: no member gives up a partition unless it
has too many. Otherwise partitions first go to the member that has the fewest, rare topics first. Then partitions move
from members with more to members with fewer, until no move of one partition makes the group more even, or
`ROUNDS_MAX` is reached.
"""

from collections.abc import Generator, Iterable
from heapq import heapify, heappop, heappush
from typing import Final
from uuid import UUID

from kraft.broker.groups.consumer.assignors.spec import STEP, Spec
from kraft.broker.groups.consumer.member import Partitions

ROUNDS_MAX: Final = 16
"""Rounds over all topics; overlapping subscriptions may need many, and each about halves the imbalance."""

_Sets = dict[str, dict[UUID, dict[int, None]]]
"""Partitions by member and topic."""


def assign_uniformly(spec: Spec) -> Generator[None, None, dict[str, Partitions]]:
    """Return the partitions of each member, in steps."""
    order = spec.ordered()
    kept, free = yield from _kept(spec, order)
    if spec.is_homogeneous:
        yield from _level(spec, order, kept, free)
    else:
        yield from _spread(spec, order, kept, free)
    assigned: dict[str, Partitions] = {}
    for number, member_id in enumerate(spec.members):
        assigned[member_id] = {topic_id: tuple(sorted(partitions))
                               for topic_id, partitions in sorted(kept[member_id].items()) if partitions}
        if number % STEP == STEP - 1:
            yield
    return assigned


def _kept(spec: Spec, order: Iterable[str]) -> Generator[None, None, tuple[_Sets, dict[UUID, list[int]]]]:
    """Return what the members keep of their previous targets, and the partitions that nobody keeps."""
    taken: dict[UUID, dict[int, None]] = {topic_id: {} for topic_id in spec.partition_counts}
    kept: _Sets = {}
    work = 0
    for member_id in order:
        member = spec.members[member_id]
        mine = kept[member_id] = {}
        for topic_id, partitions in member.previous.items():
            if topic_id in member.topics:
                count, others = spec.partition_counts[topic_id], taken[topic_id]
                mine[topic_id] = {index: None for index in partitions if index < count and index not in others}
                others.update(mine[topic_id])
                work += len(partitions)
        work += 1
        if work >= STEP:
            work = 0
            yield
    free: dict[UUID, list[int]] = {}
    for topic_id in sorted(spec.partition_counts):
        free[topic_id] = [index for index in range(spec.partition_counts[topic_id]) if index not in taken[topic_id]]
        yield
    return kept, free


# -------------------------------------------------------------------- the same topics for all

def _level(spec: Spec, order: list[str], kept: _Sets, free: dict[UUID, list[int]]) -> Generator[None, None, None]:
    """Level the members of a group in which all subscribe to the same topics. Members that have more than the least
    are the first to have one more, so they need not give it up."""
    if not order:
        return
    least, extra = divmod(sum(spec.partition_counts.values()), len(order))
    sizes = {member_id: sum(map(len, kept[member_id].values())) for member_id in order}
    ranked = sorted(order, key=lambda member_id: -sizes[member_id])
    room: dict[str, int] = {}
    work = 0
    for position, member_id in enumerate(ranked):
        quota = least + (position < extra)
        surplus = sizes[member_id] - quota
        if surplus > 0:
            _release(kept[member_id], surplus, free)
            work += surplus
        elif surplus < 0:
            room[member_id] = -surplus
        work += 1
        if work >= STEP:
            work = 0
            yield
    # One partition to each in turn, so that every member gets a part of every topic.
    takers = [member_id for member_id in order if member_id in room]
    position = 0
    for topic_id, indexes in free.items():
        for index in sorted(indexes):
            position %= len(takers)
            member_id = takers[position]
            kept[member_id].setdefault(topic_id, {})[index] = None
            room[member_id] -= 1
            if room[member_id]:
                position += 1
            else:
                del takers[position]
            work += 1
            if work >= STEP:
                work = 0
                yield


def _release(mine: dict[UUID, dict[int, None]], count: int, free: dict[UUID, list[int]]) -> None:
    """Take `count` partitions away, of the topics of which there are most."""
    for _ in range(count):
        topic_id = max(mine, key=lambda each: (len(mine[each]), each))
        index = max(mine[topic_id])
        del mine[topic_id][index]
        free[topic_id].append(index)


# -------------------------------------------------------------------- different topics

def _spread(spec: Spec, order: list[str], kept: _Sets, free: dict[UUID, list[int]]) -> Generator[None, None, None]:
    """Assign the free partitions, then even the members out."""
    rank = {member_id: position for position, member_id in enumerate(order)}
    sizes = {member_id: sum(map(len, kept[member_id].values())) for member_id in order}
    subscribers: dict[UUID, list[str]] = {}
    for number, member_id in enumerate(order):
        for topic_id in spec.members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
        if number % STEP == STEP - 1:
            yield
    topics = sorted(subscribers, key=lambda each: (len(subscribers[each]), -spec.partition_counts[each], each))
    for topic_id in topics:
        yield from _give(topic_id, free[topic_id], subscribers[topic_id], rank, sizes, kept)
    for _ in range(ROUNDS_MAX):
        moved = 0
        for topic_id in topics:
            moved += yield from _even_out(topic_id, subscribers[topic_id], rank, sizes, kept)
        if not moved:
            return


def _give(topic_id: UUID, indexes: list[int], members: list[str], rank: dict[str, int], sizes: dict[str, int],
          kept: _Sets) -> Generator[None, None, None]:
    """Give partitions of a topic, each to the subscriber that has the fewest partitions."""
    if not indexes:
        return
    heap = [(sizes[member_id], rank[member_id], member_id) for member_id in members]
    heapify(heap)
    yield
    for number, index in enumerate(indexes):
        size, position, member_id = heappop(heap)
        kept[member_id].setdefault(topic_id, {})[index] = None
        sizes[member_id] = size + 1
        heappush(heap, (size + 1, position, member_id))
        if number % STEP == STEP - 1:
            yield


def _even_out(topic_id: UUID, members: list[str], rank: dict[str, int], sizes: dict[str, int],
              kept: _Sets) -> Generator[None, None, int]:
    """Move partitions of a topic between its subscribers while that makes them more even. Return how many moved."""
    givers = [(-sizes[each], -rank[each], each) for each in members if kept[each].get(topic_id)]
    takers = [(sizes[each], rank[each], each) for each in members]
    heapify(givers)
    heapify(takers)
    yield
    moved = 0
    while givers:
        size, order, giver = givers[0]
        if -size != sizes[giver]:
            heappop(givers)         # it gave or got one meanwhile: its present entry follows
            if kept[giver].get(topic_id):
                heappush(givers, (-sizes[giver], order, giver))
            continue
        least, position, taker = takers[0]
        if least != sizes[taker]:
            heappop(takers)
            heappush(takers, (sizes[taker], position, taker))
            continue
        if sizes[giver] - sizes[taker] <= 1:
            break
        index = max(kept[giver][topic_id])
        del kept[giver][topic_id][index]
        kept[taker].setdefault(topic_id, {})[index] = None
        sizes[giver] -= 1
        sizes[taker] += 1
        moved += 1
        heappop(givers)
        if kept[giver][topic_id]:
            heappush(givers, (-sizes[giver], order, giver))
        heappop(takers)
        heappush(takers, (sizes[taker], position, taker))
        if moved % STEP == 0:
            yield
    return moved
