"""The launcher's process: imports the modules of nodes once, and forks a node at each request.

    python -m kraft.local.forkserver DESCRIPTOR

DESCRIPTOR is a socket to the owner. A request is one packet, a letter and its argument; so is its answer:

    S <node>            start (JSON of `NodeSpec`), with two descriptors    -> pid
    K <pid> <signal>    signal                                              -> empty
    W <pid>             wait for the end of the process                     -> its exit status

The descriptors of S are a pipe on which the node reports that it is ready, and its agent's socket. K accepts a process
that has ended and was not waited for yet. W is for a process that has ended or is about to.

Every node is killed when the owner ends, in whatever way, so that none outlives it.
"""

import gc
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Final

from kraft.local.spec import NodeSpec

PACKET_BYTES_MAX: Final = 1 << 18


class ForkServer:
    """The server. One thread, and nothing that a fork could not copy."""

    def __init__(self, owner: socket.socket) -> None:
        self._owner = owner
        self._children: dict[int, None] = {}

    def serve(self) -> None:
        """Serve until the owner closes its end."""
        try:
            while True:
                packet, descriptors, _, _ = socket.recv_fds(self._owner, PACKET_BYTES_MAX, 2)
                if not packet:
                    return
                try:
                    answer = self._carry_out(packet, descriptors)
                finally:
                    for each in descriptors:
                        os.close(each)
                self._owner.send(b"=" + answer)
        except (BrokenPipeError, ConnectionResetError):
            return
        finally:
            self._kill_all()

    def _carry_out(self, packet: bytes, descriptors: list[int]) -> bytes:
        what, arguments = packet[:1], packet[1:]
        if what == b"S":
            return b"%d" % self._start(arguments, *descriptors)
        numbers = [int(word) for word in arguments.split()]
        if numbers[0] not in self._children:
            raise ValueError(f"{numbers[0]} is no child of this process")
        if what == b"K":
            os.kill(numbers[0], numbers[1])
            return b""
        _, status = os.waitpid(numbers[0], 0)
        del self._children[numbers[0]]
        return b"%d" % os.waitstatus_to_exitcode(status)

    def _start(self, encoded: bytes, report_fd: int, agent: int) -> int:
        pid = os.fork()
        if pid:
            self._children[pid] = None
            return pid
        code = 1
        try:
            self._owner.close()
            from kraft.local.member import run_member
            code = run_member(NodeSpec.decode(encoded), report_fd, agent)
        except BaseException:  # noqa: BLE001 - the fork ends here, whatever happened: the log has it
            sys.excepthook(*sys.exc_info())
        finally:
            with suppress(OSError, ValueError):
                sys.stderr.flush()
            os._exit(code)

    def _kill_all(self) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        for pid in self._children:
            os.waitpid(pid, 0)


def main() -> None:
    """Start the server. An empty answer without a request reports that it is ready."""
    # Ctrl-C at a terminal is for the owner, which then signals the nodes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from kraft.local.member import warm_up

    warm_up()
    gc.collect()
    gc.freeze()     # a collection in a fork would copy the shared pages
    owner = socket.socket(fileno=int(sys.argv[1]))
    owner.send(b"=")
    ForkServer(owner).serve()


if __name__ == "__main__":
    main()
