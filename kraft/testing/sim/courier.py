"""Who brings a node's requests to others: `Courier` on the simulated network, with the promises of
`kraft.runtime.peers`. It is more liberal in what it delivers: also late answers, and the same one twice."""

from collections.abc import Callable

from kraft.raft.messages import Response
from kraft.raft.ready import Ask
from kraft.runtime.raft_driver import RaftDriver
from kraft.testing.sim.network import Envelope


class Courier:
    """Requests go by their number: the core's correlation; below 0 those that left ahead, before the core asked.

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
        self._prepared_number = -1
        self._left: dict[int, Envelope] = {}
        """What left ahead and was not asked for yet, by node."""
        self._correlations: dict[int, int] = {}
        """Of what left ahead and was asked for then."""

    def ask(self, ask: Ask) -> None:
        envelope = self._envelope(ask, ask.correlation)
        left = self._left.pop(ask.node_id, None)
        if left is not None:
            if (left.message, left.target) == (envelope.message, envelope.target):
                self._waiting[ask.node_id] = left.correlation
                self._correlations[left.correlation] = ask.correlation
                return
            self.asked.pop(left.correlation, None)         # its connection is closed
        self._waiting[ask.node_id] = ask.correlation
        self._send(envelope)

    def prepare(self, ask: Ask) -> tuple[int, bytes] | None:
        if ask.node_id in self._waiting or ask.node_id in self._left:
            return None
        self._prepared_number -= 1
        self._prepared = self._envelope(ask, self._prepared_number)
        return -1, b""

    def has_left(self, ask: Ask) -> None:
        assert self._prepared is not None
        self._left[ask.node_id] = self._prepared

    def leave(self) -> Envelope:
        """The flusher's thread sends what was prepared."""
        assert self._prepared is not None
        self._count("fetch left ahead")
        return self._prepared

    def deliver(self, envelope: Envelope, driver: RaftDriver) -> None:
        """An answer has come, or the news that there will be none."""
        number, node_id, message = envelope.correlation, envelope.called, envelope.message
        if number < 0 and number not in self._correlations:
            self._count("answer to what left ahead came first")
            driver.catch_up()
            if number not in self._correlations:           # the core does not ask for it: the connection is closed
                if node_id in self._left and self._left[node_id].correlation == number:
                    del self._left[node_id]
                return
        correlation = self._correlations.get(number, number)
        if self._waiting.get(node_id) == number:
            del self._waiting[node_id]
            if isinstance(message, Response):
                driver.take_ahead(node_id, correlation, message)
        driver.step(node_id, correlation, message)
