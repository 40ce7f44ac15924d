"""All entries at one offset of the metadata log, indexed for decisions. A table never changes; a change copies little.

Entries are found by principal, by type of resource, and by the names on the path of a resource's name. So a decision
does not depend on the number of entries that others have.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

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
    without_entry,
)
from kraft.security.acls import EVERY_USER, WILDCARD, Acl, Operation, PatternType, PermissionType


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


class AclTable:
    """Table of entries. `of_principal` is the same object as long as the principal's entries do not change."""

    __slots__ = ("_by_principal", "_patterns", "count", "patterns")

    def __init__(self) -> None:
        """Create a table without entries."""
        self._by_principal: PersistentMap[str, Mapping[int, Resources]] = PersistentMap()
        self._patterns: PersistentMap[Acl, int] = PersistentMap()
        self.patterns: Mapping[int, Resources] = NO_TYPES
        """Patterns of the entries of all principals, once each, by type of resource. The object stays the same as long
        as the patterns do."""
        self.count = 0

    def changed(self, removed: Iterable[Acl], added: Iterable[Acl]) -> "AclTable":
        """Return the table without some of its entries and with others."""
        changes: dict[str, dict[int, Resources]] = {}
        numbers: dict[Acl, int] = {}
        count = self.count
        for acl in removed:
            self._count(numbers, acl, -1)
            types = self._open(changes, acl)
            types[acl.resource_type] = _without(types[acl.resource_type], acl)
            if types[acl.resource_type] == NO_RESOURCES:
                del types[acl.resource_type]
            count -= 1
        for acl in added:
            self._count(numbers, acl, 1)
            types = self._open(changes, acl)
            types[acl.resource_type] = _with(types.get(acl.resource_type, NO_RESOURCES), acl)
            count += 1
        table = AclTable()
        table._by_principal = self._by_principal.changed({name: types or REMOVED for name, types in changes.items()})
        table._patterns = self._patterns.changed({each: number or REMOVED for each, number in numbers.items()})
        table.patterns = self._changed_patterns(numbers)
        table.count = count
        return table

    def _changed_patterns(self, numbers: Mapping[Acl, int]) -> Mapping[int, Resources]:
        """Return `patterns` with those that have entries now, and without those that have none any more."""
        types = dict(self.patterns)
        differs = False
        for each, number in numbers.items():
            if bool(number) is (each in self._patterns):
                continue
            differs = True
            if number:
                types[each.resource_type] = _with(types.get(each.resource_type, NO_RESOURCES), each)
            else:
                types[each.resource_type] = _without(types[each.resource_type], each)
        return types if differs else self.patterns

    def selects(self, resource_type: int, name: str) -> bool:
        """Return whether an entry of any principal selects the resource."""
        return any(True for _pattern in self.patterns.get(resource_type, NO_RESOURCES).patterns(name))

    def _open(self, changes: dict[str, dict[int, Resources]], acl: Acl) -> dict[int, Resources]:
        types = changes.get(acl.principal)
        if types is None:
            types = changes[acl.principal] = dict(self._by_principal.get(acl.principal, NO_TYPES))
        return types

    def _count(self, numbers: dict[Acl, int], acl: Acl, more: int) -> None:
        pattern = Acl(acl.resource_type, acl.pattern_type, acl.resource_name, "", "", 0, 0)
        numbers[pattern] = numbers.get(pattern, self._patterns.get(pattern, 0)) + more

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


def _with(resources: Resources, acl: Acl) -> Resources:
    if _is_of_every_name(acl):
        known = () if resources.every_name is None else resources.every_name.entries
        return Resources(pattern_of((*known, acl)), resources.by_name)
    return Resources(resources.every_name, with_entry(resources.by_name, acl))


def _without(resources: Resources, acl: Acl) -> Resources:
    if not _is_of_every_name(acl):
        return Resources(resources.every_name, without_entry(resources.by_name, acl))
    assert resources.every_name is not None, f"{acl} is not in the table"
    left = list(resources.every_name.entries)
    left.remove(acl)
    return Resources(pattern_of(tuple(left)), resources.by_name)


def _is_of_every_name(acl: Acl) -> bool:
    return acl.resource_name == WILDCARD and acl.pattern_type == PatternType.LITERAL


def _gives(pattern: Pattern, host: str, operation: int, permission: PermissionType) -> bool:
    """Return whether an entry has this permission for exactly this operation, or for all."""
    found = pattern.rules.rights(host)
    if not (found.allowed if permission == PermissionType.ALLOW else found.denied) >> operation & 1:
        return False
    exact = pattern_of(tuple(each for each in pattern.entries if each.operation in (operation, Operation.ALL)))
    if exact is None:
        return False
    found = exact.rules.rights(host)
    return bool((found.allowed if permission == PermissionType.ALLOW else found.denied) >> operation & 1)


def _is_denied(resources: Resources, name: str, kind: PatternType, host: str, operation: int) -> bool:
    """Return whether an entry for the name, or for a prefix of it, denies the operation."""
    return any(pattern.rules.rights(host).denied >> operation & 1
               for pattern in patterns_for(resources.by_name, name)
               if kind == PatternType.LITERAL or pattern.entries[0].pattern_type == PatternType.PREFIXED)


EMPTY_TABLE: Final = AclTable()
