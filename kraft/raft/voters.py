"""Who votes: one set of voters, and the sets that the log has named so far.

A set counts from the moment its record is in a node's own log, committed or not (KIP-642: "followers will begin acting
with the new voter information as soon as the log entry has been appended"), and counts no more when that record is
truncated. So there is one history per log, and it shrinks with the log.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple, Self

from kraft.immutable import immutable
from kraft.protocol.message import ZERO_UUID
from kraft.raft.types import UNKNOWN_OFFSET, Endpoints, ReplicaKey

RECONFIGURABLE: Final = 1
"""The first `kraft.version` in which voters are records of the log and can be changed."""


class VersionRange(NamedTuple):
    """The lowest and the highest `kraft.version` that a voter supports."""

    lowest: int
    highest: int


KRAFT_VERSIONS: Final = VersionRange(0, 1)
"""What this code supports."""

NO_RECONFIGURATION: Final = VersionRange(0, 0)
"""What a node supports that says nothing about it."""


@immutable
class Voter:
    """A replica that votes, where it listens, and what it supports."""

    key: ReplicaKey
    endpoints: Endpoints = ()
    kraft_versions: VersionRange = KRAFT_VERSIONS

    def __str__(self) -> str:
        return f"{self.key}@{','.join(each.host for each in self.endpoints)}"


@immutable
class VoterSet:
    """The voters, by node id; where they are to go (`targets`, KIP-642's TargetVoters; None when nothing is to change),
    and the cluster's id as the first leader wrote it.

    Targets carry their directory ids, so that a disk that was replaced meanwhile is not made a voter by mistake. The
    zero id stands for whatever disk the node fetches with.
    """

    voters: tuple[Voter, ...] = ()
    targets: tuple[ReplicaKey, ...] | None = None
    cluster_id: str | None = None

    def __post_init__(self) -> None:
        ids = self.ids
        assert all(low < high for low, high in pairwise(ids)), f"voters in order, each once: {ids}"

    @classmethod
    def of(cls, *voters: Voter) -> Self:
        return cls(tuple(sorted(voters, key=lambda voter: voter.key.node_id)))

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.key.node_id for voter in self.voters)

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        return tuple(voter.key for voter in self.voters)

    @property
    def majority(self) -> int:
        """How many voters make a decision."""
        return len(self.voters) // 2 + 1

    def find(self, node_id: int) -> Voter | None:
        for voter in self.voters:
            if voter.key.node_id == node_id:
                return voter
        return None

    def has(self, key: ReplicaKey) -> bool:
        """Whether this node with this disk votes. A set that does not tell disks (kraft.version 0) asks for none; one
        that does is not satisfied by a node that does not tell its own."""
        voter = self.find(key.node_id)
        if voter is None:
            return False
        mine = voter.key.directory_id
        return mine in (key.directory_id, ZERO_UUID)

    def with_voter(self, voter: Voter) -> Self:
        """The set with this voter; one of the same node is replaced."""
        others = [each for each in self.voters if each.key.node_id != voter.key.node_id]
        return replace(self, voters=tuple(sorted([*others, voter], key=lambda each: each.key.node_id)))

    def without(self, key: ReplicaKey) -> Self:
        return replace(self, voters=tuple(voter for voter in self.voters if voter.key != key))

    def toward(self, targets: tuple[ReplicaKey, ...] | None) -> Self:
        return replace(self, targets=targets)

    def __str__(self) -> str:
        text = "{" + " ".join(map(str, self.keys)) + "}"
        return text if self.targets is None else text + "->{" + " ".join(map(str, self.targets)) + "}"


NO_VOTERS: Final = VoterSet()


class Assignment(NamedTuple):
    """What the log says at one place. `offset` is that of the record, -1 for what was there before the log."""

    offset: int
    kraft_version: int
    voters: VoterSet


class VoterHistory:
    """The assignments of one log, oldest first; there is always one.

    Invariant: offsets grow. Nothing is kept that lies before the log's start, except the one that counts there.
    """

    def __init__(self, voters: VoterSet = NO_VOTERS, kraft_version: int = 0) -> None:
        self._entries = [Assignment(UNKNOWN_OFFSET, kraft_version, voters)]
        self.latest = self._entries[-1]
        """What counts now."""

    @property
    def entries(self) -> tuple[Assignment, ...]:
        return tuple(self._entries)

    def before(self, end_offset: int) -> Assignment:
        """What counted for a log that ended at `end_offset`: for its snapshot, or for what is committed."""
        return next((entry for entry in reversed(self._entries) if entry.offset < end_offset), self._entries[0])

    def set_version(self, offset: int, kraft_version: int) -> None:
        """A KRaftVersion record at `offset`."""
        self._add(Assignment(offset, kraft_version, self.latest.voters))

    def set_voters(self, offset: int, voters: VoterSet) -> None:
        """A Voters record at `offset`."""
        self._add(Assignment(offset, self.latest.kraft_version, voters))

    def _add(self, entry: Assignment) -> None:
        assert entry.offset > self.latest.offset, f"a record at {entry.offset} after one at {self.latest.offset}"
        self._entries.append(entry)
        self.latest = entry

    def truncate(self, end_offset: int) -> None:
        """The log was cut: what stood at or behind `end_offset` never counted."""
        while len(self._entries) > 1 and self._entries[-1].offset >= end_offset:
            self._entries.pop()
        self.latest = self._entries[-1]

    def trim(self, start_offset: int) -> None:
        """The log now starts at `start_offset`."""
        first = self._entries.index(self.before(start_offset))
        del self._entries[:first]

    def restart(self, end_offset: int, kraft_version: int, voters: VoterSet) -> None:
        """The log was replaced by a snapshot of everything below `end_offset`."""
        self._entries = [Assignment(end_offset - 1, kraft_version, voters)]
        self.latest = self._entries[-1]
