"""Fair scheduling of one thread that works for many hosts: start-time fair queueing (Goyal, Vin, Cheng 1996)."""

from __future__ import annotations

from collections import deque
from typing import Generic, Protocol, TypeVar


class OfHost(Protocol):
    """A piece of work, and the address of the host that it is done for."""

    @property
    def peer_host(self) -> str: ...


Work = TypeVar("Work", bound=OfHost)


class HostShares(Generic[Work]):
    """Pending work, and the time spent for each host. One thread at a time.

    The host that used the least time is next; its own work is done in order of arrival. Time is counted from when a
    host begins to wait. A host without work accumulates no credit, and for a host that returns soon its past use still
    counts. So a host with one piece of work waits for at most one piece of each other host, behind the current one.
    That holds whatever those pieces cost and however many more they have.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Work]] = {}
        self._due_ns: dict[str, int] = {}      # in virtual time, of hosts that wait or may not wait again at once
        self._now_ns = 0                       # virtual time at which the last piece of work was due

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, work: Work) -> None:
        """Add a piece of work."""
        host = work.peer_host
        if host not in self._waiting:
            self._waiting[host] = deque()
            self._due_ns[host] = max(self._due_ns.get(host, 0), self._now_ns)
        self._waiting[host].append(work)

    def take(self) -> Work:
        """Remove and return the next piece of work. At least one must be pending."""
        host = min(self._waiting, key=self._due_ns.__getitem__)
        self._now_ns = self._due_ns[host]
        queue = self._waiting[host]
        work = queue.popleft()
        if not queue:
            del self._waiting[host]
        return work

    def charge(self, work: Work, spent_ns: int) -> None:
        """Count the time that the work took, which was the last one taken."""
        self._due_ns[work.peer_host] += spent_ns
        if not self._waiting:
            self._due_ns.clear()
            self._now_ns = 0
            return
        for host in [host for host, due_ns in self._due_ns.items()
                     if due_ns <= self._now_ns and host not in self._waiting]:
            del self._due_ns[host]             # without effect, like a host that never came
