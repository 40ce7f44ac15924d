"""Collection of the parts of one answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

P = TypeVar("P")


class Gather(Generic[P]):
    """Collector of parts, each in its place, which passes on all when the last has arrived."""

    def __init__(self, count: int, done: Callable[[list[P]], None]) -> None:
        self._parts: list[P | None] = [None] * count
        self._missing = count
        self._done = done
        if count == 0:
            done([])

    def part(self, index: int) -> Callable[[P], None]:
        """Return the function that receives part `index`."""
        def take(part: P) -> None:
            self._parts[index] = part
            self._missing -= 1
            if self._missing == 0:
                self._done([part for part in self._parts if part is not None])
        return take
