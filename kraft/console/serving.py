"""The console's own socket and server."""

import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import uvicorn

from kraft.console.app import App
from kraft.console.visits import Console
from kraft_native.base.errors import InvalidArgumentError

BACKLOG: Final = 64
CONNECTIONS_MAX: Final = 200
KEEP_ALIVE_SECONDS: Final = 15


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
    config = uvicorn.Config(app.asgi, log_level="warning", access_log=False, http="h11", ws="none", lifespan="off",
                            server_header=False, limit_concurrency=CONNECTIONS_MAX,
                            timeout_keep_alive=KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=2)
    server = Server(config)
    ready()
    try:
        server.run(sockets=[listener])
    finally:
        app.close()
        listener.close()
