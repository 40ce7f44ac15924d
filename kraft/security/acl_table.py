"""All entries at one offset of the metadata log, indexed for decisions. A table never changes; a change copies little.

Entries are found by principal, by type of resource, and by the names on the path of a resource's name. So a decision
does not depend on the number of entries that others have.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from kraft.persistent_map import REMOVED, PersistentMap
from kraft.security.acl_patterns import (
    EMPTY_NODE,
    Node,
    Pattern,
    Rights,
    pattern_of,
    patterns_below,
    patterns_for,
    with_entry,
    with_one,
    without_entry,
    without_one,
)
from kraft.security.acls import EVERY_USER, WILDCARD, Acl, Operation, PatternType, PermissionType
from kraft.steps import finish

Key = TypeVar("Key")
Value = TypeVar("Value")


class Resources(NamedTuple):
    """Entries of one principal for one type of resource: those for every name, and the others by name."""

    every_name: Pattern | None
    by_name: Node

    def patterns(self, name: str) -> Iterator[Pattern]:
        """Yield the patterns that select the resource of that name."""
        if self.every_name is not None:
            yield self.every_name
        yield from patterns_for(self.by_name, name)


NO_RESOURCES: Final = Resources(None, EMPTY_NODE)
NO_TYPES: Final[Mapping[int, Resources]] = {}
STEP: Final = 64
"""Entries, or principals, of one step of a change."""


class AclTable:
    """Table of entries. `of_principal` is the same object as long as the principal's entries do not change.

    `tracks_patterns`: it knows which resources the entries of all principals together select.
    """

    __slots__ = ("_by_principal", "_patterns", "count", "patterns", "tracks_patterns")

    def __init__(self, *, tracks_patterns: bool = False) -> None:
        """Create a table without entries."""
        self.tracks_patterns = tracks_patterns
        self._by_principal: PersistentMap[str, Mapping[int, Resources]] = PersistentMap()
        self._patterns: PersistentMap[Acl, int] = PersistentMap()
        self.patterns: Mapping[int, Resources] = NO_TYPES
        """Patterns of the entries of all principals, once each, by type of resource. The object stays the same as long
        as the patterns do."""
        self.count = 0

    def changed(self, removed: Iterable[Acl], added: Iterable[Acl]) -> "AclTable":
        """Return the table without some of its entries and with others."""
        return finish(self.changed_steps(removed, added))

    def changed_steps(self, removed: Iterable[Acl], added: Iterable[Acl]) -> Generator[None, None, "AclTable"]:
        """Do the same in steps."""
        change = _Change(self)
        done = 0
        for acls, more in ((removed, -1), (added, 1)):
            for acl in acls:
                change.apply(acl, more)
                done += 1
                if done % STEP == 0:
                    yield
        return (yield from change.steps())

    def selects(self, resource_type: int, name: str) -> bool:
        """Return whether an entry of any principal selects the resource, in a table that tracks that."""
        assert self.tracks_patterns
        return any(True for _pattern in self.patterns.get(resource_type, NO_RESOURCES).patterns(name))

    def of_principal(self, principal: str) -> Mapping[int, Resources]:
        """Return the entries of a principal by type of resource."""
        return self._by_principal.get(principal, NO_TYPES)  # type: ignore[no-any-return]

    def rights(self, principal: str, host: str, resource_type: int, name: str) -> Rights:
        """Return the bits of the operations on one resource that entries allow and deny. `host` is of `host_name`."""
        allowed = denied = 0
        for each in (principal, EVERY_USER):
            resources = self.of_principal(each).get(resource_type)
            if resources is not None:
                for pattern in resources.patterns(name):
                    own = pattern.rules.rights(host)
                    allowed |= own[0]
                    denied |= own[1]
        return Rights(allowed, denied)

    def allows_any_name(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Return whether the operation is allowed on any resource that there may be (Kafka's authorizeByResourceType).

        An entry for one name counts unless that name is denied, and one for a prefix unless the prefix or a shorter one
        is denied. Implied operations do not count.
        """
        own = [resources for each in (principal, EVERY_USER)
               if (resources := self.of_principal(each).get(resource_type)) is not None]
        everywhere = [each.every_name for each in own if each.every_name is not None]
        if any(_gives(pattern, host, operation, PermissionType.DENY) for pattern in everywhere):
            return False
        if any(_gives(pattern, host, operation, PermissionType.ALLOW) for pattern in everywhere):
            return True
        for resources in own:
            for name, kind, pattern in patterns_below(resources.by_name, 1 << operation):
                if (_gives(pattern, host, operation, PermissionType.ALLOW)
                        and not any(_is_denied(each, name, kind, host, operation) for each in own)):
                    return True
        return False

    def entries_for(self, principal: str, resource_type: int, name: str) -> Iterator[Acl]:
        """Yield the entries of a principal, and of every principal, that select a resource, from whatever host."""
        for each in dict.fromkeys((principal, EVERY_USER)):
            for pattern in self.of_principal(each).get(resource_type, NO_RESOURCES).patterns(name):
                yield from pattern.entries


class _Change:
    """A change of a table. It owns the nodes that it creates until it ends."""

    def __init__(self, table: AclTable) -> None:
        self._table = table
        self._types: dict[str, dict[int, Resources]] = {}
        self._numbers: dict[Acl, int] = {}
        self._count = table.count

    def apply(self, acl: Acl, more: int) -> None:
        """Add the entry, or remove it when `more` is -1."""
        types = self._types.get(acl.principal)
        if types is None:
            types = self._types[acl.principal] = dict(self._table.of_principal(acl.principal))
        self._put(types, acl, more)
        self._count += more
        if self._table.tracks_patterns:
            pattern = Acl(acl.resource_type, acl.pattern_type, acl.resource_name, "", "", 0, 0)
            known = self._numbers.get(pattern)
            self._numbers[pattern] = (self._table._patterns.get(pattern, 0) if known is None else known) + more

    def _put(self, types: dict[int, Resources], acl: Acl, more: int) -> None:
        every_name, by_name = types.get(acl.resource_type, NO_RESOURCES)
        if acl.resource_name == WILDCARD and acl.pattern_type == PatternType.LITERAL:
            every_name = with_one(every_name, acl) if more > 0 else without_one(every_name, acl)
        else:
            by_name = with_entry(by_name, acl, self) if more > 0 else without_entry(by_name, acl, self)
        if every_name is None and by_name.is_empty:
            types.pop(acl.resource_type, None)
        else:
            types[acl.resource_type] = Resources(every_name, by_name)

    def steps(self) -> Generator[None, None, AclTable]:
        """Return the changed table."""
        before = self._table
        table = AclTable(tracks_patterns=before.tracks_patterns)
        table.count = self._count
        by_principal = before._by_principal
        for part in _parts(self._types):
            by_principal = by_principal.changed({name: types or REMOVED for name, types in part.items()})
            yield
        table._by_principal = by_principal
        table._patterns, table.patterns = before._patterns, before.patterns
        yield from self._count_patterns(table)
        return table

    def _count_patterns(self, table: AclTable) -> Generator[None]:
        known = self._table._patterns
        for part in _parts(self._numbers):
            differing = [each for each, number in part.items() if bool(number) is not (each in known)]
            if differing:
                types = dict(table.patterns)
                for each in differing:
                    self._put(types, each, 1 if part[each] else -1)
                table.patterns = types
            table._patterns = table._patterns.changed({each: number or REMOVED for each, number in part.items()})
            yield


def _parts(items: dict[Key, Value]) -> Iterator[dict[Key, Value]]:
    left = iter(items.items())
    while part := dict(islice(left, STEP)):
        yield part


def _gives(pattern: Pattern, host: str, operation: int, permission: PermissionType) -> bool:
    """Return whether an entry has this permission for exactly this operation, or for all."""
    if not _bits(pattern, host, permission) >> operation & 1:
        return False
    exact = pattern_of(tuple(each for each in pattern.entries if each.operation in (operation, Operation.ALL)))
    return exact is not None and bool(_bits(exact, host, permission) >> operation & 1)


def _bits(pattern: Pattern, host: str, permission: PermissionType) -> int:
    found = pattern.rules.rights(host)
    return found.allowed if permission == PermissionType.ALLOW else found.denied


def _is_denied(resources: Resources, name: str, kind: PatternType, host: str, operation: int) -> bool:
    """Return whether an entry for the name, or for a prefix of it, denies the operation."""
    return any(pattern.rules.rights(host).denied >> operation & 1
               for pattern in patterns_for(resources.by_name, name)
               if kind == PatternType.LITERAL or pattern.entries[0].pattern_type == PatternType.PREFIXED)
