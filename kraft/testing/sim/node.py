"""One node: a process with a real core, the real driver around it, a small state machine, and the machine it runs on.

The driver runs on the process's event loop, and its log is flushed by a thread beside that. While it writes
quorum-state the loop stands still: what comes waits, and what it sends leaves when that is durable. The state machine
is a list of what was applied; it leads when the core leads and it has applied the first record of its epoch.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from errno import EIO
from random import Random
from typing import Any, Final, Protocol

from kraft.raft.config import RaftConfig
from kraft.raft.messages import Message, Request, Response
from kraft.raft.ports import Event
from kraft.raft.raft import Raft
from kraft.raft.ready import Answer, Ask, HardState, Leadership
from kraft.raft.records import ControlRecord, KRaftVersion, Voters
from kraft.raft.replica import Ports
from kraft.raft.roles import Leader
from kraft.raft.transitions import Role
from kraft.raft.types import NOBODY, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import Assignment
from kraft.runtime.raft_driver import RaftDriver
from kraft.testing.sim.batches import Batch, Contents, Value, next_chain
from kraft.testing.sim.clock import Clock
from kraft.testing.sim.courier import Courier
from kraft.testing.sim.disk import Disk, DiskError
from kraft.testing.sim.event_loop import EventLoop
from kraft.testing.sim.flusher import Flusher
from kraft.testing.sim.log import DamagedLogError, SimLog
from kraft.testing.sim.loop import Loop
from kraft.testing.sim.network import Envelope, Network
from kraft.testing.sim.options import MILLISECOND, Options
from kraft.testing.sim.snapshots import SimSnapshots, SnapshotContents, drawn_size
from kraft.testing.sim.violation import ViolationError
from kraft_native.errors import CorruptFileError, UnsupportedVersionError

TICKS_MAX: Final = 50
"""So often in a row may a core be woken and have something due still; more is a loop that burns a processor."""

LEAVE_SECONDS: Final = 2.0
"""So long a node that stops waits for the others to know."""

HEARS_LATE_ODDS: Final = 4
"""One flush of so many is heard of late."""

TURN_STAYS_ODDS: Final = 4
"""Where turns take time, one of so many does not end at once."""


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
    """What dies with a process. Core and driver are made last."""

    log: SimLog
    snapshots: SimSnapshots
    loop: EventLoop
    courier: Courier
    flusher: Flusher
    questions: dict[int, Envelope]
    raft: Raft = field(init=False)
    driver: RaftDriver = field(init=False)


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
        self._outbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._last_sets: tuple[Assignment, ...] = ()
        self._clear()

    def _clear(self) -> None:
        """What a new process does not know."""
        self.applied = 0
        self.state = 0
        self.saved: HardState = HardState()
        self.told: Leadership | None = None
        self.leads_epoch = NOBODY
        self._saving: HardState | None = None
        self._saves = 0
        self._next_question = 0
        self._ticks = 0
        self._snapshotting = False

    def __str__(self) -> str:
        return str(self.config.key)

    @property
    def raft(self) -> Raft:
        assert self._process is not None, f"node {self.id} does not run"
        return self._process.raft

    @property
    def driver(self) -> RaftDriver:
        assert self._process is not None, f"node {self.id} does not run"
        return self._process.driver

    @property
    def log(self) -> SimLog:
        assert self._process is not None, f"node {self.id} does not run"
        return self._process.log

    @property
    def is_halted(self) -> bool:
        """Whether its loop stands still."""
        return self.is_paused or self._saving is not None

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
        except CorruptFileError:
            around.counts["damaged quorum-state refused"] += 1
            self.is_broken = True
            return
        except UnsupportedVersionError:
            around.counts["unknown quorum-state refused"] += 1
            return
        snapshots = SimSnapshots(self.disk, log, around.snapshot_contents)
        around.network.listen(self.id, self.config.endpoints[0])
        self.saved = hard_state
        latest = snapshots.latest()
        if latest is not None:
            self._load(latest)
        self.is_up = True
        self._run(log, snapshots)

    def _run(self, log: SimLog, snapshots: SimSnapshots) -> None:
        life, watcher, clock = self.life, self._around.watcher, self.clock
        loop = EventLoop(self._around.loop, clock, lambda callback: self.enter(life, self._on_time, callback))
        courier = Courier(self._envelope, lambda envelope: self.send(self._ask, envelope), self.count, loop,
                          lambda: clock.now_ms)
        flusher = Flusher(log, self, lambda: self._ask(courier.leave()))
        process = self._process = _Process(log, snapshots, loop, courier, flusher, {})
        ports = Ports(log, snapshots, self._random, lambda event: watcher.traced(self, event))
        process.raft = Raft(self.config, self.saved, ports, clock.now_ms)
        process.driver = RaftDriver(
            process.raft, flusher, self, write_hard_state=self._save, courier=courier, answer=self._answer,
            clock=lambda: clock.now_ms, on_failure=self._failed, loop=loop, read_event=flusher.read_event)
        watcher.started(self)
        self.enter(life, process.driver.start)

    def kill(self, *, power: bool, why: str = "killed") -> None:
        """The process dies; with `power` the machine, too. A failed flush says nothing about what the disk has: only a
        start from there is honest."""
        if not self.is_up:
            return
        process = self._process
        assert process is not None
        power = power or process.flusher.failure is not None
        self.is_up = self.is_paused = self.is_leaving = False
        self.life += 1
        self._process = None
        process.loop.close()
        self._around.watcher.stopped(self, f"{why}, power lost" if power else why)
        self._backlog.clear()
        self._outbox.clear()
        self._last_sets = process.raft.replica.history.entries
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
        return list(self._process.courier.asked.values())

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        """What came meanwhile is told now, in order."""
        self.is_paused = False
        self._work_off()

    def _work_off(self) -> None:
        backlog, self._backlog = self._backlog, []
        for function, arguments in backlog:
            function(*arguments)

    def leave(self) -> None:
        """A graceful stop: gives up the leadership, and ends when everybody knows, or after a while."""
        if self.is_up and not self.is_paused and not self.is_leaving:
            self.is_leaving = True
            self.enter(self.life, self._give_up, self._begin_leaving)

    def _begin_leaving(self) -> None:
        assert self._process is not None
        self._process.loop.run(self._leave())

    async def _leave(self) -> None:
        life = self.life
        await self.driver.resign(LEAVE_SECONDS)
        if life == self.life:          # else the disk failed at the last moment
            self.send(self._left)

    def _left(self) -> None:
        self.driver.close()
        self.kill(power=False, why="left")

    def resign(self) -> None:
        self.enter(self.life, self._give_up, self.driver.hand_over)

    def _give_up(self, how: Callable[[], None]) -> None:
        replica = self.raft.replica
        epoch = replica.epoch
        how()
        if self.is_up and isinstance(replica.role, Leader) and replica.epoch == epoch:
            raise ViolationError("ResignsWhenAsked", f"{self} leads epoch {epoch} still")

    def _failed(self, error: BaseException) -> None:
        """The driver has stopped."""
        if not isinstance(error, DiskError):
            raise error
        self._die(error)

    def _die(self, error: DiskError) -> None:
        self.count(f"died of: {error}")
        self.kill(power=self.disk.fail_flush or self._random.random() < 0.5, why=str(error))

    def count(self, name: str) -> None:
        self._around.counts[name] += 1

    # --- events ------------------------------------------------------------------------------------------------------

    def enter(self, life: int, function: Callable[..., None], *arguments: Any) -> None:
        """Every event of the process's loop comes through here."""
        if life != self.life:
            return
        if self.is_paused or self._saving is not None:
            self._backlog.append((self.enter, (life, function, *arguments)))
            return
        try:
            function(*arguments)
            self._settle()
        except DiskError as error:
            self._die(error)
        if self.is_up:
            self._around.watcher.touched(self)

    def enter_thread(self, life: int, function: Callable[..., None], *arguments: Any) -> None:
        """Every event of a process beside its loop: only a pause holds it up."""
        if life != self.life:
            return
        if self.is_paused:
            self._backlog.append((self.enter_thread, (life, function, *arguments)))
        else:
            function(*arguments)

    def _settle(self) -> bool:
        """The turn of the loop ends, or goes on for a while: then more happens in it. Whether there was anything to
        do."""
        process = self._process
        if process is None or process.loop.is_idle:
            return False
        turn_us = self._around.options.turn_us
        if turn_us and not self._random.randrange(TURN_STAYS_ODDS):
            self._around.loop.after(self._random.randrange(turn_us), self.enter, self.life, process.loop.turn)
            return False
        process.loop.turn()
        return True

    def receive(self, envelope: Envelope) -> None:
        self.enter(self.life, self._receive, envelope)

    def _receive(self, envelope: Envelope) -> None:
        process = self._process
        assert process is not None
        if envelope.is_answer:
            question = process.courier.asked.pop(envelope.correlation, None)
            self._around.watcher.receives(self, None if question is None else question.message, envelope)
            process.courier.deliver(envelope, process.driver)
        else:
            self._around.watcher.receives(self, None, envelope)
            self._next_question += 1
            process.questions[self._next_question] = envelope
            process.driver.step(envelope.asker, self._next_question, envelope.message)

    def propose(self, value: Value) -> OffsetAndEpoch:
        """Raises `NotLeaderError`; a `DiskError` has ended the process."""
        epoch = self.leads_epoch
        try:
            end_offset = self.driver.propose(value, epoch)
        except DiskError as error:
            self._die(error)
            raise
        self.enter(self.life, self.driver.wake)
        return OffsetAndEpoch(end_offset, epoch)

    def _on_time(self, callback: Callable[[], object]) -> None:
        """A timer of the driver."""
        raft = self.raft
        callback()
        self._ticks = self._ticks + 1 if raft.deadline_ms <= self.clock.now_ms else 0
        if self._ticks > TICKS_MAX:
            raise ViolationError("NoBusyLoop", f"node {self} is woken {self._ticks} times and has something to do "
                                               f"still as {raft.replica.role.role}")

    def wake(self) -> None:
        """The clock has jumped: timers that are due now are noticed."""
        if self._process is not None:
            self._process.loop.clock_jumped()

    # --- what the driver has done ------------------------------------------------------------------------------------

    def _save(self, state: HardState) -> None:
        """The loop stands still until it is durable. Nothing happens in that time but death; so what the driver does
        next is done now, and what it sends leaves then."""
        if self._saving is not None:
            self._finish_saving()
        self.disk.quorum_state.start(state)
        if self.disk.fail_quorum_state:
            raise DiskError("quorum-state", EIO, "write")
        self._saving = state
        self._saves += 1
        self._meet(Moment.SAVES)
        self._around.loop.after(self.flush_us(), self.enter_thread, self.life, self._saved, self._saves)

    def _saved(self, number: int) -> None:
        if number == self._saves:
            self._finish_saving()
            self._work_off()

    def _finish_saving(self) -> None:
        assert self._saving is not None
        self.disk.quorum_state.finish()
        self.saved, self._saving = self._saving, None
        outbox, self._outbox, life = self._outbox, [], self.life
        for function, arguments in outbox:
            if self.life == life:      # with the last of what it had to tell a process may end
                function(*arguments)

    def send(self, function: Callable[..., None], *arguments: Any) -> None:
        """Calls what sends a message, when quorum-state has what it tells of."""
        if self._saving is None:
            function(*arguments)
        else:
            self._outbox.append((function, arguments))

    def _answer(self, answer: Answer) -> None:
        assert self._process is not None
        question = self._process.questions.pop(answer.correlation, None)
        if question is not None:
            self.send(self._reply, question, answer.response)

    def _reply(self, question: Envelope, response: Response) -> None:
        self._around.watcher.answers(self, question.message, response)
        self._around.network.answer(question, response)

    def _envelope(self, ask: Ask, number: int) -> Envelope:
        target = ask.node_id if ask.address is None else self._around.network.at(ask.address)
        return Envelope(self.id, self.life, target, ask.node_id, number, ask.request, is_answer=False)

    def _ask(self, envelope: Envelope) -> None:
        assert self._process is not None
        request = envelope.message
        assert isinstance(request, Request)
        self._around.watcher.asks(self, request)
        self._process.courier.asked[envelope.correlation] = envelope
        self._around.network.ask(envelope, request)

    def begin_flush(self, ended: Callable[[], None]) -> None:
        """See `Host`."""
        self._meet(Moment.FLUSHES)
        self._around.loop.after(self.flush_us(), self.enter_thread, self.life, ended)

    def tell_loop(self) -> None:
        """See `Host`. When it hears late, the answer to what has left may be there before."""
        options = self._around.options
        if self._random.randrange(HEARS_LATE_ODDS):
            self.enter(self.life, self._hear_of_flushes)
        else:
            late_us = 1 + 2 * (options.delay_ms + options.jitter_ms) * MILLISECOND
            self._around.loop.after(self._random.randrange(late_us), self.enter, self.life, self._hear_of_flushes)

    def _hear_of_flushes(self) -> None:
        process = self._process
        assert process is not None
        if process.flusher.is_readable and process.loop.reader is not None:
            process.loop.reader()

    def _meet(self, moment: Moment) -> None:
        """If somebody waits for this moment, it begins; that it is reached does not mean that it is over."""
        strike = self.at_next.pop(moment, None)
        if strike is not None:
            self._around.loop.after(1 + self._random.randrange(self._around.options.flush_us), strike)

    def flush_us(self) -> int:
        options = self._around.options
        spread = options.flush_us // 2 + self._random.randrange(options.flush_us + 1)
        if options.slow_flush_per_mille and self._random.randrange(1000) < options.slow_flush_per_mille:
            self.count("flush slow")
            spread += self._random.randrange(options.slow_flush_ms * MILLISECOND)
        return spread

    # --- the state machine -------------------------------------------------------------------------------------------

    def committed(self, end_offset: int) -> None:
        """What is committed is applied, and what was proposed here is acknowledged."""
        self._around.watcher.applied(self, end_offset)
        self._apply(end_offset)
        self._maybe_snapshot()
        self._take_role()

    def leadership(self, leadership: Leadership) -> None:
        self.told = leadership
        if leadership.role is Role.LEADER:
            self._meet(Moment.LEADS)
        self._take_role()

    def _take_role(self) -> None:
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

    def installed(self, snapshot: OffsetAndEpoch) -> None:
        if self.told is not None and self.told.role is Role.LEADER:
            raise ViolationError("LeaderNeverLoadSnapshot", f"leader {self} is told to load {snapshot}")
        self.count("snapshot installed")
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

        def written() -> None:
            self._snapshotting = False
            latest = process.snapshots.latest()
            if latest is None or latest < snapshot.id:
                process.snapshots.store(snapshot)
                self.count("snapshot made")
                process.raft.trim_log(snapshot.id)
                process.driver.wake()
            self._maybe_snapshot()  # as much again may have been applied while this one was written

        self._around.loop.after(self.flush_us() * 3, self.enter, self.life, written)
