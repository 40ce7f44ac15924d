"""The truth of a run: committed records, the leader elected in each epoch, and all votes.

No node knows this. The ledger grows with the actions of nodes. An action that contradicts it is a violation with the
name of the invariant.
"""

from bisect import bisect_left
from collections.abc import Iterator

from kraft.raft.types import OffsetAndEpoch, ReplicaKey
from kraft.testing.sim.batches import Batch
from kraft.testing.sim.violation import ViolationError


class Ledger:
    """Ledger of a run. `committed` has, in order, every batch that any node ever considered committed."""

    def __init__(self) -> None:
        self.committed: list[Batch] = []
        self._ends: list[int] = []
        self._ends_by_epoch: dict[int, int] = {}
        self._chains: dict[OffsetAndEpoch, int] = {}
        self.leaders: dict[int, ReplicaKey] = {}
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}

    @property
    def end_offset(self) -> int:
        return self._ends[-1] if self._ends else 0

    def appended(self, batch: Batch, where: object) -> None:
        """LogMatching: logs with a record of the same offset and epoch are identical up to it."""
        at = OffsetAndEpoch(batch.end_offset, batch.epoch)
        if self._chains.setdefault(at, batch.chain) != batch.chain:
            raise ViolationError("LogMatching", f"{where} has another log up to {at} than somebody had before")

    def elected(self, epoch: int, leader: ReplicaKey) -> None:
        """ElectionSafety: an epoch has at most one leader."""
        if self.leaders.setdefault(epoch, leader) != leader:
            raise ViolationError("ElectionSafety", f"epoch {epoch} has the leaders {self.leaders[epoch]} and {leader}")

    def voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey) -> None:
        """OneVotePerEpoch: a voter that granted its vote to one candidate grants it to no other in that epoch, also
        after a crash."""
        if self.votes.setdefault((voter, epoch), candidate) != candidate:
            raise ViolationError(
                "OneVotePerEpoch", f"{voter} votes for {candidate} in {epoch}, and did for {self.votes[voter, epoch]}")

    def commits(self, batches: list[Batch], epoch: int, where: object) -> None:
        """ConsistentCommittedData: the record that one node, in that epoch, considers committed at an offset is the
        same for all nodes."""
        if batches:
            self._ends_by_epoch[epoch] = max(self._ends_by_epoch.get(epoch, 0), batches[-1].end_offset)
        for batch in batches:
            index = bisect_left(self._ends, batch.end_offset)
            if index == len(self._ends):
                self._extend(batch, where)
            elif self.committed[index].chain != batch.chain:
                other = self.committed[index]
                raise ViolationError(
                    "ConsistentCommittedData", f"{where} has {batch.content}@{batch.epoch} as committed up to "
                                               f"{batch.end_offset}, others {other.content}@{other.epoch}")

    def _extend(self, batch: Batch, where: object) -> None:
        if batch.base_offset != self.end_offset:
            raise ViolationError(
                "ConsistentCommittedData", f"{where} commits {batch.base_offset} to {batch.end_offset}, committed was "
                                           f"{self.end_offset}")
        self.committed.append(batch)
        self._ends.append(batch.end_offset)

    def chain_at(self, end_offset: int) -> int | None:
        """Return the chain of everything committed below `end_offset`, or None when no batch ends there."""
        if end_offset == 0:
            return 0
        index = bisect_left(self._ends, end_offset)
        found = index < len(self._ends) and self._ends[index] == end_offset
        return self.committed[index].chain if found else None

    def end_before_epoch(self, epoch: int) -> int:
        """Return the end of the records that were committed in earlier epochs, whatever epoch the records have. A
        candidate that receives its votes late may lead an epoch when a later one has committed more; it can commit
        nothing."""
        return max((end for earlier, end in self._ends_by_epoch.items() if earlier < epoch), default=0)

    def contents(self) -> Iterator[Batch]:
        return iter(self.committed)
