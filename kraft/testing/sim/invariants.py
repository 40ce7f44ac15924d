"""What must hold after every event, by the names that the specifications use, and what a client was promised.

The checker sees all nodes at once. It does not trust them: what is durable it reads from their disks, votes and leaders
it remembers from what they said.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

from kraft.raft.roles import Leader
from kraft.raft.types import OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import Assignment
from kraft.testing.memory_log import Record

if TYPE_CHECKING:
    from kraft.testing.sim.node import SimNode

EMPTY_DIGEST = b""


class ViolationError(AssertionError):
    """An invariant does not hold; `name` says which."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name


@dataclass(slots=True)
class Checker:
    """`committed[i]` is the record at offset i that some node has called committed; `digests[i]` stands for all below
    i, and is what snapshots carry as their state. `checks` counts by name."""

    nodes: Mapping[int, "SimNode"]
    committed: list[Record] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=lambda: [EMPTY_DIGEST])
    leaders: dict[int, int] = field(default_factory=dict)
    votes: dict[tuple[ReplicaKey, int], ReplicaKey] = field(default_factory=dict)
    epochs: dict[ReplicaKey, int] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)
    checks: dict[str, int] = field(default_factory=dict)
    _looked_at: dict[int, Assignment] = field(default_factory=dict)

    def _require(self, name: str, holds: bool, *what: object) -> None:
        """`what` is made text only when it is needed."""
        self.checks[name] = self.checks.get(name, 0) + 1
        if not holds:
            raise ViolationError(name, " ".join(map(str, what)))

    # --- events

    def voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey) -> None:
        """A standard vote has left its voter."""
        before = self.votes.setdefault((voter, epoch), candidate)
        self._require("OneVotePerEpoch", before == candidate,
                      voter, "voted for", before, "and for", candidate, "in epoch", epoch)

    def led(self, node: "SimNode") -> None:
        """A node has become leader."""
        replica = node.up.replica
        before = self.leaders.setdefault(replica.epoch, node.node_id)
        self._require("ElectionSafety", before == node.node_id,
                      "epoch", replica.epoch, "has the leaders", before, node.node_id)
        if before != node.node_id or replica.epoch < max(self.leaders):
            return  # a late winner of an old election need not have what a later leader committed
        end_offset = len(self.committed)
        has_all = node.log.end.offset >= end_offset and (
            node.log.start_offset >= end_offset or end_offset == 0
            or node.log.record_at(end_offset - 1) == self.committed[-1])
        self._require("LeaderCompleteness", has_all,
                      node.node_id, "leads epoch", replica.epoch, "to", node.log.end, "; committed", end_offset)

    def high_watermark_moved(self, node: "SimNode", before: int, after: int) -> None:
        """A node calls everything below `after` committed."""
        self._require("MonotonicHighWatermark", after > before, node.node_id, "went from", before, "to", after)
        for offset in range(max(before, node.log.start_offset), after):
            record = node.log.record_at(offset)
            if offset < len(self.committed):
                self._require("ConsistentCommittedData", record == self.committed[offset],
                              "offset", offset, "is", self.committed[offset], "and at", node.node_id, record)
            else:
                self._require("NoGapInCommitted", offset == len(self.committed), offset, "at", node.node_id)
                self.committed.append(record)
                chain = blake2b(self.digests[-1], digest_size=8)
                chain.update(repr(record).encode())
                self.digests.append(chain.digest())
        if isinstance(node.up.replica.role, Leader):
            self._check_majority(node, after)

    def _check_majority(self, leader: "SimNode", end_offset: int) -> None:
        """With the voters of now or those before them: the core may have changed them right after it committed."""
        last = self.committed[end_offset - 1]
        having = [node.key for node in self.nodes.values() if node.log.has_durably(end_offset, last)]
        sets = [entry.voters for entry in leader.up.replica.history.entries[-2:]]
        holds = any(len([key for key in having if voters.has(key)]) >= voters.majority for voters in sets)
        self._require("MajorityReachedHighWatermark", holds,
                      leader.node_id, "committed", end_offset, "; durable at", *having, "of", sets[-1])

    def installed(self, node: "SimNode", snapshot: OffsetAndEpoch) -> None:
        """A snapshot has replaced a node's log."""
        self._require("LeaderNeverLoadsSnapshot", not isinstance(node.up.replica.role, Leader), node.node_id)
        self._require("SnapshotIsCommitted", snapshot.offset < len(self.digests), snapshot, "at", node.node_id)
        if snapshot in node.snapshots.ids():
            self._require("ConsistentSnapshots", node.snapshots.state(snapshot) == self.digests[snapshot.offset],
                          snapshot, "at", node.node_id)

    def saved(self, node: "SimNode", epoch: int) -> None:
        """quorum-state has become durable."""
        before = self.epochs.get(node.key, 0)
        self._require("MonotonicEpoch", epoch >= before, node.node_id, "went from epoch", before, "to", epoch)
        self.epochs[node.key] = epoch

    # --- states

    def check_node(self, node: "SimNode") -> None:
        """After an event at a node that is up."""
        replica = node.up.replica
        start = node.log.start_offset
        self._require("SnapshotAtLogStart",
                      start == 0 or any(each.offset == start for each in node.snapshots.ids()),
                      node.node_id, "starts at", start)
        self._require("HighWatermarkInLog", start <= replica.high_watermark <= node.log.end.offset,
                      node.node_id, replica.high_watermark, "in", start, node.log.end)
        latest = replica.history.latest
        if self._looked_at.get(node.node_id) is not latest:
            self._looked_at[node.node_id] = latest
            self._check_voters(node)

    def _check_voters(self, node: "SimNode") -> None:
        for older, newer in pairwise(node.up.replica.history.entries[-3:]):
            now, before = newer.voters.keys, older.voters.keys
            changed = [key for key in now if key not in before] + [key for key in before if key not in now]
            self._require("OneVoterAtATime", len(changed) <= 1 or not before, older, "->", newer, "at", node.node_id)

    def check_logs(self) -> None:
        """LogMatching over all pairs: the same epoch at the same offset means the same records up to there."""
        nodes = [node for node in self.nodes.values() if node.raft is not None]
        for one in nodes:
            for other in nodes:
                if one.node_id < other.node_id:
                    self._check_pair(one, other)

    def _check_pair(self, one: "SimNode", other: "SimNode") -> None:
        start = max(one.log.start_offset, other.log.start_offset)
        end = min(one.log.end.offset, other.log.end.offset)
        while end > start and one.log.record_at(end - 1).epoch != other.log.record_at(end - 1).epoch:
            end -= 1
        for offset in range(start, end):
            self._require("LogMatching", one.log.record_at(offset) == other.log.record_at(offset),
                          "offset", offset, "at", one.node_id, "and", other.node_id)

    def check_acknowledged(self) -> None:
        """Durability: what a client was told is committed is there, once, where it was told."""
        places: dict[object, int] = {}
        for offset, record in enumerate(self.committed):
            if isinstance(record.value, str):
                self._require("NoDuplicates", record.value not in places, record.value, "at", offset)
                places[record.value] = offset
        for value, offset in self.acknowledged.items():
            self._require("Durability", places.get(value) == offset,
                          value, "was acknowledged at", offset, ", found at", places.get(value))
