"""The nodes of a run: their addresses, their configurations, and the contents of their new disks."""

from collections import Counter
from random import Random
from typing import Final
from uuid import UUID

from kraft.protocol.message import ZERO_UUID
from kraft.raft.config import RaftConfig
from kraft.raft.records import KRaftVersion, Voters
from kraft.raft.types import Endpoint, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import Voter, VoterSet
from kraft.testing.sim.batches import Contents
from kraft.testing.sim.clock import PPM, Clock
from kraft.testing.sim.log import SimLog
from kraft.testing.sim.loop import Loop
from kraft.testing.sim.network import Network
from kraft.testing.sim.node import Node, Surroundings, Watcher
from kraft.testing.sim.options import Options
from kraft.testing.sim.snapshots import SnapshotContents

CLUSTER_ID = "simulated"


PORT: Final = 9093


def endpoint(node_id: int, address: int = 0) -> Endpoint:
    """Return the address of a node after `address` moves."""
    return Endpoint("CONTROLLER", f"10.0.{node_id}.{address}", PORT)


def named(node_id: int) -> Endpoint:
    """Return the address of a node by name: a name service resolves it to the current address."""
    return Endpoint("CONTROLLER", f"node{node_id}", PORT)


def directory_id(node_id: int, disk: int) -> UUID:
    """Return the directory id of the node's disk number `disk`."""
    return UUID(int=(node_id << 64) + disk + 1)


WAIT_MS: Final = 500
LONG_WAIT_MS: Final = 30_000
"""Longest wait of a Fetch of the quorum in a run of hours, so that an idle hour has few events."""


class Cluster:
    """Cluster of a run. `held`: the log of every disk that ever existed, as its last process left it. `dead`: replicas
    whose disk is lost."""

    def __init__(self, seed: int, options: Options, loop: Loop, counts: Counter[str], watcher: Watcher) -> None:
        self.seed = seed
        self.loop = loop
        self.counts = counts
        self.network = Network(loop, options, self.random("network"), counts)
        self.around = self.surroundings(Surroundings(
            loop, options, self.network, Contents(), SnapshotContents(), counts, watcher))
        self.held: dict[ReplicaKey, SimLog] = {}
        self.dead: list[ReplicaKey] = []
        self.nodes: list[Node] = []
        self._disks: Counter[int] = Counter()
        self._moves: Counter[int] = Counter()
        self._addresses: dict[int, Endpoint] = {}
        self._founders = VoterSet.of(*(self._voter(number) for number in range(1, options.voters + 1)))
        self._make_nodes()

    def surroundings(self, around: Surroundings) -> Surroundings:
        """Return the state that the nodes share."""
        return around

    def new_node(self, config: RaftConfig, random: Random, clock: Clock) -> Node:
        return Node(config, self.around, random, clock)

    def random(self, purpose: str) -> Random:
        """Return a random stream of its own for each purpose: a change in one leaves the others as they are."""
        return Random(f"{self.seed}/{purpose}")

    @property
    def options(self) -> Options:
        return self.around.options

    @options.setter
    def options(self, options: Options) -> None:
        self.around.options = options
        self.network.options = options

    def _voter(self, node_id: int) -> Voter:
        """Return a voter of the log's first record, or a configured one. Configured voters have names: if one of them
        had an address and moved, every node would need a restart with another configuration."""
        if self._is_dynamic:
            return Voter(ReplicaKey(node_id, directory_id(node_id, 0)), (endpoint(node_id),))
        return Voter(ReplicaKey(node_id, ZERO_UUID), (named(node_id),))

    @property
    def _is_dynamic(self) -> bool:
        return self.options.dynamic

    def _make_nodes(self) -> None:
        random = self.random("cluster")
        for node_id in range(1, self.options.voters + self.options.observers + 1):
            skew = random.randrange(-self.options.skew_ppm, self.options.skew_ppm + 1)
            clock = Clock(self.loop, PPM + skew, random.randrange(1_000_000))
            node = self.new_node(self._config(node_id), self.random(f"node {node_id}"), clock)
            node.knows_pre_vote = node_id > self.options.old_peers
            self.nodes.append(node)
            self.network.stations[node_id] = node
            self.network.names[named(node_id).host] = node_id
            if self._is_dynamic and node_id <= self.options.voters:
                self._format(node)

    def _format(self, node: Node) -> None:
        """Write a new disk as `kraft storage format --initial-controllers` does: an empty snapshot that names the
        voters."""
        snapshot = self.around.snapshot_contents.encode(
            OffsetAndEpoch(0, 0), 0, (KRaftVersion(1), Voters(self._founders)), 0)
        node.disk.snapshots[snapshot.id] = snapshot

    def _config(self, node_id: int) -> RaftConfig:
        options = self.options
        return RaftConfig(
            key=ReplicaKey(node_id, directory_id(node_id, self._disks[node_id])),
            cluster_id=CLUSTER_ID,
            endpoints=(self.address_of(node_id),),
            bootstrap=self._bootstrap(node_id),
            static_voters=VoterSet() if options.dynamic else self._founders,
            election_timeout_ms=options.election_timeout_ms,
            election_backoff_max_ms=options.election_backoff_max_ms,
            fetch_timeout_ms=options.fetch_timeout_ms,
            request_timeout_ms=options.fetch_timeout_ms,
            fetch_max_wait_ms=min(LONG_WAIT_MS if options.quiet_seconds else WAIT_MS, options.fetch_timeout_ms // 2),
            fetch_max_bytes=options.fetch_max_bytes,
            fetch_snapshot_max_bytes=options.fetch_max_bytes,
            start_grace_ms=min(100, options.election_timeout_ms))

    def _bootstrap(self, node_id: int) -> tuple[Endpoint, ...]:
        """Return the founders, by name. A sole founder gets the other nodes: it may come back with a new disk when they
        are the quorum."""
        nodes = range(1, self.options.voters + self.options.observers + 1)
        return tuple(named(each) for each in (self._founders.ids if self._founders.ids != (node_id,) else nodes)
                     if each != node_id)

    def address_of(self, node_id: int) -> Endpoint:
        """Return the address of a node: the current one, or that of its next start."""
        return self._addresses.get(node_id, endpoint(node_id))

    # --- running nodes -----------------------------------------------------------------------------------------------

    def up(self) -> list[Node]:
        return [node for node in self.nodes if node.is_up]

    def node(self, node_id: int) -> Node:
        return self.nodes[node_id - 1]

    def leader(self) -> Node | None:
        """Return the leader of the highest epoch."""
        leaders = [node for node in self.up() if node.raft.replica.leader_id == node.id and node.raft.leadership.role
                   == "Leader"]
        return max(leaders, key=lambda node: node.raft.replica.epoch, default=None)

    def is_alive(self, key: ReplicaKey) -> bool:
        """Return whether a voter of this key can ever vote again."""
        node = self.node(key.node_id)
        return key.is_same(node.key) and key not in self.dead

    # --- disks -------------------------------------------------------------------------------------------------------

    def move(self, node: Node) -> None:
        """Let the node listen at another address. Not beside peers without DiscoverBrokers: without a leader, no other
        message reports a voter's address."""
        if self.options.old_peers:
            return
        self.counts["node moved"] += 1
        self._moves[node.id] += 1
        self._addresses[node.id] = endpoint(node.id, self._moves[node.id])
        node.move(self._config(node.id))

    def rotate_addresses(self, nodes: list[Node]) -> None:
        """Give each of these nodes the current address of the next one. Not beside old peers, as above."""
        if self.options.old_peers:
            return
        self.counts["addresses exchanged"] += 1
        addresses = [self.address_of(node.id) for node in nodes]
        for node, address in zip(nodes, addresses[1:] + addresses[:1], strict=True):
            self._addresses[node.id] = address
            node.move(self._config(node.id))

    def replace_disk(self, node: Node) -> None:
        """Let the node come back as another replica: same id, other directory."""
        if node.key not in self.dead:
            self.dead.append(node.key)
        self._disks[node.id] += 1
        node.replace_disk(self._config(node.id))
