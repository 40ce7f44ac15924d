"""A careful operator with bad luck: changes the voters, replaces disks, performs rolling restarts.

Careful means that at any time the voters of every log have a majority of replicas whose disks are not lost. Otherwise
no protocol could continue. So the operator

- destroys no disk soon after it has requested a change;
- requests no change that would leave too few replicas;
- requests no reassignment soon after a disk was lost: the leader may still consider that replica caught up.
"""

from random import Random

from kraft.raft.messages import (
    AddVoterRequest,
    ChangeVotersResponse,
    ReassignVotersRequest,
    RemoveVoterRequest,
    Request,
)
from kraft.raft.types import ReplicaKey
from kraft.raft.voters import Voter, VoterSet
from kraft.testing.sim.cluster import CLUSTER_ID, Cluster
from kraft.testing.sim.network import CLIENT_ID, Envelope
from kraft.testing.sim.node import Node
from kraft.testing.sim.options import MILLISECOND, SECOND

QUIET_US = 15 * SECOND
"""Quiet period. After a request no disk is lost for so long: the request may be late, and a change that it began may
continue. After the loss of a disk nothing is reassigned for so long."""

TIMEOUT_MS = 5000


class Operator:
    """Operator of a run: a station on the network that only sends requests."""

    life = 0
    is_up = True
    knows_pre_vote = True

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._request_number = 0
        self._quiet_from_us = 0
        self._lost_us = -QUIET_US
        self.is_rolling = True
        cluster.network.stations[CLIENT_ID] = self

    def receive(self, envelope: Envelope) -> None:
        if isinstance(envelope.message, ChangeVotersResponse):
            self._cluster.counts[f"change answered: {envelope.message.error.name}"] += 1

    def _send_request(self, node: Node, request: Request) -> None:
        self._request_number += 1
        self._quiet_from_us = self._cluster.loop.now_us + QUIET_US
        self._cluster.network.send_request(
            Envelope(CLIENT_ID, self.life, node.id, node.id, self._request_number, request, is_answer=False), request)

    # --- voters ------------------------------------------------------------------------------------------------------

    def change(self) -> bool:
        """Request to add or remove a voter. Return whether a request was sent."""
        leader = self._cluster.leader()
        if leader is None or not self._cluster.options.dynamic:
            return False
        voters = leader.raft.replica.voters
        lost = [key for key in voters.keys if not self._cluster.is_alive(key)]
        outside = [node.key for node in self._cluster.up()
                   if voters.find(node.id) is None and self._cluster.is_alive(node.key)]
        if lost:
            return self._remove(leader, voters, lost[0])
        if outside and self._random.random() < 0.6:
            return self._add(leader, outside[self._random.randrange(len(outside))])
        return self._remove(leader, voters, voters.keys[self._random.randrange(len(voters.keys))])

    def _add(self, leader: Node, key: ReplicaKey) -> bool:
        self._cluster.counts["voter to add"] += 1
        self._send_request(leader, AddVoterRequest(
            cluster_id=CLUSTER_ID, voter=Voter(key, (self._cluster.address_of(key.node_id),)), timeout_ms=TIMEOUT_MS,
            ack_when_committed=self._random.random() < 0.7))
        return True

    def _remove(self, leader: Node, voters: VoterSet, key: ReplicaKey) -> bool:
        if len(voters.keys) == 1 or not self._has_majority(voters.without(key)):
            return False
        self._cluster.counts["voter to remove"] += 1
        self._send_request(leader, RemoveVoterRequest(cluster_id=CLUSTER_ID, voter=key))
        return True

    def reassign(self) -> bool:
        """Request a reassignment to a random set of working nodes, or stop the current one. Return whether a request
        was sent."""
        leader = self._cluster.leader()
        if leader is None or not self._cluster.options.dynamic or self._cluster.loop.now_us < self._lost_us + QUIET_US:
            return False
        targets: tuple[int, ...] | None = None
        if leader.raft.replica.voters.targets is None or self._random.random() < 0.6:
            alive = [node.id for node in self._cluster.nodes if not node.is_broken]
            count = 1 + self._random.randrange(len(alive))
            targets = tuple(self._random.sample(alive, count))
            if not self._will_last(targets):
                return False
        self._cluster.counts["reassignment" if targets else "reassignment stopped"] += 1
        self._send_request(leader, ReassignVotersRequest(cluster_id=CLUSTER_ID, targets=targets, timeout_ms=TIMEOUT_MS))
        return True

    def _will_last(self, targets: tuple[int, ...]) -> bool:
        """Return whether a majority of the targets will survive a restart. Only the simulator knows of damage that no
        node has found yet."""
        lost = sum(not self._cluster.is_alive(self._cluster.node(node_id).key) for node_id in targets)
        return lost <= (len(targets) - 1) // 2

    def stop_reassigning(self) -> None:
        leader = self._cluster.leader()
        if leader is not None:
            self._send_request(
                leader, ReassignVotersRequest(cluster_id=CLUSTER_ID, targets=None, timeout_ms=TIMEOUT_MS))

    def restore(self) -> bool:
        """Remove lost voters, one change at a time, and stop a reassignment that would wait indefinitely. Such a
        reassignment is to a lost disk, or to nodes whose address is not reported, because a peer does not know
        DiscoverBrokers. Return whether there is something to do."""
        leader = self._cluster.leader()
        if leader is None:
            return True
        voters = leader.raft.replica.voters
        if voters.targets is not None:
            if self._cluster.options.old_peers or not all(self._cluster.is_alive(key) for key in voters.targets):
                self.stop_reassigning()
            return True
        lost = [key for key in voters.keys if not self._cluster.is_alive(key)]
        if lost and len(voters.keys) > 1:
            self._remove(leader, voters, lost[0])
        return bool(lost)

    def resign(self) -> None:
        leader = self._cluster.leader()
        if leader is not None and not leader.is_paused:
            self._cluster.counts["leader resigns"] += 1
            leader.resign()

    # --- disks -------------------------------------------------------------------------------------------------------

    def _has_majority(self, voters: VoterSet) -> bool:
        alive = [key for key in voters.keys if self._cluster.is_alive(key)]
        return len(alive) >= voters.majority

    def may_lose(self, node: Node) -> bool:
        """Return whether the quorum can do without this node's disk. If so, the caller destroys it."""
        cluster = self._cluster
        if not cluster.options.dynamic or cluster.loop.now_us < self._quiet_from_us or node.key in cluster.dead:
            return False
        cluster.dead.append(node.key)
        sets = [entry.voters for each in cluster.nodes for entry in each.voter_sets]
        can_do = all(voters.targets is None and self._has_majority(voters) for voters in sets)
        cluster.dead.pop()
        if can_do:
            self._lost_us = cluster.loop.now_us
        return can_do

    # --- restarts ----------------------------------------------------------------------------------------------------

    def roll(self, position: int = 0) -> None:
        """Stop and start the nodes, one after the other."""
        cluster = self._cluster
        if self.is_rolling and position < len(cluster.nodes):
            node = cluster.nodes[position]
            if node.is_up:
                cluster.counts["graceful stop"] += 1
                node.leave()
            cluster.loop.after(cluster.options.fetch_timeout_ms * MILLISECOND, self._rolled, position)

    def _rolled(self, position: int) -> None:
        node = self._cluster.nodes[position]
        if node.is_up and node.is_leaving:
            node.kill(power=False)
        if not node.is_up and self._random.random() < 0.5:
            self._cluster.move(node)
        self.start(node)
        self._cluster.loop.after(self._cluster.options.fetch_timeout_ms * MILLISECOND, self.roll, position + 1)

    def start(self, node: Node) -> None:
        """Start a node that is down. A node with a damaged disk gets another one."""
        if node.is_up:
            return
        node.start()
        if node.is_broken:
            self._cluster.replace_disk(node)
            self._cluster.counts["disk replaced"] += 1
            node.start()
