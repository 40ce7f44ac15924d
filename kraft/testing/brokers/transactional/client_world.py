"""A run whose clients are coroutines: the world of brokers, with the event loop of these clients."""

from collections import deque
from collections.abc import Callable
from math import ceil
from random import Random
from typing import TextIO

from kraft.metadata.image import MetadataImage
from kraft.raft.events import Event
from kraft.testing.brokers.transactional.async_loop import AsyncLoop
from kraft.testing.brokers.transactional.clients import Around
from kraft.testing.brokers.world import BrokerWorld
from kraft.testing.sim.options import SECOND, Options
from kraft.testing.transactions.history import History


class ClientWorld(BrokerWorld):
    """The world of a run with clients that are coroutines. All of them share one event loop."""

    def __init__(self, seed: int, options: Options, history: History, trace: TextIO | None = None,
                 listen: Callable[[int, float, Event], None] | None = None) -> None:
        super().__init__(seed, options, trace, listen)
        self._failure: BaseException | None = None
        self._is_draining = False
        self._soon: deque[Callable[[], object]] = deque()
        self._async_loop = AsyncLoop(lambda: self.loop.now_us / SECOND, self._later, self._soon, self._client_failed)
        self._async = Around(self.loop, self.broker_cluster.wire, lambda: self.cluster.options, self.counts, history,
                             self._image_of, self._async_loop, self._drain)

    def _later(self, seconds: float, callback: Callable[[], None]) -> None:
        def due() -> None:
            self._async_loop.enter()
            callback()
            self._drain()

        self.loop.after(ceil(seconds * SECOND), due)

    def _drain(self) -> None:
        """Run what is due, unless that is being done: a task may begin another one."""
        if self._is_draining:
            return
        self._is_draining = True
        while self._soon:
            self._soon.popleft()()
        self._is_draining = False
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _client_failed(self, error: BaseException) -> None:
        self._failure = self._failure or error

    def _image_of(self, random: Random) -> MetadataImage | None:
        node = self._any_broker(random)
        return None if node is None else node.machine.image

    def _end_clients(self) -> None:
        """End the event loop of the clients with the run."""
        AsyncLoop.leave()
        self._async_loop.close()

    def _new_number(self) -> int:
        return self._next_client() + len(self._async.clients)

    def _random(self, number: int) -> Random:
        return self.cluster.random(f"client {number}")
