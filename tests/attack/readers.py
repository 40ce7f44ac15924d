"""Clients that request large replies and do not read them, or read them slowly."""

import socket
import threading
import time
from typing import Final

from tests.attack.pauses import Pauses
from tests.attack.requests import Hostile, attacks
from tests.attack.run import OBSERVED_SECONDS, SAMPLES_WANTED, Row, Watched, kept, second, yield_processor
from tests.attack.second import Second
from tests.integration.process import NodeProcess

BUFFER_BYTES: Final = 4096
"""The client's own buffer, as small as possible."""
SLOW_BYTES: Final = 2048
SLOW_SECONDS: Final = 0.01
IDLE_SECONDS: Final = 0.5
"""Interval over which the node's processor time is compared."""
BUSY_SECONDS_MAX: Final = 120.0
REQUESTS: Final = ("DescribeUserScramCredentials: users", "FindCoordinator: keys", "DescribeConfigs: pipelined")


class Reader(threading.Thread):
    """Client that sends its frames, then reads little or nothing until it is stopped or the node closes."""

    def __init__(self, port: int, frames: bytes, *, slow: bool) -> None:
        super().__init__(name="reader", daemon=True)
        self._connection = socket.socket()
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self._connection.settimeout(BUSY_SECONDS_MAX)
        self._connection.connect(("127.0.0.1", port))
        self._frames, self._slow = frames, slow
        self.ended = threading.Event()
        self.was_closed = False

    def run(self) -> None:
        yield_processor()
        sender = threading.Thread(target=self._send, daemon=True)
        sender.start()
        try:
            while self._slow and not self.ended.wait(SLOW_SECONDS):
                if not self._connection.recv(SLOW_BYTES):
                    break
        except OSError:
            self.was_closed = True
        self.ended.wait()
        self._connection.close()
        sender.join()

    def _send(self) -> None:
        try:
            self._connection.sendall(self._frames)
        except OSError:
            self.was_closed = True


def unread(node: NodeProcess, hostile: Hostile, connections: int, *, slow: bool) -> Row:
    """Run `connections` clients that send the same requests, with a second client beside them. The memory is
    measured until all of them have ended."""
    frame = hostile.frame() * hostile.copies
    row = Row(f"{hostile.name}, {'read slowly' if slow else 'not read'}", connections, len(frame) * connections)
    watched = Watched(node)
    watched.reset()
    base, cpu = watched.memory("VmRSS"), watched.cpu_seconds()
    pauses, beside = Pauses(), second(node.port)
    began = time.monotonic()
    readers = [Reader(node.port, frame, slow=slow) for _ in range(connections)]
    for each in readers:
        each.start()
    if not slow:
        await_idle(watched)
    await_samples(beside)
    row.set_latencies(beside.end(), pauses.end())
    row.seconds = time.monotonic() - began
    row.memory_bytes = max(0, watched.memory("VmHWM") - base)
    for each in readers:
        each.ended.set()
    for each in readers:
        each.join()
    row.kept_bytes = kept(watched, base)
    row.cpu_seconds = watched.cpu_seconds() - cpu
    row.end = f"{sum(each.was_closed for each in readers)} closed"
    return row


def await_samples(beside: Second) -> None:
    """Wait until the second client has enough samples, for a bounded time."""
    deadline = time.monotonic() + OBSERVED_SECONDS
    while time.monotonic() < deadline and beside.count() < SAMPLES_WANTED:
        time.sleep(SLOW_SECONDS)


def await_idle(watched: Watched) -> None:
    """Wait until the node serves only the second client, which needs less than half of a processor."""
    deadline = time.monotonic() + BUSY_SECONDS_MAX
    while time.monotonic() < deadline:
        before = watched.cpu_seconds()
        time.sleep(IDLE_SECONDS)
        if watched.cpu_seconds() - before < IDLE_SECONDS / 2:
            return


def requests_of(elements: int, copies: int) -> list[Hostile]:
    """Return the requests with large replies."""
    return [each for each in attacks(elements, copies) if each.name in REQUESTS and not each.controller]
