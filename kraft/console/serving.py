"""The console's own socket and server."""

import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from kraft.console.app import App
from kraft.console.visits import Console
from kraft.http_heads import HeadTimer
from kraft_native.base.errors import InvalidArgumentError

BACKLOG: Final = 64
CONNECTIONS_MAX: Final = 200
KEEP_ALIVE_SECONDS: Final = 15


class TimedProtocol(H11Protocol):
    """Connection of a browser, which is closed when the head of its request does not come in time: the connections of
    all visitors have one limit."""

    timer: HeadTimer | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.timer = HeadTimer(self.loop, transport)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        assert self.timer is not None
        cycle: Any = self.cycle
        self.timer.note(is_idle=cycle is None or bool(cycle.response_complete))

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        super().connection_lost(exc)


class Server(uvicorn.Server):
    """A server for which SIGTERM and Ctrl-C are the regular end."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """End on either signal. The base class would send it again to the process afterwards."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 lets the system choose. Raises `InvalidArgumentError` when the address cannot
    be used."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        found = socket.socket(family, socket.SOCK_STREAM)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind((host, port))
            found.listen(BACKLOG)
        except BaseException:
            found.close()
            raise
    except OSError as error:
        raise InvalidArgumentError(f"--listen: {host}:{port}: {error}") from error
    return found


def serve(console: Console, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    app = App(console)
    config = uvicorn.Config(app.asgi, log_level="error", access_log=False, http=TimedProtocol, ws="none",
                            lifespan="off", server_header=False, limit_concurrency=CONNECTIONS_MAX,
                            timeout_keep_alive=KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=2)
    server = Server(config)
    ready()
    try:
        server.run(sockets=[listener])
    finally:
        app.close()
        listener.close()
