"""Clients that propose each value once, to a node that leads or seems to lead."""

from random import Random

from kraft.raft.errors import NotLeaderError
from kraft.raft.types import NOBODY
from kraft.testing.sim.batches import HEADER, Value
from kraft.testing.sim.cluster import Cluster
from kraft.testing.sim.disk import DiskError
from kraft.testing.sim.history import History
from kraft.testing.sim.options import MILLISECOND


class Clients:
    """Clients of a run. `is_on`: whether they continue to propose."""

    def __init__(self, cluster: Cluster, history: History, random: Random) -> None:
        self._cluster = cluster
        self._history = history
        self._random = random
        self._numbers: list[int] = []
        self.is_on = True

    def start(self) -> None:
        for client in range(self._cluster.options.clients):
            self._numbers.append(0)
            self._schedule(client)

    def _schedule(self, client: int) -> None:
        mean_us = self._cluster.options.propose_every_ms * MILLISECOND * self._cluster.options.clients
        self._cluster.loop.after(1 + self._random.randrange(2 * mean_us), self._propose, client)

    def _propose(self, client: int) -> None:
        if self.is_on:
            self.propose(client)
            self._schedule(client)

    def propose(self, client: int) -> None:
        """Propose one value. Two nodes may consider themselves the leader: a client uses any of them."""
        cluster = self._cluster
        leaders = [node for node in cluster.up() if node.leads_epoch != NOBODY and not node.is_halted]
        if not leaders:
            return
        node = leaders[self._random.randrange(len(leaders))]
        self._numbers[client] += 1
        size = HEADER.size + self._random.randrange(2 * cluster.options.value_bytes)
        operation = self._history.invoked(Value(client, self._numbers[client], size), cluster.loop.now_us)
        life = node.life
        cluster.counts["proposals"] += 1
        try:
            end = node.propose(operation.value)
        except (NotLeaderError, DiskError):
            cluster.counts["proposals refused"] += 1
        else:
            self._history.accepted(operation, node.id, life, end.offset, end.epoch)
