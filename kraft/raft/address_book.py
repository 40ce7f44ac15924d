"""Addresses of nodes, as they or others announced them (KIP-642's gossip of connection information)."""

from collections.abc import Sequence
from dataclasses import field
from typing import Final, NamedTuple

from kraft.raft.types import Endpoint, Endpoints, ReplicaKey
from kraft.structs import mutable

NODES_MAX: Final = 1000
"""Bounds the memory that invented nodes can fill."""


class Known(NamedTuple):
    """A replica, its listeners, and the time at which its process started by its own clock."""

    key: ReplicaKey
    boot_ms: int
    endpoints: Endpoints

    def __str__(self) -> str:
        return f"{self.key}@{','.join(each.host for each in self.endpoints)} since {self.boot_ms}"


@mutable
class AddressBook:
    """Announced addresses, by node id. Of two announcements of a node, the one with the larger boot timestamp wins
    (KIP-595).

    A clock that was set back makes a node's newest announcement look old, and the log may be older or newer than both.
    Therefore a node is tried at all its known addresses, one after the other, until one of them answers. One of them is
    the address that the node itself announced with an earlier timestamp (`direct`); it is not passed on to other nodes.
    """

    nodes: dict[int, Known] = field(default_factory=dict)
    direct: dict[int, Endpoints] = field(default_factory=dict)
    voters: tuple[int, ...] = ()
    """Ids of the voters and of the future voters, as the last answer to DiscoverBrokers gave them. This replica's log
    may not have them yet."""
    tried: dict[int, Endpoint] = field(default_factory=dict)
    """Address of the last request to each node, until that has failed."""
    failures: dict[int, tuple[Endpoint, ...]] = field(default_factory=dict)
    """Addresses at which a node was not found since all of them were tried last, for nodes with several."""

    def learn(self, known: Known) -> bool:
        """Keep an announcement; return whether it is the newest of its node."""
        node_id = known.key.node_id
        before = self.nodes.get(node_id)
        is_new = before is None and len(self.nodes) < NODES_MAX
        if node_id < 0 or not known.endpoints or not (is_new or (before and known.boot_ms > before.boot_ms)):
            return False
        self.nodes[node_id] = known
        self.direct.pop(node_id, None)
        self.tried.pop(node_id, None)
        self.failures.pop(node_id, None)
        return True

    def endpoints(self, node_id: int) -> Endpoints:
        known = self.nodes.get(node_id)
        return known.endpoints if known else ()

    def choose(self, node_id: int, addresses: Sequence[Endpoint]) -> Endpoint | None:
        """Return the address to try next, of all that are known of a node: the first that has not failed."""
        failures = self.failures.get(node_id, ())
        return next((each for each in addresses if each not in failures), addresses[0] if addresses else None)

    def sent(self, node_id: int, address: Endpoint | None) -> None:
        """Record where a request to a node is sent."""
        if address is not None:
            self.tried[node_id] = address

    def failed(self, node_id: int, addresses: Sequence[Endpoint]) -> None:
        """Record that the address tried last does not lead to the node, which has these addresses now. Failures belong
        to addresses, so those of others hold when the list changes. When all have failed, a new round begins."""
        tried = self.tried.pop(node_id, None) or self.choose(node_id, addresses)
        failures = tuple(each for each in addresses if each == tried or each in self.failures.get(node_id, ()))
        self.failures.pop(node_id, None)
        if 0 < len(failures) < len(addresses):
            self.failures[node_id] = failures
