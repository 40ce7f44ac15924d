"""Common parts of producers and consumers."""

from collections.abc import Callable
from random import Random
from typing import Final

from kraft.broker.isr import Key
from kraft.metadata.image import PartitionRegistration
from kraft.testing.brokers.wire import Reply, Wire
from kraft.testing.sim.loop import Loop
from kraft.testing.sim.options import Options

TIMEOUT_MS: Final = 1200
BACKOFF_MS: Final = 30


class Around:
    """Environment of the clients.

    `partition_of(key, random)` is a partition as some broker knows it. `find(key, random, answer_with)` requests
    Metadata from a broker, which answers now, later, or never. `is_lossy` and `is_deleted` are the truth.
    `acknowledged`: the highest offset of each partition that some producer knows to be committed.
    """

    def __init__(self, loop: Loop, wire: Wire, options: Callable[[], Options], counts: dict[str, int],
                 partition_of: Callable[[Key, Random], PartitionRegistration | None],
                 find: Callable[[Key, Random, Callable[[PartitionRegistration | None], None]], None],
                 is_lossy: Callable[[Key], bool], is_deleted: Callable[[Key], bool]) -> None:
        self.loop = loop
        self.wire = wire
        self._options = options
        self.counts = counts
        self.partition_of = partition_of
        self.find = find
        self.is_lossy = is_lossy
        self.is_deleted = is_deleted
        self.acknowledged: dict[Key, int] = {}

    @property
    def options(self) -> Options:
        return self._options()


class Client:
    """A process that only sends requests, about one partition. `is_over`: its topic is deleted."""

    life = 0
    is_up = True

    def __init__(self, number: int, key: Key, around: Around, random: Random) -> None:
        self.id = number
        self.key = key
        self.is_over = False
        self._around = around
        self._random = random

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        function(*arguments)

    def serve(self, body: object, source_id: int, reply: Reply) -> None:
        raise AssertionError(f"{source_id} sends a client {body}, and {reply} waits")
