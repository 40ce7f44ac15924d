"""Plan of a new placement of replicas that moves as few of them as possible. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kraft.client.partitions import Partition
from kraft_native.base.errors import InvalidArgumentError

Assignment = Mapping[Partition, Sequence[int]]
"""Replicas by partition, the preferred leader first."""


@dataclass(slots=True)
class Placement:
    """Planner that counts replicas and leaders. `racks` has every broker that may have replicas, with None for a broker
    without a rack."""

    racks: Mapping[int, str | None]
    replicas: Counter[int] = field(default_factory=Counter)
    leaders: Counter[int] = field(default_factory=Counter)

    def plan(self, now: Assignment, replication_factor: int | None = None) -> dict[Partition, list[int]]:
        """Place all partitions of `now` on the allowed brokers.

        Replicas on allowed brokers stay. The others go to the brokers with the fewest replicas. Then brokers with more
        than their share give some to those with fewer, and preferred leaders are spread. Raises `InvalidArgumentError`
        when there are fewer brokers than replicas.
        """
        found: dict[Partition, list[int]] = {}
        for partition, replicas in now.items():
            found[partition] = [each for each in replicas if each in self.racks]
            self.replicas.update(found[partition])
        for partition, replicas in now.items():
            self._fit(partition, found[partition], replication_factor or len(replicas))
        self._even_out(found)
        self._spread_leaders(found)
        return found

    def _fit(self, partition: Partition, kept: list[int], count: int) -> None:
        if count > len(self.racks):
            raise InvalidArgumentError(f"{partition[0]}/{partition[1]}: {count} replicas need as many brokers; allowed "
                                       f"are {', '.join(map(str, sorted(self.racks))) or 'none'}")
        while len(kept) > count:
            dropped = max(kept[1:], key=lambda each: (self.replicas[each], each))
            kept.remove(dropped)
            self.replicas[dropped] -= 1
        while len(kept) < count:
            added = min((each for each in self.racks if each not in kept), key=lambda each: (
                self._shares_rack(each, kept), self.replicas[each], each))
            kept.append(added)
            self.replicas[added] += 1

    def _shares_rack(self, broker: int, others: Iterable[int]) -> bool:
        rack = self.racks[broker]
        return rack is not None and any(self.racks[each] == rack for each in others)

    def _even_out(self, found: dict[Partition, list[int]]) -> None:
        """Move single replicas to brokers with fewer. Each move goes to a broker that has at least two fewer than its
        source, so the loop terminates."""
        while self.racks:
            order = sorted(self.racks, key=lambda each: (self.replicas[each], each))
            if not any(self._move_one(found, source, target) for source in reversed(order) for target in order
                       if self.replicas[source] - self.replicas[target] > 1):
                return

    def _move_one(self, found: dict[Partition, list[int]], source: int, target: int) -> bool:
        for replicas in found.values():
            if source not in replicas or target in replicas:
                continue
            others = [each for each in replicas if each != source]
            if self._shares_rack(target, others) and not self._shares_rack(source, others):
                continue
            replicas[replicas.index(source)] = target
            self.replicas[source] -= 1
            self.replicas[target] += 1
            return True
        return False

    def _spread_leaders(self, found: dict[Partition, list[int]]) -> None:
        """Reorder replicas, which costs nothing: the one that leads the fewest earlier partitions becomes the preferred
        leader."""
        for replicas in found.values():
            first = min(replicas, key=lambda each: (self.leaders[each], replicas.index(each)))
            if self.leaders[replicas[0]] > self.leaders[first] + 1:
                replicas.remove(first)
                replicas.insert(0, first)
            self.leaders[replicas[0]] += 1


def changes(now: Assignment, then: Assignment) -> dict[Partition, list[int]]:
    """Return the partitions of `then` whose replicas differ from `now`."""
    return {partition: list(replicas) for partition, replicas in then.items()
            if list(now.get(partition, ())) != list(replicas)}
