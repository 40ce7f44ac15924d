"""Conditions that must become true after the healing. Their names are those of the TLA+ models of KIP-853 and
KIP-996."""

from kraft.raft.transitions import Role
from kraft.raft.types import NOBODY
from kraft.testing.sim.cluster import Cluster
from kraft.testing.sim.history import Operation
from kraft.testing.sim.ledger import Ledger
from kraft.testing.sim.violation import ViolationError


def unmet(cluster: Cluster, ledger: Ledger, probe: Operation | None) -> ViolationError | None:
    """Return a condition that is not met yet, or None when all are met. `probe` was proposed after the healing."""
    leader = cluster.leader()
    if leader is None or leader.leads_epoch == NOBODY:
        return _no_leader(cluster)
    replica = leader.raft.replica
    if replica.voters.targets is not None or not all(cluster.is_alive(key) for key in replica.voters.keys):
        return ViolationError("ReconfigurationNotStuck", f"leader {leader} still has {replica.voters}")
    for node in cluster.nodes:
        if not node.is_up:
            return ViolationError("EverybodyRuns", f"{node} does not run")
        if node is not leader and node.raft.replica.leader_id != leader.id:
            return ViolationError("EverybodyFollows", f"{node} is {node.raft.replica.role.role} and knows the leader "
                                                      f"{node.raft.replica.leader_id}, it is {leader}")
    if probe is None or probe.acknowledged_us < 0:
        return ViolationError("ValuesEventuallyAcked", f"leader {leader} does not commit, log end {leader.log.end}, "
                                                       f"committed {ledger.end_offset}")
    for node in cluster.nodes:
        if node.log.end != leader.log.end or node.applied != ledger.end_offset:
            return ViolationError("EverybodyCatchesUp", f"{node} has {node.log.end} and applied {node.applied}, leader "
                                                        f"{leader} has {leader.log.end}, committed {ledger.end_offset}")
    return None


def _no_leader(cluster: Cluster) -> ViolationError:
    roles = [node.raft.leadership.role for node in cluster.up()]
    text = ", ".join(f"{node} {node.raft.leadership.role} in {node.raft.replica.epoch}" for node in cluster.up())
    name = "NotStuckInProspective" if Role.PROSPECTIVE in roles else "EventuallyLeaderElected"
    return ViolationError(name, f"nobody leads: {text}")
