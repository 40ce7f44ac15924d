"""A thread inside a node of a local cluster, for faults that are impossible from outside.

A request is one packet of JSON on the agent's socket, and so is its answer:

    {"do": "links", "deaf_to": [address...], "shut_to": [address...]}               -> {"filtered": sockets}
                    Packets from `deaf_to` are dropped, and attempts to connect from `shut_to`.

    {"do": "connect", "host": .., "port": .., "seconds": ..}            -> {"connected": whether}
    {"do": "disk", "kind": "full" | "slow" | "broken" | "well", "delay_ms": .., "directory": ..}    -> {}
    {"do": "probe"}                                 -> {"error": errno or 0, "seconds": time for one small file}

`directory` is one of the node's, by default the first. `connect` connects from the node's own address.
The answer to a request that fails is {"failed": why}.

Links are cut in the kernel. A socket filter drops the packets, so both sides see the same as with a cut cable: no
packets. Disks are slow, full or broken in the file layer of this process (`kraft_native.file.faults`).

The node is killed when its owner ends.
"""

import ctypes
import errno
import json
import os
import signal
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import uvloop

from kraft_native.base.errors import StorageError
from kraft_native.file import faults, file_io

PACKET_BYTES_MAX: Final = 1 << 16
PROBE_NAME: Final = "kraft-probe.tmp"
SO_ATTACH_FILTER: Final = 26
SO_DETACH_FILTER: Final = 27
# Instructions of a classic socket filter (linux/filter.h).
LOAD_SOURCE: Final = (0x20, 0, 0, 0xFFF00000 + 12)      # ld [SKF_NET_OFF + 12]: the source address of the IP header
JUMP_EQUAL: Final = 0x15
KEEP: Final = (0x06, 0, 0, 0xFFFFFFFF)
DROP: Final = (0x06, 0, 0, 0)
INSTRUCTION: Final = struct.Struct("HBBI")

Wanted = Sequence[str]


class Links:
    """Filters on all TCP sockets of this process, future ones included. The agent's and the loop's thread use it. Each
    attaches the newest filter, so the order does not matter."""

    def __init__(self) -> None:
        self._deaf_to: Wanted = ()
        self._shut_to: Wanted = ()

    def change(self, deaf_to: Wanted, shut_to: Wanted) -> int:
        """Change the filters; return the number of sockets that have one now."""
        self._deaf_to, self._shut_to = deaf_to, shut_to
        return sum(self._each(self._apply))

    def take(self, descriptor: int) -> None:
        """Filter a new socket of the loop."""
        if self._deaf_to or self._shut_to:
            with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as each:
                self._apply(each)

    def _apply(self, each: socket.socket) -> int:
        listens = each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        sources = [*self._deaf_to, *(self._shut_to if listens else ())]
        if not sources:
            with suppress(OSError):     # it had none
                each.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
            return 0
        attach(each, sources)
        return 1

    @staticmethod
    def _each(job: Callable[[socket.socket], int]) -> list[int]:
        found = []
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):     # it was closed meanwhile
                descriptor = int(name)
                if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    continue
                with socket.socket(fileno=os.dup(descriptor)) as each:
                    if each.family == socket.AF_INET and each.type == socket.SOCK_STREAM:
                        found.append(job(each))
        return found


def attach(each: socket.socket, sources: Wanted) -> None:
    """Drop every packet from these IPv4 addresses."""
    program = [LOAD_SOURCE]
    for left, source in zip(range(len(sources), 0, -1), sources, strict=True):
        program.append((JUMP_EQUAL, left, 0, int.from_bytes(socket.inet_aton(source), "big")))
    code = ctypes.create_string_buffer(b"".join(INSTRUCTION.pack(*each) for each in (*program, KEEP, DROP)))
    each.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                    struct.pack("HL", len(program) + 2, ctypes.addressof(code)))


class NodeLoop(uvloop.Loop):
    """The node's loop. It connects from the node's own address, and attaches the current filters to new sockets."""

    links: Links
    host: str

    async def create_connection(self, *arguments: Any, **options: Any) -> Any:
        transport: Any
        transport, protocol = await super().create_connection(*arguments, local_addr=(self.host, 0), **options)
        if not transport.is_closing():      # else its protocol has already closed it, and it has no socket
            self.links.take(transport.get_extra_info("socket").fileno())
        return transport, protocol

    async def create_server(self, *arguments: Any, **options: Any) -> Any:
        server: Any = await super().create_server(*arguments, **options)
        for each in server.sockets:
            self.links.take(each.fileno())
        return server


class Agent:
    """The agent of one node. `directory` has the node's data; `host` is the source address of its connections."""

    def __init__(self, owner: socket.socket, directory: Path, host: str) -> None:
        self._owner = owner
        self._directory = directory
        self._host = host
        self._links = Links()
        self._plan: faults.Plan | None = None

    def new_loop(self) -> NodeLoop:
        loop = NodeLoop()
        loop.links, loop.host = self._links, self._host
        return loop

    def start(self) -> None:
        threading.Thread(target=self._serve, name="agent", daemon=True).start()

    def _serve(self) -> None:
        while packet := self._owner.recv(PACKET_BYTES_MAX):
            request = json.loads(packet)
            try:
                answer = getattr(self, f"do_{request.pop('do')}")(**request)
            except Exception as error:  # noqa: BLE001 - the owner is notified, whatever it is
                answer = {"failed": f"{type(error).__name__}: {error}"}
            self._owner.send(json.dumps(answer).encode())
        os.kill(os.getpid(), signal.SIGKILL)

    # --- links

    def do_links(self, deaf_to: Wanted, shut_to: Wanted) -> dict[str, int]:
        return {"filtered": self._links.change(deaf_to, shut_to)}

    def do_connect(self, host: str, port: int, seconds: float) -> dict[str, bool]:
        try:
            socket.create_connection((host, port), seconds, (self._host, 0)).close()
        except TimeoutError:
            return {"connected": False}
        except ConnectionRefusedError:
            return {"connected": True}
        return {"connected": True}

    # --- the disk

    def do_disk(self, kind: str, delay_ms: int = 0, directory: str = "") -> dict[str, int]:
        under = Path(directory or self._directory)
        if self._plan is not None:
            self._plan.__exit__(None, None, None)
            self._plan = None
        if kind == "full":
            self._plan = faults.fail_at(1, error=errno.ENOSPC, kinds=("write", "allocate", "mkdir"),
                                        under=under, persistent=True)
        elif kind == "broken":
            self._plan = faults.fail_at(1, error=errno.EIO, under=under, persistent=True)
        elif kind == "slow":
            self._plan = faults.delay(delay_ms, under=under)
        if self._plan is not None:
            self._plan.__enter__()
        return {}

    def do_probe(self) -> dict[str, float]:
        began = time.monotonic()
        code = 0
        try:
            file_io.write_atomic(self._directory / PROBE_NAME, b"probe")
            file_io.unlink(self._directory / PROBE_NAME)
        except StorageError as error:
            code = error.errno or -1
        return {"error": code, "seconds": time.monotonic() - began}
