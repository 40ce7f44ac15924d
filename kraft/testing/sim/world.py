"""The world of one simulation: a heap of events in virtual time, the network between nodes, and what goes wrong."""

import heapq
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from random import Random
from typing import Final, NamedTuple
from uuid import UUID

from kraft.raft.config import RaftConfig
from kraft.raft.messages import (
    AddVoterRequest,
    Loss,
    Lost,
    Message,
    ReassignVotersRequest,
    RemoveVoterRequest,
    Request,
    Response,
)
from kraft.raft.ready import Answer, Ask
from kraft.raft.roles import Leader
from kraft.raft.types import NEVER_MS, Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import NO_VOTERS, Voter, VoterSet
from kraft.testing.sim.invariants import Checker
from kraft.testing.sim.node import SimNode
from kraft.testing.sim.options import SimOptions

CLIENT: Final = 1_000
"""Sources from here on are no nodes."""


class Awaited(NamedTuple):
    """A client's record that is not yet known to be committed."""

    value: str
    end: OffsetAndEpoch
    life: int


def endpoints_of(node_id: int) -> Endpoints:
    return (Endpoint("CONTROLLER", f"node{node_id}", 9093),)


class World:
    """One simulation. `trace_lines` are kept only when asked for; their hash always is."""

    def __init__(self, seed: int, options: SimOptions, *, keeps_trace: bool = False) -> None:
        self.random = Random(seed)
        self.options = options
        self.now_ms = 0
        self.nodes: dict[int, SimNode] = {}
        self.checker = Checker(self.nodes)
        self.counts: Counter[str] = Counter()
        self.trace_lines: list[str] | None = [] if keeps_trace else None
        self.hash = blake2b(digest_size=16)
        self.is_healing = False
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._cuts: dict[tuple[int, int], int] = {}
        self._alarms: dict[int, int] = {}
        self._awaited: dict[int, list[Awaited]] = {}
        self._leading: dict[int, tuple[int, int]] = {}
        self._values = 0
        first = range(1, options.voters + 1)
        voters = VoterSet.of(*(Voter(self._key(node_id), endpoints_of(node_id)) for node_id in first))
        bootstrap = tuple(endpoint for node_id in first for endpoint in endpoints_of(node_id))
        for node_id in range(1, options.voters + options.observers + 1):
            config = RaftConfig(
                key=self._key(node_id), cluster_id="sim", endpoints=endpoints_of(node_id), bootstrap=bootstrap,
                fetch_max_bytes=options.fetch_bytes)
            node = SimNode(config, voters if node_id in first else NO_VOTERS, self)
            node.rate = 1 + self.random.uniform(-1, 1) * options.clock_skew
            self.nodes[node_id] = node
        for node in self.nodes.values():
            node.start()
            self._drive(node)

    @staticmethod
    def _key(node_id: int) -> ReplicaKey:
        return ReplicaKey(node_id, UUID(int=0xD000 + node_id))

    # --- time

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._sequence, action))

    def later(self, node: SimNode, delay_ms: int, action: Callable[[], None]) -> None:
        life = node.life

        def happen() -> None:
            if node.life != life or node.raft is None:
                return
            if node.paused_until_ms > self.now_ms:
                self.at(node.paused_until_ms - self.now_ms, happen)
                return
            action()
            self._drive(node)

        self.at(delay_ms, happen)

    def run_until(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, action = heapq.heappop(self._events)
            self.counts["events"] += 1
            action()
        self.now_ms = end_ms

    def _drive(self, node: SimNode) -> None:
        node.drive()
        self._acknowledge(node)
        replica = node.up.replica
        if isinstance(replica.role, Leader) and self._leading.get(node.node_id) != (node.life, replica.epoch):
            self._leading[node.node_id] = node.life, replica.epoch
            self.counts["elections won"] += 1
            self.checker.led(node)
            self.checker.check_logs()
        self._set_alarm(node)

    def _set_alarm(self, node: SimNode) -> None:
        """Has the node called when it wants to be. A call that came too early does no harm; one is always set."""
        deadline_ms = node.up.deadline_ms
        if deadline_ms >= NEVER_MS:
            return
        due_ms = max(self.now_ms + 1, int(deadline_ms / node.rate) + 1)
        if self.now_ms < self._alarms.get(node.node_id, 0) <= due_ms:
            return
        self._alarms[node.node_id] = due_ms
        self.later(node, due_ms - self.now_ms, lambda: node.up.tick(node.clock_ms))

    def trace(self, node: SimNode, text: str) -> None:
        line = f"{self.now_ms} {node.node_id} {text}"
        self.hash.update(line.encode())
        self.counts[text.split(maxsplit=1)[0]] += 1
        if self.trace_lines is not None:
            self.trace_lines.append(line)

    # --- the network

    def send(self, node: SimNode, message: Ask | Answer) -> None:
        if isinstance(message, Ask):
            receiver = message.node_id if message.node_id >= 0 else -1 - message.node_id
            self._carry(node, receiver, message.node_id, message.correlation, message.request)
        elif message.source < CLIENT:
            self._carry(node, message.source, node.node_id, message.correlation, message.response)

    def _carry(self, sender: SimNode, receiver_id: int, known_as: int, correlation: int, body: Request | Response,
               ) -> None:
        """One message on its way. A response reaches only the life that asked."""
        receiver = self.nodes[receiver_id]
        options, random = self.options, self.random
        self.counts["messages"] += 1
        asked_in = receiver.life if isinstance(body, Response) else None
        lost = random.random() < options.loss or self._is_cut(sender.node_id, receiver_id)
        copies = 0 if lost else 1 + (random.random() < options.duplicates)
        self.counts["lost"] += lost
        self.counts["duplicated"] += copies == 2
        for _ in range(copies):
            self.at(random.randint(1, options.latency_ms),
                    lambda: self._deliver(sender, receiver, known_as, correlation, body, asked_in))
        if lost and isinstance(body, Request) and random.random() < options.told_losses:
            self._tell_loss(sender, known_as, correlation)

    def _tell_loss(self, sender: SimNode, known_as: int, correlation: int) -> None:
        lost = Lost(self.random.choice((Loss.DISCONNECTED, Loss.TIMED_OUT)))
        self.later(sender, self.random.randint(1, 50), lambda: self._step(sender, known_as, correlation, lost))

    def _deliver(self, sender: SimNode, receiver: SimNode, known_as: int, correlation: int, body: Request | Response,
                 asked_in: int | None) -> None:
        if self._is_cut(sender.node_id, receiver.node_id):
            return
        if receiver.raft is None:
            if isinstance(body, Request) and sender.raft is not None:
                self._tell_loss(sender, known_as, correlation)
            return
        if asked_in not in (None, receiver.life):
            return
        source = sender.node_id if isinstance(body, Request) else self._asked_as(receiver, sender, correlation)
        self.later(receiver, 0, lambda: self._step(receiver, source, correlation, body))

    def _asked_as(self, asker: SimNode, answerer: SimNode, correlation: int) -> int:
        """Bootstrap servers are asked under other ids than their own; correlations tell which it was."""
        alias = -1 - answerer.node_id
        return alias if asker.up.replica.requests.is_waiting(alias, correlation) else answerer.node_id

    @staticmethod
    def _step(node: SimNode, source: int, correlation: int, body: Message) -> None:
        node.up.step(source, correlation, body, node.clock_ms)

    def _is_cut(self, sender: int, receiver: int) -> bool:
        return self._cuts.get((sender, receiver), 0) > self.now_ms

    # --- what goes wrong, and what clients do

    def begin(self) -> None:
        """Starts everything that happens again and again."""
        options = self.options
        self._repeat(options.proposal_interval_ms, self._propose)
        self._repeat(options.crash_interval_ms, self._crash)
        self._repeat(options.cut_interval_ms, self._cut)
        self._repeat(options.pause_interval_ms, self._pause)
        self._repeat(options.snapshot_interval_ms, self._snapshot)
        self._repeat(options.voter_change_interval_ms, self._change_voters)
        self._repeat(options.resign_interval_ms, self._resign)

    def _repeat(self, interval_ms: int, action: Callable[[], None]) -> None:
        if interval_ms == 0:
            return

        def happen() -> None:
            if self.is_healing:
                return
            action()
            self.at(self.random.randint(1, 2 * interval_ms), happen)

        self.at(self.random.randint(1, 2 * interval_ms), happen)

    def heal(self) -> None:
        """The end of all faults: everybody is up and hears everybody."""
        self.is_healing = True
        self._cuts.clear()
        self.options = SimOptions(latency_ms=min(20, self.options.latency_ms), flush_ms=min(20, self.options.flush_ms),
                                  fetch_bytes=self.options.fetch_bytes)
        for node in self.nodes.values():
            node.paused_until_ms = min(node.paused_until_ms, self.now_ms)
            if node.raft is None:
                self._start(node)

    def leaders(self) -> list[SimNode]:
        return [node for node in self.nodes.values()
                if node.raft is not None and isinstance(node.raft.replica.role, Leader)]

    def _pick_leader(self) -> SimNode | None:
        leaders = [node for node in self.leaders() if node.paused_until_ms <= self.now_ms]
        return self.random.choice(leaders) if leaders else None

    def _propose(self) -> None:
        leader = self._pick_leader()
        if leader is not None:
            self.propose(leader)

    def propose(self, leader: SimNode) -> str:
        """A client's record; it is acknowledged when this leader, still of the same epoch, has committed it."""
        self._values += 1
        value = f"v{self._values}"
        end = leader.up.propose((value,), leader.clock_ms)
        self.counts["proposed"] += 1
        self._awaited.setdefault(leader.node_id, []).append(Awaited(value, end, leader.life))
        self._drive(leader)
        return value

    def _acknowledge(self, node: SimNode) -> None:
        """Tells clients what is committed, as long as the node leads the epoch in which they asked it."""
        awaited = self._awaited.get(node.node_id)
        if not awaited:
            return
        replica = node.up.replica
        leads = isinstance(replica.role, Leader)
        while awaited and not (leads and (awaited[0].life, awaited[0].end.epoch) == (node.life, replica.epoch)):
            awaited.pop(0)
        while awaited and awaited[0].end.offset <= node.high_watermark:
            value, end, _ = awaited.pop(0)
            self.checker.acknowledged[value] = end.offset - 1
            self.counts["acknowledged"] += 1

    def _crash(self) -> None:
        node = self.random.choice(list(self.nodes.values()))
        if node.raft is None:
            return
        node.crash(loses_all=self.random.random() < self.options.lost_writes)
        self.at(self.random.randint(1, self.options.down_ms), lambda: self._start(node))

    def _start(self, node: SimNode) -> None:
        if node.raft is None:
            self._alarms.pop(node.node_id, None)
            node.start()
            self._drive(node)

    def _cut(self) -> None:
        """Two groups that do not hear each other, or one link, in one direction or both."""
        random, until_ms = self.random, self.now_ms + self.random.randint(1, self.options.cut_ms)
        ids = list(self.nodes)
        one_way = random.random() < self.options.one_way_cuts
        group = random.sample(ids, random.randint(1, len(ids)))
        for inside in group:
            for outside in ids:
                if outside not in group:
                    self._cuts[inside, outside] = until_ms
                    if not one_way:
                        self._cuts[outside, inside] = until_ms
        self.counts["cuts"] += 1

    def _pause(self) -> None:
        node = self.random.choice(list(self.nodes.values()))
        node.paused_until_ms = self.now_ms + self.random.randint(1, self.options.pause_ms)
        self.counts["pauses"] += 1

    def _snapshot(self) -> None:
        node = self.random.choice(list(self.nodes.values()))
        if node.raft is None or node.high_watermark <= node.log.start_offset:
            return
        snapshot = node.up.snapshot_id(node.high_watermark)
        node.snapshots.write(snapshot, node.up.assignment_at(snapshot.offset), self.checker.digests[snapshot.offset])
        self.counts["snapshots"] += 1
        if self.random.random() < 0.5:
            node.up.trim_log(snapshot)

    def _resign(self) -> None:
        leader = self._pick_leader()
        if leader is not None:
            leader.up.resign(leader.up.replica.epoch, leader.clock_ms)
            self._drive(leader)

    def _change_voters(self) -> None:
        leader = self._pick_leader()
        if leader is None:
            return
        voters, random = leader.up.replica.voters, self.random
        kind = random.choice(("add", "remove", "reassign", "cancel"))
        if kind == "add":
            node_id = random.choice(list(self.nodes))
            request: Request = AddVoterRequest(
                voter=Voter(self._key(node_id), endpoints_of(node_id)), timeout_ms=2_000)
        elif kind == "remove":
            request = RemoveVoterRequest(voter=random.choice(voters.keys))
        elif kind == "reassign":
            ids = random.sample(list(self.nodes), random.randint(1, len(self.nodes)))
            request = ReassignVotersRequest(targets=tuple(ids))
        else:
            request = ReassignVotersRequest(targets=None)
        self.counts[f"asked to {kind}"] += 1
        leader.up.step(CLIENT, 0, request, leader.clock_ms)
        self._drive(leader)
