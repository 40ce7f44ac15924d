"""One node: a process with a real core, the driver around it, a small state machine, and the machine it runs on.

The driver is production's: everything that came in is told to the core, then what is ready is carried out in order,
hard state before messages, one flush under way at a time. The state machine is a list of what was applied; it leads
when the core leads and it has applied the first record of its epoch.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from errno import EIO
from random import Random
from typing import Any, Final, Protocol

from kraft.raft.config import RaftConfig
from kraft.raft.messages import Message, Request, Response
from kraft.raft.ports import Event
from kraft.raft.raft import Raft
from kraft.raft.ready import Answer, Ask, HardState, Leadership, Ready
from kraft.raft.records import ControlRecord, KRaftVersion, Voters
from kraft.raft.replica import Ports
from kraft.raft.roles import Leader
from kraft.raft.transitions import Role
from kraft.raft.types import NEVER_MS, NOBODY, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import Assignment
from kraft.testing.sim.batches import Batch, Contents, Value, next_chain
from kraft.testing.sim.clock import Clock
from kraft.testing.sim.disk import Disk, DiskError
from kraft.testing.sim.log import DamagedLogError, SimLog
from kraft.testing.sim.loop import Loop
from kraft.testing.sim.network import Envelope, Network
from kraft.testing.sim.options import MILLISECOND, Options
from kraft.testing.sim.snapshots import SimSnapshots, SnapshotContents, drawn_size
from kraft.testing.sim.violation import ViolationError
from kraft_native.errors import UnsupportedVersionError

TICKS_MAX: Final = 50
"""So often may a core ask to be woken within one millisecond of its clock; more is a loop that burns a processor."""


class Moment(StrEnum):
    """When a death does most harm."""

    SAVES = "quorum-state is being written"
    FLUSHES = "the log is being flushed"
    LEADS = "it has just won an election"


class Watcher(Protocol):
    """Is told what nodes do, while they do it."""

    def started(self, node: "Node") -> None: ...
    def stopped(self, node: "Node", why: str) -> None: ...
    def touched(self, node: "Node") -> None: ...
    def appended(self, node: "Node", batch: Batch) -> None: ...
    def applied(self, node: "Node", high_watermark: int) -> None: ...
    def led(self, node: "Node") -> None: ...
    def asks(self, node: "Node", request: Request) -> None: ...
    def answers(self, node: "Node", question: Message, response: Response) -> None: ...
    def receives(self, node: "Node", question: Message | None, envelope: Envelope) -> None: ...
    def traced(self, node: "Node", event: Event) -> None: ...


@dataclass(slots=True)
class Surroundings:
    """What all nodes of a run share."""

    loop: Loop
    options: Options
    network: Network
    contents: Contents
    snapshot_contents: SnapshotContents
    counts: Counter[str]
    watcher: Watcher


@dataclass(slots=True)
class _Process:
    """What dies with a process. `core` is None while it is made."""

    core: Raft | None
    log: SimLog
    snapshots: SimSnapshots
    queue: deque[Ready]
    asked: dict[int, Envelope]
    questions: dict[int, Envelope]

    @property
    def raft(self) -> Raft:
        assert self.core is not None, "a core that is being made acts"
        return self.core


class Node:
    """`life` counts starts. `is_broken`: its disk has damage that a start will not get over."""

    def __init__(self, config: RaftConfig, surroundings: Surroundings, random: Random, clock: Clock) -> None:
        self.config = config
        self.id = config.node_id
        self.clock = clock
        self.disk = Disk()
        self.life = 0
        self.is_up = False
        self.is_paused = False
        self.is_broken = False
        self.is_leaving = False
        self.knows_pre_vote = True
        self._around = surroundings
        self._random = random
        self._process: _Process | None = None
        self.at_next: dict[Moment, Callable[[], None]] = {}
        self._backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._last_sets: tuple[Assignment, ...] = ()
        self._clear()

    def _clear(self) -> None:
        """What a new process does not know."""
        self.applied = 0
        self.state = 0
        self.saved: HardState = HardState()
        self.told: Leadership | None = None
        self.leads_epoch = NOBODY
        self._saving = False
        self._next_question = 0
        self._tick_token = 0
        self._tick_at_us = -1
        self._ticks = 0
        self._ticked_ms = -1
        self._snapshotting = False

    def __str__(self) -> str:
        return str(self.config.key)

    @property
    def raft(self) -> Raft:
        assert self._process is not None, f"node {self.id} does not run"
        return self._process.raft

    @property
    def log(self) -> SimLog:
        assert self._process is not None, f"node {self.id} does not run"
        return self._process.log

    @property
    def voter_sets(self) -> tuple[Assignment, ...]:
        """The voters that its log names, one after the other; of a node that is down, when it died."""
        return self.raft.replica.history.entries if self.is_up else self._last_sets

    @property
    def key(self) -> ReplicaKey:
        return self.config.key

    # --- life and death ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A process is started on what the disk has."""
        assert not self.is_up
        self._clear()
        self.life += 1
        self.disk.mend()
        around = self._around
        try:
            hard_state = self.disk.quorum_state.read()
            log = SimLog(self.disk, around.contents, lambda batch: around.watcher.appended(self, batch))
        except DamagedLogError:
            around.counts["damage found"] += 1
            self.is_broken = True
            return
        except UnsupportedVersionError:
            around.counts["unknown quorum-state refused"] += 1
            return
        snapshots = SimSnapshots(self.disk, log, around.snapshot_contents)
        self.saved = hard_state
        latest = snapshots.latest()
        if latest is not None:
            self._load(latest)
        self.is_up = True
        ports = Ports(log, snapshots, self._random, lambda event: around.watcher.traced(self, event))
        process = self._process = _Process(None, log, snapshots, deque(), {}, {})
        process.core = Raft(self.config, hard_state, ports, self.clock.now_ms)
        around.watcher.started(self)
        self._pump()

    def kill(self, *, power: bool, why: str = "killed") -> None:
        """The process dies; with `power` the machine, too."""
        if not self.is_up:
            return
        process = self._process
        assert process is not None
        self.is_up = self.is_paused = self.is_leaving = False
        self.life += 1
        self._process = None
        self._around.watcher.stopped(self, f"{why}, power lost" if power else why)
        self._backlog.clear()
        self._last_sets = () if process.core is None else process.core.replica.history.entries
        if power:
            self._around.counts["pieces lost"] += self.disk.lose_power(self._random)
        else:
            self.disk.fail_flush = False
            self.disk.lose_process()
            process.log.durable_offset = process.log.end.offset
        stations = self._around.network.stations
        for number in stations:
            other = stations[number]
            if isinstance(other, Node) and other.is_up and other is not self:
                self._around.network.break_connections(self.id, other.asked)

    def replace_disk(self, config: RaftConfig) -> None:
        """Another disk, empty, with a new directory id."""
        self.move(config)
        self.disk = Disk()
        self.is_broken = False

    def move(self, config: RaftConfig) -> None:
        """The next start is at another address."""
        assert not self.is_up
        self.config = config

    @property
    def asked(self) -> list[Envelope]:
        """Requests of this node that are not answered."""
        assert self._process is not None
        return list(self._process.asked.values())

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        """What came meanwhile is told now, in order."""
        self.is_paused = False
        backlog, self._backlog = self._backlog, []
        for function, arguments in backlog:
            self._enter(function, *arguments)

    def leave(self) -> None:
        """A graceful stop: gives up the leadership, and ends when everybody knows."""
        if self.is_up and not self.is_paused:
            self.is_leaving = True
            self.resign()

    def resign(self) -> None:
        self._enter(self._resign, self.life)

    def _resign(self, life: int) -> None:
        if life == self.life:
            epoch = self.raft.replica.epoch
            self.raft.resign(epoch, self.clock.now_ms)
            if isinstance(self.raft.replica.role, Leader) and self.raft.replica.epoch == epoch:
                raise ViolationError("ResignsWhenAsked", f"{self} leads epoch {epoch} still")
            self._pump()

    def _enter(self, function: Callable[..., None], *arguments: Any) -> None:
        """Every event of the process comes through here."""
        if self.is_paused:
            self._backlog.append((function, arguments))
            return
        try:
            function(*arguments)
        except DiskError as error:
            self._die(error)
        if self.is_up:
            self._around.watcher.touched(self)

    def _die(self, error: DiskError) -> None:
        """A failed flush says nothing about what the disk has: only a start from there is honest."""
        self._around.counts[f"died of: {error}"] += 1
        self.kill(power=self.disk.fail_flush or self._random.random() < 0.5, why=str(error))

    # --- events ------------------------------------------------------------------------------------------------------

    def receive(self, envelope: Envelope) -> None:
        self._enter(self._receive, self.life, envelope)

    def _receive(self, life: int, envelope: Envelope) -> None:
        process = self._process
        if process is None or life != self.life:
            return
        if envelope.is_answer:
            question = process.asked.pop(envelope.correlation, None)
            self._around.watcher.receives(self, None if question is None else question.message, envelope)
            process.raft.step(envelope.called, envelope.correlation, envelope.message, self.clock.now_ms)
        else:
            self._around.watcher.receives(self, None, envelope)
            self._next_question += 1
            process.questions[self._next_question] = envelope
            process.raft.step(envelope.asker, self._next_question, envelope.message, self.clock.now_ms)
        self._pump()

    def propose(self, value: Value) -> OffsetAndEpoch:
        """Raises `NotLeaderError`; a `DiskError` has ended the process."""
        try:
            end = self.raft.propose(value, self.clock.now_ms, self.leads_epoch)
        except DiskError as error:
            self._die(error)
            raise
        self._enter(self._pump)
        return end

    def _tick(self, life: int, token: int) -> None:
        if life != self.life or token != self._tick_token:
            return
        self._tick_at_us = -1
        now_ms = self.clock.now_ms
        if now_ms >= self.raft.deadline_ms:
            self._ticks = self._ticks + 1 if now_ms == self._ticked_ms else 1
            self._ticked_ms = now_ms
            if self._ticks > TICKS_MAX:
                raise ViolationError("NoBusyLoop", f"node {self} is woken {self._ticks} times in a millisecond as "
                                                   f"{self.raft.replica.role.role}")
            self.raft.tick(now_ms)
            self._pump()
        else:
            self._arm()

    def wake(self) -> None:
        """The clock has jumped: timers that are due now are noticed."""
        self._tick_at_us = -1
        if self.is_up:
            self._arm()

    def _arm(self) -> None:
        process = self._process
        if process is None:
            return
        deadline_ms = process.raft.deadline_ms
        if deadline_ms >= NEVER_MS:
            return
        loop = self._around.loop
        at_us = max(self.clock.at_us(deadline_ms), loop.now_us)
        if self._tick_at_us < 0 or at_us < self._tick_at_us:
            self._tick_token += 1
            self._tick_at_us = at_us
            loop.at(at_us, self._enter, self._tick, self.life, self._tick_token)

    # --- what is ready -----------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        process = self._process
        if process is None:
            return
        ready = process.raft.take_ready()
        process.queue.append(ready)
        while process.queue and not self._saving and self._process is process:
            self._carry_out(process, process.queue.popleft())
        if self._process is process:
            self._arm()
            if self.is_leaving and process.raft.has_left:
                self.kill(power=False, why="left")

    def _carry_out(self, process: _Process, ready: Ready) -> None:
        if ready.hard_state is not None:
            self._save(process, ready)
            return
        for message in ready.messages:
            self._send(process, message)
        if ready.flush is not None:
            self._start_flush(process, ready.flush)
        if ready.installed is not None:
            self._load_snapshot(ready.installed)
        if ready.leadership is not None or ready.high_watermark is not None:
            self._advance(ready.high_watermark, ready.leadership)

    def _save(self, process: _Process, ready: Ready) -> None:
        state = ready.hard_state
        assert state is not None
        self.disk.quorum_state.start(state)
        if self.disk.fail_quorum_state:
            raise DiskError("quorum-state", EIO, "write")
        self._saving = True
        self._meet(Moment.SAVES)
        rest = Ready(None, ready.messages, ready.flush, ready.installed, ready.high_watermark, ready.leadership)
        process.queue.appendleft(rest)
        self._around.loop.after(self._flush_us(), self._enter, self._saved, self.life, state)

    def _saved(self, life: int, state: HardState) -> None:
        if life == self.life:
            self.disk.quorum_state.finish()
            self.saved = state
            self._saving = False
            self._pump()

    def _send(self, process: _Process, message: Ask | Answer) -> None:
        if isinstance(message, Answer):
            question = process.questions.pop(message.correlation, None)
            if question is not None:
                self._around.watcher.answers(self, question.message, message.response)
                self._around.network.answer(question, message.response)
            return
        self._around.watcher.asks(self, message.request)
        target = message.node_id if message.address is None else message.address.port
        envelope = Envelope(self.id, self.life, target, message.node_id, message.correlation, message.request,
                            is_answer=False)
        process.asked[message.correlation] = envelope
        self._around.network.ask(envelope, message.request)

    def _start_flush(self, process: _Process, end_offset: int) -> None:
        mark = process.log.flush_begins()
        self._meet(Moment.FLUSHES)
        self._around.loop.after(self._flush_us(), self._enter, self._flushed, self.life, mark, end_offset)

    def _flushed(self, life: int, mark: int, end_offset: int) -> None:
        process = self._process
        if process is None or life != self.life:
            return
        process.log.flush_ends(mark)
        process.raft.log_flushed(end_offset, self.clock.now_ms)
        self._pump()

    def _meet(self, moment: Moment) -> None:
        """If somebody waits for this moment, it begins; that it is reached does not mean that it is over."""
        strike = self.at_next.pop(moment, None)
        if strike is not None:
            self._around.loop.after(1 + self._random.randrange(self._around.options.flush_us), strike)

    def _flush_us(self) -> int:
        options = self._around.options
        spread = options.flush_us // 2 + self._random.randrange(options.flush_us + 1)
        if options.slow_flush_per_mille and self._random.randrange(1000) < options.slow_flush_per_mille:
            self._around.counts["flush slow"] += 1
            spread += self._random.randrange(options.slow_flush_ms * MILLISECOND)
        return spread

    # --- the state machine -------------------------------------------------------------------------------------------

    def _advance(self, high_watermark: int | None, leadership: Leadership | None) -> None:
        """What is committed is applied, what was proposed here is acknowledged, then a new role is taken."""
        if high_watermark is not None:
            self._around.watcher.applied(self, high_watermark)
            self._apply(high_watermark)
            self._maybe_snapshot()
        if leadership is not None:
            self.told = leadership
            if leadership.role is Role.LEADER:
                self._meet(Moment.LEADS)
        told = self.told
        if told is None or told.role is not Role.LEADER:
            self.leads_epoch = NOBODY
        elif self.applied > told.epoch_start and self.leads_epoch != told.epoch:
            self.leads_epoch = told.epoch
            self._around.watcher.led(self)

    def _apply(self, high_watermark: int) -> None:
        for batch in self.log.between(self.applied, high_watermark):
            self.state = next_chain(self.state, batch.data)
        self.applied = high_watermark

    def _load(self, snapshot: OffsetAndEpoch) -> None:
        self.applied, self.state = snapshot.offset, self.disk.snapshots[snapshot].chain

    def _load_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        if self.told is not None and self.told.role is Role.LEADER:
            raise ViolationError("LeaderNeverLoadSnapshot", f"leader {self} is told to load {snapshot}")
        self._around.counts["snapshot installed"] += 1
        self._load(snapshot)

    @property
    def owes_snapshot(self) -> bool:
        """Whether enough was applied since the last snapshot, and none is being made."""
        every = self._around.options.snapshot_every_offsets
        latest = max(self.disk.snapshots, default=OffsetAndEpoch(0, 0))
        return every > 0 and not self._snapshotting and self.applied - latest.offset >= every

    def _maybe_snapshot(self) -> None:
        process = self._process
        assert process is not None
        if not self.owes_snapshot:
            return
        found = process.log.id_at(self.applied)
        if found is None:
            return
        self._snapshotting = True
        assignment = process.raft.assignment_at(self.applied)
        controls: tuple[ControlRecord, ...] = (KRaftVersion(assignment.kraft_version), Voters(assignment.voters))
        snapshot = self._around.snapshot_contents.encode(
            process.raft.snapshot_id(self.applied), found[1], controls if assignment.kraft_version > 0 else (),
            drawn_size(self._random, self._around.options.snapshot_bytes))

        def written(life: int) -> None:
            if life != self.life or self._process is None:
                return
            self._snapshotting = False
            latest = self._process.snapshots.latest()
            if latest is None or latest < snapshot.id:
                self._process.snapshots.store(snapshot)
                self._around.counts["snapshot made"] += 1
                self._process.raft.trim_log(snapshot.id)
                self._pump()
            self._maybe_snapshot()  # as much again may have been applied while this one was written

        self._around.loop.after(self._flush_us() * 3, self._enter, written, self.life)
