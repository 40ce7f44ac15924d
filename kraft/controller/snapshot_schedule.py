"""Order in which controllers write snapshots of the metadata log (KIP-631, "Snapshot Implementation"). Sans-IO.

Controllers report to the active one, in heartbeats, where their last snapshots end. It grants a new snapshot to those
that have much or old log behind theirs: one at a time, itself last. It grants them less often while the quorum could
not lose one more of them. This is soft state of the active controller: the next one receives it again.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from kraft.structs import immutable

SLOT_MS: Final = 60_000
"""Time limit of a turn. A controller that has not written a snapshot by then gets no turn for as long again."""
UNRESPONSIVE_MS: Final = 30_000
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


class _Heartbeat(NamedTuple):
    end_offset: int
    at_ms: int


@immutable
class _Slot:
    controller_id: int
    end_offset: int
    began_ms: int


class SnapshotSchedule:
    """Turns of one active controller's standbys. `backlog(end offset, now)`: the log behind a snapshot that ends there.
    `strained`, in each call: losing one more controller would probably prevent commits."""

    def __init__(self, usual: Limits, strained: Limits, backlog: Callable[[int, int], Backlog]) -> None:
        self._usual = usual
        self._strained = strained
        self._backlog = backlog
        self._heartbeats: dict[int, _Heartbeat] = {}
        self._slot: _Slot | None = None
        self._missed: dict[int, _Slot] = {}
        """Last turn of each controller that did not write in it."""

    def heartbeat(self, controller_id: int, end_offset: int, now_ms: int, *, strained: bool) -> bool:
        """Note where the last snapshot of a standby ends. Return whether it is to write one now; this repeats until it
        has."""
        self._heartbeats[controller_id] = _Heartbeat(end_offset, now_ms)
        slot = self._running(now_ms)
        if slot is not None:
            return slot.controller_id == controller_id
        if self._has_missed(controller_id, now_ms) or not self._is_due(end_offset, now_ms, strained=strained):
            return False
        self._slot = _Slot(controller_id, end_offset, now_ms)
        return True

    def is_own(self, end_offset: int, now_ms: int, *, strained: bool) -> bool:
        """Return whether the active controller itself is to write one: when no standby remains that should."""
        if self._running(now_ms) is not None or not self._is_due(end_offset, now_ms, strained=strained):
            return False
        return not any(self._is_due(heartbeat.end_offset, now_ms, strained=strained)
                       for controller_id, heartbeat in self._heartbeats.items()
                       if now_ms - heartbeat.at_ms <= UNRESPONSIVE_MS and not self._has_missed(controller_id,
                                                                                                  now_ms))

    def _has_missed(self, controller_id: int, now_ms: int) -> bool:
        slot = self._missed.get(controller_id)
        return (slot is not None and self._heartbeats[controller_id].end_offset <= slot.end_offset
                and now_ms - slot.began_ms < 2 * SLOT_MS)

    def _is_due(self, end_offset: int, now_ms: int, *, strained: bool) -> bool:
        limits = self._strained if strained else self._usual
        return limits.are_reached(self._backlog(end_offset, now_ms))

    def _running(self, now_ms: int) -> _Slot | None:
        slot = self._slot
        if slot is None:
            return None
        has_written = self._heartbeats[slot.controller_id].end_offset > slot.end_offset
        if not has_written and now_ms - slot.began_ms < SLOT_MS:
            return slot
        if not has_written:
            self._missed[slot.controller_id] = slot
        self._slot = None
        return None
