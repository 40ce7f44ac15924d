"""Where nodes listen, as they told themselves or others told of them (KIP-642's gossip of connection information)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kraft.raft.types import Endpoint, Endpoints, ReplicaKey

NODES_MAX: Final = 1000
"""Who invents nodes does not fill the memory."""


class Known(NamedTuple):
    """A replica, since when its process runs by its own clock, and where it listens."""

    key: ReplicaKey
    boot_ms: int
    endpoints: Endpoints

    def __str__(self) -> str:
        return f"{self.key}@{','.join(each.host for each in self.endpoints)} since {self.boot_ms}"


@dataclass(slots=True)
class Directory:
    """Announced addresses, by node id. Of two announcements of a node, the one with the larger boot timestamp counts
    (KIP-595).

    A clock that went back makes a node's newest announcement look old, and the log may be older or newer than both: so
    a node is tried at all its known addresses in turn, until one of them answers. What it announced itself with an
    earlier timestamp is one of them (`direct`), which nobody else hears of.
    """

    nodes: dict[int, Known] = field(default_factory=dict)
    direct: dict[int, Endpoints] = field(default_factory=dict)
    voters: tuple[int, ...] = ()
    """Who votes or is to vote, as the last answer to DiscoverBrokers said; this replica's log may not have it yet."""
    tries: dict[int, int] = field(default_factory=dict)
    """Of nodes with several addresses: how many tries in a row have failed."""

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
        """The address to try next, of all those known of a node."""
        return addresses[self.tries.get(node_id, 0) % len(addresses)] if addresses else None

    def failed(self, node_id: int) -> None:
        """The address tried last does not lead to the node."""
        self.tries[node_id] = self.tries.get(node_id, 0) + 1

    def worked(self, node_id: int, count: int) -> None:
        """The node answered at the address tried last, one of `count`."""
        tries = self.tries.get(node_id, 0)
        if tries >= count:
            self.tries[node_id] = tries % count
