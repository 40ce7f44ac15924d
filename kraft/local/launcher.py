"""The owner's side of the process that forks nodes (`forkserver`)."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import kraft
from kraft.local.errors import LocalNodeError
from kraft.local.spec import NodeSpec

ROOT: Final = Path(kraft.__file__).parents[1]
END_SECONDS: Final = 10.0


class Launcher:
    """Owner of the process. It starts the process at once without waiting: imports take longer than anything else in a
    start, and can continue while the owner works. Any thread may call. A context manager.

    - `prefix`: a command that executes its arguments, such as `unshare`, for nodes in a world of their own.
    - `environment`: further variables of the process and its nodes.
    """

    def __init__(self, prefix: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # In its own session: Ctrl-C at a terminal is for the owner.
            self._process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "kraft.local.forkserver", str(theirs.fileno())], cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                start_new_session=True)
        self._socket = ours
        self._lock = threading.Lock()
        self._greeted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, spec: NodeSpec, report_fd: int, agent: int) -> int:
        """Fork a node and return its pid; `report_fd` and `agent` are descriptors for the node."""
        return int(self._request(b"S" + spec.encode(), [report_fd, agent]))

    def signal(self, pid: int, number: int) -> None:
        """Signal a node that was not waited for yet."""
        self._request(b"K%d %d" % (pid, number))

    def wait(self, pid: int) -> int:
        """Wait for a node that ends, and return its exit status; below 0 the signal that ended it."""
        return int(self._request(b"W%d" % pid))

    def close(self) -> None:
        """Kill the running nodes, and end the process."""
        self._socket.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _request(self, packet: bytes, descriptors: list[int] | None = None) -> bytes:
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
