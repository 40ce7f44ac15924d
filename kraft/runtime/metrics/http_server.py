"""Metrics, health and readiness of a node over HTTP, plain or with TLS.

    metrics = MetricsServer(partial(read, node), host, port)    # bound, and answering
    metrics.is_open = True                                      # the values can be read
    await metrics.close()

- `GET /metrics`: the values for Prometheus, with a token where one is configured. 503 while they cannot be read.
- `GET /health`: 200 while the node lives, 503 when its loop does not answer in time. It says nothing else, and needs
  no token.
- `GET /ready`: 200 when the node should be sent work, else 503, with the reasons as JSON (`kraft.broker.readiness`).
  Where a token is configured, a request without one receives the codes of the reasons only.
- `GET /stacks`: the stacks of the node's threads (`kraft debug bundle`), with a token where one is configured, else to
  clients on this machine only.

It runs on a few threads of its own; the loop's thread is used to read values only.
"""

import asyncio
import hmac
import json
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

from kraft.broker.readiness import Finding, Verdict
from kraft.config.errors import InvalidConfigError
from kraft.runtime.metrics.scrape import NodeCollector, Read
from kraft.runtime.metrics.stacks import stacks_text

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
TEXT: Final = "text/plain; charset=utf-8"
PATHS: Final = ("/metrics", "/ready", "/stacks")
LOCAL: Final = ("127.", "::1", "::ffff:127.")
"""Beginnings of the addresses of this machine itself."""

Refused = Callable[[str, int, str], object]

READY: Final = Verdict((), ())


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
    """GET /metrics, /health, /ready and /stacks, and nothing else. The connection of an unresponsive peer is closed."""

    timeout = IDLE_SECONDS_MAX
    tokens: TokenFile | None
    refused: Refused
    is_healthy: Callable[[], bool]
    verdict: Callable[[], Verdict]
    is_open: Callable[[], bool]

    def do_GET(self) -> None:  # noqa: N802 - the name that the library calls
        path = self.path.partition("?")[0]
        has_token = "Authorization" in self.headers
        if path == "/health":
            is_well = self.is_healthy()
            self._answer(200 if is_well else 503, TEXT, "ok\n" if is_well else "not serving\n")
        elif path not in PATHS:
            self.send_error(404, "paths are /metrics, /health, /ready and /stacks")
        elif self.tokens is not None and (has_token or path != "/ready") and not self.tokens.accepts(
                self.headers.get("Authorization", "")):
            self.refused(self.client_address[0], self.client_address[1],
                         "it has another token" if has_token else "it has no token")
            time.sleep(REFUSAL_SECONDS)
            self._answer(401, TEXT, "", ("WWW-Authenticate", "Bearer"))
        elif path == "/ready":
            self._answer_ready(shows_texts=self.tokens is None or has_token)
        elif path == "/stacks":
            is_allowed = self.tokens is not None or self.client_address[0].startswith(LOCAL)
            self._answer(200 if is_allowed else 403, TEXT, stacks_text() if is_allowed else
                         "without tokens (kraft.metrics.token.file) only to clients on this machine\n")
        elif not self.is_open():
            self._answer(503, TEXT, "metrics cannot be read while the node starts or stops; see /ready\n")
        else:
            super().do_GET()

    def _answer_ready(self, *, shows_texts: bool) -> None:
        verdict = self.verdict()

        def shown(findings: tuple[Finding, ...]) -> list[dict[str, str]]:
            return [{"code": each.code, "text": each.text} if shows_texts else {"code": each.code}
                    for each in findings]

        body = {"ready": verdict.is_ready, "reasons": shown(verdict.reasons), "warnings": shown(verdict.warnings)}
        self._answer(200 if verdict.is_ready else 503, "application/json", f"{json.dumps(body)}\n",
                     ("Cache-Control", "no-store"))

    def _answer(self, status: int, kind: str, text: str, *headers: tuple[str, str]) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
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
    `verdict` is called on any thread and returns the node's readiness. Raises `OSError`, which names the address, when
    it cannot be bound. `port` is the real one.
    """

    def __init__(self, read: Read, host: str, port: int, *, context: Callable[[], ssl.SSLContext] | None = None,
                 tokens: TokenFile | None = None, refused: Refused = lambda _host, _port, _why: None,
                 verdict: Callable[[], Verdict] = lambda: READY) -> None:
        registry = CollectorRegistry(auto_describe=False)
        loop = asyncio.get_running_loop()
        registry.register(NodeCollector(read, loop))
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        self.is_open = False
        """True while the values can be read: from the start until the node begins to close its parts."""
        handler = type("Handler", (_Handler,), {
            "registry": registry, "tokens": tokens, "verdict": staticmethod(verdict),
            "is_open": staticmethod(lambda: self.is_open),
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
