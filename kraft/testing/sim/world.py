"""A run: the cluster, its faults, and its checks. It has a phase with faults, then a healed phase."""

from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from random import Random
from typing import Final, TextIO

from kraft.raft.events import Committed, Event, RoleChanged, Started, Voted
from kraft.raft.messages import Message, Request, Response
from kraft.raft.roles import Follower, Leader
from kraft.raft.transitions import Cause, Role
from kraft.raft.types import NOBODY
from kraft.recorder.words import described, joined
from kraft.testing.sim import invariants, liveness
from kraft.testing.sim.batches import Batch
from kraft.testing.sim.clients import Clients
from kraft.testing.sim.cluster import Cluster
from kraft.testing.sim.faults import Faults
from kraft.testing.sim.history import History, check
from kraft.testing.sim.ledger import Ledger
from kraft.testing.sim.loop import Loop
from kraft.testing.sim.network import Envelope
from kraft.testing.sim.node import Node
from kraft.testing.sim.operator import Operator
from kraft.testing.sim.options import DEFAULTS, MILLISECOND, SECOND, Options
from kraft.testing.sim.violation import ViolationError

CHECK_EVERY_US: Final = SECOND // 2
LONG_CHECK_EVERY_US: Final = 5 * SECOND
"""The same in a run of hours."""
CATCH_UP_US: Final = 100 * MILLISECOND
CHUNK_US: Final = 3 * MILLISECOND // 2
"""Longest time to fetch a chunk of a snapshot when everything is healed."""
HEALED: Final = (
    "delay_ms", "jitter_ms", "drop_per_mille", "duplicate_per_mille", "late_per_mille", "damage_per_mille",
    "refuse_per_mille", "flush_us", "slow_flush_per_mille", "snapshot_bytes", "turn_us",
)
"""Options that return to their defaults when everything is healed."""


def late_us(options: Options) -> int:
    """Return how long after the healing old messages may arrive, also twice. Such a message may start another
    election."""
    late_ms = options.late_ms if options.late_per_mille else 0
    return (3 * (late_ms + options.delay_ms + options.jitter_ms) + 100) * MILLISECOND


class World:
    """World of one run. `transitions` counts the changes of role by (role, cause, role)."""

    def __init__(self, seed: int, options: Options, trace: TextIO | None = None,
                 listen: Callable[[int, float, Event], None] | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.transitions: Counter[tuple[str, str, str]] = Counter()
        self.loop = Loop()
        self.ledger = Ledger()
        self.history = History()
        self._trace = trace
        self._listen = listen
        self._digest = blake2b(digest_size=16)
        self._memories: dict[int, invariants.Memory] = {}
        self._roles: dict[int, str] = {}
        self.cluster = self.new_cluster(seed, options)
        self.operator = Operator(self.cluster, self.cluster.random("operator"))
        self.faults = self.new_faults(self.cluster.random("faults"))
        self.clients = Clients(self.cluster, self.history, self.cluster.random("clients"))

    def new_cluster(self, seed: int, options: Options) -> Cluster:
        return Cluster(seed, options, self.loop, self.counts, self)

    def new_faults(self, random: Random) -> Faults:
        return Faults(self.cluster, self.operator, random)

    @property
    def digest(self) -> str:
        """Digest of all events so far."""
        return self._digest.hexdigest()

    # --- running -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run both phases, again if the options say so, and check the history. Raises a `ViolationError`."""
        for node in self.cluster.nodes:
            self.loop.after(1, node.start)
        self.clients.start()
        options = self.cluster.options
        for phase in range(options.phases):
            if phase:
                self.cluster.options = options
                self.begin_phase(phase)
            self.faults.start()
            self._run_until(self.loop.now_us + options.fault_seconds * SECOND)
            self._heal()
            self._run_until(self.loop.now_us + late_us(options))
            self._converge(self.loop.now_us + self.settling_us(options))
            self.converged()
        self.calm()
        check(self.history, self.ledger)

    def settling_us(self, options: Options) -> int:
        """Return how long after the faults everything that was begun may last, given the options of the faults. After
        each change of leader a snapshot is fetched from its first byte, and each response may carry only one byte."""
        fetching_us = 2 * CHUNK_US * options.snapshot_bytes // options.fetch_max_bytes
        return options.heal_seconds * SECOND + fetching_us

    def begin_phase(self, number: int) -> None:
        """Begin another phase with faults."""
        self.faults = self.new_faults(self.cluster.random(f"faults {number}"))
        self.clients.is_on = True
        self.clients.start()

    def converged(self) -> None:
        """Do what follows a phase with faults, once everything has converged."""

    def _run_until(self, end_us: int) -> None:
        try:
            self.loop.run(end_us, self._digest.update, invariants.EXPENSIVE_EVERY, self._check_thoroughly)
        except AssertionError as error:
            raise ViolationError("CoreAsserts", str(error)) from error

    def _heal(self) -> None:
        cluster = self.cluster
        self.faults.stop()
        self.operator.is_rolling = False
        self._add_to_trace("everything is healed")
        cluster.options = cluster.options.where(**{name: DEFAULTS[name] for name in HEALED})
        cluster.network.heal_all()
        self.clients.is_on = False
        for node in cluster.nodes:
            if node.is_up and node.is_paused:
                node.resume()
            node.disk.repair()
            node.at_next.clear()
            node.disk.quorum_state.is_newer = False
            if not node.is_up:
                self.operator.start(node)

    def _converge(self, deadline_us: int) -> None:
        """Liveness: check that everything that was begun ends within a bound of virtual time."""
        cluster, probe, looks = self.cluster, None, 0
        while True:
            self._run_until(self.loop.now_us + (LONG_CHECK_EVERY_US if cluster.options.quiet_seconds
                                                else CHECK_EVERY_US))
            for node in cluster.nodes:
                self.operator.start(node)
            looks += 1
            if looks % 10 == 0:
                self.operator.restore()
            missing = liveness.unmet(cluster, self.ledger, probe)
            if missing is None:
                missing = self.also_missing()
            if missing is None:
                self._check_thoroughly()
                return
            if self.loop.now_us >= deadline_us:
                raise missing
            leader = cluster.leader()
            if leader is not None and leader.leads_epoch != NOBODY and (probe is None or probe.acknowledged_us < 0):
                self.clients.propose(0)
                probe = self.history.operations[-1]

    def also_missing(self) -> ViolationError | None:
        """Return a further condition that is not met yet, or None."""
        return None

    def calm(self) -> None:
        """Check a converged quorum that has no faults any more."""
        self._await_idle_replicas()
        self._move_unnoticed()

    def _move_unnoticed(self) -> None:
        """NobodyCampaignsNeedlessly: a follower that restarts at another address in a quorum without faults reports it
        to the leader. No node campaigns meanwhile (KAFKA-19400)."""
        leader = self.cluster.leader()
        assert leader is not None
        followers = [node for node in self.cluster.nodes if node is not leader and node.raft.replica.is_voter]
        if not followers:
            return
        follower = followers[self.loop.events % len(followers)]
        follower.kill(power=False, why="moves")
        self.cluster.move(follower)
        follower.start()
        campaigns = self._campaign_count()
        self._run_until(self.loop.now_us + 3 * self.cluster.options.fetch_timeout_ms * MILLISECOND)
        if self._campaign_count() != campaigns:
            raise ViolationError("NobodyCampaignsNeedlessly", f"{follower} moved, and somebody campaigned")

    def _campaign_count(self) -> int:
        return sum(number for (_, _, role), number in self.transitions.items() if role == Role.PROSPECTIVE.value)

    def _await_idle_replicas(self) -> None:
        """Check HighWatermarkReachesFollowers: a commit while nothing else happens is announced at once, not with the
        next record or after a Fetch's maximum wait (KAFKA-13959). A node that is referred to a snapshot of it, because
        the leader's log was trimmed meanwhile, may take the time to fetch that snapshot."""
        leader = self.cluster.leader()
        assert leader is not None
        self.clients.propose(0)
        self._run_until(self.loop.now_us + CATCH_UP_US)
        end = leader.log.end           # a voter that had to catch up first may be added at the last moment
        self._run_until(self.loop.now_us + CATCH_UP_US)
        for node in self.cluster.nodes:
            role = node.raft.replica.role
            is_fetching = isinstance(role, Follower) and role.download and role.download.snapshot.offset >= end.offset
            if node.applied < end.offset and not is_fetching:
                raise ViolationError("HighWatermarkReachesFollowers",
                                     f"{node} has applied {node.applied} of {end}, {CATCH_UP_US} us later")

    def _check_thoroughly(self) -> None:
        for node in self.cluster.up():
            for invariant in invariants.NOW_AND_THEN:
                invariant(node, self.ledger)
        invariants.durability(self.ledger, self.cluster.held.values())
        self.counts["checks"] += 1 + len(invariants.NOW_AND_THEN) * len(self.cluster.nodes)

    def _add_to_trace(self, text: str) -> None:
        self._digest.update(text.encode())
        if self._trace is not None:
            self._trace.write(f"{self.loop.now_us / SECOND:12.6f} {text}\n")

    # --- what nodes do -----------------------------------------------------------------------------------------------

    def memory(self, node: Node) -> invariants.Memory:
        memory = self._memories.get(node.id)
        if memory is None or memory.life != node.life:
            memory = self._memories[node.id] = invariants.Memory(node, memory)
        return memory

    def started(self, node: Node) -> None:
        self.cluster.held[node.key] = node.log

    def stopped(self, node: Node, why: str) -> None:
        self._add_to_trace(f"{node} stops: {why}")

    def touched(self, node: Node) -> None:
        memory = self.memory(node)
        for invariant in invariants.AFTER_EVERY_EVENT:
            invariant(node, memory)

    def appended(self, node: Node, batch: Batch) -> None:
        invariants.appended(node, batch, self.ledger)

    def applied(self, node: Node, high_watermark: int) -> None:
        invariants.applied(node, high_watermark, self.ledger)
        if node.leads_epoch != NOBODY:
            self.counts["values acknowledged"] += self.history.committed(
                node.id, node.life, node.leads_epoch, high_watermark, self.loop.now_us)

    def led(self, node: Node) -> None:
        invariants.led(node, self.ledger)

    def sends(self, node: Node, request: Request) -> None:
        invariants.sends(node, request, self.memory(node), self.ledger)

    def answers(self, node: Node, question: Message, response: Response) -> None:
        invariants.answered(node, question, response, node.saved, self.ledger)

    def receives(self, node: Node, question: Message | None, envelope: Envelope) -> None:
        source = envelope.target if envelope.is_answer else envelope.requester
        invariants.receives(node, question, envelope.message, source, self.memory(node))

    def traced(self, node: Node, event: Event) -> None:
        what, particulars = described(event)
        self._add_to_trace(f"{node} {joined(what, particulars)}")
        if self._listen is not None:
            self._listen(node.id, self.loop.now_us / MILLISECOND, event)
        match event:
            case Started():
                self._roles[node.id] = str(event.role)
            case RoleChanged():
                self.transitions[self._roles[node.id], event.cause.value, str(event.role)] += 1
                if isinstance(node.raft.replica.role, Leader):
                    self.counts["elections"] += 1
                    invariants.elected(node, self.ledger)
                self._roles[node.id] = str(event.role)
            case Voted():
                role = self._roles[node.id]
                self.transitions[role, Cause.VOTED.value, role] += 1
            case Committed() if isinstance(node.raft.replica.role, Leader):
                invariants.committed(node, node.raft.replica.high_watermark, self.cluster.held)
        self.counts[f"core {what}"] += 1
