"""The metadata side of a node: its log, the controller on it, and this node's own broker as one of the controller's."""

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Final
from uuid import UUID

from kraft.config.node import Endpoint as ConfigEndpoint
from kraft.config.node import NodeConfig
from kraft.config.quorum import static_voters
from kraft.controller.config_rules import TableRules
from kraft.controller.controller import NEVER_MS, Controller
from kraft.controller.local_broker import LocalBroker, State
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import Endpoint, MetadataImage
from kraft.protocol.message import Message
from kraft.runtime.broker_registration import PLAINTEXT, RegistrationError, broker_registration
from kraft.runtime.controller_settings import controller_settings, metadata_log_settings
from kraft.runtime.metadata_log import DIRECTORY_NAME, Identity, MetadataLog
from kraft.runtime.storage import random_id
from kraft_native.flusher import Flusher

log = logging.getLogger(__name__)

SNAPSHOT_CHECK_SECONDS: Final = 5.0


class ControlPlane:
    """Opens the metadata log and replays it. Loop thread only.

    `start` makes this node the active controller. Raises what `MetadataLog` raises. `on_failure` is called once when
    the metadata log or the controller can no longer be trusted: the node must stop then.
    """

    def __init__(self, config: NodeConfig, cluster_id: str, directory_id: UUID, endpoints: tuple[ConfigEndpoint, ...],
                 flusher: Flusher, clock: Callable[[], int], on_failure: Callable[[BaseException], object], *,
                 log_dir_locked: bool) -> None:
        self.config = config
        self.cluster_id = cluster_id
        self.clock = clock
        self._on_failure = on_failure
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = NEVER_MS
        self.broker: LocalBroker | None = None
        self._snapshots: asyncio.Task[None] | None = None
        self._watching = False
        identity = Identity(config.node_id, directory_id, tuple(map(image_endpoint, endpoints)),
                            tuple(voter.node_id for voter in static_voters(config)))
        self.log = MetadataLog(config.metadata_log_dir / DIRECTORY_NAME, identity, clock(),
                               metadata_log_settings(config), flusher=flusher, log_dir_locked=log_dir_locked)
        self.controller = Controller(
            controller_settings(config, cluster_id), TableRules(config.texts), self.log, self.log.loaded.replayer,
            lambda: random_id(uuid.uuid4))

    @property
    def image(self) -> MetadataImage:
        """What is committed."""
        return self.controller.image

    def subscribe(self, listener: Callable[[MetadataDelta, MetadataImage], None]) -> None:
        """`listener(delta, image)` hears of every committed change."""
        self.controller.subscribe(listener)

    async def start(self) -> None:
        """Leads a new epoch, and waits until that is durable."""
        self.log.start(self.controller, self.clock())
        self.log.wait(self.clock())
        asyncio.get_running_loop().add_reader(self.log.eventfd, self._poll)
        self._watching = True
        self._snapshots = asyncio.get_running_loop().create_task(self._write_snapshots())
        self._schedule()

    def submit(self, request: Message, version: int, now_ms: int, answer: Callable[[Message], None]) -> None:
        """See `ControllerPort`."""
        self.controller.submit(request, version, now_ms, answer)
        self._schedule()

    async def register_broker(self, endpoints: tuple[ConfigEndpoint, ...], directories: tuple[UUID, ...],
                              previous_epoch: int) -> int:
        """Registers this node's broker, still fenced; gives its epoch. Waits for the commit.

        `previous_epoch` is the one in which it stopped in good order, else -1. `RegistrationError` when the controller
        refuses.
        """
        request = broker_registration(self.config, self.cluster_id, endpoints, directories, previous_epoch)
        self.broker = LocalBroker(self.controller, request, self.config.integer("broker.heartbeat.interval.ms"))
        self.broker.start(self.clock())
        self.log.wait(self.clock())
        if self.broker.epoch < 0:
            refusal = self.broker.refusal
            raise RegistrationError("the controller refused to register this node's broker"
                                    f"{f': {refusal.name}, {refusal.message}' if refusal else ''}")
        return self.broker.epoch

    async def serve(self) -> None:
        """Lets the registered broker serve; waits until that is committed."""
        assert self.broker is not None
        self.broker.serve(self.clock())
        while self.broker.state is not State.RUNNING:
            self.log.wait(self.clock())
            self.broker.tick(self.broker.deadline_ms)
        self._schedule()

    async def leave(self) -> None:
        """This node's broker stops in good order; waits until the controller has let it go."""
        if self.broker is None:
            return
        self.broker.stop(self.clock())
        while self.broker.state is not State.STOPPED:
            self.log.wait(self.clock())
            self.broker.tick(self.broker.deadline_ms)

    async def close(self) -> None:
        """Stops the clocks and closes the log. May be called again."""
        if self._snapshots is not None:
            self._snapshots.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._watching:
            asyncio.get_running_loop().remove_reader(self.log.eventfd)
            self._watching = False
        self.log.close()

    # --- the clock and the log's events

    def _poll(self) -> None:
        try:
            self.log.poll(self.clock())
        except Exception as error:  # noqa: BLE001 - metadata that may not be durable is nothing to go on with
            self._on_failure(error)
            return
        self._schedule()

    def _tick(self) -> None:
        self._timer = None
        self._timer_ms = NEVER_MS
        try:
            now_ms = self.clock()
            self.controller.tick(now_ms)
            if self.broker is not None:
                self.broker.tick(now_ms)
        except Exception as error:  # noqa: BLE001 - a controller that failed half-way must not decide again
            self._on_failure(error)
            return
        self._schedule()

    def _schedule(self) -> None:
        deadline_ms = self.controller.deadline_ms
        if self.broker is not None:
            deadline_ms = min(deadline_ms, self.broker.deadline_ms)
        if self._timer is not None and self._timer_ms <= deadline_ms:
            return  # `_tick` looks again
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = deadline_ms
        if deadline_ms < NEVER_MS:
            delay = max(0, deadline_ms - self.clock()) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    async def _write_snapshots(self) -> None:
        while True:
            await asyncio.sleep(SNAPSHOT_CHECK_SECONDS)
            try:
                self._write_snapshot_when_due()
            except Exception as error:  # noqa: BLE001 - without snapshots the log would grow for ever, unseen
                self._on_failure(error)
                return

    def _write_snapshot_when_due(self) -> None:
        now_ms = self.clock()
        if self.log.snapshot_due(self.image, now_ms):
            snapshot = self.log.write_snapshot(self.image, now_ms)
            log.info("metadata snapshot %s written", snapshot.file_name)


def image_endpoint(endpoint: ConfigEndpoint) -> Endpoint:
    """An address of the configuration as the metadata tells it."""
    return Endpoint(endpoint.listener, endpoint.host, endpoint.port, PLAINTEXT)
