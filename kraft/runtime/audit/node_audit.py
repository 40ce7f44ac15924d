"""The audit of one node: what its settings select, and the requests whose answers it waits for."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Protocol
from uuid import UUID
from weakref import WeakValueDictionary

from kraft._version import __version__
from kraft.config.node_config import NodeConfig
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message, caused_by
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.response_errors import count_errors
from kraft.runtime.audit.file import FileWriter
from kraft.runtime.audit.queue import EventQueue
from kraft.security.audit.auditor import Auditor
from kraft.security.audit.event import Event, Node, Origin
from kraft.security.audit.kinds import AUDIT_TOPIC
from kraft.security.audit.resources import FindTopic, Requested, is_change, requested
from kraft.security.principal import ANONYMOUS, Principal
from kraft_native.base.clock import wall_ms
from kraft_native.base.errors import KraftError
from kraft_native.request.reply import Reply

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 5.0
TLS: Final = "TLS"
"""Protocol of logins by certificates, and of handshakes that fail."""


class Destination(Protocol):
    """One place that events go to."""

    queue: EventQueue

    @property
    def written(self) -> int:
        """Return the events that the place has, since the start."""

    def put(self, event: Event) -> None:
        """Queue an event. Never waits."""

    def close(self) -> None:
        """Write what is queued, for a bounded time."""


class NodeAudit:
    """Audit of a node, for as long as it runs. Loop thread only.

    Without a destination nothing becomes an event; `is_on` is False then.
    """

    def __init__(self, config: NodeConfig, clock: Callable[[], int] = wall_ms) -> None:
        """Open the file, where one is configured. Raises OSError that names it."""
        self.clock = clock
        self.destinations: dict[str, Destination] = {}
        kinds = config["kraft.audit.events"]
        assert isinstance(kinds, list)
        self.auditor = Auditor(kinds, Node(config.node_id, __version__, clock()), self._write)
        self._queue_max = config.integer("kraft.audit.queue.events.max")
        self._ticking: asyncio.TimerHandle | None = None
        self._pending: WeakValueDictionary[Reply, PendingChange] = WeakValueDictionary()
        if isinstance(path := config["kraft.audit.file"], str) and path:
            self.destinations["file"] = FileWriter(
                Path(path), config.integer("kraft.audit.file.max.bytes"), config.integer("kraft.audit.files.max"),
                self.queue("file"))
            log.info("audit: %s are written to %s", ", ".join(kinds), path)

    @property
    def is_on(self) -> bool:
        return bool(self.destinations)

    def queue(self, where: str) -> EventQueue:
        """Return the queue for another destination."""
        return EventQueue(self._queue_max, lambda count: self.auditor.loss(where, count, self.clock()))

    @property
    def audits_denials(self) -> bool:
        return self.is_on and self.auditor.audits_denials

    def denied(self, origin: Origin, request: Requested, operation: str, error: int) -> None:
        """Note that an authorizer denied an operation on the one resource of `request`."""
        if self.audits_denials:
            self.auditor.denied(origin, request, operation, error, self.clock())

    def add(self, where: str, destination: Destination) -> None:
        """Write to another destination too. Call inside the running loop, before clients are served."""
        self.destinations[where] = destination
        self.start()

    def remove(self, where: str) -> None:
        """Close a destination before the others."""
        self.auditor.tick(self.clock(), is_end=True)
        self.destinations.pop(where).close()

    def start(self) -> None:
        """Report at regular intervals what was only counted. Call inside the running loop."""
        if self.is_on and self._ticking is None:
            self._tick()

    def close(self) -> None:
        """Write what is queued, for a bounded time."""
        if self._ticking is not None:
            self._ticking.cancel()
        self.auditor.tick(self.clock(), is_end=True)
        for each in self.destinations.values():
            each.close()
        self.destinations = {}

    def login_failed(self, listener: str, host: str, port: int, mechanism: str, why: str, claimed: str = "") -> None:
        """Note a failed login; `claimed` is the name of the user that the client claimed to be."""
        if self.is_on:
            origin = Origin(Principal.user(claimed) if claimed else ANONYMOUS, host, port, "", listener)
            self.auditor.login_failed(origin, mechanism, why, self.clock())

    def logged_in(self, reply: Reply, listener: str, mechanism: str, principal: Principal) -> None:
        """Note a login that succeeded; `reply` is that of its last request."""
        if self.is_on and self.auditor.audits_logins:
            self.auditor.logged_in(origin_of(reply, listener)._replace(principal=principal), mechanism, self.clock())

    def connected(self, listener: str, host: str, port: int, principal: Principal) -> None:
        """Note a TLS handshake whose certificate names a user."""
        if self.is_on and self.auditor.audits_logins:
            self.auditor.logged_in(Origin(principal, host, port, "", listener), TLS, self.clock())

    def begin(self, reply: Reply, request: Message, listener: str, find: FindTopic) -> "PendingChange | None":
        """Begin to audit a request: the result is called with the response. None for a request that changes
        nothing."""
        if not self.is_on or not self.auditor.audits_changes or not is_change(request.API_KEY):
            return None
        pending = PendingChange(self, origin_of(reply, listener), requested(request, reply.api_version, find))
        self._pending[reply] = pending
        return pending

    def failed(self, reply: Reply, code: int) -> None:
        """Note that the request of `reply`, if it is audited, ends by this error and without an answer."""
        if (pending := self._pending.get(reply)) is not None:
            pending.failed(code)

    def sample(self, listener: str, find: FindTopic, reply: Reply, body: bytes | None) -> None:
        """Note a Produce or a Fetch that was sampled; `body` is None for a large one. The Fetch of a follower is
        omitted. A malformed body is reported by the handler that serves it."""
        try:
            request = None if body is None else API_BY_KEY[reply.api_key].request.decode(body, reply.api_version)
        except KraftError:
            return
        if request is None:
            described = Requested(reply.api_key, reply.api_version, is_cut=True)
        elif _is_of_follower(request):
            return
        else:
            described = requested(request, reply.api_version, find)
            if all(each.name == AUDIT_TOPIC for each in described.resources) and reply.api_key == ApiKey.PRODUCE:
                return                     # its event would be written by another Produce, and so on
        self.auditor.accessed(origin_of(reply, listener), described, self.clock())

    def _write(self, event: Event) -> None:
        for each in self.destinations.values():
            each.put(event)

    def _tick(self) -> None:
        self.auditor.tick(self.clock())
        for each in self.destinations.values():
            each.queue.report_loss()
        self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)


class PendingChange:
    """An administrative request that is not answered yet.

    A request that ends without an answer is an event too. Its client may have disconnected between two parts of the
    request, the first of which took effect. Whatever could still answer holds this object. Nothing calls back when the
    last holder drops it, so the end of the object is what reports the request.
    """

    __slots__ = ("__weakref__", "_audit", "_is_settled", "_origin", "_requested")

    def __init__(self, audit: NodeAudit, origin: Origin, description: Requested) -> None:
        self._audit = audit
        self._origin = origin
        self._requested = description
        self._is_settled = False

    def answered(self, response: Message, errors: Mapping[int, int]) -> None:
        """Note the response, with its error codes and their counts."""
        self._is_settled = True
        self._audit.auditor.answered(self._origin, self._requested, errors, caused_by(response), self._audit.clock())

    def answered_steps(self, response: Message) -> Generator[None, None, None]:
        """Note a large response, in steps."""
        errors: Counter[int] = Counter()
        yield from count_errors(response, errors)
        self.answered(response, errors)

    def failed(self, code: int) -> None:
        """Note that the request ended by this error, unless its response is noted."""
        if not self._is_settled:
            self._is_settled = True
            self._audit.auditor.answered(self._origin, self._requested, {int(code): 1}, (), self._audit.clock())

    def __del__(self) -> None:
        if self._audit.is_on:
            self.failed(ErrorCode.NETWORK_EXCEPTION)


def _is_of_follower(request: Message) -> bool:
    if not isinstance(request, FetchRequest):
        return False
    return request.replica_id >= 0 or request.replica_state.replica_id >= 0


def origin_of(reply: Reply, listener: str) -> Origin:
    """Return the client of a request."""
    sink = reply.sink
    return Origin(getattr(sink, "principal", ANONYMOUS) or ANONYMOUS, getattr(sink, "peer_host", ""),
                  getattr(sink, "peer_port", 0), (reply.client_id or b"").decode("utf-8", "replace"), listener)


def topics_in(names: Callable[[], Mapping[UUID, object]]) -> FindTopic:
    """Return a search for the names of topics in the image's table that `names` returns."""
    return partial(_name_of, names)


def _name_of(names: Callable[[], Mapping[UUID, object]], topic_id: UUID) -> str | None:
    return getattr(names().get(topic_id), "name", None)
