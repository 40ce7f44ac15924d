"""Attacker with many connections, as a process of its own: `python -m tests.hostile_tls.attacker KIND COUNT PORT`.

`half-open` holds COUNT connections whose handshake does not continue, every second one after a part of a ClientHello.
One that the node closes is opened again. `failing` makes COUNT handshakes, one after the other on a few connections,
each of which fails in one of several ways.

It prints `holding` when all connections are open, respectively when it begins. At the end of its input, or of its
handshakes, it prints what it did as JSON.
"""

import json
import os
import selectors
import socket
import sys
import time
from collections import Counter
from typing import Final

from tests.hostile_tls.hellos import HANDSHAKE, SESSION_ID_AT, hello, old_hello, record

HALF_OPEN: Final = "half-open"
FAILING: Final = "failing"
ADDRESS: Final = "127.0.0.2"
"""Its own address: the node shares its time between addresses."""
AT_ONCE: Final = 64
OPENED_AT_ONCE: Final = 128
NICE: Final = 10
"""Priority of the attacker: a real one does not share the node's processors."""
ANSWER_BYTES: Final = 1 << 16


class Attacker:
    """Sockets, their answers, and what became of them."""

    def __init__(self, kind: str, count: int, port: int) -> None:
        self.kind, self.count, self.port = kind, count, port
        self.ends: Counter[str] = Counter()
        self.begun = 0
        self.open = 0
        self.selector = selectors.DefaultSelector()
        whole = hello()
        self.payloads = {
            "plaintext": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "garbage": bytes((HANDSHAKE, 9, 9, 0, 2, 1, 2)),
            "old": old_hello(), "malformed": whole[:SESSION_ID_AT] + b"\xff" + whole[SESSION_ID_AT + 1:],
            "leaves": whole, "alert": whole}
        self.part = whole[:100]

    def run(self) -> dict[str, object]:
        """Attack until the count is reached or the input ends."""
        began = time.monotonic()
        self.selector.register(sys.stdin, selectors.EVENT_READ, None)
        at_once = self.count if self.kind == HALF_OPEN else min(AT_ONCE, self.count)
        is_announced = False
        while True:
            for _ in range(min(OPENED_AT_ONCE, at_once - self.open)):
                if self.kind == FAILING and self.begun >= self.count:
                    break
                self._begin()
            if not is_announced and self.open >= at_once:
                is_announced = True
                print("holding", flush=True)
            for key, events in self.selector.select(0.05):
                if key.data is None:
                    return self._report(began)
                self._serve(key.fileobj, key.data, events)  # type: ignore[arg-type]
            if self.kind == FAILING and self.begun >= self.count and not self.open:
                return self._report(began)

    def _report(self, began: float) -> dict[str, object]:
        return {"begun": self.begun, "open": self.open, "ends": dict(self.ends), "seconds": time.monotonic() - began}

    def _begin(self) -> None:
        connection = socket.socket()
        connection.setblocking(False)
        connection.bind((ADDRESS, 0))
        connection.connect_ex(("127.0.0.1", self.port))
        names = list(self.payloads)
        what = names[self.begun % len(names)] if self.kind == FAILING else ("part", "silent")[self.begun % 2]
        self.begun += 1
        self.open += 1
        self.selector.register(connection, selectors.EVENT_WRITE, what)

    def _serve(self, connection: socket.socket, what: str, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                if what != "silent":
                    connection.send(self.part if what == "part" else self.payloads[what])
                self.selector.modify(connection, selectors.EVENT_READ, what)
                return
            answer = connection.recv(ANSWER_BYTES)
        except OSError as error:
            self._end(connection, f"{what}: {type(error).__name__}")
            return
        if answer and what == "alert":
            connection.send(record(HANDSHAKE, bytes(64)))
            self.selector.modify(connection, selectors.EVENT_READ, "after a broken record")
        elif not answer or what in ("leaves", "old"):
            self._end(connection, f"{what}: {'answered' if answer else 'closed'}")

    def _end(self, connection: socket.socket, how: str) -> None:
        self.ends[how] += 1
        self.open -= 1
        self.selector.unregister(connection)
        connection.close()


def main() -> None:
    os.nice(NICE)
    kind, count, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(Attacker(kind, count, port).run()), flush=True)


if __name__ == "__main__":
    main()
