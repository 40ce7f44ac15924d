"""Voters: one set of voters, and the sets that the log has named so far.

A set is in force from the moment its record is in a node's own log, committed or not, until that record is truncated.
KIP-642: "followers will begin acting with the new voter information as soon as the log entry has been appended". So
each log has one history, and it shrinks with the log.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple, Self

from kraft.protocol.message import ZERO_UUID
from kraft.raft.types import UNKNOWN_OFFSET, Endpoints, ReplicaKey
from kraft.structs import immutable

RECONFIGURABLE: Final = 1
"""First `kraft.version` in which voters are records of the log and can be changed."""


class VersionRange(NamedTuple):
    """Lowest and highest `kraft.version` that a voter supports."""

    lowest: int
    highest: int


KRAFT_VERSIONS: Final = VersionRange(0, 1)
"""Range that this code supports."""

NO_RECONFIGURATION: Final = VersionRange(0, 0)
"""Range of a node that does not report one."""


@immutable
class Voter:
    """Replica that votes, with its addresses and supported versions."""

    key: ReplicaKey
    endpoints: Endpoints = ()
    kraft_versions: VersionRange = KRAFT_VERSIONS

    def __str__(self) -> str:
        return f"{self.key}@{','.join(each.host for each in self.endpoints)}"


@immutable
class VoterSet:
    """Voters, by node id.

    `targets` are the voters of a reassignment (KIP-642's TargetVoters; None without one). `cluster_id` is the cluster's
    id as the first leader wrote it. Targets carry their directory ids, so that a disk that was replaced meanwhile does
    not become a voter by mistake. The zero id stands for whatever disk the node fetches with.
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
        """Number of voters that make a decision."""
        return len(self.voters) // 2 + 1

    def find(self, node_id: int) -> Voter | None:
        for voter in self.voters:
            if voter.key.node_id == node_id:
                return voter
        return None

    def has(self, key: ReplicaKey) -> bool:
        """Return whether this node votes with this disk. A set without disks (kraft.version 0) accepts any disk. A set
        with disks does not accept a node without one."""
        voter = self.find(key.node_id)
        if voter is None:
            return False
        mine = voter.key.directory_id
        return mine in (key.directory_id, ZERO_UUID)

    def with_voter(self, voter: Voter) -> Self:
        """Return the set with this voter, which replaces one of the same node."""
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
    """State of the voters at one place of the log. `offset` is that of the record, -1 for the state before the log."""

    offset: int
    kraft_version: int
    voters: VoterSet


class VoterHistory:
    """Assignments of one log, oldest first; there is always one.

    Invariant: offsets grow. No assignment before the log's start is kept, except the one in force there.
    """

    def __init__(self, voters: VoterSet = NO_VOTERS, kraft_version: int = 0) -> None:
        self._entries = [Assignment(UNKNOWN_OFFSET, kraft_version, voters)]
        self.latest = self._entries[-1]
        """Assignment in force."""

    @property
    def entries(self) -> tuple[Assignment, ...]:
        return tuple(self._entries)

    def before(self, end_offset: int) -> Assignment:
        """Return the assignment that was in force for a log that ended at `end_offset`: for its snapshot, or for what
        is committed."""
        return next((entry for entry in reversed(self._entries) if entry.offset < end_offset), self._entries[0])

    def set_version(self, offset: int, kraft_version: int) -> None:
        """Add a KRaftVersion record at `offset`."""
        self._add(Assignment(offset, kraft_version, self.latest.voters))

    def set_voters(self, offset: int, voters: VoterSet) -> None:
        """Add a Voters record at `offset`."""
        self._add(Assignment(offset, self.latest.kraft_version, voters))

    def _add(self, entry: Assignment) -> None:
        assert entry.offset > self.latest.offset, f"a record at {entry.offset} after one at {self.latest.offset}"
        self._entries.append(entry)
        self.latest = entry

    def truncate(self, end_offset: int) -> None:
        """Remove what the log lost at and behind `end_offset`, as if it had never been in force."""
        while len(self._entries) > 1 and self._entries[-1].offset >= end_offset:
            self._entries.pop()
        self.latest = self._entries[-1]

    def trim(self, start_offset: int) -> None:
        """Remove what precedes the new log start `start_offset`."""
        first = self._entries.index(self.before(start_offset))
        del self._entries[:first]

    def restart(self, end_offset: int, kraft_version: int, voters: VoterSet) -> None:
        """Restart the history from a snapshot of everything below `end_offset`, which has replaced the log."""
        self._entries = [Assignment(end_offset - 1, kraft_version, voters)]
        self.latest = self._entries[-1]
