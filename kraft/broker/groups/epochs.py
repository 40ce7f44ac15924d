"""Common part of groups whose members are assigned partitions or tasks by the coordinator: their epochs, topics and
targets.

A change of what the group reads raises its epoch. The target assignment is computed for an epoch, later than the change
that raised it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")
"""Target of a member."""

FIRST_EPOCH: Final = 1
"""Epoch of a group and of its target before the first record of each."""


class GroupEpoch(NamedTuple):
    """Record of a group's epoch. `metadata_hash` is of the topics that the group subscribes to; 0 for none."""

    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0


class TargetEpoch(NamedTuple):
    """Record of the target's epoch. `computed_ms` is when the target was computed; 0 when that is unknown."""

    epoch: int = FIRST_EPOCH
    computed_ms: int = 0


class EpochGroup(Generic[T]):
    """Part of one group. Only its records change it, but for `job` and `seen_topics`."""

    __slots__ = ("_epoch", "_target_epoch", "_topic_counts", "group_id", "job", "seen_topics", "targets")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self._epoch: GroupEpoch | None = None
        self._target_epoch: TargetEpoch | None = None
        self.targets: dict[str, T] = {}                 # target of each member
        self._topic_counts: Counter[str] = Counter()    # topic name -> number of members that name it
        # Memory only:
        self.seen_topics: object = None                 # metadata that the hash was last compared with
        self.job: Generator[None, None, None] | None = None        # work on a target that is under way

    @property
    def is_blank(self) -> bool:
        """True without any record: the group does not exist."""
        raise AssertionError("a kind of group defines what its records are")

    @property
    def is_empty(self) -> bool:
        """True without members."""
        raise AssertionError("a kind of group defines what its members are")

    @property
    def epoch(self) -> int:
        return FIRST_EPOCH if self._epoch is None else self._epoch.epoch

    @property
    def metadata_hash(self) -> int:
        return 0 if self._epoch is None else self._epoch.metadata_hash

    @property
    def target_epoch(self) -> int:
        return FIRST_EPOCH if self._target_epoch is None else self._target_epoch.epoch

    @property
    def target_computed_ms(self) -> int:
        """Time when the target was computed; 0 when that is unknown."""
        return 0 if self._target_epoch is None else self._target_epoch.computed_ms

    @property
    def has_epoch(self) -> bool:
        return self._epoch is not None

    @property
    def has_target_epoch(self) -> bool:
        return self._target_epoch is not None

    def target_due_ms(self, now_ms: int, interval_ms: int) -> int:
        """Return the time from which the next target may be computed, `interval_ms` after the last one. A clock that
        went back does not delay it further."""
        return min(self.target_computed_ms, now_ms) + (interval_ms if self.target_computed_ms else 0)

    def topic_counts(self) -> dict[str, int]:
        """Return how many members name each topic, without regular expressions."""
        return dict(self._topic_counts)

    # ---------------------------------------------------------------- replay

    def set_epoch(self, epoch: GroupEpoch | None) -> None:
        self._epoch = epoch

    def set_target_epoch(self, epoch: TargetEpoch | None) -> None:
        self._target_epoch = epoch

    def set_target(self, member_id: str, target: T | None) -> None:
        """Set the target of a member; None removes it."""
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target


def count(counts: Counter[str], names: Iterable[str], change: int) -> None:
    """Add `change` to the count of each name; names that reach 0 are removed."""
    for name in names:
        counts[name] += change
        if not counts[name]:
            del counts[name]
