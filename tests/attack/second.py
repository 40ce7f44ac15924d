"""Client beside an attack: it sends one small request after the other and measures each.

It is a process of its own (`python second.py PORT FRAME...`, frames in hexadecimal), so that it does not wait for the
attackers' threads. It prints a line when it is connected and stops at a line on its standard input. Then it prints
its latencies in milliseconds as JSON, sorted.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final

SAMPLES_MIN: Final = 100
PAUSE_SECONDS: Final = 0.0005
ANSWER_SECONDS_MAX: Final = 120.0
END_SECONDS_MAX: Final = 180.0


class Second:
    """The process. It runs from the constructor until `end`."""

    def __init__(self, port: int, frames: Sequence[bytes]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__, str(port), *(frame.hex() for frame in frames)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "connected\n":
            self._process.kill()
            self._process.communicate()
            raise ConnectionError("the second client cannot connect")

    def end(self) -> list[float]:
        """Stop it and return its latencies, sorted. Raises `ConnectionError` when the node closed its connection."""
        output, _ = self._process.communicate("\n", timeout=END_SECONDS_MAX)
        if self._process.returncode != 0:
            raise ConnectionError("the second client got no answer")
        latencies_ms: list[float] = json.loads(output)
        return latencies_ms


def receive(connection: socket.socket) -> None:
    """Read one reply and drop it."""
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    if not size or len(connection.recv(size, socket.MSG_WAITALL)) != size:
        raise ConnectionError("closed")


def main() -> None:
    frames = [bytes.fromhex(each) for each in sys.argv[2:]]
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), ANSWER_SECONDS_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.readline()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    print("connected", flush=True)
    latencies_ms: list[float] = []
    while not ended.is_set() or len(latencies_ms) < SAMPLES_MIN:
        began = time.perf_counter()
        connection.sendall(frames[len(latencies_ms) % len(frames)])
        receive(connection)
        latencies_ms.append((time.perf_counter() - began) * 1000)
        ended.wait(PAUSE_SECONDS)
    print(json.dumps(sorted(latencies_ms)), flush=True)


if __name__ == "__main__":
    main()
