"""One explored node: the real core, its disk, and the driver between them, in which nothing takes time.

Its clock stands still. A deadline is due or it is not, and `Node.time_out` makes the deadline of the role due. So
time-outs occur in any order, and arbitrarily late or early: nothing else may be assumed about time. A request that
brought nothing is sent again at once: the time that it is under way covers any pause before it.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

from kraft.raft.config import RaftConfig
from kraft.raft.events import Committed, Event, RoleChanged
from kraft.raft.messages import EndQuorumEpochRequest, FetchRequest, Loss, Lost, Request, Response
from kraft.raft.raft import Raft
from kraft.raft.ready import Answer, HardState, Leadership, OutgoingRequest, Ready
from kraft.raft.replica import Ports, Replica
from kraft.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from kraft.raft.transitions import Role
from kraft.raft.types import NOBODY, ReplicaKey
from kraft.testing.explore.frozen import Chain, Chains, Frozen, NodeId, freeze_attributes, thaw
from kraft.testing.explore.log import PORTS as LOG_PORTS
from kraft.testing.explore.log import ExploredLog
from kraft.testing.explore.messages import Message, Wait
from kraft.testing.memory_log import MemorySnapshots
from kraft.testing.sim import invariants
from kraft.testing.sim.batches import Batch, Value
from kraft.testing.sim.views import LedgerView

NOW_MS: Final = 1_000_000
LATER_MS: Final = 2 * NOW_MS
OPERATOR: Final = -9
AWAITED_ID: Final = 1
REPLICA_PORTS: Final = ("config", "log", "snapshots", "_random", "_trace", "outbox", "installed")


class NoChance(Random):
    """Random source of the core. It draws only times, and time stands still."""

    def randrange(self, *_bounds: Any) -> int:
        return 0


class Around(NamedTuple):
    """State shared by all nodes. `queries_voters`: a node queries the voters for the leader."""

    chains: Chains
    queries_voters: bool


class FrozenNode(NamedTuple):
    """Whole state of a node. `hard_state` is what it has on disk and knows. `flushing` is the flush under way, if there
    is one. `unflushed` is the number of records that a crash may lose."""

    id: NodeId
    hard_state: HardState
    role: Role
    log: Frozen
    replica: Frozen
    reported: tuple[int, Leadership | None]
    flushing: int | None
    applied: int
    state: Chain
    leads_epoch: int
    memory: Frozen
    unflushed: int


def without_preference(request: Request) -> Request:
    """Remove the preferred successors: they only determine when a node campaigns, and any time-out may occur at any
    time."""
    return replace(request, preferred=()) if isinstance(request, EndQuorumEpochRequest) else request


class Recorder:
    """Recorder in place of the ledger while a node acts. The recorded calls are repeated on the ledger of each state in
    which the node can act this way."""

    end_offset = 0

    def __init__(self) -> None:
        self.reports: list[tuple[str, tuple[Any, ...]]] = []

    def appended(self, batch: Batch, where: object) -> None:
        self.reports.append(("appended", (batch, str(where))))

    def voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey) -> None:
        self.reports.append(("voted", (voter, epoch, candidate)))

    def commits(self, batches: list[Batch], epoch: int, where: object) -> None:
        self.reports.append(("commits", (batches, epoch, str(where))))

    def elected(self, _epoch: int, _leader: ReplicaKey) -> None:
        raise AssertionError("is judged when the ledger is at hand")

    def chain_at(self, _end_offset: int) -> int | None:
        return None

    def end_before_epoch(self, _epoch: int) -> int:
        return 0


class Node:
    """A `NodeView`. `sent` are the messages of the events since the node was thawed. `judged` are the calls of
    invariants that need to know more than this node. `notes` are the trace events of the core."""

    life = 0
    owes_snapshot = False
    clock = SimpleNamespace(now_ms=NOW_MS)
    disk = SimpleNamespace(snapshots={})

    def __init__(self, config: RaftConfig, around: Around) -> None:
        self.config = config
        self.around = around
        self.key = config.key
        self.id = cast(NodeId, config.key.node_id)
        self.log = ExploredLog.opened(around.chains, ())
        self.raft: Raft = cast(Raft, None)
        self.saved = HardState()
        self.reported: Leadership | None = None
        self.leads_epoch = NOBODY
        self.flushing: int | None = None
        self.applied = 0
        self.state = Chain(0)
        self.memory = invariants.Memory(self, None)
        self.recorder = Recorder()
        self.sent: list[Message] = []
        self.judged: list[str] = []
        self.notes: list[Event] = []
        self.inquiry: tuple[NodeId, int] | None = None
        self._question: tuple[int, int, Request] | None = None
        self.log.watch = self._appended

    def __str__(self) -> str:
        return str(self.key)

    # --- freezing ----------------------------------------------------------------------------------------------------

    @classmethod
    def thawed(cls, config: RaftConfig, around: Around, frozen: FrozenNode) -> "Node":
        node = cls(config, around)
        node.saved, node.applied, node.state = frozen.hard_state, frozen.applied, frozen.state
        node.reported, node.leads_epoch, node.flushing = frozen.reported[1], frozen.leads_epoch, frozen.flushing
        node.memory = thaw(frozen.memory)
        node.log = thaw(frozen.log)
        node.log.chains, node.log.watch = around.chains, node._appended
        replica = thaw(frozen.replica)
        replica.config, replica.log, replica.snapshots = config, node.log, MemorySnapshots(node.log)
        replica._random, replica._trace = NoChance(), node._traced
        replica.outbox, replica.installed = [], None
        raft = node.raft = Raft.__new__(Raft)
        raft.replica, raft._saved = replica, frozen.hard_state
        raft._reported, raft._flushing = frozen.reported, frozen.flushing
        raft._lease, raft._is_settled = None, True
        if isinstance(replica.role, Unattached | Follower):
            replica.role.inquiries = node._inquiries()
        return node

    def frozen(self) -> FrozenNode:
        replica = self.raft.replica
        self._forget_time()
        assert not replica.outbox, "what is to be sent was not taken"
        return FrozenNode(
            self.id, self.saved, replica.role.role, freeze_attributes(ExploredLog, self.log, LOG_PORTS),
            freeze_attributes(Replica, replica, REPLICA_PORTS), self.raft._reported, self.flushing, self.applied,
            self.state, self.leads_epoch, freeze_attributes(invariants.Memory, self.memory, ()), self.log.unflushed)

    def _forget_time(self) -> None:
        """Reset what is not part of the state: durations, the order of queries, history, and caches of a leader.
        Deadlines are due or not. A preferred successor only campaigns earlier, and any time-out may occur early."""
        replica, memory = self.raft.replica, self.memory
        role: Any = replica.role
        for name in ("election_ms", "fetch_ms", "update_voter_ms"):
            if hasattr(role, name):
                setattr(role, name, LATER_MS if getattr(role, name) > NOW_MS else NOW_MS)
        if isinstance(role, Leader):
            role.since_ms = NOW_MS
            role.others, role.others_of, role.at_rest, role.answered = (), None, None, None
            role.votes_itself, role.is_replaced, role.majority_until_ms = False, False, 0
            for progress in role.progress.values():
                progress.begin_due_ms = LATER_MS if progress.begin_due_ms > NOW_MS else NOW_MS
                progress.fetch_ms = NOW_MS if progress.fetch_ms >= 0 else -1
        elif isinstance(role, Resigned):
            role.preferred = ()
        elif isinstance(role, Unattached | Follower):
            role.inquiries, role.queried, role.passes_ms = 0, NOBODY, 0
        replica.addresses.tried.clear()    # of the one address that each node has here
        peers = replica.requests._peers
        for node_id in [each for each in peers if peers[each].request is None]:
            del peers[node_id]
        for peer in peers.values():
            assert peer.request is not None
            peer.correlation, peer.expires_ms, peer.wait_until_ms = AWAITED_ID, LATER_MS, 0
            peer.request = without_preference(peer.request)
        replica.requests._last_correlation = AWAITED_ID
        memory.contact_ms.clear()
        memory.leader_since_ms = NOW_MS
        campaigns = isinstance(role, Prospective | Candidate)
        memory.consents = {epoch: memory.consents[epoch] for epoch in memory.consents
                           if campaigns and epoch >= replica.epoch - 1}

    # --- events ------------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Start a process on the contents of the disk."""
        self.flushing = self.reported = None
        self.applied, self.state, self.leads_epoch = 0, Chain(0), NOBODY
        self.memory = invariants.Memory(self, self.memory)
        ports = Ports(self.log, MemorySnapshots(self.log), NoChance(), self._traced)
        self.raft = Raft(self.config, self.saved, ports, NOW_MS)
        self._settle()

    def crash(self, kept: int) -> None:
        """Lose power and start again. Of the records that are not durable the first `kept` survive."""
        self.log.crash(kept)
        self.boot()

    def receive(self, message: Message) -> None:
        memory, payload = self.memory, message.payload
        if isinstance(payload, Response):
            awaited = message.wait is Wait.AWAITED
            question = self.raft.replica.requests._peers[message.target].request if awaited else None
            invariants.receives(self, question, payload, message.target, memory)
            self.raft.step(message.target, AWAITED_ID if awaited else 0, payload, NOW_MS)
        else:
            invariants.receives(self, None, payload, message.requester, memory)
            self._question = (message.requester, message.wait, payload)
            self.raft.step(message.requester, message.wait, payload, NOW_MS)
        self._settle()

    def lose(self, target: NodeId) -> None:
        """Report to the core that `target` does not answer."""
        self.raft.step(target, AWAITED_ID, Lost(Loss.TIMED_OUT), NOW_MS)
        self._settle()

    def time_out(self) -> None:
        """Let the deadline of the role pass. For a leader: no Fetch from a majority has arrived for too long."""
        role = self.raft.replica.role
        if isinstance(role, Leader):
            role.since_ms = NOW_MS - self.config.check_quorum_timeout_ms
            for progress in role.progress.values():
                progress.fetch_ms = min(progress.fetch_ms, role.since_ms)
        elif isinstance(role, Follower):
            role.fetch_ms = NOW_MS
        else:
            role.election_ms = NOW_MS
        self.raft.tick(NOW_MS)
        self._settle()

    def remind(self, voter: NodeId) -> None:
        """Let the leader notify `voter` again that the epoch has begun: nothing from that voter has arrived for some
        time."""
        role = self.raft.replica.role
        if isinstance(role, Leader):
            role.progress[ReplicaKey(voter)].begin_due_ms = NOW_MS
            self.raft.tick(NOW_MS)
            self._settle()

    def flushed(self) -> None:
        flushing, self.flushing = self.flushing, None
        assert flushing is not None
        self.log.finish_flush(flushing)
        self.raft.log_flushed(flushing, NOW_MS)
        self._settle()

    def propose(self, number: int) -> None:
        self.raft.propose([Value(0, number, 0)], NOW_MS)
        self._settle()

    def change(self, request: Request) -> None:
        """Request a change of the voters as the operator, which ignores the answer."""
        self.raft.step(OPERATOR, 0, request, NOW_MS)
        self._settle()

    # --- the driver --------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Execute what is ready. Pauses before another attempt end at once."""
        self._carry_out(self.raft.take_ready())
        waiting = [peer for peer in self.raft.replica.requests._peers.values()
                   if peer.request is None and peer.wait_until_ms > NOW_MS]
        if waiting:
            for peer in waiting:
                peer.wait_until_ms = 0
            self.raft.tick(NOW_MS)
            self._carry_out(self.raft.take_ready())
        for invariant in invariants.AFTER_EVERY_EVENT:
            invariant(self, self.memory)
        for look in (invariants.epoch_cache_matches_log, invariants.voters_follow_log):
            look(self, self.recorder)

    def _carry_out(self, ready: Ready) -> None:
        if ready.hard_state is not None:
            self.saved = ready.hard_state
        for message in ready.messages:
            if isinstance(message, OutgoingRequest):
                self._send_request(message)
            else:
                self._answer(message)
        if ready.flush is not None:
            self.log.start_flush(ready.flush)
            self.flushing = ready.flush
        if ready.high_watermark is not None:
            invariants.applied(self, ready.high_watermark, self.recorder)
            self.applied, self.state = ready.high_watermark, self.log.chain_at(ready.high_watermark)
        self.reported = ready.leadership or self.reported
        if self.reported is None or self.reported.role is not Role.LEADER:
            self.leads_epoch = NOBODY
        elif self.applied > self.reported.epoch_start and self.leads_epoch != self.reported.epoch:
            self.leads_epoch = self.reported.epoch
            self.judged.append("led")

    def _send_request(self, outgoing: OutgoingRequest) -> None:
        target, request = cast(NodeId, outgoing.node_id), outgoing.request
        invariants.sends(self, request, self.memory, self.recorder)
        replica = self.raft.replica
        pending = replica.requests.pending(target)
        is_awaited = pending is not None and pending[0] == outgoing.correlation
        if isinstance(request, FetchRequest) and target != replica.leader_id and is_awaited:
            if replica.is_voter and not self.around.queries_voters:
                del replica.requests._peers[target]
                return
            self.inquiry = target, len(self.sent)
        wait = Wait.AWAITED if is_awaited else Wait.LATE
        self.sent.append(Message(self.id, target, wait, without_preference(request)))

    def _answer(self, answer: Answer) -> None:
        """Send an answer, unless its receiver is the operator or a process that has ended."""
        if answer.source == OPERATOR:
            return
        assert self._question is not None
        requester, wait, question = self._question
        assert (answer.source, answer.correlation) == (requester, wait), "a request is answered at once"
        invariants.answered(self, question, answer.response, self.saved, self.recorder)
        if wait != Wait.DROPPED:
            self.sent.append(Message(cast(NodeId, requester), self.id, Wait(wait), answer.response))

    def still_awaited(self) -> tuple[NodeId, ...]:
        """Return the nodes whose answers it awaited before these events and still awaits."""
        peers = self.raft.replica.requests._peers
        return tuple(cast(NodeId, each) for each in sorted(peers)
                     if peers[each].request is not None and peers[each].correlation == AWAITED_ID)

    # --- queries for the leader --------------------------------------------------------------------------------------

    def _nodes_to_query(self) -> list[int]:
        replica = self.raft.replica
        return [each for each in replica.voters.ids if each not in (self.id, replica.leader_id)]

    def _inquiries(self) -> int:
        """Return the number of inquiries. In the core this count determines which voter is next. Here it follows from
        the pending query."""
        replica = self.raft.replica
        peers = replica.requests._peers
        nodes = self._nodes_to_query()
        return next((number for number, each in enumerate(nodes) if each in peers), 0)

    def redirections(self) -> list[NodeId]:
        """Return the other possible receivers of the query for the leader. The core begins with the lowest id. That is
        of no importance, and would distinguish nodes that are alike."""
        if self.inquiry is None:
            return []
        peers = self.raft.replica.requests._peers
        return [cast(NodeId, each) for each in self._nodes_to_query() if each not in peers]

    def redirect(self, target: NodeId) -> None:
        """Redirect the query for the leader from the node that the core chose to `target`."""
        assert self.inquiry is not None
        queried, index = self.inquiry
        peers = self.raft.replica.requests._peers
        peers[target] = peers.pop(queried)
        self.sent[index] = self.sent[index]._replace(target=target)

    # --- events to be judged -----------------------------------------------------------------------------------------

    def _appended(self, batch: Batch) -> None:
        invariants.appended(self, batch, self.recorder)

    def _traced(self, _now_ms: int, event: Event) -> None:
        self.notes.append(event)
        if isinstance(event, RoleChanged) and event.role is Role.LEADER:
            self.judged.append("elected")
        elif isinstance(event, Committed) and isinstance(self.raft.replica.role, Leader):
            self.judged.append("committed")


def judge(node: Node, names: tuple[str, ...], ledger: LedgerView, held: Callable[[], dict[Any, Any]]) -> None:
    """Call the invariants that need more than one node."""
    for name in names:
        if name == "elected":
            invariants.elected(node, ledger)
        elif name == "led":
            invariants.led(node, ledger)
        else:
            invariants.committed(node, node.raft.replica.high_watermark, held())
    invariants.state_follows_log(node, ledger)
