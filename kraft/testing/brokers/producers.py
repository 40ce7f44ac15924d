"""Idempotent clients with acks=all, each on one partition; what they saw, and whether that may be. The classes are
those of Jepsen's checker for Kafka."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from kraft.broker.isr import Key
from kraft.protocol.error_codes import ErrorCode
from kraft.testing.brokers.messages import Produce, Produced
from kraft.testing.brokers.truth import PartitionTruth
from kraft.testing.brokers.wire import Connection, Reply, Wire
from kraft.testing.sim.loop import Loop
from kraft.testing.sim.options import MILLISECOND, Options
from kraft.testing.sim.violation import ViolationError

TIMEOUT_MS = 1200
BACKOFF_MS = 30

NOT_IN_LOSSY = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH)


@dataclass(slots=True)
class Operation:
    """One batch. `end_offset` -1 until somebody said that it is committed."""

    value: int
    count: int
    sequence: int
    end_offset: int = -1


class Producer:
    """A process that only asks. `is_over`: its topic is gone."""

    life = 0
    is_up = True

    def __init__(self, number: int, key: Key, around: "Around", random: Random) -> None:
        self.id = number
        self.key = key
        self.operations: list[Operation] = []
        self.is_on = True
        self.is_over = False
        self._around = around
        self._random = random
        self._unacknowledged: deque[Operation] = deque()
        self._sent: dict[int, None] = {}
        self._producer_epoch = 0
        self._sequence = 0
        self._generation = 0
        self._is_backing_off = False
        self._is_known = False
        self._connection: Connection | None = None

    @property
    def has_everything_acknowledged(self) -> bool:
        return not self._unacknowledged

    def hear(self, function: Callable[..., None], *arguments: object) -> None:
        function(*arguments)

    def serve(self, body: object, source_id: int, reply: Reply) -> None:
        raise AssertionError(f"{source_id} asks a client {body}, and {reply} waits")

    def start(self) -> None:
        self._schedule()

    def _schedule(self) -> None:
        mean_us = self._around.options.produce_every_ms * MILLISECOND
        self._around.loop.after(1 + self._random.randrange(2 * mean_us), self._produce)

    def _produce(self) -> None:
        if self.is_on and not self.is_over:
            # A broker knows a producer's last five batches again, so no more are under way from the oldest on.
            oldest = self._unacknowledged[0].sequence if self._unacknowledged else self._sequence
            # One that it does not know it takes with any sequence, so the first goes alone.
            if self._sequence - oldest < (self._around.options.window if self._is_known else 1):
                self.add()
            self._schedule()

    def add(self) -> Operation:
        """One batch more."""
        operation = Operation(self._around.next_value(), 1 + self._random.randrange(3), self._sequence)
        self._sequence += 1
        self.operations.append(operation)
        self._unacknowledged.append(operation)
        self._around.counts["batches produced"] += 1
        self._pump()
        return operation

    def _pump(self) -> None:
        """Sends what was not sent since the last failure, in order."""
        if self._is_backing_off or self.is_over:
            return
        leader_id = self._around.leader_of(self.key, self._random)
        if leader_id < 0:
            self._fail(self._generation)
            return
        generation = self._generation
        for operation in list(self._unacknowledged):
            if operation.value not in self._sent:
                self._sent[operation.value] = None
                self._connection = self._around.wire.ask(
                    self, leader_id, f"produce {self.id}",
                    Produce(self.key, self.id, self._producer_epoch, operation.sequence, operation.value,
                            operation.count),
                    partial(self._answered, generation, operation))
                self._around.loop.after(TIMEOUT_MS * MILLISECOND, self._timed_out, generation, operation)

    def _timed_out(self, generation: int, operation: Operation) -> None:
        if generation == self._generation and operation.end_offset < 0:
            if self._connection is not None:
                self._connection.close()
            self._fail(generation)

    def _answered(self, generation: int, operation: Operation, answer: object) -> None:
        if isinstance(answer, Produced) and answer.error == ErrorCode.NONE:
            if operation.end_offset < 0:
                operation.end_offset = answer.end_offset
                self._is_known = True
                self._unacknowledged.remove(operation)
                self._around.counts["batches acknowledged"] += 1
            return
        if isinstance(answer, Produced):
            self._around.counts[f"produce answered: {ErrorCode(answer.error).name}"] += 1  # type: ignore[call-arg]
            if answer.error in NOT_IN_LOSSY and self._around.is_lossy(self.key) and generation == self._generation:
                self._begin_epoch()
        self._fail(generation)

    def _begin_epoch(self) -> None:
        """Records were lost, as an operator wished: what is not acknowledged begins a new epoch."""
        self._producer_epoch += 1
        for sequence, operation in enumerate(self._unacknowledged):
            operation.sequence = sequence
        self._sequence = len(self._unacknowledged)

    def _fail(self, generation: int) -> None:
        """Everything that is not acknowledged is sent again after a while, in order, to whoever leads then."""
        if generation != self._generation or self._is_backing_off:
            return
        self._generation += 1
        self._sent.clear()
        if self._around.is_gone(self.key):
            self.is_over = True
            return
        self._is_backing_off = True
        self._around.loop.after((1 + self._random.randrange(2 * BACKOFF_MS)) * MILLISECOND, self._again)

    def _again(self) -> None:
        self._is_backing_off = False
        self._pump()


class Around:
    """What producers need. `leader_of(key, random)` asks some broker; `is_lossy` and `is_gone` are the truth."""

    def __init__(self, loop: Loop, wire: Wire, options: Callable[[], Options], counts: dict[str, int],
                 leader_of: Callable[[Key, Random], int], is_lossy: Callable[[Key], bool],
                 is_gone: Callable[[Key], bool]) -> None:
        self.loop = loop
        self.wire = wire
        self._options = options
        self.counts = counts
        self.leader_of = leader_of
        self.is_lossy = is_lossy
        self.is_gone = is_gone
        self._values = 0

    @property
    def options(self) -> Options:
        return self._options()

    def next_value(self) -> int:
        self._values += 1
        return self._values


def check(producers: list[Producer], truth: PartitionTruth) -> None:
    """What was acknowledged is there, at the place that was told, once, and in the order in which it was sent."""
    places: dict[int, int] = {}
    last: dict[int, int] = {}
    for batch in truth.committed:
        if batch.value in places:
            raise ViolationError("duplicate", f"{truth.topic}: {batch.value} is at {places[batch.value]} and "
                                              f"{batch.end_offset}")
        places[batch.value] = batch.end_offset
        if last.get(batch.producer, 0) > batch.value:
            raise ViolationError("nonmonotonic-send", f"{truth.topic}: {batch.value} of producer {batch.producer} is "
                                                      f"behind {last[batch.producer]}")
        last[batch.producer] = batch.value
    for producer in producers:
        for operation in producer.operations:
            place = places.get(operation.value)
            if operation.end_offset < 0:
                continue
            if place is None:
                raise ViolationError("lost-write", f"{truth.topic}: {operation.value} was acknowledged at "
                                                   f"{operation.end_offset}, and is not there")
            if place != operation.end_offset:
                raise ViolationError("inconsistent-offsets", f"{truth.topic}: {operation.value} was acknowledged at "
                                                             f"{operation.end_offset} and is at {place}")
