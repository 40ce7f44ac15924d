"""One broker process.

Real code: its life cycle (`LocalBroker`), the effect of metadata on its replicas (`replica_plan`, `replica_roles`) and
its in-sync replicas (`IsrKeeper`). The data plane is the compiled one: logs, partitions, requests that wait, the
handlers of Produce and Fetch, connections, and fetchers. Models: the channel to the controller, and the sockets and
timers that `kraft.runtime` puts around all this.
"""

from collections import deque
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kraft.broker import replica_plan
from kraft.broker.directory_assignments import DirectoryAssignments
from kraft.broker.isr import IsrKeeper, Key
from kraft.broker.replica_plan import Action, Step
from kraft.broker.replica_roles import ReplicaRoles, key_of
from kraft.controller.decision import MIN_INSYNC_REPLICAS
from kraft.controller.local_broker import LocalBroker, State
from kraft.deadlines import NEVER_MS
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
from kraft.testing.brokers import frames
from kraft.testing.brokers.channel import Channel
from kraft.testing.brokers.ends import ServerEnd
from kraft.testing.brokers.fetcher import Fetcher
from kraft.testing.brokers.leaders import Leaders
from kraft.testing.brokers.log_view import LogView
from kraft.testing.brokers.messages import Bounds, BoundsAre, Call, Check, Fetch, Produce, Produced, Running
from kraft.testing.brokers.replica import DURABILITIES, GROUP_COMMIT, PAGE_CACHE, Replica
from kraft.testing.brokers.transactional.async_loop import AsyncLoop
from kraft.testing.brokers.transactional.coordinators import Coordinators
from kraft.testing.brokers.wire import Answered, Connection, Reply
from kraft.testing.sim.cluster import CLUSTER_ID
from kraft.testing.sim.options import SECOND, Options
from kraft_native.base.errors import KraftError
from kraft_native.net.channel import RequestChannel
from kraft_native.net.frames import RequestMemory
from kraft_native.partition.partition import Partition
from kraft_native.partition.purgatory import Purgatory
from kraft_native.partition.table import PartitionTable
from kraft_native.request.reply import Reply as WireReply
from kraft_native.segment.config import LogConfig
from kraft_native.serve.fetch import FetchHandler
from kraft_native.serve.fetch_session import SessionCache
from kraft_native.serve.produce import ProduceHandler

if TYPE_CHECKING:
    from kraft.testing.brokers.node import BrokerNode

ALTER_PARTITION_VERSION: Final = 3
ASSIGN_VERSION: Final = 0
GATHER_MS: Final = 20
CHECKPOINT_MS: Final = 700
WRITEBACK_MS: Final = 1500
MEMORY_BYTES: Final = 1 << 30
INDEX_BYTES: Final = 3 * frames.BATCH_BYTES
"""Bytes between two entries of an index."""


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
        self._assignments = DirectoryAssignments(node.id, self._assign, self._is_ours)
        self._soon: deque[Callable[[], object]] = deque()
        self._failure: BaseException | None = None
        self.purgatory = Purgatory(self._soon.append)
        self.table = PartitionTable(self.purgatory)
        self.table.explain(self._absence)
        self.replicas: dict[tuple[str, int], Replica] = {}
        self._produce_handler = ProduceHandler(self.table)
        self._channel = self._new_channel()
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
        self._durability = options.durability
        self._is_flushing = False
        self.coordinators = self._new_coordinators() if options.transactions or options.groups else None
        """Coordinators of transactions and groups; None in a run without either."""

    def _new_coordinators(self) -> Coordinators:
        node = self.node
        loop = AsyncLoop(lambda: node.clock.now_us / SECOND, self._call_later, self._soon, self.failed)
        return Coordinators(self, self.table, self._produce_handler, self._channel, loop,
                            node.random_of("coordinators"))

    def _new_channel(self) -> RequestChannel:
        channel = RequestChannel("simulated", RequestMemory(MEMORY_BYTES), on_request=self._request,
                                 on_failure=self.failed, call_soon=self._soon.append, call_later=self._call_later)
        for api, handler in ((frames.FETCH, FetchHandler(self.table, SessionCache())),
                             (frames.PRODUCE, self._produce_handler)):
            channel.serve(api.key, api.versions[0], api.versions[-1], api.flexible_from, handler)
        return channel

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
    def options(self) -> Options:
        return self.node.options

    @property
    def fetchers(self) -> list[Fetcher]:
        return list(self._fetchers.values())

    @property
    def following(self) -> dict[Key, tuple[int, Partition]]:
        return self.roles.following

    def later(self, delay_ms: int, function: Callable[..., None], *arguments: Any) -> None:
        self.node.later(delay_ms, function, *arguments)

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.node.later(ceil(seconds * 1000), callback)

    def open_to_peer(self, target_id: int, lane: str, refused: Callable[[], None]) -> Connection | None:
        return self.node.wire.open(self.node, target_id, lane, refused)

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
        deadline_ms = self.local.deadline_ms
        if (other_ms := self.keeper.deadline_ms) < deadline_ms:
            deadline_ms = other_ms
        if (other_ms := self._assignments.deadline_ms) < deadline_ms:
            deadline_ms = other_ms
        return other_ms if 0 <= (other_ms := self.purgatory.deadline_ms) < deadline_ms else deadline_ms

    def tick(self) -> None:
        now_ms = self.now_ms
        self.local.tick(now_ms)
        self.keeper.tick(now_ms)
        if now_ms >= self._assignments.deadline_ms:
            self._assign_now()
        if 0 <= self.purgatory.deadline_ms <= now_ms:
            self.purgatory.expire(now_ms)

    def after_event(self) -> None:
        """Do the work that follows from any event."""
        if not self.is_open and self.local.epoch >= 0 and self.epoch == self.local.epoch:
            self._open()
        soon = self._soon
        while soon:
            soon.popleft()()
        if self._failure is not None:
            raise self._failure
        if not self._is_flushing:
            self._flush_later()
        if self.local.state is State.STOPPED:
            self.node.broker_left()

    def _open(self) -> None:
        """Start serving after registration: set up the replicas, in the order of a node's start."""
        self.is_open = True
        image = self.image
        for name in self.disk.names():
            registration = image.partition(*name)
            if registration is None or self.id not in registration.replicas:
                self.count("stray log removed")
                self.disk.remove(name, None)
            else:
                self.disk.settle(name, image.topic_ids[name[0]], registration.directory_of(self.id))
        self._show(image)
        self.carry_out(replica_plan.plan_all(image, self.id))
        self.leaders.applied(image)
        self.node.machine.subscribe(self._changed)
        self._check_lag()
        self.local.serve(self.now_ms)

    def stop(self) -> None:
        """Request a controlled shutdown."""
        self.local.stop(self.now_ms)

    def close(self) -> None:
        """Close the connections of the data plane, before the logs are closed."""
        self.observe()
        for fetcher in self._fetchers.values():
            fetcher.close()
        self.end_loop()
        self._channel.abort("shutdown")

    def end_loop(self) -> None:
        """End the event loop of the coordinators: nothing happens in them any more."""
        if self.coordinators is not None:
            self.coordinators.loop.close()

    def _changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if self.node.broker is self:
            self._show(image)
            self.carry_out(replica_plan.plan_change(delta, self.id))
            if self.coordinators is not None:
                self.coordinators.applied(delta)
            self.leaders.applied(image)

    def _show(self, image: MetadataImage) -> None:
        if self.coordinators is not None:
            self.coordinators.show(image)

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
        partition = self.table.get(*name)
        if partition is None:
            if self.disk.is_offline(name) or (
                    self.disk.home(name) is None and self.disk.may_be_offline(registration.directory_of(self.id))):
                self.count("replica is offline")
                return
            partition = self._new_replica(step)
        self.replicas[name].observe(self.node.judge)    # what it did in its role so far
        self._placed(partition, registration)
        if registration.leader_epoch < partition.leader_epoch:
            return
        if step.action is Action.LEAD:
            is_news = registration.leader_epoch > partition.leader_epoch or not partition.is_leader
            self.roles.lead(partition, registration)
            if is_news and self.coordinators is not None:
                self.coordinators.leads(partition)
        else:
            self.roles.follow(partition, registration)
            self._resigns(name, registration.leader_epoch)

    def _resigns(self, name: tuple[str, int], leader_epoch: int | None) -> None:
        if self.coordinators is not None:
            self.coordinators.resigns(*name, leader_epoch)

    def _new_replica(self, step: Step) -> Partition:
        log, view = self.disk.open(step.topic, step.number, step.topic_id, LogConfig(
            durability=DURABILITIES[self._durability], high_watermark="manual",
            index_interval_bytes=INDEX_BYTES))
        partition = Partition(log, step.topic, step.topic_id.bytes, step.number,
                              min_insync_replicas=self._min_insync(step.topic))
        self.table.add(partition)
        self.replicas[step.topic, step.number] = Replica(
            self.id, (step.topic_id, step.number), partition, view, seen=partition.high_watermark)
        return partition

    def _placed(self, partition: Partition, registration: PartitionRegistration) -> None:
        """Report to the controller where the log lies, unless the metadata already says so."""
        home = self.disk.home((partition.topic, partition.index))
        assert home is not None
        if self._assignments.note(key_of(partition), home, registration.directory_of(self.id)):
            self.later(GATHER_MS, self._assign_now)

    def _is_ours(self, key: Key) -> bool:
        topic = self.image.topics.get(key[0])
        registration = None if topic is None else topic.partitions.get(key[1])
        return registration is not None and self.id in registration.replicas

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

    def lose_directory(self, directory: UUID) -> None:
        """Handle a failed log directory: stop serving its partitions, and report the failure to the controller."""
        for name in self.disk.fail(directory):
            self._give_up(name)
        self.local.lose(directory, self.now_ms)

    def _give_up(self, name: tuple[str, int]) -> Replica | None:
        replica = self.replicas.pop(name, None)
        self._resigns(name, None)
        if replica is not None:
            replica.observe(self.node.judge)
            self.roles.remove(replica.partition)
            self.table.remove(*name)
        return replica

    def _min_insync(self, topic: str) -> int:
        image = self.image
        return int(self.node.rules.topic_value(
            MIN_INSYNC_REPLICAS, image.topic_config(topic), {}, image.config(CLUSTER_DEFAULT)))

    def _remove(self, step: Step) -> None:
        name = step.topic, step.number
        self._give_up(name)
        self.disk.remove(name, step.topic_id)

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
        return self.keeper.caught_up(key_of(partition), node_id)

    def was_cut(self, partition: Partition) -> None:
        self.replicas[partition.topic, partition.index].observe(self.node.judge)

    def observe(self) -> None:
        """Report to the judge what the replicas have done."""
        for replica in self.replicas.values():
            replica.observe(self.node.judge)

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

    def _flush_later(self) -> None:
        """Begin a flush if records were written since the last one. With a flush for each append nothing remains."""
        if self._durability == GROUP_COMMIT:
            for replica in self.replicas.values():
                if replica.has_unflushed:
                    self._is_flushing = True
                    self.node.later_us(self.node.flush_us(), self._flush)
                    return
        elif self._durability == PAGE_CACHE:
            for replica in self.replicas.values():
                view = replica.log
                if view.durable_end < view.end_offset:
                    self._is_flushing = True
                    views = [replica.log for replica in self.replicas.values()]
                    marks = [(each, each.end_offset, each.chain) for each in views]
                    self.node.later_us(WRITEBACK_MS * 1000, self._written_back, marks)
                    return

    def _flush(self) -> None:
        self._is_flushing = False
        for _view, log in self.disk.open_logs():
            log.flush()
        self.purgatory.flush_done()

    def _written_back(self, marks: list[tuple[LogView, int, int | None]]) -> None:
        """Note what the operating system has written to the disk by itself."""
        self._is_flushing = False
        for view, end_offset, chain in marks:
            if view.durable_end < end_offset <= view.end_offset and view.chain_at(end_offset) == chain:
                view.durable_end = end_offset

    def _checkpoint(self) -> None:
        if self.node.broker is self:   # else it has left, and its logs are closed
            self.disk.checkpoint()
            self.later(self._checkpoint_ms, self._checkpoint)

    @property
    def _checkpoint_ms(self) -> int:
        """Pause between two checkpoints; longer in a run of hours."""
        return self.options.session_ms // 2 if self.options.quiet_seconds else CHECKPOINT_MS

    # --- requests -----------------------------------------------------------------------------------------------------

    def serve(self, body: object, source_id: int, reply: Reply) -> None:  # noqa: ARG002 - connections name no source
        if isinstance(body, bytes):
            self._end_of(reply.connection).serve(reply.number, body, None)
        elif isinstance(body, Fetch):
            self._end_of(reply.connection).serve(
                reply.number, *frames.fetch_frame(body, self.options.fetch_wait_ms, self.options.fetch_batches))
        elif isinstance(body, Call):
            self._end_of(reply.connection).serve(reply.number, body.frame, body.decode)
        elif isinstance(body, Produce):
            self._produce(body, reply)
        elif isinstance(body, Check):
            reply(Running())
        else:
            assert isinstance(body, Bounds)
            reply(self._bounds(body))

    def _end_of(self, connection: Connection) -> ServerEnd:
        end = connection.end
        if not isinstance(end, ServerEnd):
            connection.end = end = ServerEnd(connection, self._channel)
            connection.on_left = end.left
        return end

    def _produce(self, request: Produce, reply: Reply) -> None:
        frame, decode = frames.produce_frame(request)

        def answer(answered: bytes) -> object:
            produced = decode(answered)
            self._acknowledged(request.key, produced)
            return produced

        self._end_of(reply.connection).serve(reply.number, frame, answer)

    def _acknowledged(self, key: Key, answer: object) -> None:
        partition = self.table.get_by_id(key[0].bytes, key[1])
        assert isinstance(answer, Produced)
        if answer.error == ErrorCode.NONE and partition is not None:
            replica = self.replicas[partition.topic, partition.index]
            replica.observe(self.node.judge)
            # An answer that waited for earlier ones of its connection may leave after the end of the leadership.
            leader_epoch = partition.leader_epoch if partition.is_leader else None
            self.node.judge.acknowledges(replica, leader_epoch, answer.end_offset)

    def _bounds(self, request: Bounds) -> BoundsAre:
        partition = self.table.get_by_id(request.key[0].bytes, request.key[1])
        if partition is None:
            return BoundsAre(ErrorCode.UNKNOWN_TOPIC_ID)
        try:
            start, _, _ = partition.earliest(current_leader_epoch=request.leader_epoch)
            end, _, _ = partition.latest("log_end", current_leader_epoch=request.leader_epoch)
        except KraftError as error:
            return BoundsAre(error.code)
        return BoundsAre(ErrorCode.NONE, start, end)

    def _absence(self, key: bytes, by_id: bool) -> tuple[Any, ...]:
        """Explain why a partition is not here, as `kraft.broker.broker.Broker` does."""
        topic = self.image.topics.get(UUID(bytes=key)) if by_id else self.image.topic(key.decode())
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return code, "", None, (), self.id
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic.name, topic.partitions, (), self.id

    def _request(self, reply: WireReply, api_key: int, api_version: int, body: bytes) -> None:
        assert self.coordinators is not None, f"broker {self.id} got a request of API {api_key}, version {api_version}"
        self.coordinators.on_request(reply, api_key, api_version, body)

    def failed(self, cause: BaseException) -> None:
        """Note a failure of compiled code; it ends the run after this event."""
        self._failure = self._failure or cause
