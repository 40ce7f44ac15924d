"""Progress of one replica, as its leader knows it."""

from kraft.raft.types import UNKNOWN_OFFSET
from kraft.structs import mutable


@mutable
class Progress:
    """Progress of a replica, as its Fetch requests report it.

    - `end_offset`: everything below is durable there and the same as here; -1 before its first Fetch in this epoch.
    - `fetch_ms`: when it last fetched; -1 never.
    - `caught_up_ms`: when it last had everything that the leader had then; -1 never. Invariant: `caught_up_ms <=
      fetch_ms`.
    - `begin_due_ms`: when to announce the beginning of the epoch (again) to a voter.
    - `fetch_end_offset`: the leader's log end at the last Fetch. A replica that has reached it by its next Fetch was
      caught up at the last one. A comparison with the current end would fail as long as records keep coming.
    """

    end_offset: int = UNKNOWN_OFFSET
    fetch_ms: int = -1
    caught_up_ms: int = -1
    begin_due_ms: int = 0
    fetch_end_offset: int = UNKNOWN_OFFSET

    def fetched(self, fetch_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Record a Fetch from `fetch_offset`, which agrees with the leader's log."""
        if fetch_offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif 0 <= self.fetch_end_offset <= fetch_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetch_ms)
        self.end_offset = fetch_offset
        self.fetch_end_offset = leader_end_offset
        self.fetch_ms = now_ms

    def note_contact(self, now_ms: int) -> None:
        """Record any other sign that it can reach the leader: a Fetch that diverges, or one for a snapshot."""
        self.fetch_ms = now_ms
