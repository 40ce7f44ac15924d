"""A gateway in a process of its own, and clients of it over plain sockets."""

import http.client
import json
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from tests.golden import REPOSITORY

SECONDS: Final = 30.0


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class Event(NamedTuple):
    id: str
    name: str
    data: Any


class GatewayClient:
    def __init__(self, host: str, port: int, context: ssl.SSLContext | None = None) -> None:
        self.host = host
        self.port = port
        self._context = context

    def connection(self) -> http.client.HTTPConnection:
        """Return a connection that opens with its first request."""
        if self._context is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=SECONDS)
        return http.client.HTTPSConnection(self.host, self.port, timeout=SECONDS, context=self._context)

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send one request. A body that is not bytes is sent as JSON."""
        given = {name.replace("_", "-"): text for name, text in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body, given = json.dumps(body).encode(), {"Content-Type": "application/json", **given}
        connection = self.connection()
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            content = answer.read()
            kind = answer.getheader("content-type", "")
            return Answer(answer.status, {name.lower(): text for name, text in answer.getheaders()},
                          json.loads(content) if kind == "application/json" else content.decode())
        finally:
            connection.close()

    @contextmanager
    def events(self, path: str, **headers: str) -> Iterator[Iterator[Event]]:
        """Yield the events of a subscription, whose connection ends with the block."""
        connection = self.connection()
        try:
            connection.request("GET", path, headers={name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            assert answer.getheader("content-type", "").startswith("text/event-stream")
            yield read_events(answer)
        finally:
            connection.close()


def read_events(answer: http.client.HTTPResponse) -> Iterator[Event]:
    """Yield events as a browser does: a block without data sets the id only."""
    last, name, data = "", "message", ""
    while line := answer.readline():
        field, _, text = line.decode().rstrip("\n").partition(": ")
        if field == "id":
            last = text
        elif field == "event":
            name = text
        elif field == "data":
            data = text
        elif not field:
            if data or last:
                yield Event(last, name if data else "", json.loads(data) if data else None)
            name, data = "message", ""


@contextmanager
def running_gateway(bootstrap: str, *options: str, context: ssl.SSLContext | None = None) -> Iterator[GatewayClient]:
    """Run `kraft gateway` with these options. It must end cleanly by SIGTERM. `context`: of its clients, for TLS."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kraft", "gateway", "--listen", "127.0.0.1:0", "--bootstrap", bootstrap, "--json",
         *options], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise AssertionError(process.communicate(timeout=SECONDS)[1])
        scheme, _, place = json.loads(line)["url"].partition("://")
        assert scheme == ("http" if context is None else "https")
        host, _, port = place.rpartition(":")
        yield GatewayClient(host, int(port), context)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=SECONDS)
        assert (process.returncode, errors) == (0, ""), errors
    finally:
        process.kill()
        process.wait()
