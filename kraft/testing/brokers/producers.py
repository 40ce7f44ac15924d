"""Idempotent clients with acks=all, each on one partition."""

from collections import deque
from dataclasses import dataclass
from functools import partial
from random import Random

from kraft.broker.isr import Key
from kraft.metadata.image import NO_LEADER, PartitionRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft.testing.brokers.clients import BACKOFF_MS, TIMEOUT_MS, Around, Client
from kraft.testing.brokers.leaders import timeout_us
from kraft.testing.brokers.messages import Produce, Produced
from kraft.testing.brokers.wire import Connection, Hold
from kraft.testing.history import Sends
from kraft.testing.sim.chance import below
from kraft.testing.sim.options import MILLISECOND

NOT_IN_LOSSY = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH)


@dataclass(slots=True)
class Operation:
    """One batch, of the records from `value` on; `number` counts the batches of its producer. `end_offset` is -1 until
    the batch is acknowledged."""

    number: int
    value: int
    count: int
    sequence: int
    made_us: int
    end_offset: int = -1


class Producer(Client):
    """An idempotent producer. `sends`: the record of its sends, for the judge."""

    def __init__(self, number: int, key: Key, around: Around, random: Random) -> None:
        super().__init__(number, key, around, random)
        self.operations: list[Operation] = []
        self.sends = Sends(number)
        self.is_on = True
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

    def start(self) -> None:
        self._schedule()

    def _schedule(self) -> None:
        mean_us = self._around.options.produce_every_ms * MILLISECOND
        self._around.loop.after(1 + below(self._random, 2 * mean_us), self._produce)

    def _produce(self) -> None:
        if self.is_on and not self.is_over:
            # A broker recognises the last five batches of a producer, so at most that many are under way from the
            # oldest on.
            under_way = len(self.operations) - self._unacknowledged[0].number if self._unacknowledged else 0
            # A broker accepts any first sequence of an unknown producer, so the first batch goes alone.
            if under_way < (self._around.options.window if self._is_known else 1):
                self.add()
            self._schedule()

    def add(self) -> Operation:
        """Create one more batch, and send it."""
        count = 1 + below(self._random, 3)
        floor = self._around.acknowledged.get(self.key, -1)
        operation = Operation(len(self.operations), len(self.sends.offsets), count, self._sequence,
                              self._around.loop.now_us)
        for _ in range(count):
            self.sends.send(floor)
        self._sequence += count
        self.operations.append(operation)
        self._unacknowledged.append(operation)
        self._around.counts["batches produced"] += 1
        self._pump()
        return operation

    def _pump(self, known: PartitionRegistration | None = None) -> None:
        """Send the batches that were not sent since the last failure, in order. `known`: the partition from a fresh
        Metadata answer."""
        if self._is_backing_off or self.is_over:
            return
        known = known or self._around.partition_of(self.key, self._random)
        if known is None or known.leader == NO_LEADER:
            self._fail(self._generation)
            return
        generation = self._generation
        for operation in list(self._unacknowledged):
            if operation.value not in self._sent:
                self._sent[operation.value] = None
                self._connection = self._around.wire.request(
                    self, known.leader, f"produce {self.id}",
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
                self._acknowledged(operation, answer.end_offset)
            return
        if isinstance(answer, Produced):
            self._around.counts[f"produce answered: {name_of(answer.error)}"] += 1
            if answer.error in NOT_IN_LOSSY and self._around.is_lossy(self.key) and generation == self._generation:
                self._begin_epoch()
        self._fail(generation)

    def _acknowledged(self, operation: Operation, end_offset: int) -> None:
        operation.end_offset = end_offset
        for number in range(operation.count):
            self.sends.offsets[operation.value + number] = end_offset - operation.count + number
        self._around.acknowledged[self.key] = max(end_offset - 1, self._around.acknowledged.get(self.key, -1))
        self._is_known = True
        if operation in self._unacknowledged:       # else it was given up
            self._unacknowledged.remove(operation)
        self._around.counts["batches acknowledged"] += 1

    def _begin_epoch(self) -> None:
        """Begin a new epoch with the batches that are not acknowledged."""
        self._around.counts["producer epoch bumped"] += 1
        self._producer_epoch += 1
        self._sequence = 0
        for operation in self._unacknowledged:
            operation.sequence = self._sequence
            self._sequence += operation.count

    def _fail(self, generation: int) -> None:
        """Send all unacknowledged batches again after a while, in order, to the leader of that time."""
        if generation != self._generation or self._is_backing_off:
            return
        self._generation += 1
        self._sent.clear()
        if self._around.is_deleted(self.key):
            self.is_over = True
            return
        self._is_backing_off = True
        self._around.loop.after((1 + below(self._random, 2 * BACKOFF_MS)) * MILLISECOND, self._again)

    def _again(self) -> None:
        self._is_backing_off = False
        if self._is_late():
            # It is unknown whether these batches are in the log. Requests still under way must not arrive after the
            # next ones, so the next ones get a new epoch (KIP-360).
            self._unacknowledged.clear()
            self._begin_epoch()
        if self._around.options.leader_checks:
            self._find()
        else:
            self._pump()

    def _find(self) -> None:
        """Request Metadata, then send the pending batches. Without a leader it fails."""
        self._is_backing_off = True
        generation = self._generation
        answered: list[None] = []

        def found(known: PartitionRegistration | None) -> None:
            if answered:
                return
            answered.append(None)
            self._is_backing_off = False
            if known is None or known.leader == NO_LEADER:
                self._fail(generation)
            else:
                self._pump(known)

        self._around.find(self.key, self._random, found)
        self._around.loop.after(timeout_us(self._around.options.grace_ms), found, None)

    def _is_late(self) -> bool:
        """Return whether the oldest batch has already been reported to the application as failed. Once everything is
        healed all batches must arrive."""
        delivery_us = self._around.options.delivery_ms * MILLISECOND
        return (self.is_on and delivery_us > 0 and bool(self._unacknowledged)
                and self._around.loop.now_us - self._unacknowledged[0].made_us > delivery_us)

    def stall(self, hold: Hold) -> None:
        """Hold back the requests over the current connection."""
        if self._connection is not None:
            self._connection.holds.append(hold)
