"""A node's own broker towards the controller: it registers, sends heartbeats, shuts down (`BrokerLifecycleManager`).

    broker = LocalBroker(controller, registration, heartbeat_interval_ms)
    broker.start(now_ms)            # once a controller can be reached
    broker.tick(now_ms)             # no later than broker.deadline_ms
    broker.serve(now_ms)            # the node is ready for clients: it may be unfenced
    broker.send_now(now_ms)         # send a heartbeat now: another controller leads, or the connection broke
    broker.stop(now_ms)             # controlled shutdown; `state` says when it may end
    broker.successor(image)         # another process has its id now: it must `give_up`

It uses the same requests that a remote broker sends. Without input and output, like the controller.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol
from uuid import UUID

from kraft.controller.lease import Lease
from kraft.deadlines import NEVER_MS
from kraft.metadata.image import BrokerRegistration, MetadataImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.ids import id_text
from kraft.protocol.message import Message
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from kraft.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from kraft_native.base.errors import OperationError

REGISTRATION_VERSION: Final = 4
HEARTBEAT_VERSION: Final = 2
RETRY_MS: Final = 100


class State(Enum):
    """State of the broker. NEW and FENCED ones serve no client; STOPPED ones may end their process, REPLACED ones
    must."""

    NEW = "new"
    FENCED = "fenced"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    REPLACED = "replaced"


ENDED: Final = (State.STOPPED, State.REPLACED)
"""States without further requests to the controller."""


class UnreportedDirectoryError(OperationError):
    """A log directory failed, and for log.dir.failure.timeout.ms no controller could be notified. Replicas that are
    lost here may still be treated as in sync. The broker must stop."""


class ControllerDoor(Protocol):
    """Active controller, on this node or another. `image` is the committed state as far as this node knows."""

    @property
    def image(self) -> MetadataImage: ...

    def submit(self, request: Message, version: int, now_ms: int, answer: Callable[[Message], None]) -> None: ...


class LocalBroker:
    """Lifecycle of this node's broker. `registration` identifies the broker; its incarnation id is new for every
    process. `epoch` is -1 before the controller assigned one. After a clean stop it is stored in
    `.kafka_cleanshutdown`, and from there it goes into the next registration.

    `refusal` is the controller's last refusal, None when there was none since the last success. `lease` is the lease
    that the controller announced. `on_notice` receives a sentence that an operator should read in the node's log.
    """

    def __init__(
        self, controller: ControllerDoor, registration: BrokerRegistrationRequest, heartbeat_interval_ms: int = 2_000,
        directory_failure_timeout_ms: int = NEVER_MS,
    ):
        self.state = State.NEW
        self.epoch = -1
        self.refusal: ErrorCode | None = None
        self.lease = Lease()
        self.on_notice: Callable[[str], None] = lambda _text: None
        self._controller = controller
        self._registration = registration
        self._interval_ms = heartbeat_interval_ms
        self._directory_failure_timeout_ms = directory_failure_timeout_ms
        self._ready = False
        self._in_flight = False
        self._offline: list[UUID] = []
        self._unreported: dict[UUID, int] = {}
        """Failed directories that no controller has confirmed yet, with the latest time for it."""
        self._reporting: tuple[UUID, ...] = ()
        """Failed directories in the request under way."""
        self._cordoned: list[UUID] = []
        self._next_ms = NEVER_MS   # when the next request is due
        self._due = False          # send the next request when the current one is answered
        self._sent_ms = 0          # of the request under way
        self._now_ms = 0

    @property
    def deadline_ms(self) -> int:
        """Time when `tick` has something to do; NEVER_MS: never."""
        deadline_ms = min(self._next_ms, self.lease.deadline_ms)
        return min(deadline_ms, *self._unreported.values()) if self._unreported else deadline_ms

    @property
    def incarnation_id(self) -> UUID:
        """Incarnation id of this process."""
        return self._registration.incarnation_id

    def start(self, now_ms: int) -> None:
        """Register, and retry later while the controller refuses."""
        self._next_ms = now_ms
        self.tick(now_ms)

    def serve(self, now_ms: int) -> None:
        """Request to be unfenced: the node has everything that it needs to serve."""
        self._ready = True
        self.send_now(now_ms)

    def stop(self, now_ms: int) -> None:
        """Request a controlled shutdown; a broker that was never registered stops at once."""
        if self.state in ENDED:
            return
        if self.epoch < 0:
            self._end(State.STOPPED)
        else:
            self.state = State.STOPPING
            self.send_now(now_ms)

    def is_own(self, registration: BrokerRegistration) -> bool:
        """Return whether the registration is of this process, not of another with the same id."""
        return registration.incarnation_id == self.incarnation_id

    def successor(self, image: MetadataImage) -> BrokerRegistration | None:
        """Return the registration of another process with the same id, made because the session of this one had ended.
        Call it only once the own registration was in the image. None when there is none, and for a broker that the
        controller has released."""
        known = image.brokers.get(self._registration.broker_id)
        return None if known is None or self.is_own(known) or self.state is State.STOPPED else known

    def give_up(self) -> None:
        """Stop as REPLACED: another process is this broker now, and this one does not compete for the id."""
        self._end(State.REPLACED)

    def _end(self, state: State) -> None:
        self.state, self._next_ms = state, NEVER_MS
        self.lease.forget()

    def lose(self, directory_id: UUID, now_ms: int) -> None:
        """Report a failed log directory to the controller at once, and in all later heartbeats."""
        self._offline.append(directory_id)
        self._unreported[directory_id] = min(now_ms + self._directory_failure_timeout_ms, NEVER_MS)
        self._registration.log_dirs = [each for each in self._registration.log_dirs if each != directory_id]
        self.send_now(now_ms)

    def cordon(self, directory_ids: list[UUID]) -> bool:
        """Set the log directories that get no new replicas, for the next heartbeat. Return whether they changed."""
        before, self._cordoned = self._cordoned, directory_ids
        return directory_ids != before

    def send_now(self, now_ms: int) -> None:
        """Make the next heartbeat due now, or when the current one is answered."""
        if self.epoch >= 0 and self.state not in ENDED:
            self._next_ms = now_ms
            self.tick(now_ms)

    def tick(self, now_ms: int) -> None:
        """Send what is due, one request at a time. Raises `UnreportedDirectoryError`."""
        self._now_ms = now_ms
        if self.state not in ENDED:
            self._check_reported(now_ms)
        if (silent_ms := self.lease.ran_out(now_ms)) is not None:
            refusal = f", the last was refused with {self.refusal.name}" if self.refusal is not None else ""
            self.on_notice(f"the lease of broker {self._registration.broker_id} ran out: no controller has answered a "
                           f"heartbeat for {silent_ms} ms{refusal}; controllers may have fenced it, and it continues")
        if now_ms < self._next_ms or self.state in ENDED:
            return
        if self._in_flight:
            self._due, self._next_ms = True, NEVER_MS
            return
        self._in_flight, self._sent_ms, self._reporting = True, now_ms, tuple(self._unreported)
        self._next_ms = now_ms + self._interval_ms
        if self.epoch < 0:
            self._controller.submit(self._registration, REGISTRATION_VERSION, now_ms, self._registered)
            return
        self._controller.submit(BrokerHeartbeatRequest(
            broker_id=self._registration.broker_id, broker_epoch=self.epoch,
            current_metadata_offset=self._controller.image.offset, want_fence=not self._ready,
            want_shut_down=self.state is State.STOPPING, offline_log_dirs=list(self._offline),
            cordoned_log_dirs=self._cordoned, lease_start_time_ms=now_ms,
        ), HEARTBEAT_VERSION, now_ms, self._beaten)

    def _check_reported(self, now_ms: int) -> None:
        for directory_id, until_ms in self._unreported.items():
            if now_ms >= until_ms:
                raise UnreportedDirectoryError(
                    f"no controller could be notified for {self._directory_failure_timeout_ms} ms that log directory "
                    f"{id_text(directory_id)} of broker {self._registration.broker_id} failed "
                    f"(log.dir.failure.timeout.ms)")

    def _answered(self, code: int) -> bool:
        """Note the outcome; after a refusal the next attempt follows soon."""
        self._in_flight = False
        if self._due:
            self._due, self._next_ms = False, self._now_ms
        self.refusal = ErrorCode(code) if code else None  # type: ignore[call-arg]
        if code:
            self._next_ms = self._now_ms + RETRY_MS
        else:
            for each in self._reporting:
                self._unreported.pop(each, None)
        return not code

    def _registered(self, answer: Message) -> None:
        assert isinstance(answer, BrokerRegistrationResponse)
        before = self.refusal
        if self.state in ENDED:
            return
        if self._answered(answer.error_code):
            self.epoch = answer.broker_epoch
            self.state = State.FENCED if self.state is State.NEW else self.state
            self._next_ms = self._now_ms
        elif self.refusal is not None and self.refusal is not before:
            self.on_notice(f"the controller does not register broker {self._registration.broker_id}, incarnation "
                           f"{self.incarnation_id}, which tries again: {self.refusal.name}, {self.refusal.message}")

    def _beaten(self, answer: Message) -> None:
        assert isinstance(answer, BrokerHeartbeatResponse)
        if self.state in ENDED:
            return
        if not self._answered(answer.error_code):
            if answer.error_code == ErrorCode.STALE_BROKER_EPOCH:
                # The controller knows another registration, or none: register again.
                self.on_notice(f"broker {self._registration.broker_id} is not registered in epoch {self.epoch} any "
                               f"more: it registers again")
                self.epoch = -1
                self.lease.revoke(self._now_ms)
                self.state = State.FENCED if self.state is State.RUNNING else self.state
            return
        if self.lease.granted(self._sent_ms, answer.lease_end_time_ms, self._now_ms):
            self.on_notice(f"broker {self._registration.broker_id} has a lease again: controller "
                           f"{answer.active_controller_id} answered its heartbeat")
        if self.state is State.STOPPING:
            self._next_ms = self._now_ms
            if answer.should_shut_down:
                self._end(State.STOPPED)
        else:
            self.state = State.FENCED if answer.is_fenced else State.RUNNING
            if self._ready and answer.is_fenced:
                self._next_ms = self._now_ms + RETRY_MS
