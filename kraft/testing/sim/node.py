"""One node: a process with a real core, the real driver around it, a small state machine, and the machine it runs on.

The driver runs on the event loop of the process. A thread beside the loop flushes its log. The loop stands still while
it writes quorum-state: incoming messages wait, and outgoing messages leave when quorum-state is durable. The state
machine is a list of the applied records. It leads when the core leads and it has applied the first record of its epoch.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from errno import EIO
from random import Random
from typing import Any, Final, Protocol

from kraft.raft.config import RaftConfig
from kraft.raft.events import Event
from kraft.raft.messages import Message, Request, Response
from kraft.raft.raft import Raft
from kraft.raft.ready import Answer, HardState, Leadership, OutgoingRequest
from kraft.raft.records import ControlRecord, KRaftVersion, Voters
from kraft.raft.replica import Ports
from kraft.raft.roles import Leader
from kraft.raft.transitions import Role
from kraft.raft.types import NOBODY, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import Assignment
from kraft.runtime.quorum.raft_driver import RaftDriver
from kraft.testing.sim.batches import Batch, Contents, Value, next_chain
from kraft.testing.sim.chance import below, happens
from kraft.testing.sim.clock import Clock
from kraft.testing.sim.disk import Disk, DiskError
from kraft.testing.sim.event_loop import EventLoop
from kraft.testing.sim.flusher import Flusher
from kraft.testing.sim.log import DamagedLogError, SimLog
from kraft.testing.sim.loop import Loop
from kraft.testing.sim.network import Envelope, Network
from kraft.testing.sim.options import MILLISECOND, Options
from kraft.testing.sim.peer_sender import PeerSender
from kraft.testing.sim.snapshots import SimSnapshots, SnapshotContents, drawn_size
from kraft.testing.sim.violation import ViolationError
from kraft_native.base.errors import CorruptFileError, UnsupportedVersionError

TICKS_MAX: Final = 50
"""Limit of consecutive wake-ups after which the core still has something due. More than that is a busy loop."""

LEAVE_SECONDS: Final = 2.0
"""Time for which a node that stops waits until the others know that."""

LEARNS_LATE_ODDS: Final = 4
"""One flush out of this many is reported to the loop late."""

KEEPS_ITERATION_ODDS: Final = 4
"""Odds, one in this many, that an iteration of the loop lasts longer, where iterations take time."""


class Moment(StrEnum):
    """Moments at which a crash does most harm."""

    SAVES = "quorum-state is being written"
    FLUSHES = "the log is being flushed"
    LEADS = "it has just won an election"


class Watcher(Protocol):
    """Observer of a run: nodes call it for everything that they do, while they do it."""

    def started(self, node: "Node") -> None: ...
    def stopped(self, node: "Node", why: str) -> None: ...
    def touched(self, node: "Node") -> None: ...
    def appended(self, node: "Node", batch: Batch) -> None: ...
    def applied(self, node: "Node", high_watermark: int) -> None: ...
    def led(self, node: "Node") -> None: ...
    def sends(self, node: "Node", request: Request) -> None: ...
    def answers(self, node: "Node", question: Message, response: Response) -> None: ...
    def receives(self, node: "Node", question: Message | None, envelope: Envelope) -> None: ...
    def traced(self, node: "Node", event: Event) -> None: ...


@dataclass(slots=True)
class Surroundings:
    """State shared by all nodes of a run."""

    loop: Loop
    options: Options
    network: Network
    contents: Contents
    snapshot_contents: SnapshotContents
    counts: Counter[str]
    watcher: Watcher


@dataclass(slots=True)
class _Process:
    """State that dies with a process. Core and driver are created last."""

    log: SimLog
    snapshots: SimSnapshots
    loop: EventLoop
    sender: PeerSender
    flusher: Flusher
    questions: dict[int, Envelope]
    raft: Raft = field(init=False)
    driver: RaftDriver = field(init=False)


class Node:
    """A node of the simulated cluster. `life` identifies a process: it grows with every start and every death.
    `is_broken`: its disk has damage that prevents every start."""

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
        """Reset everything that a new process does not know."""
        self.applied = 0
        self.state = 0
        self.saved: HardState = HardState()
        self.reported: Leadership | None = None
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
        """True while its event loop stands still."""
        return self.is_paused or self._saving is not None

    @property
    def voter_sets(self) -> tuple[Assignment, ...]:
        """Voter sets in its log, in order. For a node that is down: those at its death."""
        return self.raft.replica.history.entries if self.is_up else self._last_sets

    @property
    def key(self) -> ReplicaKey:
        return self.config.key

    # --- start and death ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a process on the contents of the disk."""
        assert not self.is_up
        self._clear()
        self.life += 1
        self.disk.repair()
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
        sender = PeerSender(self._envelope, lambda envelope: self.send(self._send_request, envelope), self.count, loop,
                            lambda: clock.now_ms)
        flusher = Flusher(log, self, lambda: self._send_request(sender.leave()))
        process = self._process = _Process(log, snapshots, loop, sender, flusher, {})
        ports = Ports(log, snapshots, self._random, lambda _now_ms, event: watcher.traced(self, event))
        process.raft = Raft(self.config, self.saved, ports, clock.now_ms)
        process.driver = RaftDriver(
            process.raft, flusher, self, write_hard_state=self._save, sender=sender, answer=self._answer,
            clock=lambda: clock.now_ms, on_failure=self._failed, loop=loop, read_event=flusher.read_event)
        watcher.started(self)
        self.enter(life, process.driver.start)

    def kill(self, *, power: bool, why: str = "killed") -> None:
        """Kill the process; with `power`, the machine loses power, too. After a failed flush power is always lost: the
        failure leaves unknown what the disk has, and only a start from the disk itself is correct."""
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
                self._around.network.break_connections(self.id, other.unanswered)

    def replace_disk(self, config: RaftConfig) -> None:
        """Replace the disk with an empty one, which has a new directory id."""
        self.move(config)
        self.disk = Disk()
        self.is_broken = False

    def move(self, config: RaftConfig) -> None:
        """Let the next start use another address."""
        assert not self.is_up
        self.config = config

    @property
    def unanswered(self) -> list[Envelope]:
        """Unanswered requests of this node."""
        assert self._process is not None
        return list(self._process.sender.unanswered.values())

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        """Resume, and process in order what arrived during the pause."""
        self.is_paused = False
        self._work_off()

    def _work_off(self) -> None:
        backlog, self._backlog = self._backlog, []
        for function, arguments in backlog:
            function(*arguments)

    def leave(self) -> None:
        """Stop gracefully: give up the leadership, and exit when the other nodes know that, or after
        `LEAVE_SECONDS`."""
        if self.is_up and not self.is_paused and not self.is_leaving:
            self.is_leaving = True
            self.enter(self.life, self._give_up, self._begin_leaving)

    def _begin_leaving(self) -> None:
        assert self._process is not None
        self._process.loop.run(self._leave())

    async def _leave(self) -> None:
        life = self.life
        await self.driver.resign(LEAVE_SECONDS)
        if life == self.life:          # otherwise the disk failed at the last moment
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
        """Handle the failure that stopped the driver."""
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
        """Run `function` on the event loop of the process, as every event of it does. Queue it while the process is
        halted."""
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
        """Run `function` in a thread beside the event loop, as every event there does. Only a pause delays it."""
        if life != self.life:
            return
        if self.is_paused:
            self._backlog.append((self.enter_thread, (life, function, *arguments)))
        else:
            function(*arguments)

    def _settle(self) -> bool:
        """End this iteration of the loop, or let it last longer, so that more happens in it. Return whether a callback
        was pending and ran."""
        process = self._process
        return process is not None and bool(process.loop.soon) and self._turn(process)

    def _turn(self, process: _Process) -> bool:
        turn_us = self._around.options.turn_us
        if turn_us and not below(self._random, KEEPS_ITERATION_ODDS):
            self._around.loop.after(below(self._random, turn_us), self.enter, self.life, process.loop.turn)
            return False
        process.loop.turn()
        return True

    def receive(self, envelope: Envelope) -> None:
        self.enter(self.life, self._receive, envelope)

    def _receive(self, envelope: Envelope) -> None:
        process = self._process
        assert process is not None
        if envelope.is_answer:
            question = process.sender.unanswered.pop(envelope.correlation, None)
            self._around.watcher.receives(self, None if question is None else question.message, envelope)
            process.sender.deliver(envelope, process.driver)
        else:
            self._around.watcher.receives(self, None, envelope)
            self._next_question += 1
            process.questions[self._next_question] = envelope
            process.driver.step(envelope.requester, self._next_question, envelope.message)

    def propose(self, value: Value) -> OffsetAndEpoch:
        """Append a value as the leader. Raises `NotLeaderError`, or `DiskError`, which has ended the process."""
        epoch = self.leads_epoch
        try:
            end_offset = self.driver.propose(value, epoch)
        except DiskError as error:
            self._die(error)
            raise
        self.enter(self.life, self.driver.wake)
        return OffsetAndEpoch(end_offset, epoch)

    def _on_time(self, callback: Callable[[], object]) -> None:
        """Call a timer of the driver, and check that the core does not spin."""
        raft = self.raft
        callback()
        self._ticks = self._ticks + 1 if raft.deadline_ms <= self.clock.now_ms else 0
        if self._ticks > TICKS_MAX:
            raise ViolationError("NoBusyLoop", f"node {self} is woken {self._ticks} times and has something to do "
                                               f"still as {raft.replica.role.role}")

    def wake(self) -> None:
        """Notice the timers that are due after a jump of the clock."""
        if self._process is not None:
            self._process.loop.clock_jumped()

    # --- actions of the driver ---------------------------------------------------------------------------------------

    def _save(self, state: HardState) -> None:
        """Write quorum-state; the loop stands still until it is durable. Only a death can happen in that time. So the
        driver's next actions happen now, and the messages that they send leave when the file is durable."""
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
            if self.life == life:      # a process may end with the last message that it had to send
                function(*arguments)

    def send(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function that sends a message, at once or when the quorum-state that the message refers to is
        durable."""
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

    def _envelope(self, outgoing: OutgoingRequest, number: int) -> Envelope:
        target = outgoing.node_id if outgoing.address is None else self._around.network.at(outgoing.address)
        return Envelope(self.id, self.life, target, outgoing.node_id, number, outgoing.request, is_answer=False)

    def _send_request(self, envelope: Envelope) -> None:
        assert self._process is not None
        request = envelope.message
        assert isinstance(request, Request)
        self._around.watcher.sends(self, request)
        self._process.sender.unanswered[envelope.correlation] = envelope
        self._around.network.send_request(envelope, request)

    def begin_flush(self, ended: Callable[[], None]) -> None:
        """See `Host`."""
        self._meet(Moment.FLUSHES)
        self._around.loop.after(self.flush_us(), self.enter_thread, self.life, ended)

    def notify_loop(self) -> None:
        """See `Host`. When the report is late, the answer to a message that left with the flush may arrive first."""
        options = self._around.options
        if below(self._random, LEARNS_LATE_ODDS):
            self.enter(self.life, self._learn_of_flushes)
        else:
            late_us = 1 + 2 * (options.delay_ms + options.jitter_ms) * MILLISECOND
            self._around.loop.after(below(self._random, late_us), self.enter, self.life, self._learn_of_flushes)

    def _learn_of_flushes(self) -> None:
        process = self._process
        assert process is not None
        if process.flusher.is_readable and process.loop.reader is not None:
            process.loop.reader()

    def _meet(self, moment: Moment) -> None:
        """Start a fault that waits for this moment. It strikes a little later, and the moment need not be over then."""
        strike = self.at_next.pop(moment, None)
        if strike is not None:
            self._around.loop.after(1 + self._random.randrange(self._around.options.flush_us), strike)

    def flush_us(self) -> int:
        options = self._around.options
        spread = options.flush_us // 2 + below(self._random, options.flush_us + 1)
        if happens(self._random, options.slow_flush_per_mille):
            self.count("flush slow")
            spread += self._random.randrange(options.slow_flush_ms * MILLISECOND)
        return spread

    # --- the state machine -------------------------------------------------------------------------------------------

    def committed(self, end_offset: int) -> None:
        """Apply what is committed, and acknowledge the values proposed here."""
        self._around.watcher.applied(self, end_offset)
        self._apply(end_offset)
        self._maybe_snapshot()
        self._take_role()

    def leadership(self, leadership: Leadership) -> None:
        self.reported = leadership
        if leadership.role is Role.LEADER:
            self._meet(Moment.LEADS)
        self._take_role()

    def _take_role(self) -> None:
        reported = self.reported
        if reported is None or reported.role is not Role.LEADER:
            self.leads_epoch = NOBODY
        elif self.applied > reported.epoch_start and self.leads_epoch != reported.epoch:
            self.leads_epoch = reported.epoch
            self._around.watcher.led(self)

    def _apply(self, high_watermark: int) -> None:
        for batch in self.log.between(self.applied, high_watermark):
            self.state = next_chain(self.state, batch.data)
        self.applied = high_watermark

    def _load(self, snapshot: OffsetAndEpoch) -> None:
        self.applied, self.state = snapshot.offset, self.disk.snapshots[snapshot].chain

    def installed(self, snapshot: OffsetAndEpoch) -> None:
        if self.reported is not None and self.reported.role is Role.LEADER:
            raise ViolationError("LeaderNeverLoadSnapshot", f"leader {self} is to load {snapshot}")
        self.count("snapshot installed")
        self._load(snapshot)

    @property
    def owes_snapshot(self) -> bool:
        """True when enough was applied since the last snapshot and none is being written."""
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
            self._maybe_snapshot()  # enough for another one may have been applied while this one was written

        self._around.loop.after(self.flush_us() * 3, self.enter, self.life, written)
