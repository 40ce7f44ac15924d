"""Mapping that never changes, and of which a changed version shares almost everything with it.

A change copies one path of a tree: some tuples of 32 places and one small dict, whatever the size of the mapping. So
tables of 100,000 entries can have a version for each offset of the metadata log.

The order of the keys follows from their hashes. It is the same in every process for keys whose hash is, such as ids.
Nothing may depend on the order of texts.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

_BITS: Final = 5
_PLACES: Final = 1 << _BITS
_MASK: Final = _PLACES - 1
_LEAF_MAX: Final = 32
"""Entries of a dict at the end of a path. One with more is divided, down to `_DEPTH_MAX`."""
_DEPTH_MAX: Final = 12
_NOTHING: Final[dict[Any, Any]] = {}
"""The only empty leaf. Never written."""


class Removed:
    """Kind of the value of a key that a change removes."""


REMOVED: Final = Removed()


class PersistentMap(Mapping[Key, Value], Generic[Key, Value]):
    """Mapping of hashable keys; `PersistentMap()` is empty. A tuple in the tree has 32 subtrees, a dict has entries."""

    __slots__ = ("_count", "_root")

    def __init__(self) -> None:
        self._root: Any = _NOTHING
        self._count = 0

    def __getitem__(self, key: Key) -> Value:
        node, bits = self._root, hash(key)
        while node.__class__ is tuple:
            node = node[bits & _MASK]
            bits >>= _BITS
        return node[key]  # type: ignore[no-any-return]

    def get(self, key: Key, default: Any = None) -> Any:
        """Return the value of the key, else the default."""
        node, bits = self._root, hash(key)
        while node.__class__ is tuple:
            node = node[bits & _MASK]
            bits >>= _BITS
        return node.get(key, default)

    def __contains__(self, key: object) -> bool:
        node, bits = self._root, hash(key)
        while node.__class__ is tuple:
            node = node[bits & _MASK]
            bits >>= _BITS
        return key in node

    def __iter__(self) -> Iterator[Key]:
        left = [self._root]
        while left:
            node = left.pop()
            if node.__class__ is tuple:
                left.extend(reversed(node))
            else:
                yield from node

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"

    def changed(self, changes: Mapping[Key, Value | Removed]) -> "PersistentMap[Key, Value]":
        """Return a version with these values; a value of REMOVED removes its key, if it exists."""
        tree = _Tree()
        root = tree.changed(self._root, [(hash(key), key, value) for key, value in changes.items()], 0)
        found: PersistentMap[Key, Value] = PersistentMap()
        found._root, found._count = root, self._count + tree.added
        return found


class _Tree:
    """A change of one tree. `added` counts the keys that it adds, less those that it removes."""

    def __init__(self) -> None:
        self.added = 0

    def changed(self, node: Any, changes: list[tuple[int, Any, Any]], depth: int) -> Any:
        """Return the subtree after the changes of its keys, each with the rest of the key's hash."""
        if node.__class__ is not tuple:
            return self._leaf(node, changes, depth)
        places = list(node)
        is_emptier = False
        for place, own in _grouped(changes):
            changed = places[place] = self.changed(places[place], own, depth + 1)
            is_emptier = is_emptier or changed is _NOTHING
        if is_emptier and all(each is _NOTHING for each in places):
            return _NOTHING
        return tuple(places)

    def _leaf(self, node: dict[Any, Any], changes: list[tuple[int, Any, Any]], depth: int) -> Any:
        entries = dict(node)
        for _bits, key, value in changes:
            if value is not REMOVED:
                entries[key] = value
            else:
                entries.pop(key, None)
        self.added += len(entries) - len(node)
        if len(entries) > _LEAF_MAX and depth < _DEPTH_MAX:
            return _divided(entries, depth)
        return entries or _NOTHING


def _divided(entries: dict[Any, Any], depth: int) -> Any:
    places: list[Any] = [_NOTHING] * _PLACES
    for place, own in _grouped((hash(key) >> _BITS * depth, key, value) for key, value in entries.items()):
        leaf = {key: value for _bits, key, value in own}
        is_large = len(leaf) > _LEAF_MAX and depth + 1 < _DEPTH_MAX
        places[place] = _divided(leaf, depth + 1) if is_large else leaf
    return tuple(places)


def _grouped(changes: Iterable[tuple[int, Any, Any]]) -> Iterable[tuple[int, list[tuple[int, Any, Any]]]]:
    """Return the changes of each place, each with the hash's bits that are left."""
    by_place: dict[int, list[tuple[int, Any, Any]]] = {}
    if isinstance(changes, list) and len(changes) == 1:
        bits, key, value = changes[0]
        return ((bits & _MASK, [(bits >> _BITS, key, value)]),)
    for bits, key, value in changes:
        by_place.setdefault(bits & _MASK, []).append((bits >> _BITS, key, value))
    return by_place.items()
