"""Pauses before a replica that cannot be served is tried again."""

from typing import Final

from kraft.runtime.net.dialer import Backoff

Key = tuple[str, int]

FIRST_SECONDS: Final = 10.0
PAUSE_SECONDS_MAX: Final = 600.0


class Retries:
    """Pauses of failed replicas, doubled by each failure. Times are seconds of any clock that does not go back."""

    def __init__(self) -> None:
        self._paused: dict[Key, Backoff] = {}

    def failed(self, key: Key, now: float) -> None:
        """Begin the next pause of a replica."""
        self._paused.setdefault(key, Backoff(FIRST_SECONDS, PAUSE_SECONDS_MAX)).failed(now)

    def forget(self, key: Key) -> None:
        """Remove a replica that is served, or that this node has lost."""
        self._paused.pop(key, None)

    def hasten(self, topic: str) -> None:
        """End the pauses of a topic's replicas after a change of the topic, and make the next ones short again."""
        for key in [key for key in self._paused if key[0] == topic]:
            del self._paused[key]

    def is_due(self, key: Key, now: float) -> bool:
        """Return whether the replica's pause has ended."""
        return key not in self._paused or self._paused[key].left(now) <= 0
