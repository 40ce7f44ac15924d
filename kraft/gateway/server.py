"""The gateway's process: an HTTP server on one event loop."""

import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import uvicorn

from kraft.gateway.app import Gateway
from kraft.gateway.door import Door, protocol_of
from kraft.gateway.settings import Settings

BACKLOG: Final = 4_096
STOP_SECONDS: Final = 10
HEADER_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of the server's certificate and key."""

    certificate: str
    key: str
    key_password: str | None = None


class GatewayServer(uvicorn.Server):
    """Server that creates its gateway on the loop, and ends subscribers before it waits for requests."""

    def __init__(self, settings: Settings, address: tuple[str, int], tls: Tls | None,
                 ready: Callable[[tuple[str, int]], object]) -> None:
        self._settings = settings
        self._door = Door(settings.limits.connections_per_address)
        self._ready = ready
        self._gateway: Gateway | None = None
        super().__init__(uvicorn.Config(
            self._never, host=address[0], port=address[1], http=protocol_of(self._door), ws="none", lifespan="off",
            loop="uvloop", log_config=None, log_level="error", access_log=False, server_header=False, backlog=BACKLOG,
            proxy_headers=False, timeout_keep_alive=HEADER_SECONDS, timeout_graceful_shutdown=STOP_SECONDS,
            ssl_certfile=tls.certificate if tls else None, ssl_keyfile=tls.key if tls else None,
            ssl_keyfile_password=tls.key_password if tls else None))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._gateway = Gateway(self._settings, self._door)
        self.config.loaded_app = self._gateway.app()
        await super().startup(sockets)
        if self.servers:
            bound = self.servers[0].sockets[0].getsockname()
            self._ready((bound[0], bound[1]))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._gateway is not None:
            self._gateway.end_subscribers()
        await super().shutdown(sockets)
        if self._gateway is not None:
            await self._gateway.close()

    @staticmethod
    async def _never(_scope: object, _receive: object, _send: object) -> None:
        raise AssertionError("the application is created on the loop")


def serve(settings: Settings, address: tuple[str, int], *, tls: Tls | None = None,
          ready: Callable[[tuple[str, int]], object] = lambda _address: None) -> None:
    """Serve until SIGTERM or Ctrl-C. `ready` gets the address that is bound. Raises `OSError` when it cannot be, and
    what `Gateway` raises."""
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: None)   # the server ends, and then raises it again
    try:
        GatewayServer(settings, address, tls, ready).run()
    finally:
        signal.signal(signal.SIGTERM, before)
