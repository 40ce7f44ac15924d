"""TLS for the load generator, whose compiled core sends and receives plain bytes.

For each connection the core gets one end of a pair of sockets. A thread encrypts and decrypts what passes. Its time is
part of what clients with TLS pay, so latencies include it.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Final, Self

from kraft.client import Connection
from kraft_native.bench.load_generator import LoadSpec

PIECE_BYTES: Final = 1 << 18
PIECES_PER_STEP: Final = 16


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Connect two sockets by TCP on this machine. TCP, because the core has the kernel drop the bytes that it does not
    read, which other kinds of sockets cannot."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
        ours = socket.create_connection(listener.getsockname())
        while True:
            theirs, address = listener.accept()
            if address == ours.getsockname():
                break
            theirs.close()                     # another process of this machine connected first
    for each in (ours, theirs):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours, theirs


class Passage:
    """One connection: bytes that were read on one side and not yet written on the other."""

    def __init__(self, secure: ssl.SSLSocket) -> None:
        self.secure = secure
        self.core, self.plain = tcp_pair()
        for each in (self.secure, self.core, self.plain):
            each.setblocking(False)
        self.outgoing = self.incoming = memoryview(b"")
        self.ended = False
        self.tls_waits_for = 0
        """Events of the socket that TLS itself waits for, in either direction of the bytes."""

    def step(self) -> bool:
        """Move bytes both ways without waiting, up to a limit. Returns whether more can be moved."""
        self.tls_waits_for = 0
        try:
            return all(self._send() | self._receive() for _ in range(PIECES_PER_STEP))
        except (OSError, EOFError):
            self.ended = True
            return False

    def interests(self) -> tuple[int, int]:
        """Events to wait for on the plain and on the secure side."""
        plain = (0 if self.outgoing else select.EPOLLIN) | (select.EPOLLOUT if self.incoming else 0)
        secure = (0 if self.incoming else select.EPOLLIN) | (select.EPOLLOUT if self.outgoing else 0)
        return plain, secure | self.tls_waits_for

    def close(self) -> None:
        """Close the core's side of the connection. The secure socket remains its owner's."""
        self.plain.close()
        self.core.close()

    def _send(self) -> bool:
        try:
            if not self.outgoing:
                self.outgoing = memoryview(_some(self.plain.recv(PIECE_BYTES)))
            self.outgoing = self.outgoing[self.secure.send(self.outgoing):]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            self._note(error)
            return False
        return True

    def _receive(self) -> bool:
        try:
            if not self.incoming:
                self.incoming = memoryview(_some(self.secure.recv(PIECE_BYTES)))
            self.incoming = self.incoming[self.plain.send(self.incoming):]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            self._note(error)
            return False
        return True

    def _note(self, error: OSError) -> None:
        if isinstance(error, ssl.SSLWantReadError):
            self.tls_waits_for |= select.EPOLLIN
        elif isinstance(error, ssl.SSLWantWriteError):
            self.tls_waits_for |= select.EPOLLOUT


class Relay:
    """The thread with its passages; a context manager. The sockets are not closed."""

    def __init__(self, sockets: Sequence[ssl.SSLSocket]) -> None:
        self.passages = [Passage(each) for each in sockets]
        self._poll = select.epoll()
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="kraft-bench-tls", daemon=True)

    def __enter__(self) -> Self:
        self._poll.register(self._stop, select.EPOLLIN)
        for each in self.passages:
            for end in (each.plain, each.secure):
                self._poll.register(end, select.EPOLLIN)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        os.eventfd_write(self._stop, 1)
        self._thread.join()
        self._poll.close()
        os.close(self._stop)
        for each in self.passages:
            each.close()

    def filenos(self) -> list[int]:
        """Descriptors for the core, in the order of the sockets."""
        return [each.core.fileno() for each in self.passages]

    def computed_seconds(self) -> float:
        """Processor time of the thread so far."""
        assert self._thread.ident is not None
        return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident))

    def _run(self) -> None:
        by_fileno = {end.fileno(): each for each in self.passages for end in (each.plain, each.secure)}
        moving = set(self.passages)            # TLS may have decrypted more than was read
        while True:
            for fileno, _ in self._poll.poll(0 if moving else None):
                if fileno == self._stop:
                    return
                moving.add(by_fileno[fileno])
            moving = {each for each in moving if not each.ended and self._moves_on(each)}

    def _moves_on(self, passage: Passage) -> bool:
        """Move bytes of one passage, up to a limit. Returns whether more can be moved at once."""
        more = passage.step()
        if passage.ended:
            for end in (passage.plain, passage.secure):
                self._poll.unregister(end)
            passage.plain.shutdown(socket.SHUT_RDWR)
            return False
        for end, interest in zip((passage.plain, passage.secure), passage.interests(), strict=True):
            self._poll.modify(end, interest)
        return more


@contextlib.contextmanager
def for_core(specs: Sequence[LoadSpec], connections: Sequence[Connection],
             ) -> Iterator[tuple[list[LoadSpec], Relay | None]]:
    """Specs of these connections with descriptors that the core can use, and the encrypting thread, where they have
    TLS."""
    sockets = [each.socket for each in connections]
    secure = [each for each in sockets if isinstance(each, ssl.SSLSocket)]
    if not secure:
        for each in sockets:
            each.setblocking(False)
        yield list(specs), None
        return
    assert len(secure) == len(sockets), "either all connections of a cluster have TLS, or none has"
    with Relay(secure) as relay:
        yield [spec._replace(fileno=fileno) for spec, fileno in zip(specs, relay.filenos(), strict=True)], relay


def _some(data: bytes) -> bytes:
    if not data:
        raise EOFError
    return data
