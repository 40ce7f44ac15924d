"""Where nodes listen, as they told themselves or others told of them (KIP-642's gossip of connection information)."""

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
    """By node id. Of two things told of a node the one with the larger boot timestamp counts (KIP-595).

    A clock that went back would make a node's newest word look old, and the log's word may be older or newer: so
    where the two differ, they are tried in turn.
    """

    nodes: dict[int, Known] = field(default_factory=dict)
    log_first: dict[int, bool] = field(default_factory=dict)

    def learn(self, known: Known) -> None:
        node_id = known.key.node_id
        before = self.nodes.get(node_id)
        is_new = before is None and len(self.nodes) < NODES_MAX
        if node_id >= 0 and known.endpoints and (is_new or (before is not None and known.boot_ms > before.boot_ms)):
            self.nodes[node_id] = known
            self.log_first.pop(node_id, None)

    def endpoints(self, node_id: int) -> Endpoints:
        known = self.nodes.get(node_id)
        return known.endpoints if known else ()

    def best(self, node_id: int, logged: Endpoints) -> Endpoint | None:
        """The address to try; `logged` is what the log says."""
        told = self.endpoints(node_id)
        first, second = (logged, told) if self.log_first.get(node_id, False) else (told, logged)
        return (first or second or (None,))[0]

    def failed(self, node_id: int) -> None:
        """The address tried last was of no use."""
        if node_id in self.nodes:
            self.log_first[node_id] = not self.log_first.get(node_id, False)
