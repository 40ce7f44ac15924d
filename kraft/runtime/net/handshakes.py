"""TLS handshakes of a node's listeners: their limits, their order, and the reasons of failures.

A connection counts for all limits from its first moment. A client that sends less than a whole record holds a socket
and no TLS session, until its time is over. Handshakes begin when these records are complete, for a slice of time in
each iteration of the loop. Addresses take turns by the time that their handshakes take (`host_shares`), so a new client
waits for about one handshake of each other address. One takes about a millisecond of the processor, and the requests
of other clients are served between them.
"""

import asyncio
import logging
import math
import ssl
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kraft.runtime.base.bounded_log import BoundedLog
from kraft.runtime.net.host_shares import HostShares
from kraft.security.distinguished_name import subject_of
from kraft.security.principal import ANONYMOUS, Principal
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.net.channel import RequestChannel
from kraft_native.net.connection import Connection
from kraft_native.net.tls import TlsTransport
from kraft_native.net.tls_session import TlsMemory

if TYPE_CHECKING:
    from kraft.runtime.net.server import Server
    from kraft.runtime.net.tls_contexts import ListenerTls
    from kraft.tls.settings import TlsSettings

log = logging.getLogger(__name__)

SLICE_NS: Final = 500_000
"""Time after which no further handshake begins in one iteration of the loop. A new client waits for some iterations."""
LOG_PERIOD_MS: Final = 10_000
LOGGED_MAX: Final = 10
"""Failures that are logged in each period; the others are counted."""
WINDOW_BYTES: Final = 256 * 1024
NOT_TLS: Final = "plaintext"
CLOSED: Final = "closed"
TIMEOUT: Final = "timeout"
PRINCIPAL: Final = "principal"
LIMIT: Final = "limit"
REASONS: Final[Mapping[str, str]] = {
    "NO_SHARED_CIPHER": "cipher", "UNSUPPORTED_PROTOCOL": "version", "NO_PROTOCOLS_AVAILABLE": "version",
    "VERSION_TOO_LOW": "version", "WRONG_VERSION_NUMBER": "version", "UNKNOWN_PROTOCOL": "version",
    "TLSV1_ALERT_PROTOCOL_VERSION": "version", "SSLV3_ALERT_HANDSHAKE_FAILURE": "cipher",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no_certificate", "CERTIFICATE_VERIFY_FAILED": "certificate",
}
"""Words that failures are counted by, for the library's reasons."""
PEER_REFUSED: Final = "refused_by_peer"
OTHER: Final = "protocol"


class RefusedClientError(ConnectionError):
    """A connection that a limit ended; `reason` is the word that it is counted by."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"a limit of connections is reached: {reason}")
        self.reason = reason


class TlsListener:
    """One listener with TLS, for its connections (`kraft_native.net.tls`). Loop thread only."""

    def __init__(self, server: "Server", name: str, contexts: Mapping[str, "ListenerTls"], queue: "HandshakeQueue",
                 timeout_ms: int) -> None:
        self.name = name
        self.channel: RequestChannel | None = None
        """Channel of the connections; None until they are accepted."""
        self.handshakes = 0
        """Handshakes that succeeded."""
        self.failures: Counter[str] = Counter()
        """Those that failed, by reason."""
        self._server = server
        self._contexts = contexts
        self._queue = queue
        self._timeout_ms = timeout_ms
        self._begun_ms: dict[TlsTransport, int] = {}
        self._held_until_ms: dict[TlsTransport, float] = {}
        """Times before which handshakes may not begin, because addresses connect too often."""
        self._bounded_log = BoundedLog(log, server.clock_ms, period_ms=LOG_PERIOD_MS, lines_max=LOGGED_MAX,
                                       omitted=f"listener {name}: %d more TLS handshakes failed")

    @property
    def settings(self) -> "TlsSettings":
        """Settings in force."""
        return self._contexts[self.name].settings

    @property
    def ends_s(self) -> float:
        """Return when the certificate in force expires, in seconds since 1970."""
        return self._contexts[self.name].certificate.ends_s

    @property
    def waiting(self) -> int:
        """Connections whose handshake has not ended."""
        return len(self._begun_ms)

    def accept(self) -> TlsTransport:
        """Create the protocol of a new connection."""
        return TlsTransport(self, self._queue.memory, asyncio.get_running_loop().call_soon, is_server=True)

    # --- calls from connections

    def arrived(self, transport: TlsTransport) -> None:
        """Count a new connection, and end it where a limit says so."""
        assert self.channel is not None, "a listener accepts after its channel is set"
        self._begun_ms[transport] = self._server.clock_ms()
        refused = self._server.enter(transport.peer_host, self.channel, self.waiting)
        if refused is not None:
            transport.refuse(RefusedClientError(refused))
            return
        throttle_ms, delay_ms = self._server.slow_down(transport.peer_host, self.channel)
        if throttle_ms > 0:
            self._held_until_ms[transport] = math.inf
            asyncio.get_running_loop().call_later(throttle_ms / 1000, transport.refuse,
                                                  RefusedClientError("connection_rate"))
        elif delay_ms > 0:
            self._held_until_ms[transport] = self._server.clock_ms() + delay_ms

    def hello(self, transport: TlsTransport) -> None:
        """Begin the handshake when it is this client's turn."""
        left_ms = self._held_until_ms.pop(transport, 0) - self._server.clock_ms()
        if left_ms <= 0:
            self._queue.add(self, transport)
        elif left_ms < math.inf:
            asyncio.get_running_loop().call_later(left_ms / 1000, self._queue.add, self, transport)

    def begin(self, transport: TlsTransport) -> None:
        """Begin the handshake, with the certificate that is in force."""
        transport.begin(self._contexts[self.name].context)

    def opened(self, transport: TlsTransport) -> Connection:
        """Create the connection of a client whose handshake is over. Its certificate names the user."""
        assert self.channel is not None
        del self._begun_ms[transport]
        self.handshakes += 1
        connection = Connection(self.channel, Admitted(self._server))
        principal = self._principal(transport)
        if principal is None:
            self.failures[PRINCIPAL] += 1
            transport.refuse(ssl.SSLError("no rule of ssl.principal.mapping.rules applies to the certificate"))
        else:
            connection.principal = principal
            if principal is not ANONYMOUS and (audit := self._server.audit) is not None:
                audit.connected(self.name, transport.peer_host, transport.peer_port, principal)
        return connection

    def _principal(self, transport: TlsTransport) -> Principal | None:
        """Return the user of the client's certificate; None when no rule names one."""
        assert transport.session is not None
        certificate = transport.session.peer_certificate()
        if certificate is None:
            return ANONYMOUS
        subject = ""
        try:
            subject = subject_of(certificate)
            name = self._contexts[self.name].mapping.name_of(subject)
        except InvalidArgumentError:
            name = None
        if name is None:
            self._log(transport, f"no rule of ssl.principal.mapping.rules applies to {subject!r}")
            return None
        return Principal.user(name)

    def failed(self, transport: TlsTransport) -> None:
        """Remove a connection that ended before its handshake did."""
        del self._begun_ms[transport]
        self._held_until_ms.pop(transport, None)
        self._server.leave(transport.peer_host)
        reason = reason_of(transport.error)
        self.failures[reason] += 1
        if reason not in (CLOSED, LIMIT):
            self._log(transport, sentence_of(reason, transport.error))

    # --- limits

    def sweep(self, now_ms: int) -> None:
        """End handshakes that take too long. They are in the order of their begin."""
        while self._begun_ms:
            transport, begun_ms = next(iter(self._begun_ms.items()))
            if now_ms - begun_ms <= self._timeout_ms:
                return
            transport.refuse(TimeoutError(f"the handshake took longer than {self._timeout_ms} ms"))
            if transport in self._begun_ms:      # its transport reports the end later
                self._begun_ms[transport] = self._begun_ms.pop(transport) + self._timeout_ms

    def abort(self) -> None:
        """End all handshakes."""
        for transport in list(self._begun_ms):
            transport.abort()

    def _log(self, transport: TlsTransport, why: str) -> None:
        self._bounded_log.put("listener %s: no TLS connection with %s:%d: %s", self.name, transport.peer_host,
                                  transport.peer_port, why)
        if (audit := self._server.audit) is not None:
            audit.login_failed(self.name, transport.peer_host, transport.peer_port, "TLS", why)


class DueHandshake:
    """A client whose first record is complete."""

    __slots__ = ("listener", "peer_host", "transport")

    def __init__(self, listener: TlsListener, transport: TlsTransport) -> None:
        self.listener = listener
        self.transport = transport
        self.peer_host = transport.peer_host


class HandshakeQueue:
    """Handshakes of all listeners that are due. Those of one address begin in the order of their first records."""

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self.memory = TlsMemory(WINDOW_BYTES)
        """Memory that every encrypted connection uses."""
        self._due: HostShares[DueHandshake] = HostShares()
        self._is_scheduled = False

    def add(self, listener: TlsListener, transport: TlsTransport) -> None:
        """Begin this handshake when it is the turn of its address."""
        self._due.add(DueHandshake(listener, transport))
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        spent_ns = 0
        while self._due and spent_ns < SLICE_NS:
            due = self._due.take()
            began_ns = self._clock_ns()
            due.listener.begin(due.transport)
            took_ns = self._clock_ns() - began_ns
            self._due.charge(due, took_ns)
            spent_ns += took_ns
        if self._due:
            self._schedule()


class Admitted:
    """Server as the connections see it that were counted before their handshake."""

    def __init__(self, server: "Server") -> None:
        self._server = server

    def admit(self, connection: Connection) -> None:
        """Admit the connection: its address is counted already."""
        self._server.demand_authentication(connection)

    def left(self, connection: Connection) -> None:
        """Remove a closed connection from the counts."""
        self._server.left(connection)


def reason_of(error: BaseException | None) -> str:
    """Return the word that a failed handshake is counted by."""
    if isinstance(error, RefusedClientError):
        return LIMIT
    if isinstance(error, TimeoutError):
        return TIMEOUT
    if not isinstance(error, ssl.SSLError):
        return CLOSED
    reason = getattr(error, "reason", None) or ""       # an error of our own has none
    if reason in REASONS:
        return REASONS[reason]
    if "ALERT" in reason:
        return PEER_REFUSED
    return NOT_TLS if reason in ("", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST") else OTHER


def sentence_of(reason: str, error: BaseException | None) -> str:
    """Return why a handshake failed, for operators."""
    match reason:
        case "plaintext":
            return "the client does not speak TLS; is its security.protocol PLAINTEXT?"
        case "no_certificate":
            return "the client has no certificate, and ssl.client.auth=required"
        case "certificate":
            why = getattr(error, "verify_message", None) or error
            return f"the client's certificate is not trusted: {why}"
        case "version":
            return f"no common version of TLS ({error})"
        case "cipher":
            return f"no common cipher suite ({error})"
        case "refused_by_peer":
            return f"the client refused the certificate of this node or its settings ({error})"
        case _:
            return str(error)
