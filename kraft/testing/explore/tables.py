"""Tables of values by number."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from kraft.testing.explore.frozen import Renaming

V = TypeVar("V", bound=Hashable)


class Table(Generic[V]):
    """Table that has each value once, with numbers in order of insertion."""

    def __init__(self, rename: Callable[[V, Renaming], V] | None = None) -> None:
        self._numbers: dict[V, int] = {}
        self.values: list[V] = []
        self._rename = rename
        self._renamed: dict[int, dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self.values)

    def number(self, value: V) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found

    def known(self, renaming: Renaming) -> dict[int, int]:
        """Cached results of `renamed`, for a caller in a hurry."""
        return self._renamed.setdefault(renaming.number, {})

    def renamed(self, number: int, renaming: Renaming) -> int:
        """Return the number of the same value with the nodes renamed."""
        known = self.known(renaming)
        found = known.get(number)
        if found is None:
            value = self.values[number]
            found = known[number] = self.number(
                renaming.of(value) if self._rename is None else self._rename(value, renaming))
        return found
