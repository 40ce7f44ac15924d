"""A quorum in one process for tests of the rules: nothing happens unless the test requests it.

Messages wait in `wire` until they are delivered. Time stands still until the test moves it. Random numbers are fixed:
node N always draws 100 N milliseconds, so that no two nodes time out together. A flush ends at once, except on nodes
that hold theirs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any
from uuid import UUID

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.config import RaftConfig
from kraft.raft.events import Event
from kraft.raft.messages import DiscoverRequest, FetchResponse, Loss, Lost, Message, Request, Response
from kraft.raft.raft import Raft
from kraft.raft.ready import Answer, HardState, Leadership, OutgoingRequest
from kraft.raft.replica import Ports
from kraft.raft.roles import Leader
from kraft.raft.transitions import Role
from kraft.raft.types import Endpoint, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import Voter, VoterSet
from kraft.recorder.words import text_of
from kraft.testing.memory_log import Batch, MemoryLog, MemorySnapshots, formatted

CLUSTER = "test"
CLIENT = 100
"""Sources from this number on are not nodes: answers to them are stored in `World.answers`."""


@dataclass(frozen=True, slots=True)
class NoChance:
    """Draws always the same number, or the largest below the limit."""

    number: int

    def randrange(self, stop: int, /) -> int:
        assert stop > 0
        return min(self.number, stop - 1)


def key(node_id: int, disk: int = 0) -> ReplicaKey:
    """Return the key of a replica; `disk` counts how often its disk was replaced."""
    return ReplicaKey(node_id, UUID(int=0xD000 + node_id + 0x100 * disk))


def address(node_id: int) -> tuple[Endpoint, ...]:
    return (Endpoint("CONTROLLER", f"node{node_id}", 9093),)


def voter(node_id: int, disk: int = 0) -> Voter:
    return Voter(key(node_id, disk), address(node_id))


@dataclass(frozen=True, slots=True)
class Packet:
    """A message in flight. `correlation` belongs to the requesting node."""

    sender: int
    receiver: int
    correlation: int
    message: Message


@dataclass(slots=True)
class Node:
    """State of a node that outlives its process, and the process."""

    key: ReplicaKey
    config: RaftConfig
    log: MemoryLog
    snapshots: MemorySnapshots
    hard_state: HardState = field(default_factory=HardState)
    raft: Raft | None = None
    holds_flushes: bool = False
    flushes: list[int] = field(default_factory=list)
    high_watermark: int = 0
    leadership: Leadership | None = None
    installed: OffsetAndEpoch | None = None

    @property
    def up(self) -> Raft:
        assert self.raft is not None, f"node {self.key.node_id} is down"
        return self.raft


class World:
    """Nodes by id. `trace(node id, text)` receives the lines of the cores, `record(node id, time, event)` their
    events. With
    `queries_servers` the first voters have bootstrap servers too; other nodes always do."""

    def __init__(self, voters: tuple[int, ...] = (1, 2, 3), observers: tuple[int, ...] = (), *, kraft_version: int = 1,
                 trace: Callable[[int, str], None] | None = None,
                 record: Callable[[int, int, Event], None] = lambda _node_id, _now_ms, _event: None,
                 queries_servers: bool = False,
                 **settings: int) -> None:
        self.now_ms = 0
        self.queries_servers = queries_servers
        self.wire: list[Packet] = []
        self.cut: list[tuple[int, int]] = []
        self.old: list[int] = []
        self.answers: dict[int, Response] = {}
        self.watch: Callable[[Packet], None] = lambda packet: None
        self.trace = trace or (lambda node_id, text: None)
        self.record = record
        self.events: list[str] = []
        self.settings = settings
        self.kraft_version = kraft_version
        self.voters = VoterSet.of(*map(voter, voters))
        self.nodes: dict[int, Node] = {}
        self._tokens = 0
        for node_id in (*voters, *observers):
            self.make(node_id)

    # --- nodes

    def make(self, node_id: int, disk: int = 0, **settings: object) -> Node:
        """Create and start a node with an empty disk, as `format` leaves it."""
        static = self.kraft_version == 0
        me = ReplicaKey(node_id) if static else key(node_id, disk)
        is_first = me in self.voters.keys
        log, snapshots = formatted(self.voters if is_first and not static else VoterSet())
        static_voters = VoterSet.of(*(Voter(ReplicaKey(each), address(each)) for each in self.voters.ids))
        knows_servers = self.queries_servers or not is_first
        bootstrap = tuple(each for node in self.voters.ids for each in address(node)) if knows_servers else ()
        arguments: dict[str, object] = {
            "key": me, "cluster_id": CLUSTER, "endpoints": address(node_id), "bootstrap": bootstrap, **self.settings,
            **({"static_voters": static_voters} if static else {}), **settings}
        node = Node(me, RaftConfig(**arguments), log, snapshots)  # type: ignore[arg-type]
        self.nodes[node_id] = node
        self.start(node_id)
        return node

    def start(self, node_id: int) -> None:
        node = self.nodes[node_id]

        def trace(now_ms: int, event: Event) -> None:
            self.events.append(f"{node_id} {text_of(event)}")
            self.trace(node_id, text_of(event))
            self.record(node_id, now_ms, event)

        ports = Ports(node.log, node.snapshots, NoChance(100 * node_id), trace)
        node.high_watermark, node.leadership, node.flushes = 0, None, []
        node.raft = Raft(node.config, node.hard_state, ports, self.now_ms)
        self.settle(node_id)

    def crash(self, node_id: int, kept: int = 0) -> None:
        """End the process. What is not durable is lost, except for `kept` records."""
        node = self.nodes[node_id]
        node.raft = None
        node.log.crash(kept)
        node.snapshots.crash()
        self.wire = [packet for packet in self.wire if node_id not in (packet.sender, packet.receiver)]

    def restart(self, node_id: int, kept: int = 0) -> None:
        self.crash(node_id, kept)
        self.start(node_id)

    def raft(self, node_id: int) -> Raft:
        return self.nodes[node_id].up

    def role(self, node_id: int) -> Role:
        return self.raft(node_id).replica.role.role

    def leader(self) -> int:
        """Return the leader of the highest epoch."""
        leaders = [node_id for node_id, node in self.nodes.items()
                   if node.raft and isinstance(node.raft.replica.role, Leader)]
        return max(leaders, key=lambda node_id: self.raft(node_id).replica.epoch)

    # --- the driver

    def settle(self, node_id: int) -> None:
        """Carry out what is ready, in its order."""
        node = self.nodes[node_id]
        while True:
            ready = node.up.take_ready()
            if ready.hard_state is not None:
                node.hard_state = ready.hard_state
            for message in ready.messages:
                self._send(node_id, message)
            if ready.installed is not None:
                node.installed = ready.installed
            if ready.high_watermark is not None:
                assert ready.high_watermark > node.high_watermark
                node.high_watermark = ready.high_watermark
            if ready.leadership is not None:
                node.leadership = ready.leadership
            if ready.flush is None:
                return
            node.log.start_flush(ready.flush)
            node.flushes.append(ready.flush)
            if node.holds_flushes:
                return
            self._finish_flushes(node)

    def _finish_flushes(self, node: Node) -> None:
        while node.flushes:
            flush = node.flushes.pop(0)
            node.log.finish_flush(flush)
            node.up.log_flushed(flush, self.now_ms)

    def hold_flushes(self, node_id: int) -> None:
        self.nodes[node_id].holds_flushes = True

    def release_flushes(self, node_id: int) -> None:
        node = self.nodes[node_id]
        node.holds_flushes = False
        self._finish_flushes(node)
        self.settle(node_id)

    def _send(self, node_id: int, message: Any) -> None:
        if isinstance(message, OutgoingRequest):
            receiver = message.node_id if message.node_id >= 0 else self.voters.ids[-2 - message.node_id]
            packet = Packet(node_id, receiver, message.correlation, message.request)
            if receiver != message.node_id:
                self._aliases[packet.sender, packet.correlation] = message.node_id
            self.wire.append(packet)
        else:
            assert hasattr(message, "response")
            if message.source >= CLIENT:
                self.answers[message.correlation] = message.response
            else:
                self.wire.append(Packet(node_id, message.source, message.correlation, message.response))

    @property
    def _aliases(self) -> dict[tuple[int, int], int]:
        """Id under which each bootstrap server was queried."""
        return self.__dict__.setdefault("aliases", {})

    # --- messages and time

    def deliver(self, choose: Callable[[Packet], bool] = lambda packet: True) -> int:
        """Deliver the chosen messages that wait, and those that follow from them, until none is left. Return how
        many."""
        count = 0
        while (packet := next((each for each in self.wire if choose(each)), None)) is not None:
            self.wire.remove(packet)
            count += 1
            self.deliver_one(packet)
            assert count < 10_000, "messages continue indefinitely"
        return count

    def deliver_one(self, packet: Packet) -> None:
        self.watch(packet)
        node = self.nodes.get(packet.receiver)
        link = (packet.sender, packet.receiver)
        if link in self.cut or node is None or node.raft is None:
            return
        message = packet.message
        if self._is_too_new(packet):
            lost = Packet(packet.receiver, packet.sender, packet.correlation, Lost(Loss.UNSUPPORTED))
            self.wire.append(lost)
            return
        source = packet.sender
        if not isinstance(message, Request):
            source = self._aliases.pop((packet.receiver, packet.correlation), source)
        node.raft.step(source, packet.correlation, message, self.now_ms)
        self.settle(packet.receiver)

    def _is_too_new(self, packet: Packet) -> bool:
        is_new = isinstance(packet.message, DiscoverRequest) or getattr(packet.message, "pre_vote", False) is True
        return packet.receiver in self.old and is_new and isinstance(packet.message, Request)

    def request(self, node_id: int, request: Request) -> Response | None:
        """Send a request as a client and deliver nothing else. Return None if the answer is still pending
        (`answers`)."""
        self._tokens += 1
        self.raft(node_id).step(CLIENT, self._tokens, request, self.now_ms)
        self.settle(node_id)
        return self.answers.get(self._tokens)

    @property
    def last_token(self) -> int:
        return self._tokens

    def lose(self, sender: int, receiver: int, reason: Loss = Loss.DISCONNECTED) -> None:
        """Lose the messages that wait between the two nodes, and report that to the requesting side."""
        for packet in [each for each in self.wire if (each.sender, each.receiver) == (sender, receiver)]:
            self.wire.remove(packet)
            if isinstance(packet.message, Request):
                self.raft(sender).step(receiver, packet.correlation, Lost(reason), self.now_ms)
                self.settle(sender)

    def disconnect(self, sender: int, receiver: int) -> None:
        """Break the connection over which `sender` sends requests to `receiver`; `sender` notices."""
        peer = self.raft(sender).replica.requests._peers.get(receiver)
        if peer is not None and peer.request is not None:
            self.raft(sender).step(receiver, peer.correlation, Lost(Loss.DISCONNECTED), self.now_ms)
            self.settle(sender)

    def partition(self, *groups: tuple[int, ...]) -> None:
        """Let only nodes of one group reach each other."""
        self.cut = [(one, other) for one in self.nodes for other in self.nodes if one != other and not any(
            one in group and other in group for group in groups)]

    def heal(self) -> None:
        self.cut = []

    def pass_time(self, time_ms: int, *, deliver: bool = True) -> None:
        """Move time and call each node at the times that it requests. With `deliver`, messages take no time."""
        end_ms = self.now_ms + time_ms
        while True:
            if deliver:
                self.deliver()
            due = [(node.raft.deadline_ms, node_id) for node_id, node in self.nodes.items() if node.raft]
            next_ms, node_id = min(due, default=(end_ms + 1, 0))
            if next_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, next_ms)
            self.tick(node_id)
        self.now_ms = end_ms

    def tick(self, node_id: int) -> None:
        self.raft(node_id).tick(self.now_ms)
        self.settle(node_id)

    def time_out(self, node_id: int) -> None:
        """Move time to the time-out of the node's role, and call this node only."""
        raft = self.raft(node_id)
        role = raft.replica.role
        deadline_ms = getattr(role, "election_ms", getattr(role, "fetch_ms", self.now_ms))
        self.now_ms = max(self.now_ms, deadline_ms)
        self.tick(node_id)

    def elect(self, node_id: int) -> None:
        """Let this node campaign, and deliver everything that it needs."""
        self.time_out(node_id)
        self.deliver()
        assert self.role(node_id) is Role.LEADER, f"node {node_id} is {self.role(node_id)}"

    def propose(self, node_id: int, *values: object) -> OffsetAndEpoch:
        end = self.raft(node_id).propose(values, self.now_ms)
        self.settle(node_id)
        return end

    # --- inspection

    def values(self, node_id: int) -> list[object]:
        """Return the proposed values that the state machine of a node sees in its log."""
        return [record.value for record in self.nodes[node_id].log.records if isinstance(record.value, str)]

    def line(self, node_id: int) -> str:
        """Describe one node in one line."""
        node = self.nodes[node_id]
        if node.raft is None:
            return f"{node_id}: down, durable to {node.log.durable_end_offset}, {_hard(node.hard_state)}"
        replica = node.raft.replica
        return (f"{node_id}: {node.raft.state_name} epoch={replica.epoch} leader={replica.leader_id} "
                f"voted={replica.voted} log=[{node.log.start_offset},{node.log.end}) hw={replica.high_watermark} "
                f"voters={replica.voters}")


def _hard(state: HardState) -> str:
    return f"epoch={state.epoch} leader={state.leader_id} voted={state.voted}"


def describe(message: Message) -> str:
    """Describe a message in a few words."""
    name = type(message).__name__
    if isinstance(message, Lost):
        return f"lost: {message.reason}"
    names = [each.name for each in fields(message)]
    words = [f"{each}={_word(getattr(message, each))}" for each in names if _says_something(message, each)]
    return " ".join([name, *words])


_SILENT = ("cluster_id", "max_bytes", "max_wait_ms", "leader_endpoints", "log_start_offset")


def _says_something(message: Message, field: str) -> bool:
    value = getattr(message, field)
    return field not in _SILENT and not any(value is nothing for nothing in (ErrorCode.NONE, None, False, ()))


def _word(value: object) -> object:
    if isinstance(value, ErrorCode):
        return value.name
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, Batch):
        return value
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return "[" + " ".join(map(str, value)) + "]"
    return value


def answered(world: World, records: str) -> tuple[Raft, FetchResponse]:
    """Return a follower, node 2, and the leader's answer to its Fetch."""
    world.elect(1)
    leader = world.raft(1)
    leader.propose((records,), world.now_ms)
    answer = next(each.response for each in leader.take_ready().messages if isinstance(each, Answer))
    assert isinstance(answer, FetchResponse)
    return world.raft(2), answer
