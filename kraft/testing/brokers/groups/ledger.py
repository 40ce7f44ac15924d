"""Judge of what members own, commit and read, as they know it. No broker knows this.

Only what follows from the protocol is judged. A member owns a partition from the answer that assigns it until the
member gives it up, or may have been removed: see `Owner.is_entitled`. A commit without an answer may take effect later.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from kraft.testing.sim.violation import ViolationError

NEVER: Final = float("inf")
NO_OFFSET: Final = -1


class Key(NamedTuple):
    """Partition that a group consumes."""

    group: str
    topic_id: UUID
    partition: int


class Owner(Protocol):
    """A member."""

    @property
    def name(self) -> str:
        """Name for reports."""

    @property
    def is_entitled(self) -> bool:
        """True while no coordinator may have removed the member from its group."""


@dataclass(slots=True, eq=False)
class Commit:
    """One commit of an offset. It took effect between `sent` and `end`, both in seconds, or never."""

    number: int
    offset: int
    owner: Owner
    sent: float
    end: float = NEVER
    is_refused: bool = False


@dataclass(slots=True)
class Register:
    """Commits of one partition. `acknowledged` are the times of the answers, `latest` the last time at which any of
    the commits acknowledged until then was sent."""

    commits: dict[int, Commit] = field(default_factory=dict)
    acknowledged: list[float] = field(default_factory=list)
    latest: list[float] = field(default_factory=list)


class Ledger:
    """Knowledge of the members of all groups. `seconds` reads the clock of the run."""

    def __init__(self, seconds: Callable[[], float], counts: dict[str, int]) -> None:
        self._seconds = seconds
        self._counts = counts
        self._claims: dict[Key, dict[Owner, float]] = {}
        self.registers: dict[Key, Register] = {}
        self._epochs: dict[str, int] = {}
        self._number = 0

    # --- ownership ----------------------------------------------------------------------------------------------------

    def gain(self, owner: Owner, key: Key) -> None:
        """Note that a member may process a partition. Check OneOwner: no other member may."""
        held = self._claims.setdefault(key, {})
        if owner.is_entitled:
            self._counts["partitions assigned"] += 1
            for other, since in held.items():
                if other is not owner and other.is_entitled:
                    raise ViolationError("OneOwner", f"{_text(key)} is {owner.name}'s, and since {since:.3f} "
                                                     f"{other.name}'s")
        held[owner] = self._seconds()

    def lose(self, owner: Owner, key: Key) -> None:
        """Note that a member has given a partition up."""
        self._claims.get(key, {}).pop(owner, None)

    # --- epochs -------------------------------------------------------------------------------------------------------

    def epoch_of(self, group: str) -> int:
        """Return the latest epoch that any member of a group entered."""
        return self._epochs.get(group, 0)

    def enter(self, group: str, epoch: int) -> None:
        """Note that a member is in this epoch."""
        self._epochs[group] = max(epoch, self.epoch_of(group))

    # --- commits ------------------------------------------------------------------------------------------------------

    def commit(self, owner: Owner, key: Key, offset: int) -> Commit:
        """Note that a commit is sent."""
        self._number += 1
        commit = Commit(self._number, offset, owner, self._seconds())
        self.registers.setdefault(key, Register()).commits[commit.number] = commit
        return commit

    def acknowledge(self, key: Key, commit: Commit) -> None:
        """Note that a commit succeeded. Check NoCommitOfAFencedMember: no other member has owned the partition since
        before the commit was sent."""
        now = commit.end = self._seconds()
        self._counts["offsets committed"] += 1
        for other, since in self._claims.get(key, {}).items():
            if other is not commit.owner and since < commit.sent and other.is_entitled:
                raise ViolationError("NoCommitOfAFencedMember",
                                     f"{commit.owner.name} committed {commit.offset} of {_text(key)}, which is "
                                     f"{other.name}'s since {since:.3f}")
        register = self.registers[key]
        register.acknowledged.append(now)
        register.latest.append(max(commit.sent, register.latest[-1] if register.latest else 0.0))

    def answer(self, commit: Commit, *, is_refused: bool) -> None:
        """Note that a commit failed. When it was not refused it may be in the log nevertheless."""
        commit.end = self._seconds()
        commit.is_refused = is_refused

    def settle(self, commit: Commit) -> None:
        """Note that a commit without an answer can no longer arrive."""
        commit.end = min(commit.end, self._seconds())

    def read(self, key: Key, offset: int, metadata: str, sent: float) -> None:
        """Judge an offset that was read by a request of the time `sent`, with the number of its commit as metadata.
        Check AcknowledgedCommitsStay: no commit is overwritten by one that took effect before it, or lost. Check
        NoRefusedCommit: what was refused never takes effect."""
        register = self.registers.get(key, Register())
        self._counts["offsets read"] += 1
        before = bisect_left(register.acknowledged, sent)
        barrier = register.latest[before - 1] if before else -1.0
        if offset == NO_OFFSET:
            if before:
                raise ViolationError("AcknowledgedCommitsStay", f"{_text(key)} has no offset, {before} commits were "
                                                                "acknowledged")
            return
        commit = register.commits.get(int(metadata or "0"))
        if commit is None or commit.offset != offset:
            raise ViolationError("OffsetsAreCommitted", f"{_text(key)} has offset {offset}, commit {metadata!r}: "
                                                        f"{commit}")
        if commit.is_refused:
            raise ViolationError("NoRefusedCommit", f"{_text(key)} has offset {offset}, which was refused to "
                                                    f"{commit.owner.name}")
        if commit.end < barrier:
            raise ViolationError("AcknowledgedCommitsStay",
                                 f"{_text(key)} has offset {offset}, which {commit.owner.name} sent at "
                                 f"{commit.sent:.3f}; another was sent at {barrier:.3f} and acknowledged")


def _text(key: Key) -> str:
    return f"partition {key.partition} of topic {key.topic_id} of {key.group}"
