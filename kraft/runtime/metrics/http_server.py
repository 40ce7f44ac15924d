"""Metrics and health of a node over HTTP, plain or with TLS.

    metrics = MetricsServer(partial(read, node), host, port)    # bound, and answering
    await metrics.close()

- `GET /metrics`: the values for Prometheus, with a token where one is configured.
- `GET /health`: 200 while the node serves, 503 when its loop does not answer in time. It says nothing else, and needs
  no token.

It runs on a few threads of its own; the loop's thread is used to read values only.
"""

import asyncio
import hmac
import logging
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import MetricsHandler

from kraft.config.errors import InvalidConfigError
from kraft.runtime.metrics.scrape import NodeCollector, Read

log = logging.getLogger(__name__)

SCRAPES_MAX: Final = 4
IDLE_SECONDS_MAX: Final = 10.0
STOP_POLL_SECONDS: Final = 0.05
HEALTH_SECONDS_MAX: Final = 2.0
REFUSAL_SECONDS: Final = 0.1
"""Time before a wrong token is answered."""
TOKEN_CHARACTERS_MIN: Final = 16
FILE_OF_TOKENS: Final = "kraft.metrics.token.file"
BEARER: Final = "Bearer "

Refused = Callable[[str, int, str], object]


class TokenFile:
    """Tokens that a scrape may have: the lines of a file. It is read again for each scrape, so tokens are replaced
    without a restart: a file may have the previous one and the next one."""

    def __init__(self, path: Path) -> None:
        """Read the file once. Raises `InvalidConfigError` for a file that cannot be used."""
        self._path = path
        self._tokens()

    def accepts(self, authorization: str) -> bool:
        """Return whether the header has one of the tokens. The time does not depend on them. A file that cannot be
        used any more has none."""
        scheme, token = authorization[:len(BEARER)], authorization[len(BEARER):].strip().encode()
        try:
            tokens = self._tokens()
        except InvalidConfigError:
            return False
        found = [hmac.compare_digest(each, token) for each in tokens]
        return any(found) and scheme.lower() == BEARER.lower()

    def _tokens(self) -> list[bytes]:
        try:
            lines = self._path.read_bytes().split()
        except OSError as error:
            raise InvalidConfigError(f"{FILE_OF_TOKENS}: {self._path}: {error.strerror}") from error
        if not lines or min(map(len, lines)) < TOKEN_CHARACTERS_MIN:
            raise InvalidConfigError(f"{FILE_OF_TOKENS}: {self._path} has no token, or one of fewer than "
                                     f"{TOKEN_CHARACTERS_MIN} characters")
        return lines


class _Handler(MetricsHandler):
    """GET /metrics and /health, and nothing else. The connection of an unresponsive peer is closed."""

    timeout = IDLE_SECONDS_MAX
    tokens: TokenFile | None
    refused: Refused
    is_healthy: Callable[[], bool]

    def do_GET(self) -> None:  # noqa: N802 - the name that the library calls
        path = self.path.partition("?")[0]
        if path == "/health":
            self._answer_health()
        elif path != "/metrics":
            self.send_error(404, "metrics are at /metrics")
        elif self.tokens is not None and not self.tokens.accepts(self.headers.get("Authorization", "")):
            why = "it has another token" if "Authorization" in self.headers else "it has no token"
            self.refused(self.client_address[0], self.client_address[1], why)
            time.sleep(REFUSAL_SECONDS)
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Bearer")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            super().do_GET()

    def _answer_health(self) -> None:
        is_well = self.is_healthy()
        body = b"ok\n" if is_well else b"not serving\n"
        self.send_response(200 if is_well else 503)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _HttpServer(ThreadingHTTPServer):
    """One thread per connection, for a few connections; more are closed at once. A TLS handshake is in the connection's
    thread, and has the same time as any other silence."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[_Handler],
                 context: Callable[[], ssl.SSLContext] | None) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._free = threading.BoundedSemaphore(SCRAPES_MAX)
        self._context = context
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve one connection."""
        if self._context is not None:
            request.settimeout(IDLE_SECONDS_MAX)
            with self._context().wrap_socket(request, server_side=True) as encrypted:
                super().finish_request(encrypted, client_address)
        else:
            super().finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the library's signature
        """Log an error, unless the peer closed its connection; the peer gets no answer."""
        error = sys.exception()
        if not isinstance(error, OSError):
            log.error("metrics could not be sent to %s", client_address, exc_info=error)
        elif isinstance(error, ssl.SSLError):
            log.debug("metrics: no TLS connection with %s:%d: %s", *client_address[:2], error)


class MetricsServer:
    """Server of the values of `read` (see `NodeCollector`). Create and close it on the loop's thread.

    `context` returns the context of a new connection, None for one without TLS. `tokens`: those that a scrape may have;
    None: it needs none. `refused` is called on the loop's thread with the address of a client that has none, and why.
    Raises `OSError`, which names the address, when it cannot be bound. `port` is the real one.
    """

    def __init__(self, read: Read, host: str, port: int, *, context: Callable[[], ssl.SSLContext] | None = None,
                 tokens: TokenFile | None = None, refused: Refused = lambda _host, _port, _why: None) -> None:
        registry = CollectorRegistry(auto_describe=False)
        loop = asyncio.get_running_loop()
        registry.register(NodeCollector(read, loop))
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        handler = type("Handler", (_Handler,), {
            "registry": registry, "tokens": tokens,
            "refused": staticmethod(lambda *client: _call_on(loop, refused, *client)),
            "is_healthy": staticmethod(lambda: _answers(loop))})
        try:
            self._http = _HttpServer((host, port), handler, context)
        except OSError as error:
            raise OSError(error.errno, error.strerror, f"kraft.metrics.listener {host}:{port}") from error
        self.host = host
        self.port: int = self._http.server_address[1]
        self.scheme = "http" if context is None else "https"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(STOP_POLL_SECONDS,),
                                        name="metrics", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Stop answering. A scrape in progress may still end."""
        await asyncio.to_thread(self._http.shutdown)
        self._http.server_close()
        self._thread.join()


def _call_on(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object) -> None:
    with suppress(RuntimeError):           # the node has ended meanwhile
        loop.call_soon_threadsafe(function, *arguments)


def _answers(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether the loop runs what it is given, soon."""
    done = threading.Event()
    _call_on(loop, done.set)
    return done.wait(HEALTH_SECONDS_MAX)
