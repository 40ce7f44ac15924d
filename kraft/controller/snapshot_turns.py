"""Order in which controllers write snapshots of the metadata log (KIP-631, "Snapshot Implementation"). Sans-IO.

Controllers report to the active one, in heartbeats, where their last snapshots end. It grants a new snapshot to those
that have much or old log behind theirs: one at a time, itself last. It grants them less often while the quorum could
not lose one more of them. This is soft state of the active controller: the next one receives it again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

TURN_MS: Final = 60_000
"""Time limit of a turn. A controller that has not written a snapshot by then gets no turn for as long again."""
SILENT_MS: Final = 30_000
"""Time without a heartbeat after which a controller is not waited for."""


class Backlog(NamedTuple):
    """The log behind a snapshot: its bytes, and the age of its first record."""

    size_bytes: int
    age_ms: int


class Limits(NamedTuple):
    """Size and age of a backlog that require a snapshot; `interval_ms` 0: age is ignored."""

    size_bytes: int
    interval_ms: int

    def are_reached(self, backlog: Backlog) -> bool:
        return backlog.size_bytes >= self.size_bytes or 0 < self.interval_ms <= backlog.age_ms


class _Heard(NamedTuple):
    end_offset: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class _Turn:
    controller_id: int
    end_offset: int
    began_ms: int


class SnapshotTurns:
    """Turns of one active controller's standbys. `backlog(end offset, now)`: the log behind a snapshot that ends there.
    `strained`, in each call: losing one more controller would probably prevent commits."""

    def __init__(self, usual: Limits, strained: Limits, backlog: Callable[[int, int], Backlog]) -> None:
        self._usual = usual
        self._strained = strained
        self._backlog = backlog
        self._heard: dict[int, _Heard] = {}
        self._turn: _Turn | None = None
        self._missed: dict[int, _Turn] = {}
        """Last turn of each controller that did not write in it."""

    def heartbeat(self, controller_id: int, end_offset: int, now_ms: int, *, strained: bool) -> bool:
        """Note where the last snapshot of a standby ends. Return whether it is to write one now; this repeats until it
        has."""
        self._heard[controller_id] = _Heard(end_offset, now_ms)
        turn = self._running(now_ms)
        if turn is not None:
            return turn.controller_id == controller_id
        if self._has_missed(controller_id, now_ms) or not self._is_due(end_offset, now_ms, strained=strained):
            return False
        self._turn = _Turn(controller_id, end_offset, now_ms)
        return True

    def is_own(self, end_offset: int, now_ms: int, *, strained: bool) -> bool:
        """Return whether the active controller itself is to write one: when no standby remains that should."""
        if self._running(now_ms) is not None or not self._is_due(end_offset, now_ms, strained=strained):
            return False
        return not any(self._is_due(heard.end_offset, now_ms, strained=strained)
                       for controller_id, heard in self._heard.items()
                       if now_ms - heard.at_ms <= SILENT_MS and not self._has_missed(controller_id, now_ms))

    def _has_missed(self, controller_id: int, now_ms: int) -> bool:
        turn = self._missed.get(controller_id)
        return (turn is not None and self._heard[controller_id].end_offset <= turn.end_offset
                and now_ms - turn.began_ms < 2 * TURN_MS)

    def _is_due(self, end_offset: int, now_ms: int, *, strained: bool) -> bool:
        limits = self._strained if strained else self._usual
        return limits.are_reached(self._backlog(end_offset, now_ms))

    def _running(self, now_ms: int) -> _Turn | None:
        turn = self._turn
        if turn is None:
            return None
        has_written = self._heard[turn.controller_id].end_offset > turn.end_offset
        if not has_written and now_ms - turn.began_ms < TURN_MS:
            return turn
        if not has_written:
            self._missed[turn.controller_id] = turn
        self._turn = None
        return None
