"""The launcher's process: imports what nodes need, once, and forks a node whenever it is asked.

    python -m kraft.local.forkserver DESCRIPTOR

DESCRIPTOR is a socket to the owner. A request is one packet, a letter and its argument; so is its answer:

    S <node>            start (JSON of `NodeSpec`), with two descriptors: where the node tells that it is ready, and
                        its agent's socket                                                  -> pid
    K <pid> <signal>    signal; a process that has ended and is not yet waited for counts    -> empty
    W <pid>             wait for a process that has ended or is about to                     -> its exit status

When the owner goes away every node is killed: nobody is left behind, however the owner ended.
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
    """One thread, and nothing that a fork could not take along."""

    def __init__(self, owner: socket.socket) -> None:
        self._owner = owner
        self._children: dict[int, None] = {}

    def serve(self) -> None:
        """Until the owner closes its end."""
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

    def _start(self, encoded: bytes, told: int, agent: int) -> int:
        pid = os.fork()
        if pid:
            self._children[pid] = None
            return pid
        code = 1
        try:
            self._owner.close()
            from kraft.local.member import run_member
            code = run_member(NodeSpec.decode(encoded), told, agent)
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
    """Says that it is ready with an empty answer that nobody asked for."""
    # Ctrl-C at a terminal is for the owner; nodes get what it then sends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from kraft.local.member import warm_up

    warm_up()
    gc.collect()
    gc.freeze()     # a collection in a fork would copy the pages that all share
    owner = socket.socket(fileno=int(sys.argv[1]))
    owner.send(b"=")
    ForkServer(owner).serve()


if __name__ == "__main__":
    main()
