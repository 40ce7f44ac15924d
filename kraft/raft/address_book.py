"""Addresses of nodes, as they or others announced them (KIP-642's gossip of connection information)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kraft.raft.types import Endpoint, Endpoints, ReplicaKey

NODES_MAX: Final = 1000
"""Bounds the memory that invented nodes can fill."""


class Known(NamedTuple):
    """A replica, its listeners, and the time at which its process started by its own clock."""

    key: ReplicaKey
    boot_ms: int
    endpoints: Endpoints

    def __str__(self) -> str:
        return f"{self.key}@{','.join(each.host for each in self.endpoints)} since {self.boot_ms}"


@dataclass(slots=True)
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
    tries: dict[int, int] = field(default_factory=dict)
    """Consecutive failed tries, for nodes with several addresses."""

    def learn(self, known: Known) -> bool:
        """Keep an announcement; return whether it is the newest of its node."""
        node_id = known.key.node_id
        before = self.nodes.get(node_id)
        is_new = before is None and len(self.nodes) < NODES_MAX
        if node_id < 0 or not known.endpoints or not (is_new or (before and known.boot_ms > before.boot_ms)):
            return False
        self.nodes[node_id] = known
        self.direct.pop(node_id, None)
        self.tries.pop(node_id, None)
        return True

    def endpoints(self, node_id: int) -> Endpoints:
        known = self.nodes.get(node_id)
        return known.endpoints if known else ()

    def choose(self, node_id: int, addresses: Sequence[Endpoint]) -> Endpoint | None:
        """Return the address to try next, of all that are known of a node."""
        return addresses[self.tries.get(node_id, 0) % len(addresses)] if addresses else None

    def failed(self, node_id: int) -> None:
        """Record that the address tried last does not lead to the node."""
        self.tries[node_id] = self.tries.get(node_id, 0) + 1

    def worked(self, node_id: int, count: int) -> None:
        """Record that the node answered at the address tried last, one of `count`."""
        tries = self.tries.get(node_id, 0)
        if tries >= count:
            self.tries[node_id] = tries % count
