"""One broker process.

Real code: its life cycle (`LocalBroker`), the effect of metadata on its replicas (`replica_plan`, `replica_roles`), its
in-sync replicas (`IsrKeeper`). Models: partitions, fetchers, the channel, and the sockets and timers that
`kraft.runtime` puts around them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from kraft.broker import replica_plan
from kraft.broker.directory_assignments import NEVER_MS, DirectoryAssignments
from kraft.broker.isr import IsrKeeper, Key
from kraft.broker.replica_plan import Action, Step
from kraft.broker.replica_roles import ReplicaRoles
from kraft.controller.decision import MIN_INSYNC_REPLICAS
from kraft.controller.local_broker import LocalBroker, State
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import CLUSTER_DEFAULT, MetadataImage, PartitionRegistration
from kraft.metadata.versions import SUPPORTED
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest
from kraft.protocol.messages.alter_partition_response import AlterPartitionResponse
from kraft.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from kraft.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from kraft.testing.brokers.channel import Channel
from kraft.testing.brokers.fetcher import Fetcher
from kraft.testing.brokers.leaders import Leaders
from kraft.testing.brokers.log import ReplicaLog
from kraft.testing.brokers.messages import (
    Bounds,
    BoundsAre,
    Check,
    Fetch,
    Fetched,
    FetchedPart,
    Produce,
    Produced,
    Running,
)
from kraft.testing.brokers.partition import GROUP_COMMIT, PENDING, PER_APPEND, Judge, Partition
from kraft.testing.brokers.wire import Answered, Reply
from kraft.testing.sim.cluster import CLUSTER_ID

if TYPE_CHECKING:
    from kraft.testing.brokers.node import BrokerNode

ALTER_PARTITION_VERSION: Final = 3
ASSIGN_VERSION: Final = 0
GATHER_MS: Final = 20
CHECKPOINT_MS: Final = 700
WRITEBACK_MS: Final = 1500


class _Parked(NamedTuple):
    """A Fetch that is held back until there is something new to return."""

    number: int
    source_id: int
    fetch: Fetch
    reply: Reply


class _Unacknowledged(NamedTuple):
    partition: Partition
    leader_epoch: int
    end_offset: int
    reply: Reply


class Broker:
    """A broker process. `is_open`: it is registered and has its replicas. The node delivers events, then calls
    `after_event`."""

    def __init__(self, node: "BrokerNode", incarnation_id: UUID, previous_epoch: int) -> None:
        options = node.options
        self.node = node
        self.id = node.id
        self.incarnation_id = incarnation_id
        self.previous_epoch = previous_epoch
        self.disk = node.broker_disk
        self._assignments = DirectoryAssignments(node.id, self._assign)
        self.table: dict[tuple[str, int], Partition] = {}
        self._by_key: dict[Key, Partition] = {}
        self.keeper = IsrKeeper(node.id, self._alter_partition, self._epoch_of)
        self.roles: ReplicaRoles[Partition] = ReplicaRoles(node.id, self.keeper, self)
        self.own = Channel(node, options.session_ms, self._heartbeat_now)
        self.local = LocalBroker(self, BrokerRegistrationRequest(
            broker_id=node.id, cluster_id=CLUSTER_ID, incarnation_id=incarnation_id,
            listeners=[Listener(name="PLAINTEXT", host=f"10.1.0.{node.id}", port=node.id, security_protocol=0)],
            features=[Feature(name=name, min_supported_version=low, max_supported_version=high)
                      for name, (low, high) in SUPPORTED.items()],
            rack=None, log_dirs=self.disk.online, previous_broker_epoch=previous_epoch),
            max(50, options.session_ms // 4))
        self.is_open = False
        self.leaders = Leaders(node)
        self._fetchers: dict[int, Fetcher] = {}
        self._parked: list[_Parked] = []
        self._parked_count = 0
        self._reported: dict[tuple[int, Key], tuple[int, int]] = {}
        self._unacknowledged: list[_Unacknowledged] = []
        self._dirty: dict[Key, None] = {}
        self._is_flushing = False

    def start(self) -> None:
        self.local.start(self.now_ms)
        self.later(CHECKPOINT_MS, self._checkpoint)

    # --- parts --------------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.node.now_ms

    @property
    def image(self) -> MetadataImage:
        return self.node.machine.image

    @property
    def epoch(self) -> int:
        """Broker epoch of this process's registration in the metadata."""
        registration = self.image.brokers.get(self.id)
        return -1 if registration is None or not self.local.is_own(registration) else registration.epoch

    @property
    def durability(self) -> int:
        return self.node.options.durability

    @property
    def fetch_batches_max(self) -> int:
        return self.node.options.fetch_batches

    @property
    def judge(self) -> Judge:
        return self.node.judge

    @property
    def following(self) -> dict[Key, tuple[int, Partition]]:
        return self.roles.following

    def later(self, delay_ms: int, function: Callable[..., None], *arguments: Any) -> None:
        self.node.later(delay_ms, function, *arguments)

    def send_to_peer(self, target_id: int, lane: str, body: object, answered: Answered) -> None:
        self.node.connect(target_id, lane, body, answered)

    def count(self, name: str) -> None:
        self.node.count(name)

    # --- life ---------------------------------------------------------------------------------------------------------

    def controller_changed(self) -> None:
        """React to a possible change of the active controller: contact the new one soon."""
        self.own.changed()
        self._heartbeat_now()

    def _heartbeat_now(self) -> None:
        self.local.send_now(self.now_ms)

    def submit(self, request: Message, version: int, now_ms: int,  # noqa: ARG002 - the channel has a clock
               answer: Callable[[Message], None]) -> None:
        """Send a request of `LocalBroker` to the active controller."""
        self.own.submit(request, version, answer)

    @property
    def deadline_ms(self) -> int:
        return min(self.local.deadline_ms, self.keeper.deadline_ms, self._assignments.deadline_ms)

    def tick(self) -> None:
        self.local.tick(self.now_ms)
        self.keeper.tick(self.now_ms)
        if self.now_ms >= self._assignments.deadline_ms:
            self._assign_now()

    def after_event(self) -> None:
        """Do the work that follows from any event."""
        if not self.is_open and self.local.epoch >= 0 and self.epoch == self.local.epoch:
            self._open()
        self._settle()
        if self.local.state is State.STOPPED:
            self.node.broker_left()

    def _open(self) -> None:
        """Start serving after registration: set up the replicas, in the order of a node's start."""
        self.is_open = True
        image = self.image
        for name in list(self.disk.logs):
            registration = image.partition(*name)
            if registration is None or self.id not in registration.replicas:
                self.count("stray log removed")
                self.disk.remove(name)
            else:
                self.disk.settle(name, image.topic_ids[name[0]], registration.directory_of(self.id))
        self.carry_out(replica_plan.plan_all(image, self.id))
        self.leaders.applied(image)
        self.node.machine.subscribe(self._changed)
        self._check_lag()
        self.local.serve(self.now_ms)

    def stop(self) -> None:
        """Request a controlled shutdown."""
        self.local.stop(self.now_ms)

    def _changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if self.node.broker is self:
            self.carry_out(replica_plan.plan_change(delta, self.id))
            self.leaders.applied(image)

    # --- replicas -----------------------------------------------------------------------------------------------------

    def carry_out(self, steps: list[Step]) -> None:
        for step in steps:
            if step.action is Action.REMOVE:
                self._remove(step)
            else:
                assert step.partition is not None
                self._install(step, step.partition)

    def _install(self, step: Step, registration: PartitionRegistration) -> None:
        name = step.topic, step.number
        partition = self.table.get(name)
        if partition is None:
            if self.disk.is_offline(name) or (
                    self.disk.home(name) is None and self.disk.may_be_offline(registration.directory_of(self.id))):
                self.count("replica is offline")
                return
            log = self.disk.open(step.topic, step.number, step.topic_id)
            partition = Partition(self, step.topic, (step.topic_id, step.number), log, self._min_insync(step.topic))
            self.table[name] = self._by_key[partition.key] = partition
        self._placed(partition, registration)
        if registration.leader_epoch < partition.leader_epoch:
            return
        if step.action is Action.LEAD:
            self.roles.lead(partition, registration)
        else:
            self.roles.follow(partition, registration)

    def _placed(self, partition: Partition, registration: PartitionRegistration) -> None:
        """Report to the controller where the log lies, unless the metadata already says so."""
        home = self.disk.home((partition.topic, partition.index))
        assert home is not None
        if self._assignments.note(partition.key, home, registration.directory_of(self.id)):
            self.later(GATHER_MS, self._assign_now)

    def _assign_now(self) -> None:
        self._assignments.send_due(self.epoch)

    def _assign(self, request: AssignReplicasToDirsRequest) -> None:
        self.count("replicas assigned to directories")
        self.own.submit(request, ASSIGN_VERSION, self._assigned)

    def _assigned(self, response: Message) -> None:
        assert isinstance(response, AssignReplicasToDirsResponse)
        self._assignments.answered(response, self.now_ms)
        if self._assignments.deadline_ms == NEVER_MS:
            self._assign_now()

    def lose_directory(self, directory: UUID, names: list[tuple[str, int]]) -> None:
        """Handle a failed log directory: stop serving its partitions, and report the failure to the controller."""
        for name in names:
            partition = self.table.pop(name, None)
            if partition is not None:
                self._give_up(partition)
        self.local.lose(directory, self.now_ms)

    def _give_up(self, partition: Partition) -> None:
        self.roles.remove(partition)
        partition.is_removed = True
        self._by_key.pop(partition.key, None)
        self.news(partition)

    def _min_insync(self, topic: str) -> int:
        image = self.image
        return int(self.node.rules.topic_value(
            MIN_INSYNC_REPLICAS, image.topic_config(topic), {}, image.config(CLUSTER_DEFAULT)))

    def _remove(self, step: Step) -> None:
        partition = self.table.pop((step.topic, step.number), None)
        if partition is not None:
            self._give_up(partition)
        self.disk.remove((step.topic, step.number))

    def begin(self, leader_id: int, key: Key, replica: Partition) -> None:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = Fetcher(self, leader_id)
        fetcher.follow(key, replica)

    def end(self, leader_id: int, key: Key) -> None:
        self._fetchers[leader_id].unfollow(key)

    def watch(self, replica: Partition) -> None:
        replica.watch_followers(self._caught_up)

    def _caught_up(self, partition: Partition, node_id: int) -> bool:
        return self.keeper.caught_up(partition.key, node_id)

    def _epoch_of(self, broker_id: int) -> int | None:
        if broker_id == self.id:
            return self.epoch
        registration = self.image.brokers.get(broker_id)
        return registration.epoch if registration is not None and registration.active else None

    def _alter_partition(self, request: AlterPartitionRequest) -> None:
        self.count("in-sync replicas proposed")
        self.own.submit(request, ALTER_PARTITION_VERSION, self._answered)

    def _answered(self, response: Message) -> None:
        assert isinstance(response, AlterPartitionResponse)
        self.keeper.answered(response, self.now_ms)

    def _check_lag(self) -> None:
        self.keeper.drop_lagging(self.node.options.lag_ms)
        self.later(self.node.options.lag_ms // 2, self._check_lag)

    # --- the disk -----------------------------------------------------------------------------------------------------

    def written(self) -> None:
        if self.durability == PER_APPEND:
            for log in self.disk.logs.values():
                log.flush()
        elif not self._is_flushing:
            self._is_flushing = True
            marks: list[tuple[ReplicaLog, int, int | None]] = []
            delay_us = self.node.flush_us() if self.durability == GROUP_COMMIT else WRITEBACK_MS * 1000
            self.node.later_us(delay_us, self._flushed, marks)
            # The flush covers everything written in this event, so the marks are set at the end of the event.
            self.node.later_us(0, self._mark, marks)

    def _mark(self, marks: list[tuple[ReplicaLog, int, int | None]]) -> None:
        marks += [(log, log.end_offset, log.chain) for log in self.disk.logs.values()]

    def _flushed(self, marks: list[tuple[ReplicaLog, int, int | None]]) -> None:
        self._is_flushing = False
        for log, end_offset, chain in marks:
            if (not log.is_offline and log.durable_end < end_offset <= log.end_offset
                    and log.chain_at(end_offset) == chain):
                log.durable_end = end_offset
        if any(log.durable_end < log.end_offset for log in self.disk.logs.values()):
            self.written()
        if self.durability == GROUP_COMMIT:
            for partition in list(self.table.values()):
                partition.flushed()
            for fetcher in self._fetchers.values():
                fetcher.flushed()

    def _checkpoint(self) -> None:
        for log in self.disk.logs.values():
            log.saved_high_watermark = log.high_watermark
        self.later(CHECKPOINT_MS, self._checkpoint)

    # --- requests -----------------------------------------------------------------------------------------------------

    def serve(self, body: object, source_id: int, reply: Reply) -> None:
        if isinstance(body, Fetch):
            self._fetch(body, source_id, reply)
        elif isinstance(body, Produce):
            self._produce(body, reply)
        elif isinstance(body, Check):
            reply(Running())
        else:
            assert isinstance(body, Bounds)
            partition = self._by_key.get(body.key)
            error = ErrorCode.UNKNOWN_TOPIC_ID if partition is None else partition.fence(body.leader_epoch)
            if partition is None:
                reply(BoundsAre(error))
            else:
                log = partition.log
                reply(BoundsAre(error, log.start_offset, log.end_offset, log.start_chain))

    def _produce(self, request: Produce, reply: Reply) -> None:
        partition = self._by_key.get(request.key)
        if partition is None:
            reply(Produced(self._absence(request.key)))
        elif not partition.is_leader:
            reply(Produced(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        elif not partition.has_minimum:
            reply(Produced(ErrorCode.NOT_ENOUGH_REPLICAS))
        else:
            error, end_offset = partition.produce(request)
            if error != ErrorCode.NONE:
                reply(Produced(error))
                return
            self._unacknowledged.append(_Unacknowledged(partition, partition.leader_epoch, end_offset, reply))
            self.news(partition)

    def _absence(self, key: Key) -> ErrorCode:
        known = key[0] in self.image.topics
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_ID

    def _fetch(self, fetch: Fetch, source_id: int, reply: Reply) -> None:
        # A late Fetch of an earlier process must not replace the parked one of the current process.
        earlier = [each for each in self._parked
                   if (each.source_id, each.fetch.broker_epoch) == (source_id, fetch.broker_epoch)]
        self._parked = [each for each in self._parked if each not in earlier]
        if fetch.only_new:
            for each in earlier:       # its sender has more partitions now, so these need not wait
                self._answer(each)
        self._parked_count += 1
        parked = _Parked(self._parked_count, source_id, fetch, reply)
        parts = self._read(parked)
        if any(self._is_news(source_id, part) for part in parts):
            self._reply(parked, parts)
        else:
            self._parked.append(parked)
            self.later(self.node.options.fetch_wait_ms, self._expire, parked)

    def _read(self, parked: _Parked) -> list[FetchedPart]:
        parts = []
        for part in parked.fetch.parts:
            partition = self._by_key.get(part.key)
            parts.append(FetchedPart(part.key, ErrorCode.UNKNOWN_TOPIC_ID) if partition is None
                         else partition.read(part, parked.fetch.broker_id, parked.fetch.broker_epoch))
        return parts

    def _is_news(self, source_id: int, part: FetchedPart) -> bool:
        return (part.error != ErrorCode.NONE or bool(part.batches) or part.diverging is not None
                or self._reported.get((source_id, part.key)) != (part.high_watermark, part.log_start))

    def _reply(self, parked: _Parked, parts: list[FetchedPart]) -> None:
        for part in parts:
            self._reported[parked.source_id, part.key] = part.high_watermark, part.log_start
        parked.reply(Fetched(tuple(parts)))

    def _answer(self, parked: _Parked) -> None:
        self._reply(parked, self._read(parked))

    def _expire(self, parked: _Parked) -> None:
        if parked in self._parked:
            self._parked.remove(parked)
            self._answer(parked)

    # --- pending requests ---------------------------------------------------------------------------------------------

    def news(self, partition: Partition) -> None:
        self._dirty[partition.key] = None

    def _settle(self) -> None:
        while self._dirty:
            dirty, self._dirty = self._dirty, {}
            self._acknowledge(dirty)
            woken = [each for each in self._parked
                     if any(part.key in dirty and self._has_news(each, part.key) for part in each.fetch.parts)]
            self._parked = [each for each in self._parked if each not in woken]
            for each in woken:
                self._answer(each)

    def _has_news(self, parked: _Parked, key: Key) -> bool:
        partition = self._by_key.get(key)
        if partition is None or not partition.is_leader:
            return True
        part = next(each for each in parked.fetch.parts if each.key == key)
        log, limit = partition.log, partition.visible_limit(parked.fetch.broker_id)
        return (part.leader_epoch != partition.leader_epoch or part.fetch_offset != limit
                or self._reported.get((parked.source_id, key)) != (log.high_watermark, log.start_offset))

    def _acknowledge(self, dirty: dict[Key, None]) -> None:
        waiting, self._unacknowledged = self._unacknowledged, []
        for each in waiting:
            state = (PENDING if each.partition.key not in dirty
                     else each.partition.commit_state(each.end_offset, each.leader_epoch))
            if state == PENDING:
                self._unacknowledged.append(each)
                continue
            if state == ErrorCode.NONE:
                self.node.acknowledges(each.partition, each.leader_epoch, each.end_offset)
            each.reply(Produced(state, each.end_offset))
