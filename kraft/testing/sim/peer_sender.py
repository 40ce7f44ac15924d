"""`PeerSender`: transport of a node's requests to other nodes, on the simulated network. It has the guarantees of
`kraft.runtime.net.peers` and its pauses before a new attempt at an address. It delivers more: also late answers, and
the same answer twice."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Final

from kraft.raft.messages import FetchRequest, FetchResponse, Loss, Lost, Message, Response
from kraft.raft.ready import FollowLease, OutgoingRequest
from kraft.raft.types import Endpoint
from kraft.runtime.net.peers import pause_seconds
from kraft.runtime.quorum.raft_driver import Loop, RaftDriver
from kraft.testing.sim.network import Envelope
from kraft_native.replica.leased_follower import LeasedFollower

UNCHANGED: Final = attrgetter(*(each.name for each in fields(FetchResponse)
                                if each.name not in ("high_watermark", "records")))
"""Returns the fields that a follower accepts only as they were in the last answer."""


@dataclass(slots=True)
class _Line:
    """Connection to one node: its address, and how often in a row it was refused or broke, last at `failed_ms`."""

    address: Endpoint | None
    failures: int = 0
    failed_ms: int = 0


class PeerSender:
    """Sender of one process. It identifies requests by number: the core's correlation, or a negative number where the
    core learns of them later.

    `envelope(outgoing, number)` creates the envelope of a request. `send` puts it on the network, at once or when the
    process may send. `unanswered`: requests that have left and are not answered. `count` counts notable events.
    `now_ms` is the clock of the process.
    """

    def __init__(self, envelope: Callable[[OutgoingRequest, int], Envelope], send: Callable[[Envelope], None],
                 count: Callable[[str], None], loop: Loop, now_ms: Callable[[], int]) -> None:
        self._loop = loop
        self._now_ms = now_ms
        self._lines: dict[int, _Line] = {}
        self._envelope = envelope
        self._send = send
        self._count = count
        self.unanswered: dict[int, Envelope] = {}
        self._waiting: dict[int, int] = {}
        """Number of the last unanswered request to each node."""
        self._prepared: Envelope | None = None
        self._last: FetchResponse | None = None
        """Last answer to a Fetch, if the next one may differ from it only in high watermark and records."""
        self._followed: int | None = None
        """Number of the Fetch whose answer the follower may accept."""
        self._lease: FollowLease | None = None
        self._follower: LeasedFollower | None = None
        self._unnamed = 0
        """Number of the last Fetch that the core does not know."""
        self._named = 0, 0
        """Number of the last such Fetch that the core knows meanwhile, and its correlation in the core."""

    def send(self, outgoing: OutgoingRequest) -> None:
        self._waiting[outgoing.node_id] = outgoing.correlation
        line = self._lines.get(outgoing.node_id)
        if line is None or line.address != outgoing.address:
            line = self._lines[outgoing.node_id] = _Line(outgoing.address)
        pause = pause_seconds(line.failures) - (self._now_ms() - line.failed_ms) / 1000 if line.failures else 0.0
        if pause <= 0:
            self._send(self._envelope(outgoing, outgoing.correlation))
        else:
            self._count("reconnect pause")
            self._loop.call_later(pause, lambda: self._send_paused(outgoing))

    def _send_paused(self, outgoing: OutgoingRequest) -> None:
        """Send the request at the end of the pause, unless another one has replaced it."""
        if self._waiting.get(outgoing.node_id) == outgoing.correlation:
            self._send(self._envelope(outgoing, outgoing.correlation))

    def follow(self, lease: FollowLease, follower: LeasedFollower) -> bool:
        fetch, last, line = lease.fetch, self._last, self._lines.get(lease.leader_id)
        is_alike = last is not None and (last.epoch, last.leader_id) == (lease.epoch, lease.leader_id)
        if lease.is_sent:
            if not is_alike or self._waiting.get(lease.leader_id) != fetch.correlation:
                return False
        elif lease.leader_id in self._waiting or (line is not None and line.failures > 0):
            return False
        self._prepared = None if lease.is_sent else self._envelope(fetch, fetch.correlation)
        if not follower.begin(lease.from_offset, None if lease.is_sent else (-1, b"")):
            return False
        self._lease, self._follower = lease, follower
        self._followed = fetch.correlation if is_alike else None
        return True

    def next_fetch(self, end_offset: int, high_watermark: int) -> tuple[int, bytes]:
        """Prepare the next Fetch; see `LeasedFollower`."""
        assert self._lease is not None
        fetch = self._lease.fetch
        assert isinstance(fetch.request, FetchRequest)
        self._count("fetch without the core")
        self._waiting.pop(fetch.node_id, None)
        self._unnamed -= 1
        self._followed = self._unnamed
        request = replace(fetch.request, fetch_offset=end_offset, high_watermark=high_watermark)
        self._prepared = self._envelope(fetch._replace(request=request), self._unnamed)
        return -1, b""

    def unfollow(self, lease: FollowLease, outstanding: OutgoingRequest | None) -> None:
        if self._followed is not None and self._followed < 0:
            self._named = self._followed, 0
        self._lease = self._followed = None
        if outstanding is not None:
            self._waiting[lease.leader_id] = outstanding.correlation
            if self._named[1] == 0:
                self._named = self._named[0], outstanding.correlation

    def leave(self) -> Envelope:
        """Return the prepared request; the flusher's thread sends it."""
        assert self._prepared is not None
        self._count("fetch left ahead")
        return self._prepared

    def deliver(self, envelope: Envelope, driver: RaftDriver) -> None:
        """Deliver an answer, or the news that none will come."""
        number, node_id, message = envelope.correlation, envelope.called, envelope.message
        if self._name_of(number) == self._followed and self._is_accepted(message):
            self._note_line(node_id, message)
            return
        if self._lease is not None:
            waited = node_id in self._waiting
            driver.end_lease()
            if not waited and self._waiting.get(node_id) == self._name_of(number):
                self._count("answer to what left ahead came first")
        number = self._name_of(number)
        if isinstance(message, FetchResponse):
            self._last = message if message.is_plain else None
        if self._waiting.get(node_id) == number:
            del self._waiting[node_id]
            self._note_line(node_id, message)
        driver.step(node_id, number, message)

    def _note_line(self, node_id: int, message: Message) -> None:
        line = self._lines.get(node_id)
        if line is not None and isinstance(message, Response):
            line.failures = 0
        elif line is not None and message == Lost(Loss.DISCONNECTED):
            line.failures += 1
            line.failed_ms = self._now_ms()

    def _is_accepted(self, message: Message) -> bool:
        """Pass an answer to the follower if it differs from the last one only in high watermark and records. Return
        whether it was accepted."""
        last = self._last
        if last is None or not isinstance(message, FetchResponse) or message.records is None or (
                UNCHANGED(message) != UNCHANGED(last)):
            return False
        assert self._follower is not None
        return self._follower.accept(self, message.high_watermark, message.records)

    def _name_of(self, number: int) -> int:
        """Return the core's correlation for a request, or its own number if the core has none."""
        named, correlation = self._named
        return correlation if number == named and correlation else number
