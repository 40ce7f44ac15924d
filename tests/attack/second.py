"""Client beside an attack: it sends one small request after the other and measures each.

It is a process of its own (`python second.py PORT FRAME...`, frames in hexadecimal), so that it does not wait for the
attackers' threads. It prints a line when it is connected. For each line on its standard input it prints the number of
its requests until now. At the end of its input it stops and prints its requests as JSON: pairs of beginning and end, in
seconds of `time.perf_counter`, which all processes share.
"""

import gc
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

    def count(self) -> int:
        """Return the number of requests that were answered until now."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write("count\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            raise ConnectionError("the second client got no answer") from error

    def end(self) -> list[tuple[float, float]]:
        """Stop it and return beginning and end of each request, in seconds. Raises `ConnectionError` when the node
        closed its connection."""
        output, _ = self._process.communicate(timeout=END_SECONDS_MAX)
        if self._process.returncode != 0:
            raise ConnectionError("the second client got no answer")
        return [(begin, end) for begin, end in json.loads(output)]


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
        for _ in sys.stdin:
            print(len(requests), flush=True)
        ended.set()

    requests: list[tuple[float, float]] = []
    gc.disable()                       # a pause of its own is none of the node's
    print("connected", flush=True)
    threading.Thread(target=wait, daemon=True).start()
    while not ended.is_set() or len(requests) < SAMPLES_MIN:
        began = time.perf_counter()
        connection.sendall(frames[len(requests) % len(frames)])
        receive(connection)
        requests.append((began, time.perf_counter()))
        ended.wait(PAUSE_SECONDS)
    print(json.dumps(requests), flush=True)


if __name__ == "__main__":
    main()
