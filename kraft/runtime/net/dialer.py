"""Connections that a node opens to other nodes.

`Dialer.connect` is the only place that opens one, whatever it is for: the quorum, replication, the active controller,
checks and probes of brokers. It resolves names, limits the time for each step, applies the security context of the
listener, and logs in where the listener demands it. `Backoff` paces the attempts.
"""

import asyncio
import ipaddress
import logging
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kraft.config.sasl_settings import Credentials
from kraft.raft.types import Endpoint
from kraft_native.net.outgoing import plain_descriptor
from kraft_native.net.tls import TlsTransport
from kraft_native.net.tls_session import TlsMemory

if TYPE_CHECKING:
    from kraft.runtime.net.login import LoginIdentity

log = logging.getLogger(__name__)

RESOLVE_SECONDS_MAX: Final = 5.0
CONNECT_SECONDS_MAX: Final = 1.0
"""Limit for one address. A lost connection request is repeated by the system after one second, then after two, four and
so on."""
WARNING_SECONDS: Final = 10.0
HANDSHAKE_SECONDS_MAX: Final = 5.0
"""Limit for TLS on a connection. The other side may have many handshakes to do, as after a restart."""
WINDOW_BYTES: Final = 64 * 1024
PLAINTEXT: Final[Mapping[str, ssl.SSLContext]] = MappingProxyType({})
NO_LOGINS: Final[Mapping[str, Credentials]] = MappingProxyType({})


class LoginError(ConnectionError):
    """The other node does not accept this one, or cannot be trusted."""


def backoff_seconds(failures: int, first_seconds: float, max_seconds: float) -> float:
    """Return the pause after so many failures in a row: none without one, then the first one, doubled by each more."""
    return min(first_seconds * 2 ** min(failures - 1, 16), max_seconds) if failures else 0.0


class Backoff:
    """Pause before a failed action is tried again: a connection, a request, a replica. Times are seconds of one clock,
    that of the running loop unless given."""

    def __init__(self, first_seconds: float, max_seconds: float) -> None:
        self.first_seconds = first_seconds
        self.max_seconds = max_seconds
        self.failures = 0
        """Attempts that failed since the last success."""
        self._failed_at = 0.0

    @property
    def seconds(self) -> float:
        """The pause after the last failure."""
        return backoff_seconds(self.failures, self.first_seconds, self.max_seconds)

    def reset(self) -> None:
        """Try at once: the last attempt succeeded, or the address is another one."""
        self.failures = 0

    def failed(self, now: float | None = None) -> float:
        """Count an attempt that failed now, or a connection that broke now. Returns the pause."""
        self.failures += 1
        self._failed_at = asyncio.get_running_loop().time() if now is None else now
        return self.seconds

    def left(self, now: float) -> float:
        """Remaining seconds of the pause; 0 or less when it is over."""
        return self._failed_at + self.seconds - now if self.failures else 0.0

    async def wait(self) -> None:
        """Wait until the pause after the last failure is over."""
        if self.failures:
            await asyncio.sleep(max(0.0, self.left(asyncio.get_running_loop().time())))


class Dialer:
    """Opens connections to listeners of other nodes. Loop thread only.

    `contexts`: the TLS context for each listener name that is encrypted; other listeners are plain. `logins`: the
    credentials for each listener name that demands SASL. `unnamed` is the name of a listener whose endpoint has none:
    answers of the quorum name the leader's address only, which is one of controllers.
    """

    def __init__(self, contexts: Mapping[str, ssl.SSLContext] = PLAINTEXT,
                 logins: Mapping[str, Credentials] = NO_LOGINS, unnamed: str = "") -> None:
        self._contexts = contexts
        self._unnamed = unnamed
        self._logins = _identities(logins) if logins else {}
        self._warned: dict[Endpoint, float] = {}

    async def connect(self, endpoint: Endpoint, make: Callable[[], asyncio.BaseProtocol], *,
                      seconds: float = CONNECT_SECONDS_MAX) -> asyncio.Transport:
        """Connect the protocol of `make`, and return its transport.

        The addresses of the host are tried in order, each for `seconds`. Raises OSError otherwise, and nothing else:
        TimeoutError when an answer did not come in time, ConnectionRefusedError when the last address refuses, and
        others, such as `LoginError`. The protocol has received no callback then.
        """
        listener = endpoint.name or self._unnamed
        login = self._logins.get(listener)
        try:
            async with asyncio.timeout(RESOLVE_SECONDS_MAX):
                addresses = await _resolve(endpoint)
        except ValueError as error:    # a name with an empty or too long label
            raise OSError(f"{endpoint.host!r} is not a host name: {error}") from error
        refused = OSError(f"{endpoint.host!r} has no address")
        for address in addresses:
            try:
                context = self._contexts.get(listener)
                if login is None:
                    return await _open(endpoint, address, make, context, seconds)
                return await login.log_in(endpoint, make, partial(
                    _open, endpoint, address, context=context, seconds=seconds))
            except OSError as error:
                refused = error
        if isinstance(refused, LoginError | ssl.SSLError):
            self._warn(endpoint, "login" if isinstance(refused, LoginError) else "TLS handshake", str(refused))
        try:
            raise refused
        finally:
            del refused                # with its traceback it would form a cycle, which holds the transport

    def _warn(self, endpoint: Endpoint, what: str, why: str) -> None:
        """Log a refusal, once in a while for each listener: attempts follow each other within a second."""
        now = asyncio.get_running_loop().time()
        if now - self._warned.get(endpoint, -WARNING_SECONDS) >= WARNING_SECONDS:
            self._warned[endpoint] = now
            log.warning("the %s at listener %s fails: %s", what, endpoint.name or self._unnamed, why)


def _identities(logins: Mapping[str, Credentials]) -> "dict[str, LoginIdentity]":
    # Imported here: a node without SASL starts without it.
    from kraft.runtime.net.login import LoginIdentity
    return {name: LoginIdentity(login) for name, login in logins.items()}


async def probe(endpoint: Endpoint, *, seconds: float) -> None:
    """Open a connection and close it again: a listener that accepts shows a process, so no TLS is needed. Raises what
    `Dialer.connect` raises."""
    async with asyncio.timeout(seconds):
        transport = await Dialer().connect(endpoint, asyncio.Protocol, seconds=seconds)
    transport.abort()


async def _resolve(endpoint: Endpoint) -> list[str]:
    if is_address(endpoint.host):
        return [endpoint.host]
    found = await asyncio.get_running_loop().getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def _open(endpoint: Endpoint, address: str, make: Callable[[], asyncio.BaseProtocol],
                context: ssl.SSLContext | None, seconds: float) -> asyncio.Transport:
    try:
        if context is not None:
            return await _open_encrypted(endpoint, address, make, context, seconds)
        async with asyncio.timeout(seconds):
            transport, _ = await asyncio.get_running_loop().create_connection(make, address, endpoint.port)
    except OSError:
        raise
    except Exception as error:  # uvloop raises RuntimeError for a connection that is closed while it is being opened
        log.warning("%s:%d cannot be connected", endpoint.host, endpoint.port, exc_info=error)
        raise ConnectionError(f"{endpoint.host}:{endpoint.port}: {error!r}") from error
    return transport


class _Handshake:
    """TLS of one connection that is opened: the owner of its transport (`kraft_native.net.tls`)."""

    def __init__(self, make: Callable[[], asyncio.BaseProtocol], context: ssl.SSLContext, host: str) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._make = make
        self._context = context
        self._host = host

    def arrived(self, transport: TlsTransport) -> None:
        transport.begin(self._context, self._host)

    def hello(self, _transport: TlsTransport) -> None:
        raise AssertionError("only a client says hello")

    def opened(self, _transport: TlsTransport) -> asyncio.BaseProtocol:
        protocol = self._make()
        if not self.done.done():
            self.done.set_result(None)
        return protocol

    def failed(self, transport: TlsTransport) -> None:
        if not self.done.done():
            error = transport.error
            self.done.set_exception(error if isinstance(error, OSError) else ConnectionResetError(
                f"the other side ended TLS: {error or 'without an alert'}"))


class _Encrypted(TlsTransport, asyncio.BufferedProtocol):  # type: ignore[misc] # one transport is narrower
    """An encrypted connection for any loop."""


async def _open_encrypted(endpoint: Endpoint, address: str, make: Callable[[], asyncio.BaseProtocol],
                          context: ssl.SSLContext, seconds: float) -> asyncio.Transport:
    loop = asyncio.get_running_loop()
    handshake = _Handshake(make, context, endpoint.host)
    transport = _Encrypted(handshake, TlsMemory(WINDOW_BYTES), loop.call_soon, is_server=False)
    async with asyncio.timeout(seconds):
        await loop.create_connection(lambda: transport, address, endpoint.port)
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS_MAX):
            await handshake.done
    except BaseException:
        transport.abort()
        raise
    return transport  # type: ignore[return-value]


def is_address(host: str) -> bool:
    """Return whether the host is a numeric address, which needs no resolver."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def duplicate_socket(transport: asyncio.BaseTransport) -> int:
    """Return a duplicate of `plain_descriptor`, to which another thread may write; the caller closes it."""
    descriptor = plain_descriptor(transport)
    return descriptor if descriptor < 0 else os.dup(descriptor)
