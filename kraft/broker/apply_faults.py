"""Committed metadata that this node cannot apply, by subject: reported until it is repaired, never fatal.

A controller refuses wrong changes before they are committed. A wrong change that still reaches a broker was written by
another version, by Kafka, or past a missing check. The affected log or feature then keeps its previous state, and the
node continues to serve.
"""

from collections.abc import Callable, Sequence
from typing import Final

LISTED_MAX: Final = 1_000
"""Maximum number of faults that are listed by name; the others are only counted."""


class ApplyFaults:
    """Set of the open faults. Loop thread only. `on_fault(subject, why, error)` is called when a fault is new or has
    changed; `error` is the exception where there was one. `on_repair(subject)` is called when a fault ends."""

    def __init__(self, on_fault: Callable[[str, str, BaseException | None], object] = lambda *_: None,
                 on_repair: Callable[[str], object] = lambda _: None) -> None:
        self._known: dict[str, str] = {}
        self._on_fault = on_fault
        self._on_repair = on_repair

    def __len__(self) -> int:
        return len(self._known)

    def attempt(self, subject: str, work: Callable[[], object]) -> bool:
        """Apply something by calling `work`. Return whether it succeeded; a failure is noted, not raised."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is: one feature must not stop the node
            self.note(subject, [f"{type(error).__name__}: {error}"], error)
            return False
        self.note(subject, ())
        return True

    def note(self, subject: str, faults: Sequence[str], error: BaseException | None = None) -> None:
        """Replace the known faults of a subject; no faults means that it is applied."""
        why = "; ".join(faults)
        if self._known.get(subject, "") == why:
            return
        if why:
            self._known[subject] = why
            self._on_fault(subject, why, error)
        else:
            del self._known[subject]
            self._on_repair(subject)

    def forget(self, subject: str) -> None:
        """Drop the faults of a removed subject without a report."""
        self._known.pop(subject, None)

    def texts(self) -> list[str]:
        """Return all faults, one line each, the oldest first."""
        return [f"{subject}: {why}" for subject, why in list(self._known.items())[:LISTED_MAX]]
