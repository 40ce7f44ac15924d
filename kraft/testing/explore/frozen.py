"""Objects as values: the state of a node in a form that can be compared, stored, copied, and printed with its nodes
renamed.

`freeze` creates a value from a mutable object, `thaw` creates such an object again. Immutable things (numbers, tuples,
frozen dataclasses) represent themselves. Neither function knows a class by name, so a new field of the core becomes
part of its state without a change here.
"""

from dataclasses import fields, is_dataclass
from enum import Enum
from operator import itemgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

from kraft.raft.types import ReplicaKey
from kraft.raft.voters import Voter
from kraft.structs import is_immutable


class NodeId(int):
    """Id of a node. Its type is distinct, so that a renaming finds it wherever the core stores it."""

    __slots__ = ()


class Chain(int):
    """Number that represents the whole log up to some offset: see `Chains`."""

    __slots__ = ()


class Frozen(NamedTuple):
    """Frozen object of class `kind`. `values` are the items of a dict in order, the (name, value) pairs of attributes,
    or the elements of a list."""

    kind: type
    values: tuple[Any, ...]


PLAIN: Final[dict[type, None]] = dict.fromkeys((int, str, bool, type(None), bytes, UUID, type))
_names_of: dict[type, tuple[str, ...] | None] = {}


def _slots(kind: type) -> tuple[str, ...] | None:
    """Return the field names of a mutable dataclass, () for another mutable object, None for an immutable one."""
    if issubclass(kind, int | str | bytes | tuple | Enum | UUID | None.__class__):
        return None
    if is_dataclass(kind):
        is_frozen = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
        return None if is_frozen or is_immutable(kind) else tuple(field.name for field in fields(kind))
    return ()


def freeze(value: Any) -> Any:
    kind = value.__class__
    if kind is list:
        return Frozen(list, tuple([freeze(each) for each in value]))
    if kind is dict:
        return Frozen(dict, tuple([(key, freeze(each)) for key, each in sorted(value.items(), key=itemgetter(0))]))
    if kind not in _names_of:
        _names_of[kind] = _slots(kind)
    names = _names_of[kind]
    if names is None:
        return value
    if not names:
        return freeze_attributes(kind, value, ())
    return Frozen(kind, tuple([(name, freeze(getattr(value, name))) for name in names]))


def freeze_attributes(kind: type, value: object, without: tuple[str, ...]) -> Frozen:
    """Freeze an object with attributes of any name, except those of `without`, which are not part of its state."""
    return Frozen(kind, tuple([(name, freeze(each)) for name, each in sorted(vars(value).items())
                               if name not in without]))


def thaw(value: Any) -> Any:
    if value.__class__ is not Frozen:
        return value
    kind, values = value
    if kind is list:
        return [thaw(each) for each in values]
    if kind is dict:
        return {key: thaw(each) for key, each in values}
    thawed: Any = object.__new__(kind)
    for name, each in values:
        object.__setattr__(thawed, name, thaw(each))
    return thawed


def _in_order(items: list[Any]) -> tuple[Any, ...]:
    """Sort a sequence of ids or voters by id, as the core does."""
    kind = items[0].__class__ if items else None
    if kind in (NodeId, ReplicaKey, Voter) and all(each.__class__ is kind for each in items):
        items.sort(key=_voter_id if kind is Voter else None)
    return tuple(items)


def _voter_id(voter: Voter) -> int:
    return voter.key.node_id


class Chains:
    """Numbers for the contents of logs from offset 0 on: two logs with equal numbers are equal."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], Chain] = {(): Chain(0)}
        self._contents: list[tuple[Any, ...]] = [()]

    def of(self, contents: tuple[Any, ...]) -> Chain:
        """Return the number of `contents`, which has, in order, a value for each record that identifies it."""
        number = self._numbers.get(contents)
        if number is None:
            number = self._numbers[contents] = Chain(len(self._contents))
            self._contents.append(contents)
        return number

    def contents(self, chain: Chain) -> tuple[Any, ...]:
        return self._contents[chain]


class Renaming:
    """Renaming of the nodes. `names` has the new id of each node, at the index of the old one (node 0 does not exist).
    `number` identifies this renaming among others."""

    def __init__(self, number: int, names: tuple[NodeId, ...], chains: Chains) -> None:
        self.number = number
        self.names = names
        self.places = tuple([names.index(new) - 1 for new in range(1, len(names))])
        """Old place of each node, in the order of new ids."""
        self.is_identity = list(names) == list(range(len(names)))
        self._chains = chains
        self._chain_of: dict[Chain, Chain] = {}

    def of(self, value: Any) -> Any:
        kind = value.__class__
        if kind is NodeId:
            return self.names[value]
        if kind in PLAIN or issubclass(kind, Enum):
            return value
        if kind is Chain:
            if value not in self._chain_of:
                self._chain_of[value] = self._chains.of(self.of(self._chains.contents(value)))
            return self._chain_of[value]
        if issubclass(kind, tuple):
            return self._of_tuple(kind, value)
        assert is_dataclass(kind), f"what is renamed is frozen: {value!r}"
        renamed = {field.name: self.of(getattr(value, field.name)) for field in fields(value)}
        return value.__class__(**renamed)

    def _of_tuple(self, kind: type, value: Any) -> Any:
        if kind is Frozen:
            if value.kind is dict:
                items = [(self.of(key), self.of(each)) for key, each in value.values]
                return Frozen(dict, tuple(sorted(items, key=itemgetter(0))))
            return Frozen(value.kind, _in_order([self.of(each) for each in value.values]))
        items = [self.of(each) for each in value]
        return tuple(_in_order(items)) if kind is tuple else kind._make(items)  # type: ignore[attr-defined]


def shape(value: Any, me: NodeId) -> Any:
    """Return a value that is invariant under renamings of the other nodes: it distinguishes `me` from the others, but
    not the others from each other."""
    kind = value.__class__
    if kind is NodeId:
        return "me" if value == me else "other"
    if kind in PLAIN or issubclass(kind, Enum) or kind is Chain:
        return 0 if kind is Chain else value
    if issubclass(kind, tuple):
        parts = [shape(each, me) for each in value]
        is_row = kind is tuple or kind is Frozen
        return tuple(sorted(parts, key=repr)) if is_row else tuple(parts)
    return tuple([shape(getattr(value, field.name), me) for field in fields(kind)])
