"""Mapping of an image while it is being changed: copied at the first change, with a list of the touched keys."""

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from kraft.persistent_map import REMOVED, PersistentMap, Removed

Key = TypeVar("Key")
Value = TypeVar("Value")
CHANGES_MAX: Final = 1_024
"""Changes that a `PersistentSection` collects before it applies them."""


class Section(Generic[Key, Value]):
    """Mapping under change. `before` is never written; `now` is `before` itself until something changes."""

    __slots__ = ("_copy", "before", "touched")

    def __init__(self, before: Mapping[Key, Value]):
        self.before = before
        self.touched: dict[Key, None] = {}  # in the order of their first change
        self._copy: dict[Key, Value] | None = None

    @property
    def now(self) -> Mapping[Key, Value]:
        return self.before if self._copy is None else self._copy

    def get(self, key: Key) -> Value | None:
        return self.now.get(key)

    def put(self, key: Key, value: Value) -> None:
        self._open(key)[key] = value

    def remove(self, key: Key) -> Value | None:
        """Remove the key, if it exists, and return its value."""
        return self._open(key).pop(key, None) if key in self.now else None

    def _open(self, key: Key) -> dict[Key, Value]:
        self.touched[key] = None
        if self._copy is None:
            self._copy = dict(self.before)
        return self._copy


class PersistentSection(Generic[Key, Value]):
    """The same for a `PersistentMap`, of which no change copies more than a little."""

    __slots__ = ("_changes", "_now", "before", "touched")

    def __init__(self, before: PersistentMap[Key, Value]):
        self.before = before
        self.touched: dict[Key, None] = {}  # in the order of their first change
        self._now = before
        self._changes: dict[Key, Value | Removed] = {}  # those that `_now` does not have yet

    @property
    def now(self) -> PersistentMap[Key, Value]:
        self._apply()
        return self._now

    def get(self, key: Key) -> Value | None:
        value = self._changes.get(key, self)
        if value is self:
            return self._now.get(key)  # type: ignore[no-any-return]
        return None if isinstance(value, Removed) else value  # type: ignore[return-value]

    def put(self, key: Key, value: Value) -> None:
        self._change(key, value)

    def remove(self, key: Key) -> Value | None:
        """Remove the key, if it exists, and return its value."""
        value = self.get(key)
        if value is not None:
            self._change(key, REMOVED)
        return value

    def _change(self, key: Key, value: Value | Removed) -> None:
        self.touched[key] = None
        self._changes[key] = value
        if len(self._changes) >= CHANGES_MAX:      # a long replay works in short steps
            self._apply()

    def _apply(self) -> None:
        if self._changes:
            self._now = self._now.changed(self._changes)
            self._changes = {}
