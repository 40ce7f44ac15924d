"""Votes of one election."""

from dataclasses import field

from kraft.raft.voters import VoterSet
from kraft.structs import mutable


@mutable
class Tally:
    """Votes by node id. `voters` are those of the log, which does not change during an election, because a candidate
    does not fetch. The candidate need not be one of them."""

    voters: VoterSet
    answers: dict[int, bool] = field(default_factory=dict)
    unreachable: dict[int, None] = field(default_factory=dict)
    """Voters whose connection broke or could not be opened at the last request, or whose answer did not come in time.
    """

    def record(self, node_id: int, granted: bool) -> None:
        """Count a voter's answer; that of another node is ignored. A granted vote stays granted."""
        self.unreachable.pop(node_id, None)
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

    @property
    def is_gridlocked(self) -> bool:
        """Return whether only a voter that cannot be reached could still decide it: the others have split their
        votes."""
        reachable = [node_id for node_id in self.unanswered if node_id not in self.unreachable]
        return False in self.answers.values() and len(self.granting) + len(reachable) < self.voters.majority
