"""Assignor `range`: of each topic, every subscriber gets one run of partitions, the first ones one more.

Topics with as many partitions and the same subscribers are divided in the same way, so that a member has the same
partitions of each.
"""

from collections.abc import Generator
from uuid import UUID

from kraft.broker.groups.consumer.assignors.spec import STEP, Spec
from kraft.broker.groups.consumer.member import Partitions


def assign_ranges(spec: Spec) -> Generator[None, None, dict[str, Partitions]]:
    """Return the partitions of each member, in steps."""
    assigned: dict[str, dict[UUID, tuple[int, ...]]] = {member_id: {} for member_id in spec.members}
    subscribers: dict[UUID, list[str]] = {}
    for number, member_id in enumerate(spec.ordered()):
        for topic_id in spec.members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
        if number % STEP == STEP - 1:
            yield
    work = 0
    for topic_id in sorted(subscribers):
        members = subscribers[topic_id]
        least, extra = divmod(spec.partition_counts[topic_id], len(members))
        start = 0
        for position, member_id in enumerate(members):
            end = start + least + (position < extra)
            if start == end:
                break
            assigned[member_id][topic_id] = tuple(range(start, end))
            work += 1 + end - start
            start = end
            if work >= STEP:
                work = 0
                yield
    return dict(assigned)
