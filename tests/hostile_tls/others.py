"""Clients beside an attack, as a process of its own: `python -m tests.hostile_tls.others PLAIN_PORT TLS_PORT CA FRAME`.

One connection without TLS and one with it send a small request (FRAME, in hexadecimal) again and again. A third client
opens a connection with TLS, sends one request, and closes it. For each line of its input the process prints the
latencies since the previous one, in milliseconds: percentiles as JSON.
"""

import gc
import json
import socket
import ssl
import sys
import threading
import time
from typing import Final

PAUSE_SECONDS: Final = 0.002
NEW_PAUSE_SECONDS: Final = 0.005
ANSWER_SECONDS_MAX: Final = 60.0


class Client(threading.Thread):
    """One client. `failure` is why it stopped."""

    def __init__(self, name: str, port: int, context: ssl.SSLContext | None, frame: bytes, *, is_new: bool) -> None:
        super().__init__(name=name, daemon=True)
        self.port, self.context, self.frame, self.is_new = port, context, frame, is_new
        self.latencies_ms: list[float] = []
        self.failure = ""

    def run(self) -> None:
        try:
            connection = self._connected()
            while True:
                began = time.perf_counter()
                if self.is_new:
                    connection.close()
                    connection = self._connected()
                connection.sendall(self.frame)
                receive(connection)
                self.latencies_ms.append((time.perf_counter() - began) * 1000)
                time.sleep(NEW_PAUSE_SECONDS if self.is_new else PAUSE_SECONDS)
        except OSError as error:
            self.failure = repr(error)

    def _connected(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), ANSWER_SECONDS_MAX)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection if self.context is None else self.context.wrap_socket(connection, server_hostname="localhost")

    def taken(self) -> dict[str, object]:
        """Return the percentiles since the last call."""
        taken, self.latencies_ms = sorted(self.latencies_ms), []
        found: dict[str, object] = {"count": len(taken), "failure": self.failure}
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            found[name] = taken[min(len(taken) - 1, int(share * len(taken)))] if taken else 0.0
        return found


def receive(connection: socket.socket) -> None:
    """Read one reply and drop it."""
    head = connection.recv(4)
    if len(head) < 4:
        raise ConnectionError("closed")
    left = int.from_bytes(head, "big")
    while left and (part := connection.recv(left)):
        left -= len(part)
    if left:
        raise ConnectionError("closed")


def main() -> None:
    plain_port, tls_port, authority, frame = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], bytes.fromhex(sys.argv[4])
    context = ssl.create_default_context(cafile=authority)
    gc.disable()                       # a pause of its own is none of the node's
    clients = [Client("plain", plain_port, None, frame, is_new=False),
               Client("tls", tls_port, context, frame, is_new=False),
               Client("new tls", tls_port, context, frame, is_new=True)]
    for each in clients:
        each.start()
    for _ in sys.stdin:
        print(json.dumps({each.name: each.taken() for each in clients}), flush=True)


if __name__ == "__main__":
    main()
