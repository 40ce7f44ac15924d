"""Outcome of the failure of one broker now: the elections that the controller would make, computed from metadata.

The rule is the controller's: the first replica in the partition's order that is in sync and whose broker is up becomes
the leader. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kraft.client.partitions import Partition


class Placed(NamedTuple):
    """One partition as metadata has it."""

    partition: Partition
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Outcome(NamedTuple):
    """State after the failure.

    `moved` counts leaderships that move, by their new broker. `without_leader`: partitions that nobody leads then.
    `below_minimum`: partitions that still have a leader and refuse acks=all. `last_copy`: partitions where only one
    in-sync replica remains. `was_leading` counts the broker's current leaderships. `voters` and `voters_needed` are
    those that remain and those that a majority needs; None when the broker is not a voter.
    """

    broker: int
    was_leading: int
    moved: Mapping[int, int]
    without_leader: tuple[Partition, ...]
    below_minimum: tuple[Partition, ...]
    last_copy: tuple[Partition, ...]
    leaders_after: Mapping[int, int]
    voters: int | None = None
    voters_needed: int | None = None

    @property
    def is_harmless(self) -> bool:
        """Return whether every partition still accepts acks=all, and a majority of voters remains."""
        has_majority = self.voters is None or self.voters_needed is None or self.voters >= self.voters_needed
        return not self.without_leader and not self.below_minimum and has_majority


def needing_minimum(broker: int, placed: Iterable[Placed]) -> list[str]:
    """Return the topics whose min.insync.replicas decides about the outcome."""
    return list(dict.fromkeys(each.partition[0] for each in placed
                              if broker in each.isr and 2 <= len(each.isr) <= len(each.replicas)))


def what_if(broker: int, placed: Iterable[Placed], up: Iterable[int], minimums: Mapping[str, int],
            voters: Iterable[int] = (), up_voters: Iterable[int] | None = None) -> Outcome:
    """Return the outcome of the failure of `broker`. `up`: brokers that are up now. `minimums`: min.insync.replicas by
    topic, 1 where it is not known. `voters`: ids of the metadata quorum, of which `up_voters` answer, by default all.
    """
    remaining = [each for each in up if each != broker]
    moved: Counter[int] = Counter()
    leaders: Counter[int] = Counter(dict.fromkeys(remaining, 0))
    without_leader, below, last_copy, was_leading = [], [], [], 0
    for each in placed:
        was_leading += each.leader == broker
        isr = [replica for replica in each.replicas if replica in each.isr and replica in remaining]
        leader = each.leader if each.leader in remaining else (isr[0] if isr else -1)
        if leader >= 0:
            leaders[leader] += 1
        if broker not in each.replicas:
            continue
        if leader < 0:
            without_leader.append(each.partition)
            continue
        if each.leader == broker:
            moved[leader] += 1
        needed = min(minimums.get(each.partition[0], 1), len(each.replicas))
        if broker in each.isr and len(isr) < needed:
            below.append(each.partition)
        if len(each.replicas) > 1 and len(isr) == 1 and broker in each.isr:
            last_copy.append(each.partition)
    ids = tuple(voters)
    alive = ids if up_voters is None else [each for each in up_voters if each in ids]
    is_voter = broker in ids
    return Outcome(broker, was_leading, dict(sorted(moved.items())), tuple(without_leader), tuple(below),
                   tuple(last_copy), dict(sorted(leaders.items())),
                   len([each for each in alive if each != broker]) if is_voter else None,
                   len(ids) // 2 + 1 if is_voter else None)
