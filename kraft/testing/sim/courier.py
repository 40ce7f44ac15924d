"""Who brings a node's requests to others: `Courier` on the simulated network, with the promises of
`kraft.runtime.peers`, and its pauses before an address is tried again. It is more liberal in what it delivers: also
late answers, and the same one twice."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kraft.raft.messages import FetchRequest, FetchResponse, Loss, Lost, Message, Response
from kraft.raft.ready import Ask
from kraft.raft.types import Endpoint
from kraft.runtime.peers import pause_seconds
from kraft.runtime.raft_driver import Loop, RaftDriver
from kraft.testing.sim.network import Envelope
from kraft_native.fetch_chain import FetchChain


@dataclass(slots=True)
class _Line:
    """To one node: at which address, and how often in a row a connection was refused or broke, last at `failed_ms`."""

    address: Endpoint | None
    failures: int = 0
    failed_ms: int = 0


class Courier:
    """Requests go by their number: the core's correlation, or a negative one where the core hears of them later.

    `envelope(ask, number)` is what goes on the network; `send` takes it there, at once or when the process may send.
    `asked`: what has left and is not answered. `count` hears of what is worth counting. `now_ms` is the process's
    clock.
    """

    def __init__(self, envelope: Callable[[Ask, int], Envelope], send: Callable[[Envelope], None],
                 count: Callable[[str], None], loop: Loop, now_ms: Callable[[], int]) -> None:
        self._loop = loop
        self._now_ms = now_ms
        self._lines: dict[int, _Line] = {}
        self._envelope = envelope
        self._send = send
        self._count = count
        self.asked: dict[int, Envelope] = {}
        self._waiting: dict[int, int] = {}
        """The number of the last request to a node that it has not answered."""
        self._prepared: Envelope | None = None
        self._last: FetchResponse | None = None
        """The last answer to a Fetch, if another one may be like it but for its high watermark and its records."""
        self._followed: int | None = None
        """The number of the Fetch to which an answer may be taken without the core."""
        self._following: Ask | None = None
        self._chain: FetchChain | None = None
        """What the first of those was, and who takes them."""
        self._unnamed = 0
        """The number of the last Fetch of which the core has not heard."""
        self._named = 0, 0
        """That of the last one of which it has heard since, and the correlation it has for the core."""

    def ask(self, ask: Ask) -> None:
        self._waiting[ask.node_id] = ask.correlation
        line = self._lines.get(ask.node_id)
        if line is None or line.address != ask.address:
            line = self._lines[ask.node_id] = _Line(ask.address)
        pause = pause_seconds(line.failures) - (self._now_ms() - line.failed_ms) / 1000 if line.failures else 0.0
        if pause <= 0:
            self._send(self._envelope(ask, ask.correlation))
        else:
            self._count("reconnect pause")
            self._loop.call_later(pause, lambda: self._send_paused(ask))

    def _send_paused(self, ask: Ask) -> None:
        """The pause is over: the request leaves, unless another one has taken its place."""
        if self._waiting.get(ask.node_id) == ask.correlation:
            self._send(self._envelope(ask, ask.correlation))

    def prepare(self, ask: Ask) -> tuple[int, bytes] | None:
        line = self._lines.get(ask.node_id)
        if ask.node_id in self._waiting or (line is not None and line.failures > 0):
            return None
        self._prepared = self._envelope(ask, ask.correlation)
        return -1, b""

    def follow(self, ask: Ask, chain: FetchChain) -> None:
        self._chain, self._following = chain, ask
        last, request = self._last, ask.request
        assert isinstance(request, FetchRequest)
        if last is not None and (last.epoch, last.leader_id) == (request.epoch, ask.node_id):
            self._followed = ask.correlation

    def next_fetch(self, end_offset: int, high_watermark: int) -> tuple[int, bytes]:
        """See `FetchChain`."""
        ask = self._following
        assert ask is not None
        assert isinstance(ask.request, FetchRequest)
        self._count("fetch without the core")
        self._unnamed -= 1
        self._followed = self._unnamed
        request = replace(ask.request, fetch_offset=end_offset, high_watermark=high_watermark)
        self._prepared = self._envelope(ask._replace(request=request), self._unnamed)
        return -1, b""

    def unfollow(self, ask: Ask) -> None:  # noqa: ARG002 - there is one only
        if self._followed is not None and self._followed < 0:
            self._named = self._followed, 0
        self._followed = None

    def has_left(self, ask: Ask) -> None:
        self._waiting[ask.node_id] = ask.correlation
        if self._named[1] == 0:
            self._named = self._named[0], ask.correlation

    def leave(self) -> Envelope:
        """The flusher's thread sends what was prepared."""
        assert self._prepared is not None
        self._count("fetch left ahead")
        return self._prepared

    def deliver(self, envelope: Envelope, driver: RaftDriver) -> None:
        """An answer has come, or the news that there will be none."""
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
        """Whether an answer is like the last one but for its high watermark and its records, and was taken as such."""
        last = self._last
        if last is None or not isinstance(message, FetchResponse) or message.records is None or (
                replace(message, high_watermark=last.high_watermark, records=last.records) != last):
            return False
        assert self._chain is not None
        return self._chain.take(self, last, message.high_watermark, message.records)

    def _name_of(self, number: int) -> int:
        """The core's correlation, if it has one for that."""
        named, correlation = self._named
        return correlation if number == named and correlation else number
