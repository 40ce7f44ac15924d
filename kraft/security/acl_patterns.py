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


class Node(NamedTuple):
    """Node of the tree: entries for exactly its name, entries for all names that begin with it, and edges by first
    character. `below` has the bits of all operations that an entry of the node, or of one below it, allows."""

    literal: Pattern | None
    prefixed: Pattern | None
    edges: "dict[str, tuple[str, Node]]"
    below: int


NO_EDGES: Final[dict[str, tuple[str, Node]]] = {}
EMPTY_NODE: Final = Node(None, None, NO_EDGES, 0)


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


def rights_of(acl: Acl) -> Rights:
    """Return what an entry gives. One with a code of a later release gives nothing."""
    if acl.operation < 0:
        return Rights()
    match acl.permission_type:
        case PermissionType.ALLOW:
            return Rights(allowed_bits(acl.operation), 0)
        case PermissionType.DENY:
            return Rights(0, denied_bits(acl.operation))
        case _:
            return Rights()


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
    if not entries:
        return None
    everywhere = Rights()
    by_host: dict[str, Rights] = {}
    by_network: dict[Network, Rights] = {}
    allowed = 0
    for acl in entries:
        given = rights_of(acl)
        allowed |= given.allowed
        if acl.host == WILDCARD:
            everywhere = _both(everywhere, given)
        elif (network := network_of(acl.host)) is not None:
            by_network[network] = _both(by_network.get(network, Rights()), given)
        else:
            host = host_name(acl.host)
            by_host[host] = _both(by_host.get(host, Rights()), given)
    return Pattern(entries, HostRules(everywhere, by_host, tuple(by_network.items())), allowed)


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


def patterns_below(node: Node, bit: int, name: str = "") -> Iterator[tuple[str, PatternType, Pattern]]:
    """Yield each pattern with an entry that may allow the operation of this bit, with its name and type."""
    left = [(name, node)]
    while left:
        name, node = left.pop()
        if not node.below & bit:
            continue
        if node.prefixed is not None:
            yield name, PatternType.PREFIXED, node.prefixed
        if node.literal is not None:
            yield name, PatternType.LITERAL, node.literal
        left.extend((name + label, child) for label, child in node.edges.values())


def with_entry(node: Node, acl: Acl, at: int = 0) -> Node:
    """Return the tree with one more entry; `at` characters of its name lead to the node."""
    name = acl.resource_name
    if at == len(name):
        return _with_own(node, acl)
    edge = node.edges.get(name[at])
    if edge is None:
        return _with_edge(node, name[at:], _with_own(EMPTY_NODE, acl))
    label, child = edge
    shared = _shared(label, name, at)
    if shared < len(label):
        rest = label[shared:]
        child = _with_edge(EMPTY_NODE, rest, child)
    return _with_edge(node, label[:shared], with_entry(child, acl, at + shared))


def without_entry(node: Node, acl: Acl, at: int = 0) -> Node:
    """Return the tree without the entry, which it has."""
    name = acl.resource_name
    if at == len(name):
        return _without_own(node, acl)
    label, child = node.edges[name[at]]
    child = without_entry(child, acl, at + len(label))
    if child.literal is None and child.prefixed is None and len(child.edges) < 2:
        edges = dict(node.edges)
        del edges[label[0]]
        for rest, grandchild in child.edges.values():
            edges[label[0]] = (label + rest, grandchild)
        return _node(node.literal, node.prefixed, edges)
    return _with_edge(node, label, child)


def _shared(label: str, name: str, at: int) -> int:
    if name.startswith(label, at):
        return len(label)
    count = 0
    for one, other in zip(label, name[at:], strict=False):
        if one != other:
            break
        count += 1
    return count


def _with_own(node: Node, acl: Acl) -> Node:
    if acl.pattern_type == PatternType.PREFIXED:
        known = () if node.prefixed is None else node.prefixed.entries
        return _node(node.literal, pattern_of((*known, acl)), node.edges)
    known = () if node.literal is None else node.literal.entries
    return _node(pattern_of((*known, acl)), node.prefixed, node.edges)


def _without_own(node: Node, acl: Acl) -> Node:
    if acl.pattern_type == PatternType.PREFIXED:
        assert node.prefixed is not None, f"{acl} is not in the table"
        return _node(node.literal, pattern_of(_less(node.prefixed.entries, acl)), node.edges)
    assert node.literal is not None, f"{acl} is not in the table"
    return _node(pattern_of(_less(node.literal.entries, acl)), node.prefixed, node.edges)


def _less(entries: tuple[Acl, ...], acl: Acl) -> tuple[Acl, ...]:
    place = entries.index(acl)
    return entries[:place] + entries[place + 1:]


def _with_edge(node: Node, label: str, child: Node) -> Node:
    return _node(node.literal, node.prefixed, {**node.edges, label[0]: (label, child)})


def _node(literal: Pattern | None, prefixed: Pattern | None, edges: dict[str, tuple[str, Node]]) -> Node:
    below = 0
    for pattern in (literal, prefixed):
        if pattern is not None:
            below |= pattern.allowed
    for _label, child in edges.values():
        below |= child.below
    return Node(literal, prefixed, edges or NO_EDGES, below)
