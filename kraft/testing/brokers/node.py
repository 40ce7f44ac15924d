"""A process of the cluster: a voter or observer of the quorum, the metadata machine on it, and perhaps a broker."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from uuid import UUID

from kraft.controller.config_rules import TableRules
from kraft.controller.decision import ControllerSettings
from kraft.controller.sessions import NEVER_MS
from kraft.metadata.image import MetadataImage
from kraft.metadata.snapshot import Record
from kraft.metadata.versions import ELR_VERSION, LATEST, SUPPORTED, default_features
from kraft.protocol.message import Message
from kraft.protocol.messages.feature_level_record import FeatureLevelRecord
from kraft.raft.config import RaftConfig
from kraft.raft.ready import Leadership
from kraft.raft.transitions import Role
from kraft.raft.types import NOBODY, OffsetAndEpoch
from kraft.testing.brokers.broker import Broker
from kraft.testing.brokers.log import BrokerDisk
from kraft.testing.brokers.machine import SimMachine, image_of_snapshot
from kraft.testing.brokers.messages import NotController, ToController
from kraft.testing.brokers.partition import Judge, Partition
from kraft.testing.brokers.wire import Answered, Connection, Reply, Wire
from kraft.testing.sim.batches import Payloads
from kraft.testing.sim.clock import Clock
from kraft.testing.sim.cluster import CLUSTER_ID
from kraft.testing.sim.disk import DiskError
from kraft.testing.sim.node import Node, Surroundings
from kraft.testing.sim.options import MILLISECOND, Options

LEAVE_MS: Final = 5000


class BrokerJudge(Judge):
    """Is told of acknowledgements, too."""

    def acknowledges(self, partition: Partition, leader_epoch: int, end_offset: int) -> None: ...


@dataclass(slots=True)
class BrokerSurroundings(Surroundings):
    """`images`: of every snapshot that was made, by the chain of the log it stands for. `look(node)` after events."""

    wire: Wire
    judge: BrokerJudge
    images: dict[int, MetadataImage]
    look: "Callable[[BrokerNode], None]"


class BrokerNode(Node):
    """`has_broker` as its roles say; `broker` while it runs as one."""

    _around: BrokerSurroundings

    def __init__(self, config: RaftConfig, surroundings: BrokerSurroundings, random: Random, clock: Clock, *,
                 has_broker: bool) -> None:
        self.has_broker = has_broker
        self.broker_disk = BrokerDisk()
        self.rules = TableRules({})
        options = surroundings.options
        features = default_features(LATEST.level)
        if not options.elr:
            features.pop(ELR_VERSION, None)
        self.settings = ControllerSettings(
            node_id=config.node_id, cluster_id=CLUSTER_ID,
            bootstrap=tuple(Record(FeatureLevelRecord(name=name, feature_level=level))
                            for name, level in features.items()),
            broker_session_timeout_ms=options.session_ms, idle_interval_ms=options.idle_ms,
            min_insync_replicas=str(options.min_insync), features=SUPPORTED)
        super().__init__(config, surroundings, random, clock)

    def _clear(self) -> None:
        super()._clear()
        self._machine: SimMachine | None = None
        self._loaded: MetadataImage | None = None
        self.broker: Broker | None = None
        self._has_appended = False
        self._act_token = 0
        self._act_at_us = -1

    # --- what it is made of -------------------------------------------------------------------------------------------

    @property
    def options(self) -> Options:
        return self._around.options

    @property
    def judge(self) -> BrokerJudge:
        return self._around.judge

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms

    @property
    def machine(self) -> SimMachine:
        if self._machine is None:
            self._machine = SimMachine(self, self._loaded)
            self._machine.on_change = self._leader_changed
        return self._machine

    def new_id(self) -> UUID:
        return UUID(int=self._random.getrandbits(127) | 1 << 127)

    def count(self, name: str) -> None:
        self._around.counts[name] += 1

    def flush_us(self) -> int:
        return self._flush_us()

    # --- life and death -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        super().start()
        if self.is_up and self.has_broker:
            disk = self.broker_disk
            disk.reopen()
            previous_epoch, disk.clean_epoch = disk.clean_epoch, -1
            self.broker = Broker(self, self.new_id(), previous_epoch)
            self.later(2, self.broker.start)       # the core's own first event comes before

    def kill(self, *, power: bool, why: str = "killed") -> None:
        was_up = self.is_up
        super().kill(power=power, why=why)
        if was_up:
            self.broker = None
            if power:
                self._around.counts["batches lost"] += self.broker_disk.lose_power(self._random)
            self._around.wire.died(self, power=power)

    def resume(self) -> None:
        """The timers that are due are noticed before what came meanwhile."""
        self._backlog.insert(0, (self._catch_up, (self.life,)))
        super().resume()

    def _catch_up(self, life: int) -> None:
        if life == self.life and self.is_up:
            self.raft.tick(self.now_ms)
            self._pump()

    def stop(self) -> None:
        """A clean stop: the broker asks to be let go, then the node leaves the quorum."""
        if not self.is_up or self.is_paused or self.is_leaving:
            return
        if self.broker is None:
            self.leave()
            return
        self.count("controlled shutdown")
        self.hear(self.broker.stop)
        self.later(LEAVE_MS, self.broker_left)

    def broker_left(self) -> None:
        """The broker was let go, or has waited long enough: its logs are closed with the mark of a clean stop."""
        broker, self.broker = self.broker, None
        if broker is not None:
            self.broker_disk.flush()
            self.broker_disk.clean_epoch = broker.epoch if broker.is_open else broker.previous_epoch
            self.later(0, self.leave)
            self.later(2 * self.options.fetch_timeout_ms, self._gone)

    def _gone(self) -> None:
        self.kill(power=False, why="left late")

    # --- events -------------------------------------------------------------------------------------------------------

    def hear(self, function: Callable[..., None], *arguments: object) -> None:
        self._happen(self.life, function, arguments)

    def later(self, delay_ms: int, function: Callable[..., None], *arguments: Any) -> None:
        """Calls back in this life, when its clock has gone on so far."""
        self._around.loop.at(self.clock.at_us(self.now_ms + delay_ms), self._happen, self.life, function, arguments)

    def later_us(self, delay_us: int, function: Callable[..., None], *arguments: Any) -> None:
        self._around.loop.after(delay_us, self._happen, self.life, function, arguments)

    def _happen(self, life: int, function: Callable[..., None], arguments: tuple[object, ...]) -> None:
        """Every event that is none of the core's comes through here."""
        if life != self.life or not self.is_up:
            return
        if self.is_paused:
            self._backlog.append((self._happen, (life, function, arguments)))
            return
        try:
            function(*arguments)
            self._settle()
        except DiskError as error:
            self._die(error)
        if self.is_up:
            self._around.look(self)

    def _pump(self) -> None:
        super()._pump()
        self._settle()

    def _settle(self) -> None:
        """Whatever follows, until nothing does."""
        while self.is_up:
            if self.broker is not None:
                self.broker.after_event()
            if not self._has_appended:
                break
            self._has_appended = False
            super()._pump()
        self._arm_act()

    def _act(self, token: int) -> None:
        if token != self._act_token:
            return
        self._act_at_us = -1
        if self.is_controller:
            self.machine.tick()
        if self.broker is not None:
            self.broker.tick()

    def _arm_act(self) -> None:
        if not self.is_up:
            return
        deadline_ms = self.machine.deadline_ms
        if self.broker is not None:
            deadline_ms = min(deadline_ms, self.broker.deadline_ms)
        if deadline_ms >= NEVER_MS:
            return
        loop = self._around.loop
        # A deadline that has passed and is not worked off is one that waits for something else.
        at_us = max(self.clock.at_us(deadline_ms), loop.now_us + MILLISECOND)
        if self._act_at_us < 0 or at_us < self._act_at_us:
            self._act_token += 1
            self._act_at_us = at_us
            loop.at(at_us, self._happen, self.life, self._act, (self._act_token,))

    def wake(self) -> None:
        self._act_at_us = -1
        super().wake()
        self._arm_act()

    # --- the metadata log ---------------------------------------------------------------------------------------------

    @property
    def is_controller(self) -> bool:
        """Whether its controller is active, and the core leads still in that epoch."""
        self._sync()
        return self.is_up and self.machine.controller.active

    def _sync(self) -> None:
        """The core may have given up the leadership and be saving that: the machine must not decide meanwhile."""
        machine = self.machine
        if self.is_up and machine.leads:
            leadership = self.raft.leadership
            if leadership.role is not Role.LEADER or leadership.epoch != machine.leader_epoch:
                machine.led(leadership.epoch, -1, leads=False)

    def append(self, payloads: Payloads, epoch: int) -> int:
        """Appends records as the leader of that epoch; gives the log end."""
        end = self.raft.propose(payloads, self.clock.now_ms, epoch)
        self._has_appended = True
        return end.offset

    def _advance(self, high_watermark: int | None, leadership: Leadership | None) -> None:
        self._sync()
        ends = self.machine.leads
        if ends and leadership is not None:
            self._tell_leadership(leadership)
        super()._advance(high_watermark, leadership)
        if not ends and leadership is not None:
            self._tell_leadership(leadership)

    def _tell_leadership(self, leadership: Leadership) -> None:
        now = self.raft.leadership
        if leadership.role is not Role.LEADER or (now.role is Role.LEADER and now.epoch == leadership.epoch):
            self.machine.told(leadership)
        self._leader_changed()

    def _leader_changed(self) -> None:
        if self.broker is not None and self.is_up:
            self.later_us(0, self.broker.own.changed)

    def _apply(self, high_watermark: int) -> None:
        super()._apply(high_watermark)
        self.machine.committed(high_watermark)

    def _load(self, snapshot: OffsetAndEpoch) -> None:
        super()._load(snapshot)
        image = self._around.images.get(self.state) if snapshot.offset else None
        self._loaded = None if image is None else image_of_snapshot(image, snapshot)
        if self._machine is not None:
            self._machine.begin_anew(self._loaded)

    def _maybe_snapshot(self) -> None:
        if self.owes_snapshot:
            self._around.images[self.state] = self.machine.image
        super()._maybe_snapshot()

    @property
    def owes_snapshot(self) -> bool:
        return super().owes_snapshot and not self.machine.in_transaction

    # --- requests -----------------------------------------------------------------------------------------------------

    @property
    def controller_id(self) -> int:
        """Whom it holds for the active controller, another than itself; -1: nobody is known."""
        leader_id = self.raft.replica.leader_id
        return NOBODY if leader_id == self.id else leader_id

    def decides(self, request: Message, version: int, answer: Callable[[Message], None]) -> bool:
        if not self.is_controller:
            return False
        self.count("requests decided")
        self.machine.submit(request, version, self.now_ms, answer)
        return True

    def connect(self, target_id: int, lane: str, body: object, answered: Answered) -> Connection | None:
        return self._around.wire.ask(self, target_id, lane, body, answered)

    def serve(self, body: object, source_id: int, reply: Reply) -> None:
        if isinstance(body, ToController):
            if not self.decides(body.request, body.version, reply):
                reply(NotController())
        elif self.broker is not None:
            self.broker.serve(body, source_id, reply)

    def acknowledges(self, partition: Partition, leader_epoch: int, end_offset: int) -> None:
        self._around.judge.acknowledges(partition, leader_epoch, end_offset)
