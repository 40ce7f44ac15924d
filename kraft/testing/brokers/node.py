"""A process of the cluster: a voter or observer of the quorum, the metadata machine on it, and perhaps a broker."""

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final
from uuid import UUID

from kraft.controller.config_rules import TableRules
from kraft.controller.decision import STEP, ControllerSettings, Fencing, Steps
from kraft.controller.sessions import Doubt, Found
from kraft.deadlines import NEVER_MS
from kraft.metadata.image import BrokerRegistration, MetadataImage
from kraft.metadata.snapshot import Record
from kraft.metadata.versions import ELR_VERSION, LATEST, SUPPORTED, TRANSACTION_VERSION, default_features
from kraft.protocol.message import Message
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.feature_level_record import FeatureLevelRecord
from kraft.raft.config import RaftConfig
from kraft.raft.errors import NotLeaderError
from kraft.raft.ready import Leadership
from kraft.raft.types import NOBODY, OffsetAndEpoch
from kraft.runtime.net.broker_connections import PROBE_SECONDS, BrokerConnections
from kraft.testing.brokers.broker import Broker
from kraft.testing.brokers.disk import BrokerDisk, ChainBefore, Storage
from kraft.testing.brokers.log_view import WALL_MS
from kraft.testing.brokers.machine import SimMachine, image_of_snapshot
from kraft.testing.brokers.messages import NotController, ToController
from kraft.testing.brokers.replica import Judge, Replica
from kraft.testing.brokers.wire import Answered, Connection, Reply, Wire
from kraft.testing.sim.batches import Payloads
from kraft.testing.sim.clock import Clock
from kraft.testing.sim.cluster import CLUSTER_ID
from kraft.testing.sim.disk import DiskError
from kraft.testing.sim.node import Node, Surroundings
from kraft.testing.sim.options import MILLISECOND, SECOND, Options
from kraft.testing.sim.violation import ViolationError
from kraft_native.base.clock import simulate as set_compiled_clock

LEAVE_MS: Final = 5000
REFUSED_US: Final = 2 * SECOND
"""Maximum time between a refused connection and the fencing that it proves."""


def _snapshot_steps(image: MetadataImage | None) -> Generator[None, None, MetadataImage | None]:
    """Steps of a snapshot that is read already."""
    yield from ()
    return image


class BrokerJudge(Judge):
    """A judge that also receives acknowledgements."""

    def acknowledges(self, replica: Replica, leader_epoch: int | None, end_offset: int) -> None: ...


@dataclass(slots=True)
class BrokerSurroundings(Surroundings):
    """Surroundings of a node with brokers.

    `images`: the image of each snapshot that was created, by the chain of the log that it replaces. `look(node)` is
    called after events. `storage` and `chain_before`: see `BrokerDisk`.
    """

    wire: Wire
    judge: BrokerJudge
    images: dict[int, MetadataImage]
    look: "Callable[[BrokerNode], None]"
    storage: Storage
    chain_before: ChainBefore


class BrokerNode(Node):
    """A process of the cluster. `has_broker`: its roles include broker. `broker` is set while it runs as one."""

    def __init__(self, config: RaftConfig, surroundings: BrokerSurroundings, random: Random, clock: Clock, *,
                 has_broker: bool) -> None:
        self.has_broker = has_broker
        self._brokers = surroundings
        self.broker_disk = BrokerDisk(
            config.node_id, surroundings.options.directories, surroundings.storage, surroundings.chain_before)
        self.rules = TableRules({})
        options = surroundings.options
        features = default_features(LATEST.level)
        if not options.elr:
            features.pop(ELR_VERSION, None)
        if options.transactions:
            features.pop(TRANSACTION_VERSION, None)
            if options.transaction_version:
                features[TRANSACTION_VERSION] = options.transaction_version
        self.settings = ControllerSettings(
            node_id=config.node_id, cluster_id=CLUSTER_ID,
            bootstrap=tuple(Record(FeatureLevelRecord(name=name, feature_level=level))
                            for name, level in features.items()),
            broker_session_timeout_ms=options.session_ms, disconnect_grace_ms=options.grace_ms,
            idle_interval_ms=options.idle_ms, step=1 if options.step_us else STEP,
            min_insync_replicas=str(options.min_insync), features=SUPPORTED)
        super().__init__(config, surroundings, random, clock)

    def _clear(self) -> None:
        super()._clear()
        self._machine: SimMachine | None = None
        self._work: deque[Steps] = deque()
        self._loaded: MetadataImage | None = None
        self._connections: BrokerConnections[Connection] | None = None
        self.broker: Broker | None = None
        self._act_token = 0
        self._act_at_us = -1
        self._act_deadline_ms = NEVER_MS

    # --- parts --------------------------------------------------------------------------------------------------------

    @property
    def options(self) -> Options:
        return self._around.options

    @property
    def judge(self) -> BrokerJudge:
        return self._brokers.judge

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms

    @property
    def wall_ms(self) -> int:
        """Wall clock of the node, in milliseconds since 1970."""
        return WALL_MS + self.clock.passed_us // 1000

    @property
    def machine(self) -> SimMachine:
        if self._machine is None:
            self._machine = SimMachine(self, self._loaded)
            self._machine.on_change = self._leader_changed
            self._machine.on_fencing = self._fences
            if self.options.step_us:
                self._machine.run_steps = lambda _key, steps: self._in_steps(steps)
                self._machine.run_replay = self._in_steps
            if self.options.grace_ms:
                self._machine.on_probe = self._probe
                self._connections = BrokerConnections(self._machine, self._brokers.wire)
        return self._machine

    def random_of(self, name: str) -> Random:
        """Return a generator of its own for a part of this process."""
        return Random(f"{self.new_id()}/{name}")

    def new_id(self) -> UUID:
        return UUID(int=self._random.getrandbits(127) | 1 << 127)

    # --- life and death -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        super().start()
        if self.is_up and self.has_broker:
            self._set_clock()
            self.broker = Broker(self, self.new_id(), self.broker_disk.reopen())
            self.later(2, self.broker.start)       # after the core's own first event

    def kill(self, *, power: bool, why: str = "killed") -> None:
        was_up = self.is_up
        super().kill(power=power, why=why)
        if was_up:
            if self.broker is not None:
                self.broker.observe()
                self.broker.end_loop()
            self.broker = None
            self.broker_disk.crash()
            if power:
                self._around.counts["batches lost"] += self.broker_disk.lose_power(self._random)
            self._brokers.wire.died(self, power=power)

    def resume(self) -> None:
        """Resume the process. Timers that are due fire before the events that arrived during the pause."""
        assert self._process is not None
        self._backlog.insert(0, (self.enter, (self.life, self._process.loop.fire)))
        super().resume()

    def stop(self) -> None:
        """Stop cleanly: the broker requests a controlled shutdown, then the node leaves the quorum."""
        if not self.is_up or self.is_paused or self.is_leaving:
            return
        if self.broker is None:
            self.leave()
            return
        self.count("controlled shutdown")
        self.call(self.broker.stop)
        self.later(LEAVE_MS, self.broker_left)

    def fail_directory(self, directory: UUID) -> None:
        """Fail a log directory. The broker notices it by a failed access."""
        if self.broker is not None:
            self.call(self.broker.lose_directory, directory)

    def broker_left(self) -> None:
        """Close the logs with the mark of a clean stop. The controller has released the broker, or the broker has
        waited long enough."""
        broker, self.broker = self.broker, None
        if broker is not None:
            broker.close()
            self.broker_disk.close(broker.epoch if broker.is_open else broker.previous_epoch)
            self.later(0, self.leave)
            self.later(2 * self.options.fetch_timeout_ms, self._removed)

    def _removed(self) -> None:
        self.kill(power=False, why="left late")

    # --- events -------------------------------------------------------------------------------------------------------

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        self._happen(self.life, function, arguments)

    def later(self, delay_ms: int, function: Callable[..., None], *arguments: Any) -> None:
        """Call back in this life, after `delay_ms` on its own clock."""
        self._around.loop.at(self.clock.at_us(self.now_ms + delay_ms), self._happen, self.life, function, arguments)

    def later_us(self, delay_us: int, function: Callable[..., None], *arguments: Any) -> None:
        self._around.loop.after(delay_us, self._happen, self.life, function, arguments)

    def _set_clock(self) -> None:
        """Set the clocks of compiled code to that of this node: it handles an event."""
        clock, broker = self.clock, self.broker
        now_us = clock.now_us
        set_compiled_clock(now_us * 1000, WALL_MS + (now_us - clock.first_us) // 1000)
        if broker is not None and broker.coordinators is not None:
            broker.coordinators.loop.enter()

    def enter(self, life: int, function: Callable[..., None], *arguments: Any) -> None:
        self._set_clock()
        super().enter(life, function, *arguments)

    def _happen(self, life: int, function: Callable[..., None], arguments: tuple[object, ...]) -> None:
        """Handle an event that does not belong to the core. All of them pass through here."""
        if life != self.life or not self.is_up:
            return
        if self.is_paused or self._saving is not None:
            self._backlog.append((self._happen, (life, function, arguments)))
            return
        self._set_clock()
        try:
            function(*arguments)
            self._settle()
        except DiskError as error:
            self._die(error)
        if self.is_up:
            self._brokers.look(self)

    def _settle(self) -> bool:
        """Process everything that follows from the event, until nothing is left."""
        process = self._process
        is_done = process is None or not process.loop.soon or not self._turn(process)
        while self.is_up and (broker := self.broker) is not None:
            broker.after_event()
            process = self._process
            is_done = process is None or not process.loop.soon or not self._turn(process)
            if is_done:
                break
        if self.is_up:
            self._arm_act()
        return not is_done

    def _act(self, token: int) -> None:
        if token != self._act_token:
            return
        self._act_at_us = -1
        if self.is_controller:
            self.machine.tick()
        if self.broker is not None:
            self.broker.tick()

    def _arm_act(self) -> None:
        machine, broker = self._machine or self.machine, self.broker
        deadline_ms = machine.deadline_ms
        if broker is not None and (own_ms := broker.deadline_ms) < deadline_ms:
            deadline_ms = own_ms
        if deadline_ms == self._act_deadline_ms and self._act_at_us >= 0:
            return                     # considered already
        if deadline_ms >= NEVER_MS:
            return
        self._act_deadline_ms = deadline_ms
        loop = self._around.loop
        # A deadline that has passed and is still set waits for something else.
        at_us = max(self.clock.at_us(deadline_ms), loop.now_us + MILLISECOND)
        if self._act_at_us < 0 or at_us < self._act_at_us:
            self._act_token += 1
            self._act_at_us = at_us
            loop.at(at_us, self._happen, self.life, self._act, (self._act_token,))

    def wake(self) -> None:
        self._act_at_us = -1
        super().wake()
        if self.is_up:
            self._arm_act()

    # --- the metadata log ---------------------------------------------------------------------------------------------

    @property
    def is_controller(self) -> bool:
        """True while its controller is active. The driver reports the end of the core's leadership at once."""
        return self.is_up and self.machine.controller.active

    def append(self, payloads: Payloads, epoch: int) -> int:
        """Append records as the leader of that epoch; return the log end."""
        try:
            return self.driver.propose(payloads, epoch)
        except NotLeaderError as error:
            raise ViolationError("ProposesAsLeader", f"{self} proposes in epoch {epoch}: {error}") from error

    def _in_steps(self, steps: Steps) -> None:
        """Model of `runtime.base.time_slices.WorkQueue` on a slow processor: anything may happen between two steps."""
        self._work.append(steps)
        if len(self._work) == 1:
            self._step_later()

    def _step_later(self) -> None:
        self.later_us(self._random.randrange(1, 1 + self.options.step_us), self._step)

    def _step(self) -> None:
        if next(self._work[0], True) is True:
            self._work.popleft()
        if self._work:
            self._step_later()
        self._maybe_snapshot()

    def leadership(self, leadership: Leadership) -> None:
        super().leadership(leadership)
        self.machine.leadership_changed(leadership)
        self._leader_changed()
        self._maybe_snapshot()         # a controller that ended had an image without the last records, perhaps

    def _leader_changed(self) -> None:
        if self.broker is not None and self.is_up:
            self.later_us(0, self.broker.controller_changed)

    def _apply(self, high_watermark: int) -> None:
        super()._apply(high_watermark)
        self.machine.committed(high_watermark)

    def _load(self, snapshot: OffsetAndEpoch) -> None:
        super()._load(snapshot)
        image = self._brokers.images.get(self.state) if snapshot.offset else None
        self._loaded = None if image is None else image_of_snapshot(image, snapshot)
        if self._machine is not None:
            self._machine.load(_snapshot_steps(self._loaded))

    def _maybe_snapshot(self) -> None:
        if self.owes_snapshot:
            self._brokers.images[self.state] = self.machine.image
        super()._maybe_snapshot()

    @property
    def owes_snapshot(self) -> bool:
        """See `Node`. A snapshot ends where the image does. The image of an active controller may lack records of the
        quorum at the end of the log. A snapshot of these would trim the log above the image."""
        machine = self.machine
        return (super().owes_snapshot and not machine.in_transaction and not machine.is_behind
                and machine.image.offset + 1 == self.applied)

    # --- brokers that may be offline ----------------------------------------------------------------------------------

    def _broker_node(self, broker_id: int) -> "BrokerNode":
        node = self._brokers.wire.processes[broker_id]
        assert isinstance(node, BrokerNode)
        return node

    @property
    def wire(self) -> Wire:
        return self._brokers.wire

    def runs(self, broker_id: int) -> bool:
        """Return whether a process of that broker runs, paused or not."""
        return self._broker_node(broker_id).broker is not None

    def probe(self, broker: BrokerRegistration, report: Callable[[Found], None]) -> None:
        """Model of `runtime.net.broker_connections.probe`. A paused process accepts, because its operating system does
        that."""
        self.wire.probe(
            self, broker.broker_id, int(PROBE_SECONDS * SECOND), lambda: self.runs(broker.broker_id), report)

    def _probe(self, broker: BrokerRegistration) -> None:
        self.probe(broker, partial(self._probed, broker))

    def _probed(self, broker: BrokerRegistration, found: Found) -> None:
        self.count(f"broker probed: {found.name}")
        self.machine.broker_probed(broker.broker_id, broker.epoch, found)

    def _fences(self, fencing: Fencing, _now_ms: int) -> None:
        """Check NoFencingWithoutProof.

        A broker that has not contacted a new controller yet and does not answer may still live. A refused connection
        counts as proof that it has ended.
        """
        broker = self._broker_node(fencing.broker_id).broker
        if broker is None or not broker.local.is_own(self.machine.controller.decided.brokers[fencing.broker_id]):
            return
        if fencing.because.startswith(Doubt.CLOSED.value):
            self.count("live broker taken for dead")
        refused = self.wire.refused_since(self.id, fencing.broker_id, self.wire.now_us - REFUSED_US)
        if fencing.because.startswith(Doubt.NO_CONTACT.value) and not refused:
            raise ViolationError("NoFencingWithoutProof", f"{self} fences broker {fencing.broker_id}, which runs: "
                                                          f"{fencing.because}")

    # --- requests -----------------------------------------------------------------------------------------------------

    @property
    def controller_id(self) -> int:
        """Id of the node that it believes to be the active controller; -1 when none is known or it leads itself."""
        leader_id = self.raft.replica.leader_id
        return NOBODY if leader_id == self.id else leader_id

    def decides(self, request: Message, version: int, answer: Callable[[Message], None]) -> bool:
        if not self.is_controller:
            return False
        self.count("requests decided")
        self.machine.submit(request, version, self.now_ms, answer)
        return True

    def connect(self, target_id: int, lane: str, body: object, answered: Answered) -> Connection | None:
        return self._brokers.wire.request(self, target_id, lane, body, answered)

    def serve(self, body: object, source_id: int, reply: Reply) -> None:
        if isinstance(body, ToController):
            if self._connections is not None and isinstance(body.request, BrokerHeartbeatRequest):
                self._connections.note_heartbeat(reply.connection, body.request)
            if not self.decides(body.request, body.version, reply):
                reply(NotController())
        elif self.broker is not None:
            self.broker.serve(body, source_id, reply)
