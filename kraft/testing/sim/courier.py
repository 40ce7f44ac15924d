"""Who brings a node's requests to others: `Courier` on the simulated network, with the promises of
`kraft.runtime.peers`. It is more liberal in what it delivers: also late answers, and the same one twice."""

from collections.abc import Callable

from kraft.raft.messages import Response
from kraft.raft.ready import Ask
from kraft.runtime.raft_driver import RaftDriver
from kraft.testing.sim.network import Envelope


class Courier:
    """Requests go by their number, the core's correlation.

    `envelope(ask, number)` is what goes on the network; `send` takes it there, at once or when the process may send.
    `asked`: what has left and is not answered. `count` hears of what is worth counting.
    """

    def __init__(self, envelope: Callable[[Ask, int], Envelope], send: Callable[[Envelope], None],
                 count: Callable[[str], None]) -> None:
        self._envelope = envelope
        self._send = send
        self._count = count
        self.asked: dict[int, Envelope] = {}
        self._waiting: dict[int, int] = {}
        """The number of the last request to a node that it has not answered."""
        self._prepared: Envelope | None = None

    def ask(self, ask: Ask) -> None:
        self._waiting[ask.node_id] = ask.correlation
        self._send(self._envelope(ask, ask.correlation))

    def prepare(self, ask: Ask) -> tuple[int, bytes] | None:
        if ask.node_id in self._waiting:
            return None
        self._prepared = self._envelope(ask, ask.correlation)
        return -1, b""

    def has_left(self, ask: Ask) -> None:
        self._waiting[ask.node_id] = ask.correlation

    def leave(self) -> Envelope:
        """The flusher's thread sends what was prepared."""
        assert self._prepared is not None
        self._count("fetch left ahead")
        return self._prepared

    def deliver(self, envelope: Envelope, driver: RaftDriver) -> None:
        """An answer has come, or the news that there will be none."""
        number, node_id, message = envelope.correlation, envelope.called, envelope.message
        if node_id not in self._waiting:
            driver.catch_up()
            if self._waiting.get(node_id) == number:
                self._count("answer to what left ahead came first")
        if self._waiting.get(node_id) == number:
            del self._waiting[node_id]
            if isinstance(message, Response):
                driver.take_ahead(node_id, number, message)
        driver.step(node_id, number, message)
