"""Bugs in the controller's decisions and in the keeper of in-sync replicas. They are applied to the real code."""

from typing import Any

from kraft.broker import isr, replica_plan
from kraft.broker.isr import IsrKeeper
from kraft.broker.leader_checks import LeaderChecks
from kraft.broker.replica_plan import Action
from kraft.controller import alter_partition, brokers, leaderships, reassignments
from kraft.controller.controller import HANDLERS, Handler
from kraft.controller.partition_change import Assignment, Change
from kraft.controller.sessions import BrokerSessions, Doubt, Found
from kraft.metadata.image import BrokerRegistration
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_request import BrokerState
from kraft.runtime.quorum.raft_driver import RaftDriver
from kraft.testing.brokers.channel import Channel
from kraft.testing.mutants.patches import Collection, Patches

CONTROLLERS = Collection()


@CONTROLLERS.add(30, "KAFKA-15221")
def broker_epoch_of_a_fetch_is_ignored(patches: Patches) -> None:
    """A Fetch of an earlier process of a broker lets its current process into the ISR."""
    def around(original: Any) -> Any:
        def caught_up(keeper: Any, key: Any, node_id: int) -> bool:
            led = keeper._led.get(key)
            if led is None or node_id in led.maximal:
                return True
            if led.proposed is not None or keeper._epoch_of(node_id) is None:
                return False
            keeper._propose(led, (*led.isr, node_id), "")
            return True

        del original
        return caught_up

    patches.wrap(IsrKeeper, "caught_up", around)
    patches.plant("broker-epoch-of-a-fetch-is-ignored")
    patches.put(IsrKeeper, "_states", lambda _keeper, replicas, _led: [
        BrokerState(broker_id=replica, broker_epoch=-1) for replica in replicas])


@CONTROLLERS.add(31, "KAFKA-13916")
def fenced_broker_joins_the_isr(patches: Patches) -> None:
    """A broker joins the ISR without a check that it is active (KIP-841)."""
    patches.put(alter_partition, "_eligible", lambda _context, _partition, _state: True)

    def caught_up(keeper: Any, key: Any, node_id: int) -> bool:
        led = keeper._led.get(key)
        if led is None or node_id in led.maximal:
            return True
        if led.proposed is not None:
            return False
        keeper._propose(led, (*led.isr, node_id), "")
        return True

    patches.put(IsrKeeper, "caught_up", caught_up)


# A refused proposal is sent again after two checks for lagging followers, and then another controller accepts it. Here
# that takes longer than a healed cluster may take to converge. An overtaken controller refuses a proposal only while
# all its own records are committed. So only its successor receives changes.
@CONTROLLERS.add(32, "KAFKA-14154", brokers=6, voters=3, observers=6, combined=False, topics=2, partitions=4,
                 replication=3, min_insync=1, resize=False, directories=1, zombie_every_ms=3000, zombie_moves=4,
                 lag_ms=100_000, fetch_timeout_ms=2000, election_timeout_ms=200, session_ms=6000, produce_every_ms=400,
                 fault_seconds=6, refuse_per_mille=1000, delay_ms=1, jitter_ms=1, drop_per_mille=0, late_per_mille=0,
                 cut_every_ms=0, part_every_ms=0, isolate_every_ms=0, flap_every_ms=0, reset_every_ms=0,
                 kill_every_ms=0, power_every_ms=0, blackout_every_ms=0, pause_every_ms=0, shutdown_every_ms=0,
                 topic_every_ms=0, move_every_ms=0, elect_every_ms=0, resign_every_ms=0, shuffle_every_ms=0,
                 reboot_every_ms=0, directory_every_ms=0, refusal_every_ms=0, idle_ms=0)
def zombie_controller_refuses_for_good(patches: Patches) -> None:
    """A leader keeps sending requests to an overtaken controller. That one rejects the leader's epochs, instead of
    answering that it is not the controller."""
    def validate(original: Any) -> Any:
        def judged(*arguments: Any) -> ErrorCode:
            code: ErrorCode = original(*arguments)
            return ErrorCode.FENCED_LEADER_EPOCH if code == ErrorCode.NOT_CONTROLLER else code

        return judged

    def go(original: Any) -> Any:
        def submit_oldest(channel: Any) -> None:
            node, before = channel._node, channel._target_id
            is_up = before >= 0 and node._around.wire.processes[before].is_up
            if is_up and node._around.wire.processes[before].machine.controller.active and not channel._is_busy:
                node.zombie_id = before
            original(channel)
            node.zombie_id = -1

        return submit_oldest

    from kraft.testing.brokers.node import BrokerNode

    def controller_id(original: Any) -> Any:
        return property(lambda node: node.zombie_id if getattr(node, "zombie_id", -1) >= 0 else original.fget(node))

    patches.wrap(alter_partition, "_validate", validate)
    patches.wrap(Channel, "_go", go)
    patches.put(Channel, "changed", lambda channel: None if channel._is_busy else channel._go())
    patches.wrap(BrokerNode, "controller_id", controller_id)


# A leadership leaves and returns before the answer to a proposal arrives. A proposal that the wrong answer leaves open
# is sent again soon, so only one that is applied to another set shows.
@CONTROLLERS.add(33, "KAFKA-12686", brokers=3, voters=1, observers=3, combined=False, replication=3, min_insync=1,
                 window=5, shuffle_every_ms=600, swap_ms=40, session_ms=3000, produce_every_ms=40, lag_ms=150,
                 fault_seconds=10, delay_ms=1, jitter_ms=1, drop_per_mille=0, late_per_mille=0, reset_every_ms=0,
                 isolate_every_ms=0, part_every_ms=0, cut_every_ms=0, kill_every_ms=0, power_every_ms=0,
                 blackout_every_ms=0, pause_every_ms=0, shutdown_every_ms=0, topic_every_ms=0, move_every_ms=0,
                 elect_every_ms=0, resign_every_ms=0)
def answer_of_another_leadership_counts(patches: Patches) -> None:
    """The answer to a proposal is applied to the current proposal, in whichever epoch."""
    def answered(keeper: Any, response: Any, now_ms: int) -> None:
        requested = keeper._requested or {}
        keeper._requested = {key: keeper._led[key] for key in requested if key in keeper._led}
        for led in keeper._requested.values():
            led.proposed = led.proposed or led.isr
        original(keeper, response, now_ms)

    def settled(keeper: Any, led: Any, outcome: Any, now_ms: int) -> bool:
        if outcome.error_code == ErrorCode.NONE and keeper._node_id in outcome.isr and all(
                replica in (keeper._node_id, *led.partition.progress.followers()) for replica in outcome.isr):
            keeper._commit(led, tuple(outcome.isr), max(outcome.partition_epoch, led.partition_epoch))
            return True
        return bool(settles(keeper, led, outcome, now_ms))

    original: Any = vars(IsrKeeper)["answered"]
    settles: Any = vars(IsrKeeper)["_settled"]
    patches.put(IsrKeeper, "answered", answered)
    patches.put(IsrKeeper, "_settled", settled)


@CONTROLLERS.add(0, "KIP-497: maximal ISR")
def shrink_counts_at_once(patches: Patches) -> None:
    """A leader stops waiting for a follower before the controller has agreed."""
    patches.put(isr.Led, "maximal", property(lambda led: led.proposed or led.isr))


@CONTROLLERS.add(0, "KIP-966: unclean shutdown")
def unclean_shutdown_stays_eligible(patches: Patches) -> None:
    """A broker that returns without the mark of a clean stop stays in the ISR and the ELR."""
    patches.put(brokers, "lost", lambda context, broker_id, **_: leaderships.leaves(context, broker_id))


@CONTROLLERS.add(41, "KAFKA-15665")
def reassignment_is_over_early(patches: Patches) -> None:
    """A reassignment ends when one of the target replicas is in sync."""
    def complete(change: Any) -> None:
        wanted = change.assignment
        in_sync = tuple(replica for replica in change.isr if replica not in wanted.removing)
        if (wanted.adding or wanted.removing) and in_sync:
            change.isr = in_sync
            change.assignment = Assignment(
                tuple(replica for replica in wanted.replicas if replica not in wanted.removing))

    patches.put(Change, "complete_reassignment", complete)


# The bug needs the end of a leadership and the arrival of a request in one step of the loop.
@CONTROLLERS.add(0, "the end of a leadership is reported at once", turn_us=20_000, resign_every_ms=400,
                 isolate_every_ms=400, fault_seconds=10)
def leadership_ends_with_the_iteration(patches: Patches) -> None:
    """The end of the core's leadership is reported to the controller with everything else, at the end of the loop
    step."""
    patches.put(RaftDriver, "_stepped", lambda driver, **_how: driver._schedule())


@CONTROLLERS.add(0, "fast fencing: no answer is no proof")
def unresponsive_broker_is_fenced_by_a_new_controller(patches: Patches) -> None:
    """A broker that has not contacted a new controller yet is fenced even when its address does not answer."""
    def probed(sessions: BrokerSessions, broker_id: int, found: Found, _now_ms: int) -> Doubt | None:
        session = sessions.by_id.get(broker_id)
        return None if session is None or found is Found.ACCEPTED else session.doubt

    patches.put(BrokerSessions, "probed", probed)


@CONTROLLERS.add(0, "checked leaders: no answer is no proof")
def unresponsive_leader_is_left_out(patches: Patches) -> None:
    """Metadata leaves out a leader even when its process merely does not answer a check in time."""
    def around(original: Any) -> Any:
        def hidden(checks: LeaderChecks, held: Any) -> tuple[int, ...]:
            silent = (broker_id for broker_id, leader in checks._leaders.items()
                      if held in leader.held or held in leader.queued)
            return (*original(checks, held), *silent)

        return hidden

    patches.wrap(LeaderChecks, "_hidden", around)


@CONTROLLERS.add(0, "checked leaders: answers are held for a bounded time")
def answers_are_held_without_limit(patches: Patches) -> None:
    """Metadata waits until a dead leader is fenced, however long that takes."""
    patches.put(LeaderChecks, "tick", lambda _checks: None)


@CONTROLLERS.add(42, "KAFKA-13972")
def cancelled_reassignment_leaves_a_replica(patches: Patches) -> None:
    """A broker that is not a replica any more does not learn that it must remove its log."""
    def around(original: Any) -> Any:
        def plan_change(delta: Any, node_id: int) -> Any:
            return [step for step in original(delta, node_id)
                    if step.action is not Action.REMOVE or step.topic_id not in delta.image.topics]

        return plan_change

    patches.wrap(replica_plan, "plan_change", around)


@CONTROLLERS.add(45, "KAFKA-14292")
def shutdown_offset_moves(patches: Patches) -> None:
    """Each heartbeat of a broker that is shutting down raises the offset that the others must reach before it may
    stop."""
    def heartbeat(context: Any, request: Any) -> Any:
        decision = yield from handler.decide(context, request)  # type: ignore[misc]
        session = context.sessions.by_id.get(request.broker_id)
        if session is not None and session.shutdown_offset >= 0:
            session.shutdown_offset = context.next_offset
        return decision

    handler = HANDLERS[ApiKey.BROKER_HEARTBEAT]
    patches.entry(HANDLERS, ApiKey.BROKER_HEARTBEAT, Handler(heartbeat, handler.refuse))


@CONTROLLERS.add(0, "KIP-966, last known leader")
def last_leader_is_forgotten(patches: Patches) -> None:
    """The last leader, which has every acknowledged record, is forgotten when no replica is in sync or eligible."""
    patches.put(Change, "note_last_leader", lambda _change, _record: None)


@CONTROLLERS.add(0, "KIP-455", resize=True, move_every_ms=300)
def repeated_reassignment_is_over(patches: Patches) -> None:
    """Replicas being added become ordinary replicas if the same target is requested again."""
    patches.put(reassignments, "to_be_added", lambda partition, targets: tuple(
        each for each in targets if each not in partition.replicas))


@CONTROLLERS.add(0, "KIP-858", directories=2, directory_every_ms=500)
def replica_in_a_failed_directory_may_lead(patches: Patches) -> None:
    """The controller ignores whether the directory of a replica is online."""
    patches.put(BrokerRegistration, "has_online_dir", lambda _broker, _directory: True)


# A reassignment ends while another replica is down and the minimum is not reached: then the ELR is filled.
@CONTROLLERS.add(0, "KAFKA-15665, ELR", elr=True, combined=False, brokers=4, observers=4, voters=1, replication=3,
                 min_insync=3, move_every_ms=300, kill_every_ms=600, down_ms=2500, session_ms=400)
def departed_replica_stays_eligible(patches: Patches) -> None:
    """A broker that is not a replica any more may still lead, even when it returns with an empty log."""
    def fill(change: Any, min_isr: int, lost: Any) -> None:
        if len(change.isr) >= min_isr:
            change.elr = ()
        else:
            candidates = sorted(dict.fromkeys((*change.elr, *change.partition.isr)))
            change.elr = tuple(replica for replica in candidates if replica not in change.isr and replica not in lost)

    patches.put(Change, "fill_elr", fill)
