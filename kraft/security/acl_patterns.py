"""Entries of one principal and one type of resource, as a tree of their names. It never changes: a change copies one
path.

The tree is a radix tree: an edge has one character or more, and no node without entries has only one edge. A name's
path passes every prefix of the name that has entries, so one walk finds all entries that apply to it.
"""

from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple

from kraft.security.acls import WILDCARD, Acl, Operation, PatternType, PermissionType

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

EVERY_OPERATION: Final = sum(1 << each for each in Operation if each > Operation.ALL)
"""Bits of all operations that a client can do, each at its code."""
_DESCRIBING: Final = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
"""Operations whose permission includes DESCRIBE."""


class Rights(NamedTuple):
    """Bits of the operations that entries allow and deny."""

    allowed: int = 0
    denied: int = 0


class HostRules(NamedTuple):
    """Entries of one pattern, compiled: the rights of every host, of single ones, and of networks."""

    everywhere: Rights
    by_host: dict[str, Rights]
    by_network: tuple[tuple[Network, Rights], ...]

    def rights(self, host: str) -> Rights:
        """Return the rights of a client with this address, in the form of `host_name`."""
        allowed, denied = self.everywhere
        found = self.by_host.get(host)
        if found is not None:
            allowed |= found[0]
            denied |= found[1]
        if self.by_network:
            address = _address(host)
            for network, own in self.by_network:
                if address is not None and address in network:
                    allowed |= own[0]
                    denied |= own[1]
        return Rights(allowed, denied)


class Pattern(NamedTuple):
    """Entries with one name and one pattern type. `allowed`: bits of what any of them allows, from whatever host."""

    entries: tuple[Acl, ...]
    rules: HostRules
    allowed: int


class Node:
    """Node of the tree: entries for exactly its name, entries for all names that begin with it, and edges by first
    character, each with its text.

    - `below` has the bits of all operations that an entry of the node, or of one below it, allows.
    - `owner` is the change that created the node, and may still write to it. Nobody else writes.
    """

    __slots__ = ("below", "edges", "literal", "owner", "prefixed")

    def __init__(self, owner: object, literal: Pattern | None, prefixed: Pattern | None,
                 edges: "dict[str, tuple[str, Node]]", below: int) -> None:
        self.owner = owner
        self.literal = literal
        self.prefixed = prefixed
        self.edges = edges
        self.below = below

    def owned(self, owner: object) -> "Node":
        """Return the node, or a copy of it that the owner may write to."""
        if self.owner is owner:
            return self
        return Node(owner, self.literal, self.prefixed, self.edges.copy(), self.below)

    @property
    def is_empty(self) -> bool:
        """Return whether there is no entry here and below."""
        return self.literal is None and self.prefixed is None and not self.edges

    def count_below(self) -> None:
        """Set `below` after entries were removed."""
        below = 0
        for pattern in (self.literal, self.prefixed):
            if pattern is not None:
                below |= pattern.allowed
        for _label, child in self.edges.values():
            below |= child.below
        self.below = below


EMPTY_NODE: Final = Node(None, None, None, {}, 0)


def allowed_bits(operation: int) -> int:
    """Return the bits of the operations that an entry which allows `operation` allows."""
    if operation == Operation.ALL:
        return EVERY_OPERATION
    bits = 1 << operation
    if operation in _DESCRIBING:
        bits |= 1 << Operation.DESCRIBE
    elif operation == Operation.ALTER_CONFIGS:
        bits |= 1 << Operation.DESCRIBE_CONFIGS
    return bits & EVERY_OPERATION


def denied_bits(operation: int) -> int:
    """Return the bits of the operations that an entry which denies `operation` denies: nothing is implied."""
    return EVERY_OPERATION if operation == Operation.ALL else 1 << operation & EVERY_OPERATION


NO_RIGHTS: Final = Rights()
_RIGHTS: Final[dict[tuple[int, int], Rights]] = {
    **{(each, PermissionType.ALLOW): Rights(allowed_bits(each), 0) for each in Operation},
    **{(each, PermissionType.DENY): Rights(0, denied_bits(each)) for each in Operation},
}


def rights_of(acl: Acl) -> Rights:
    """Return what an entry gives. One with a code of a later release gives nothing."""
    return _RIGHTS.get((acl.operation, acl.permission_type), NO_RIGHTS)


def host_name(host: str) -> str:
    """Return one text for all ways to write an address. Java writes IPv6 addresses in full, and an IPv4 address that
    came by IPv6 as itself."""
    address = _address(host)
    return host if address is None else str(address)


@lru_cache(maxsize=4096)
def _address(host: str) -> Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def pattern_of(entries: tuple[Acl, ...]) -> Pattern | None:
    """Compile entries of one name and pattern type; None for none."""
    pattern = None
    for acl in entries:
        pattern = with_one(pattern, acl)
    return pattern


def with_one(pattern: Pattern | None, acl: Acl) -> Pattern:
    """Return the pattern with one more entry."""
    if pattern is None:
        pattern = NO_ENTRIES
    given = rights_of(acl)
    everywhere, by_host, by_network = pattern.rules
    if acl.host == WILDCARD:
        everywhere = _both(everywhere, given)
    elif (network := network_of(acl.host)) is not None:
        networks = dict(by_network)
        networks[network] = _both(networks.get(network, NO_RIGHTS), given)
        by_network = tuple(networks.items())
    else:
        host = host_name(acl.host)
        by_host = {**by_host, host: _both(by_host.get(host, NO_RIGHTS), given)}
    return Pattern((*pattern.entries, acl), HostRules(everywhere, by_host, by_network),
                   pattern.allowed | given.allowed)


def without_one(pattern: Pattern | None, acl: Acl) -> Pattern | None:
    """Return the pattern without an entry, which it has; None when no other is left."""
    assert pattern is not None, f"{acl} is not in the table"
    entries = list(pattern.entries)
    entries.remove(acl)
    return pattern_of(tuple(entries))


NO_ENTRIES: Final = Pattern((), HostRules(NO_RIGHTS, {}, ()), 0)


def network_of(host: str) -> Network | None:
    """Return the network that an entry's host names in CIDR notation; None for any other host."""
    if "/" not in host:
        return None
    try:
        return ip_network(host, strict=False)
    except ValueError:
        return None


def _both(one: Rights, other: Rights) -> Rights:
    return Rights(one[0] | other[0], one[1] | other[1])


def patterns_for(node: Node, name: str) -> Iterator[Pattern]:
    """Yield the patterns that select the resource of that name, but for the one that selects every name."""
    at, size = 0, len(name)
    while True:
        if node.prefixed is not None:
            yield node.prefixed
        if at == size:
            if node.literal is not None:
                yield node.literal
            return
        edge = node.edges.get(name[at])
        if edge is None or not name.startswith(edge[0], at):
            return
        at += len(edge[0])
        node = edge[1]


def patterns_below(node: Node, bit: int) -> Iterator[tuple[str, PatternType, Pattern]]:
    """Yield each pattern with an entry that may allow the operation of this bit, with its name and type."""
    left = [("", node)]
    while left:
        name, node = left.pop()
        if not node.below & bit:
            continue
        if node.prefixed is not None:
            yield name, PatternType.PREFIXED, node.prefixed
        if node.literal is not None:
            yield name, PatternType.LITERAL, node.literal
        left.extend((name + label, child) for label, child in node.edges.values())


def with_entry(node: Node, acl: Acl, owner: object, at: int = 0) -> Node:
    """Return the tree with one more entry; `at` characters of its name lead to the node. What the owner has created
    before is changed in place."""
    name = acl.resource_name
    node = node.owned(owner)
    if at == len(name):
        if acl.pattern_type == PatternType.PREFIXED:
            node.prefixed = with_one(node.prefixed, acl)
        else:
            node.literal = with_one(node.literal, acl)
        node.below |= rights_of(acl).allowed
        return node
    edge = node.edges.get(name[at])
    if edge is None:
        label = name[at:]
        child = with_entry(EMPTY_NODE, acl, owner, len(name))
    else:
        label, child = edge
        shared = _shared(label, name, at)
        if shared < len(label):
            rest = label[shared:]
            child = Node(owner, None, None, {rest[0]: (rest, child)}, child.below)
            label = label[:shared]
        child = with_entry(child, acl, owner, at + len(label))
    node.edges[label[0]] = (label, child)
    node.below |= child.below
    return node


def without_entry(node: Node, acl: Acl, owner: object, at: int = 0) -> Node:
    """Return the tree without the entry, which it has."""
    name = acl.resource_name
    node = node.owned(owner)
    if at == len(name):
        if acl.pattern_type == PatternType.PREFIXED:
            node.prefixed = without_one(node.prefixed, acl)
        else:
            node.literal = without_one(node.literal, acl)
    else:
        label, child = node.edges[name[at]]
        child = without_entry(child, acl, owner, at + len(label))
        if child.is_empty:
            del node.edges[label[0]]
        elif child.literal is None and child.prefixed is None and len(child.edges) == 1:
            [(rest, only)] = child.edges.values()
            node.edges[label[0]] = (label + rest, only)
        else:
            node.edges[label[0]] = (label, child)
    node.count_below()
    return node


def _shared(label: str, name: str, at: int) -> int:
    """Return how many characters of the edge's text the name has at this place."""
    if name.startswith(label, at):
        return len(label)
    count = 0
    for one, other in zip(label, name[at:at + len(label)], strict=False):
        if one != other:
            break
        count += 1
    return count
