"""A node's own broker as the controller sees it: registers, stays alive, says goodbye (`BrokerLifecycleManager`).

    broker = LocalBroker(controller, registration, heartbeat_interval_ms)
    broker.start(now_ms)            # once there is a controller to ask
    broker.tick(now_ms)             # no later than broker.deadline_ms
    broker.serve(now_ms)            # the node is ready for clients: it may be unfenced
    broker.hurry(now_ms)            # the controller should hear from it: another one, or the connection broke
    broker.stop(now_ms)             # controlled shutdown; `state` says when it may go

It talks to the controller by the requests that a broker elsewhere would send. Without input and output, as the
controller.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol
from uuid import UUID

from kraft.controller.sessions import NEVER_MS
from kraft.metadata.image import MetadataImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from kraft.protocol.messages.broker_registration_response import BrokerRegistrationResponse

REGISTRATION_VERSION: Final = 4
HEARTBEAT_VERSION: Final = 2
RETRY_MS: Final = 100


class State(Enum):
    """NEW and FENCED brokers serve nobody; STOPPED ones may end their process."""

    NEW = "new"
    FENCED = "fenced"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class ControllerDoor(Protocol):
    """The active controller, here or elsewhere. `image` is what is committed, as far as this node knows."""

    @property
    def image(self) -> MetadataImage: ...

    def submit(self, request: Message, version: int, now_ms: int, answer: Callable[[Message], None]) -> None: ...


class LocalBroker:
    """`registration` says who the broker is; a new incarnation id for every process. `epoch` is -1 before the
    controller gave one; it belongs into `.kafka_cleanshutdown` after a clean stop, and from there into the next
    registration.

    `refusal` is the controller's last refusal, None when there was none since the last success.
    """

    def __init__(
        self, controller: ControllerDoor, registration: BrokerRegistrationRequest, heartbeat_interval_ms: int = 2_000
    ):
        self.state = State.NEW
        self.epoch = -1
        self.deadline_ms = NEVER_MS
        self.refusal: ErrorCode | None = None
        self._controller = controller
        self._registration = registration
        self._interval_ms = heartbeat_interval_ms
        self._ready = False
        self._in_flight = False
        self._offline: list[UUID] = []
        self._due = False          # when the request under way is answered
        self._now_ms = 0

    def start(self, now_ms: int) -> None:
        """Registers, and again later while the controller refuses."""
        self.deadline_ms = now_ms
        self.tick(now_ms)

    def serve(self, now_ms: int) -> None:
        """The node has everything that it needs to serve: it asks to be unfenced."""
        self._ready = True
        self.hurry(now_ms)

    def stop(self, now_ms: int) -> None:
        """Asks for a controlled shutdown; a broker that never was registered has nothing to wait for."""
        if self.epoch < 0:
            self.state, self.deadline_ms = State.STOPPED, NEVER_MS
        elif self.state is not State.STOPPED:
            self.state = State.STOPPING
            self.hurry(now_ms)

    def lose(self, directory_id: UUID, now_ms: int) -> None:
        """A log directory has failed: the controller hears of it at once, and from then on."""
        self._offline.append(directory_id)
        self._registration.log_dirs = [each for each in self._registration.log_dirs if each != directory_id]
        self.hurry(now_ms)

    def hurry(self, now_ms: int) -> None:
        """The next heartbeat is due now, or when the one under way is answered."""
        if self.epoch >= 0 and self.state is not State.STOPPED:
            self.deadline_ms = now_ms
            self.tick(now_ms)

    def tick(self, now_ms: int) -> None:
        """Sends what is due, one request at a time."""
        self._now_ms = now_ms
        if now_ms < self.deadline_ms or self.state is State.STOPPED:
            return
        if self._in_flight:
            self._due, self.deadline_ms = True, NEVER_MS
            return
        self._in_flight = True
        self.deadline_ms = now_ms + self._interval_ms
        if self.epoch < 0:
            self._controller.submit(self._registration, REGISTRATION_VERSION, now_ms, self._registered)
            return
        self._controller.submit(BrokerHeartbeatRequest(
            broker_id=self._registration.broker_id, broker_epoch=self.epoch,
            current_metadata_offset=self._controller.image.offset, want_fence=not self._ready,
            want_shut_down=self.state is State.STOPPING, offline_log_dirs=self._offline,
            cordoned_log_dirs=[],
        ), HEARTBEAT_VERSION, now_ms, self._beaten)

    def _answered(self, code: int) -> bool:
        """Notes the outcome; after a refusal the next attempt comes soon."""
        self._in_flight = False
        if self._due:
            self._due, self.deadline_ms = False, self._now_ms
        self.refusal = ErrorCode(code) if code else None  # type: ignore[call-arg]
        if code:
            self.deadline_ms = self._now_ms + RETRY_MS
        return not code

    def _registered(self, answer: Message) -> None:
        assert isinstance(answer, BrokerRegistrationResponse)
        if self._answered(answer.error_code):
            self.epoch = answer.broker_epoch
            self.state = State.FENCED if self.state is State.NEW else self.state
            self.deadline_ms = self._now_ms

    def _beaten(self, answer: Message) -> None:
        assert isinstance(answer, BrokerHeartbeatResponse)
        if not self._answered(answer.error_code):
            if answer.error_code == ErrorCode.STALE_BROKER_EPOCH:
                # The controller knows another registration, or none: begin anew.
                self.epoch = -1
        elif self.state is State.STOPPING:
            self.deadline_ms = self._now_ms
            if answer.should_shut_down:
                self.state, self.deadline_ms = State.STOPPED, NEVER_MS
        else:
            self.state = State.FENCED if answer.is_fenced else State.RUNNING
            if self._ready and answer.is_fenced:
                self.deadline_ms = self._now_ms + RETRY_MS
