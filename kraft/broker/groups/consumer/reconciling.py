"""Step of one member from its current assignment towards its target (KIP-848, CurrentAssignmentBuilder).

A member first gives up what its target does not have, and says so by no longer naming it. Then it enters the epoch of
the target, with those partitions of it that no other member has. It gets the others as they become free.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NamedTuple
from uuid import UUID

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.consumer.member import Current, MemberState, Owned, Partitions
from kraft.protocol.error_codes import ErrorCode


class Target(NamedTuple):
    """Target assignment of one member. `subscribed` are the topics of its present subscription, which the target may
    not know yet."""

    epoch: int
    partitions: Partitions
    subscribed: Container[UUID]


def next_assignment(current: Current, target: Target, is_free: Callable[[UUID, int], bool],
                    named: Partitions | None) -> Current:
    """Return the member's next assignment; `current` itself when it has to wait, or nothing is to be done.

    `is_free` returns whether no other member has a partition. `named` are the partitions that the member has, as its
    heartbeat says; None when it says nothing about them. Refuses with FENCED_MEMBER_EPOCH a member in an unknown state
    that has partitions.
    """
    if current.state is MemberState.STABLE:
        if current.epoch == target.epoch and all(topic_id in target.subscribed for topic_id in current.assigned):
            return current
        return _towards(current, current.epoch, target, is_free, named)
    if current.state is MemberState.UNREVOKED_PARTITIONS:
        if _names_any(named, current.revoking):
            return current
        # A partition that comes back to this member was given up by it, so nobody else has it (KAFKA-16147).
        return _towards(current._replace(revoking={}), min(current.epoch + 1, target.epoch), target, is_free, named)
    if current.state is MemberState.UNRELEASED_PARTITIONS:
        return _towards(current, current.epoch, target, is_free, named)
    if named is None or named:
        raise RefusedError(ErrorCode.FENCED_MEMBER_EPOCH, "The member is in a state that this version does not know. "
                           "It must give up all of its partitions and join again.")
    return _towards(current, target.epoch, target, is_free, named)


def _names_any(named: Partitions | None, partitions: Owned) -> bool:
    """Return whether the member still has any of `partitions`; a member that says nothing may have them all."""
    if named is None:
        return True
    return any(not partitions.get(topic_id, {}).keys().isdisjoint(indexes) for topic_id, indexes in named.items())


def _towards(current: Current, epoch: int, target: Target, is_free: Callable[[UUID, int], bool],
             named: Partitions | None) -> Current:
    """Return the next assignment of a member that is in `epoch`."""
    kept: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    for topic_id, owned in current.assigned.items():
        wanted = target.partitions.get(topic_id, ()) if topic_id in target.subscribed else ()
        kept[topic_id] = {index: since for index, since in owned.items() if index in wanted}
        revoking[topic_id] = {index: since for index, since in owned.items() if index not in wanted}
    kept, revoking = _without_empty(kept), _without_empty(revoking)
    if revoking and _names_any(named, revoking):
        return _entering(current, epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    is_waiting = False
    for topic_id, indexes in target.partitions.items():
        if topic_id not in target.subscribed:
            continue
        has = kept.get(topic_id, {})
        for index in indexes:
            if index in has:
                continue
            if is_free(topic_id, index):
                kept.setdefault(topic_id, {})[index] = target.epoch
            else:
                is_waiting = True
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return _entering(current, target.epoch, state, kept, {})


def _without_empty(owned: dict[UUID, dict[int, int]]) -> dict[UUID, dict[int, int]]:
    return {topic_id: partitions for topic_id, partitions in owned.items() if partitions}


def _entering(current: Current, epoch: int, state: MemberState, assigned: Owned, revoking: Owned) -> Current:
    """Return the assignment in `epoch`. The epoch before it stays known: the answer with the new one may be lost."""
    previous = current.previous_epoch if epoch == current.epoch else current.epoch
    return Current(epoch, previous, state, assigned, revoking)
