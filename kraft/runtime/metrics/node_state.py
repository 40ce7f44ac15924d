"""State of a node as its readiness needs it, read on the loop's thread (`kraft.broker.readiness`)."""

import time
from typing import TYPE_CHECKING

from kraft.broker.coordinator.shards import Phase as ShardPhase
from kraft.broker.readiness import BrokerSeen, NodeState, Phase, QuorumSeen
from kraft.controller.local_broker import State
from kraft.metadata.image import NO_LEADER
from kraft.raft.roles import Follower
from kraft.raft.types import NOBODY
from kraft.runtime.base.time_slices import TimeSlice
from kraft.runtime.net.server import Server
from kraft.runtime.quorum.quorum_replica import QuorumReplica

if TYPE_CHECKING:
    from kraft.runtime.stages.parts import NodeParts

ANSWER_GRACE_MS = 500
"""Time after the fetch time-out of a follower within which its core notes what a lease of compiled code received."""


async def state_of_broker(parts: "NodeParts", phase: Phase, *, was_ready: bool) -> NodeState:
    """Read a node with a broker. What takes long is read in slices, and only until the node `was_ready`."""
    behind = 0 if was_ready else await _replicas_behind(parts)
    image = parts.core.broker.image
    return NodeState(phase, quorum=quorum_seen(parts.control.quorum, image.offset + 1),
                     broker=_broker_seen(parts, behind),
                     ended_certificates=_ended_certificates(parts.path.server))


def state_of_controller(quorum: QuorumReplica, server: Server, phase: Phase) -> NodeState:
    """Read a node that is only a controller."""
    return NodeState(phase, quorum=quorum_seen(quorum, quorum.metadata.image.offset + 1),
                     ended_certificates=_ended_certificates(server))


def quorum_seen(quorum: QuorumReplica, applied_end: int) -> QuorumSeen:
    """Read what this node knows of the quorum. `applied_end`: end of the metadata that the node acts on."""
    replica, now_ms = quorum.raft.replica, quorum.clock()
    role, leader_id = replica.role, replica.leader_id
    leads = leader_id == quorum.config.node_id
    if leads:
        is_answered = quorum.metadata.controller.active
    else:
        is_answered = (leader_id != NOBODY and isinstance(role, Follower) and role.has_fetched
                       and now_ms < role.fetch_ms + ANSWER_GRACE_MS)
    return QuorumSeen(
        leader_id=leader_id, is_answered=is_answered, leads=leads, may_vote=quorum.config.is_controller,
        is_voter=replica.is_voter, committed_end=replica.high_watermark, applied_end=applied_end,
        other_cluster=quorum.other_cluster_address)


def _broker_seen(parts: "NodeParts", replicas_behind: int) -> BrokerSeen:
    local, core, logs = parts.control.broker, parts.core, parts.storage.logs
    replicas, broker = core.replicas, core.broker
    registration = broker.image.brokers.get(broker.node_id)
    is_registered = (local is not None and local.epoch >= 0 and registration is not None
                     and registration.epoch == local.epoch)
    refusal = None if local is None else local.refusal
    return BrokerSeen(
        is_registered=is_registered,
        refusal="" if refusal is None else f"{refusal.name}, {refusal.message}",
        is_fenced=registration is None or registration.fenced or local is None or local.state is State.FENCED,
        lease_left_ms=parts.control.lease_left_ms, is_replaced=local is not None and local.state is State.REPLACED,
        logs=replicas.slow_count, logs_open=replicas.slow_opened, was_clean=logs.was_clean,
        replicas_waiting=replicas.waiting_count, replicas_behind=replicas_behind,
        coordinators_loading=sum(
            shards.phase(number) is ShardPhase.LOADING
            for driver in core.coordinators.values() for shards in (driver.coordinator.shards,)
            for number in shards.partitions()),
        offline_directories=tuple(map(str, (*logs.unopened, *(each.path for each in logs.offline)))),
        directories=len(logs.directories) + len(logs.unopened), replicas_failed=len(replicas.failed),
        apply_faults=len(broker.faults), replicas_damaged=len(replicas.lost_records()))


async def _replicas_behind(parts: "NodeParts") -> int:
    """Count the followers here that are not in sync. Those without a leader cannot be, and do not count."""
    time_slice, behind, node_id = TimeSlice(), 0, parts.core.broker.node_id
    for partition in list(parts.path.table):
        if not partition.removed and not partition.is_leader:
            found = parts.core.broker.image.partition(partition.topic, partition.index)
            if (found is not None and node_id in found.replicas and node_id not in found.isr
                    and found.leader != NO_LEADER):
                behind += 1
        await time_slice.give_way()
    return behind


def _ended_certificates(server: Server) -> tuple[str, ...]:
    now_s = time.time()
    return tuple(f"listener {name}" for name, listener in server.tls.items() if listener.ends_s <= now_s)
