"""The gateway's listening sockets. Every connection is counted when it is accepted, before any handshake of TLS."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from kraft.config.errors import InvalidConfigError
from kraft.gateway.door import Address, Door, Entry
from kraft.tls.contexts import server_context
from kraft.tls.settings import StoreSettings, TlsSettings

BACKLOG: Final = 4_096
ACCEPTED_AT_ONCE: Final = 64
"""Connections of one step of the loop."""
PAUSE_SECONDS: Final = 0.1
"""Time without further connections after the system had no more of something, such as descriptors."""
HANDSHAKE_SECONDS: Final = 10.0
SHUTDOWN_SECONDS: Final = 5.0
"""Time for the other side's end of TLS, after which the connection is closed."""

LOG: Final = logging.getLogger(__name__)


def listen(host: str, port: int) -> list[socket.socket]:
    """Return listening sockets, one for each address of the name; port 0 lets the system choose. Raises
    `InvalidConfigError` when one cannot be used."""
    found: list[socket.socket] = []
    try:
        for family, _, _, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            bound = (str(place[0]), found[0].getsockname()[1] if found else port)
            found.append(socket.create_server(bound, family=family, backlog=BACKLOG))
            found[-1].setblocking(False)
    except OSError as error:
        for each in found:
            each.close()
        raise InvalidConfigError(f"--listen {host}:{port}: the address cannot be used: {error.strerror}") from error
    return found


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return the context of a certificate chain and its key, in PEM. Raises `TlsError` for unusable files."""
    return server_context(TlsSettings(
        keystore=StoreSettings(kind="keystore", type="PEM", location=certificate, key_location=key),
        truststore=StoreSettings(kind="truststore")))


class Listener:
    """Accepts connections on the loop's thread until `close`. It is one of the server's `servers`."""

    def __init__(self, sockets: Sequence[socket.socket], door: Door, connect: Callable[[Address], asyncio.Protocol],
                 context: ssl.SSLContext | None) -> None:
        self.sockets = sockets
        self._door = door
        self._connect = connect
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._entering: set[asyncio.Task[None]] = set()
        """Connections whose protocol has not begun: those in a handshake."""
        self._is_closed = False
        for each in sockets:
            self._loop.add_reader(each, self._accept, each)

    def close(self) -> None:
        """Accept no more, and end handshakes."""
        if not self._is_closed:
            self._is_closed = True
            for each in self.sockets:
                self._loop.remove_reader(each)
                each.close()
            for task in self._entering:
                task.cancel()

    async def wait_closed(self) -> None:
        """Return when no handshake is in progress."""
        await asyncio.gather(*self._entering, return_exceptions=True)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, peer = listening.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as error:        # of descriptors or memory: the loop would report the socket again at once
                LOG.warning("no connection is accepted for %.1f s: %s", PAUSE_SECONDS, error)
                self._loop.remove_reader(listening)
                self._loop.call_later(PAUSE_SECONDS, self._continue, listening)
                return
            address = (str(peer[0]), int(peer[1]))
            if self._door.enter(address) is Entry.REFUSED:
                accepted.close()
                continue
            accepted.setblocking(False)
            task = self._loop.create_task(self._begin(accepted, address))
            self._entering.add(task)
            task.add_done_callback(self._entering.discard)

    def _continue(self, listening: socket.socket) -> None:
        if not self._is_closed:
            self._loop.add_reader(listening, self._accept, listening)

    async def _begin(self, accepted: socket.socket, address: Address) -> None:
        """Give a connection its protocol, after the handshake where there is TLS. Whatever is wrong ends it."""
        times = {} if self._context is None else {"ssl_handshake_timeout": HANDSHAKE_SECONDS,
                                                  "ssl_shutdown_timeout": SHUTDOWN_SECONDS}
        try:
            await self._loop.connect_accepted_socket(lambda: self._connect(address), accepted,
                                                     ssl=self._context, **times)
        except (OSError, asyncio.CancelledError):       # of TLS and of its time, too
            self._door.leave(address)
            accepted.close()
