"""The metadata side of a broker: it follows the metadata log, as a voter when its node has that role too.

It sends requests to the active controller. On a single node that is the node itself.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from uuid import UUID

from kraft.config.node_config import Endpoint as ConfigEndpoint
from kraft.config.node_config import NodeConfig
from kraft.controller.local_broker import LocalBroker, State
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import MetadataImage
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.raft.types import NOBODY, Endpoint
from kraft.raft.wire_changes import codec_of
from kraft.raft.wire_discovery import DISCOVER_CODEC
from kraft.runtime.base.alarm import Alarm
from kraft.runtime.net.controller_channel import Answer, ControllerChannel, refusal
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.quorum.broker_registration import RegistrationError, broker_registration
from kraft.runtime.quorum.controller_registration import ControllerRegistrar
from kraft.runtime.quorum.controller_requests import submit_to_core
from kraft.runtime.quorum.controller_settings import controller_settings, metadata_log_settings
from kraft.runtime.quorum.quorum_replica import Member, QuorumReplica
from kraft.runtime.storage.formatting import read_identity
from kraft.security.principal import Client
from kraft_native.log.flusher import Flusher

log = logging.getLogger(__name__)

LEAVE_SECONDS: Final = 5.0
HERE: Final = 0
"""Source of the requests of this node's own broker to the core: no connection has it."""
CLIENT_ID: Final = "kraft-broker-{}"


class ControlPlane:
    """The metadata log and the paths to the controller. Loop thread only; raises what `QuorumReplica` raises.

    `on_failure` is called once when the log or its replay can no longer be trusted: the node must stop then.
    """

    def __init__(self, config: NodeConfig, cluster_id: str, endpoints: tuple[ConfigEndpoint, ...], flusher: Flusher,
                 dialer: Dialer, on_failure: Callable[[BaseException], object]) -> None:
        self.config = config
        identity = read_identity(config.metadata_log_dir)
        directory_id = None if identity is None else identity.directory_id
        assert directory_id is not None, f"{config.metadata_log_dir} is not formatted"
        self.quorum = QuorumReplica(
            config, Member(cluster_id, directory_id, endpoints), controller_settings(config, cluster_id),
            metadata_log_settings(config), flusher, dialer, on_failure,
            log_dir_locked=config.metadata_log_dir in config.log_dirs)
        self.metadata = self.quorum.metadata
        self.clock = self.quorum.clock
        self.broker: LocalBroker | None = None
        self._on_failure = on_failure
        self._alarm = Alarm(self.clock, self._tick)
        self._advanced = asyncio.Event()
        self._applied: MetadataImage | None = None
        client_id = CLIENT_ID.format(config.node_id)
        session_seconds = config.integer("broker.session.timeout.ms") / 1000
        socket_seconds = config.integer("controller.socket.timeout.ms") / 1000
        way = client_id, dialer, self._controller_address, self._here
        self._forwarded = ControllerChannel(*way, socket_seconds)
        self._voters = ControllerChannel(*way, socket_seconds)
        self._own = ControllerChannel(*way, session_seconds, self._heartbeat_now)
        self._registrar = (ControllerRegistrar(self.quorum, endpoints, self.schedule) if config.is_controller else None)

    @property
    def image(self) -> MetadataImage:
        """The committed metadata known here."""
        return self.metadata.image

    @property
    def lease_left_ms(self) -> int | None:
        """See `ControllerPort`."""
        return None if self.broker is None else self.broker.lease.left_ms(self.clock())

    @property
    def applied_image(self) -> MetadataImage:
        """The committed metadata that this node's broker acts on; see `applied`."""
        return self.image if self._applied is None else self._applied

    def subscribe(self, listener: Callable[[MetadataDelta, MetadataImage], None]) -> None:
        """Call `listener(delta, image)` with every committed change."""
        self.metadata.subscribe(listener)

    async def start(self) -> None:
        """Take part in the quorum."""
        self.metadata.on_change = self._changed
        self.metadata.on_deadline = self.schedule
        self.quorum.driver.on_iteration = self._advanced.set
        self.quorum.start()

    def submit(self, request: Message, version: int, now_ms: int, answer: Answer,  # noqa: ARG002 - own clock
               client: Client | None = None) -> None:
        """See `ControllerPort`."""
        codec = codec_of(request)
        if codec is DISCOVER_CODEC:
            submit_to_core(self.quorum, codec, request, version, HERE, answer)  # each replica answers for itself
            return
        if codec is not None:
            channel = self._voters     # a voter to be added may have to catch up first: others do not wait for that
        elif API_BY_KEY[request.API_KEY].forwardable:
            channel = self._forwarded
        else:
            channel = self._own
        channel.submit(request, version, answer, client)
        self.schedule()

    def refuse(self, request: Message, code: ErrorCode, message: str) -> Message:
        """See `ControllerPort`."""
        return refusal(request, code, message)

    async def register_broker(self, endpoints: tuple[ConfigEndpoint, ...], directories: tuple[UUID, ...],
                              previous_epoch: int) -> int:
        """Register this node's broker, still fenced, and wait until its registration is in the image; return its epoch.
        Raises `RegistrationError` when no controller accepted it in `initial.broker.registration.timeout.ms`."""
        request = broker_registration(self.config, self.quorum.cluster_id.value, endpoints, directories, previous_epoch)
        self.broker = broker = LocalBroker(
            _OwnRequests(self), request, self.config.integer("broker.heartbeat.interval.ms"),
            self.config.integer("log.dir.failure.timeout.ms"))
        broker.on_notice = log.warning
        broker.start(self.clock())
        node_id = self.config.node_id

        def registered() -> bool:
            known = self.image.brokers.get(node_id)
            return broker.epoch >= 0 and known is not None and known.epoch == broker.epoch

        if not await self._wait(registered, self.config.integer("initial.broker.registration.timeout.ms") / 1000):
            raise RegistrationError(f"no controller registered this node's broker in time{self._why_refused(broker)}")
        return broker.epoch

    def _why_refused(self, broker: LocalBroker) -> str:
        if self.quorum.other_cluster_address and self.quorum.raft.replica.leader_id == NOBODY:
            return (f": the controller at {self.quorum.other_cluster_address} is of another cluster than this node, "
                    f"whose cluster id is {self.quorum.cluster_id.value} (INCONSISTENT_CLUSTER_ID)")
        return f": {broker.refusal.name}, {broker.refusal.message}" if broker.refusal else ""

    async def serve(self, ended: Callable[[], bool]) -> None:
        """Let the registered broker serve. Returns when that is committed and known here, or the node has `ended`."""
        broker = self.broker
        assert broker is not None
        broker.serve(self.clock())
        node_id = self.config.node_id
        await self._wait(
            lambda: ended() or (broker.state is State.RUNNING and not self.image.brokers[node_id].fenced), None)

    async def leave(self) -> None:
        """Stop this node's broker gracefully, and wait until the controller has released it or cannot be found. With
        `controlled.shutdown.enable=false` the broker just ends, and the controller detects it.

        Then hand the leadership over: this node receives no requests while it sends the replies that its clients await.
        """
        if self.broker is not None and self.config["controlled.shutdown.enable"]:
            broker = self.broker
            broker.stop(self.clock())
            await self._wait(lambda: broker.state is State.STOPPED, LEAVE_SECONDS)
        await self.quorum.hand_over()

    async def close(self) -> None:
        """Stop the clocks and leave the quorum. May be called again."""
        self._alarm.cancel()
        self._forwarded.close()
        self._voters.close()
        self._own.close()
        if self._registrar is not None:
            self._registrar.close()
        await self.quorum.close()

    async def _wait(self, done: Callable[[], bool], timeout_seconds: float | None) -> bool:
        """Wait until `done()`; return whether it came true in time."""
        try:
            async with asyncio.timeout(timeout_seconds):
                while not done():
                    self.schedule()
                    self._advanced.clear()
                    await self._advanced.wait()
        except TimeoutError:
            return False
        self.schedule()
        return True

    # --- the controller's location

    def _controller_address(self) -> Endpoint | None:
        replica = self.quorum.raft.replica
        return None if replica.leader_id in (-1, self.config.node_id) else replica.address_of(replica.leader_id)

    def _here(self, request: Message, version: int, answer: Answer, client: Client | None) -> bool:
        if not self.metadata.controller.active:
            return False
        codec = codec_of(request)
        if codec is None:
            self.metadata.submit(request, version, self.clock(), answer, client)
        else:
            submit_to_core(self.quorum, codec, request, version, HERE, answer)
        return True

    def submit_own(self, request: Message, version: int, answer: Answer) -> None:
        """Send a request of the broker itself, beside its clients' requests and not behind them."""
        def respond(response: Message) -> None:
            answer(response)
            self._advanced.set()
            self.schedule()

        self._own.submit(request, version, respond)

    def _changed(self) -> None:
        self._forwarded.changed()
        self._voters.changed()
        self._own.changed()
        if self._registrar is not None:
            self._registrar.changed()
        self._heartbeat_now()

    def applied(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Note that this node's broker has applied a change completely; its heartbeats report that.

        Send one at once when another broker is in controlled shutdown. That broker waits until the others report that
        they know that it leads nothing.
        """
        self._applied = image
        node_id = self.config.node_id
        if (delta.brokers.touched or delta.topics.touched) and any(
                each.in_controlled_shutdown and not each.fenced and each.broker_id != node_id
                for each in image.brokers.values()):
            asyncio.get_running_loop().call_soon(self._heartbeat_now)

    def _heartbeat_now(self) -> None:
        """Have this node's broker send a heartbeat: the controller may have changed, or the connection broke."""
        if self.broker is not None:
            self.broker.send_now(self.clock())
        self.schedule()

    def lose_directory(self, directory_id: UUID) -> None:
        """Report the failure of a log directory of this node's broker. Its replicas there drop out."""
        if self.broker is not None:
            self.broker.lose(directory_id, self.clock())
        self.schedule()

    def cordon(self, directory_ids: list[UUID]) -> None:
        """Set the log directories of this node's broker that get no new replicas. The controller is notified in a later
        iteration: the caller may be in the middle of a change's delivery."""
        if self.broker is not None and self.broker.cordon(directory_ids):
            asyncio.get_running_loop().call_soon(self._heartbeat_now)

    # --- the clock

    def _tick(self) -> None:
        try:
            self.metadata.tick()
            if self.broker is not None:
                self.broker.tick(self.clock())
        except Exception as error:  # noqa: BLE001 - a controller that failed half-way must not decide again
            self._on_failure(error)
            return
        self.schedule()

    def schedule(self) -> None:
        """Set the alarm for the next `_tick`, after a request to the controller or the broker."""
        deadline_ms = self.metadata.deadline_ms
        if self.broker is not None:
            deadline_ms = min(deadline_ms, self.broker.deadline_ms)
        self._alarm.set(deadline_ms)


class _OwnRequests:
    """The active controller as this node's broker sees it."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    @property
    def image(self) -> MetadataImage:
        return self._plane.applied_image

    def submit(self, request: Message, version: int, now_ms: int, answer: Answer) -> None:  # noqa: ARG002 - own clock
        self._plane.submit_own(request, version, answer)
