"""The owner's side of the process that forks nodes (`forkserver`)."""

import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import kraft
from kraft.local.errors import LocalNodeError
from kraft.local.spec import NodeSpec

ROOT: Final = Path(kraft.__file__).parents[1]
END_SECONDS: Final = 10.0


class Launcher:
    """Starts its process at once, and does not wait for it: importing takes longer than anything else in a start, and
    can go on while the owner does something else. Any thread may call. A context manager."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # In a session of its own: a terminal's Ctrl-C is the owner's affair.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kraft.local.forkserver", str(theirs.fileno())], cwd=ROOT,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                start_new_session=True)
        self._socket = ours
        self._lock = threading.Lock()
        self._greeted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, spec: NodeSpec, told: int, agent: int) -> int:
        """Forks a node and gives its pid; `told` and `agent` are descriptors that the node gets."""
        return int(self._ask(b"S" + spec.encode(), [told, agent]))

    def signal(self, pid: int, number: int) -> None:
        """Signals a node that was not waited for yet."""
        self._ask(b"K%d %d" % (pid, number))

    def wait(self, pid: int) -> int:
        """The exit status of a node that ends; below 0 the signal that ended it."""
        return int(self._ask(b"W%d" % pid))

    def close(self) -> None:
        """Kills what runs, and ends the process."""
        self._socket.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, packet: bytes, descriptors: list[int] | None = None) -> bytes:
        with self._lock:
            if not self._greeted:
                self._receive()
                self._greeted = True
            socket.send_fds(self._socket, [packet], descriptors or [])
            return self._receive()

    def _receive(self) -> bytes:
        answer = self._socket.recv(1 << 10)
        if not answer:
            raise LocalNodeError(f"the process that starts nodes ended with {self._process.wait()}")
        return answer[1:]
