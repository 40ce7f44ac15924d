"""Votes of one election."""

from dataclasses import dataclass, field

from kraft.raft.voters import VoterSet


@dataclass(slots=True)
class Tally:
    """Votes by node id. `voters` are those of the log, which does not change during an election, because a candidate
    does not fetch. The candidate need not be one of them."""

    voters: VoterSet
    answers: dict[int, bool] = field(default_factory=dict)

    def record(self, node_id: int, granted: bool) -> None:
        """Count a voter's answer; that of another node is ignored. A granted vote stays granted."""
        if node_id in self.voters.ids:
            self.answers[node_id] = granted or self.answers.get(node_id, False)

    @property
    def granting(self) -> tuple[int, ...]:
        return tuple(node_id for node_id in self.voters.ids if self.answers.get(node_id))

    @property
    def unanswered(self) -> tuple[int, ...]:
        return tuple(node_id for node_id in self.voters.ids if node_id not in self.answers)

    @property
    def is_won(self) -> bool:
        return len(self.granting) >= self.voters.majority

    @property
    def is_lost(self) -> bool:
        """Return whether it cannot be won any more (KIP-595's note on gridlocked elections)."""
        return len(self.granting) + len(self.unanswered) < self.voters.majority
