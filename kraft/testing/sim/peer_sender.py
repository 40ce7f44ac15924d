"""`PeerSender`: transport of a node's requests to other nodes, on the simulated network. It has the guarantees of
`kraft.runtime.net.peers` and its pauses before a new attempt at an address. It delivers more: also late answers, and
the same answer twice."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kraft.raft.messages import FetchRequest, FetchResponse, Loss, Lost, Message, Response
from kraft.raft.ready import OutgoingRequest
from kraft.raft.types import Endpoint
from kraft.runtime.net.peers import pause_seconds
from kraft.runtime.quorum.raft_driver import Loop, RaftDriver
from kraft.testing.sim.network import Envelope
from kraft_native.replica.fetch_chain import FetchChain


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
        """Number of the Fetch whose answer may be accepted without the core."""
        self._following: OutgoingRequest | None = None
        self._chain: FetchChain | None = None
        """`_following` is the first of those Fetches, and `_chain` accepts their answers."""
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

    def prepare(self, outgoing: OutgoingRequest) -> tuple[int, bytes] | None:
        line = self._lines.get(outgoing.node_id)
        if outgoing.node_id in self._waiting or (line is not None and line.failures > 0):
            return None
        self._prepared = self._envelope(outgoing, outgoing.correlation)
        return -1, b""

    def follow(self, outgoing: OutgoingRequest, chain: FetchChain) -> None:
        self._chain, self._following = chain, outgoing
        last, request = self._last, outgoing.request
        assert isinstance(request, FetchRequest)
        if last is not None and (last.epoch, last.leader_id) == (request.epoch, outgoing.node_id):
            self._followed = outgoing.correlation

    def next_fetch(self, end_offset: int, high_watermark: int) -> tuple[int, bytes]:
        """Prepare the next Fetch; see `FetchChain`."""
        outgoing = self._following
        assert outgoing is not None
        assert isinstance(outgoing.request, FetchRequest)
        self._count("fetch without the core")
        self._unnamed -= 1
        self._followed = self._unnamed
        request = replace(outgoing.request, fetch_offset=end_offset, high_watermark=high_watermark)
        self._prepared = self._envelope(outgoing._replace(request=request), self._unnamed)
        return -1, b""

    def unfollow(self, outgoing: OutgoingRequest) -> None:  # noqa: ARG002 - only one exists
        if self._followed is not None and self._followed < 0:
            self._named = self._followed, 0
        self._followed = None

    def has_left(self, outgoing: OutgoingRequest) -> None:
        self._waiting[outgoing.node_id] = outgoing.correlation
        if self._named[1] == 0:
            self._named = self._named[0], outgoing.correlation

    def leave(self) -> Envelope:
        """Return the prepared request; the flusher's thread sends it."""
        assert self._prepared is not None
        self._count("fetch left ahead")
        return self._prepared

    def deliver(self, envelope: Envelope, driver: RaftDriver) -> None:
        """Deliver an answer, or the news that none will come."""
        number, node_id, message = envelope.correlation, envelope.called, envelope.message
        if number == self._followed and self._is_more(message):
            return
        if node_id not in self._waiting:
            driver.catch_up()
            if self._waiting.get(node_id) == self._name_of(number):
                self._count("answer to what left ahead came first")
        number = self._name_of(number)
        if isinstance(message, FetchResponse):
            self._last = message if message.is_plain else None
        if self._waiting.get(node_id) == number:
            del self._waiting[node_id]
            self._note_line(node_id, message)
            if isinstance(message, Response):
                driver.take_ahead(node_id, number, message)
        driver.step(node_id, number, message)

    def _note_line(self, node_id: int, message: Message) -> None:
        line = self._lines.get(node_id)
        if line is not None and isinstance(message, Response):
            line.failures = 0
        elif line is not None and message == Lost(Loss.DISCONNECTED):
            line.failures += 1
            line.failed_ms = self._now_ms()

    def _is_more(self, message: Message) -> bool:
        """Accept an answer without the core if it differs from the last one only in high watermark and records. Return
        whether it was accepted."""
        last = self._last
        if last is None or not isinstance(message, FetchResponse) or message.records is None or (
                replace(message, high_watermark=last.high_watermark, records=last.records) != last):
            return False
        assert self._chain is not None
        return self._chain.take(self, last, message.high_watermark, message.records)

    def _name_of(self, number: int) -> int:
        """Return the core's correlation for a request, or its own number if the core has none."""
        named, correlation = self._named
        return correlation if number == named and correlation else number
