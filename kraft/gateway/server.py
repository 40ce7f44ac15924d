"""The gateway's process: an HTTP server on one event loop."""

import signal
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

import uvicorn

from kraft.gateway.app import Gateway
from kraft.gateway.door import Address, Door, protocol_of
from kraft.gateway.listener import Listener, listen
from kraft.gateway.settings import Settings

STOP_SECONDS: Final = 10
HEADER_SECONDS: Final = 60


class GatewayServer(uvicorn.Server):
    """Server that creates its gateway on the loop, and ends subscribers before it waits for requests."""

    def __init__(self, settings: Settings, context: ssl.SSLContext | None,
                 ready: Callable[[Address], object]) -> None:
        self._settings = settings
        self._context = context
        self._door = Door(settings.limits.connections_per_address, settings.limits.connections)
        self._ready = ready
        self._gateway: Gateway | None = None
        super().__init__(uvicorn.Config(
            self._never, http=protocol_of(self._door), ws="none", lifespan="off", loop="uvloop", log_config=None,
            log_level="error", access_log=False, server_header=False, proxy_headers=False,
            timeout_keep_alive=HEADER_SECONDS, timeout_graceful_shutdown=STOP_SECONDS))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections on these sockets. The base class would count none before its handshake."""
        assert sockets
        self._gateway = Gateway(self._settings, self._door)
        self.config.loaded_app = self._gateway.app()
        listener: Any = Listener(sockets, self._door, self._connect, self._context)
        self.servers = [listener]
        self.started = True
        bound = sockets[0].getsockname()
        self._ready((bound[0], bound[1]))

    def _connect(self, address: Address) -> Any:
        protocol: Any = self.config.http_protocol_class
        made = protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        made.address = address
        return made

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._gateway is not None:
            self._gateway.end_subscribers()
        await super().shutdown(sockets)
        if self._gateway is not None:
            await self._gateway.close()

    @staticmethod
    async def _never(_scope: object, _receive: object, _send: object) -> None:
        raise AssertionError("the application is created on the loop")


def serve(settings: Settings, address: Address, *, context: ssl.SSLContext | None = None,
          ready: Callable[[Address], object] = lambda _address: None) -> None:
    """Serve until SIGTERM or Ctrl-C. `ready` gets the address that is bound. Raises `InvalidConfigError` when it cannot
    be, and what `Gateway` raises."""
    listening = listen(*address)
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: None)   # the server ends, and then raises it again
    try:
        GatewayServer(settings, context, ready).run(listening)
    finally:
        signal.signal(signal.SIGTERM, before)
        for each in listening:
            each.close()
