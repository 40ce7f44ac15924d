"""A run with transactions: the world of brokers, with coordinators, transactional clients, and their judges."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from kraft.broker.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from kraft.broker.transactions import ending, state
from kraft.raft.events import Event
from kraft.testing.brokers.transactional.client_world import ClientWorld
from kraft.testing.brokers.transactional.clients import TOPIC, longest_pause_ms
from kraft.testing.brokers.transactional.readers import PartitionReader, Reader
from kraft.testing.brokers.transactional.replays import judge_compaction
from kraft.testing.brokers.transactional.share_leaders import ShareLeader
from kraft.testing.brokers.transactional.spans import Spans
from kraft.testing.brokers.transactional.transformers import Transformer
from kraft.testing.brokers.transactional.writers import Writer
from kraft.testing.sim.options import MILLISECOND, SECOND, Options
from kraft.testing.sim.violation import ViolationError
from kraft.testing.transactions.history import History, Log
from kraft.testing.transactions.judge import judge

NOTES_PER_TIMEOUT: Final = 20
"""Times that each last stable offset is read during the time-out of a transaction, at least."""
NOTE_MS: Final = 250
LONG_NOTE_MS: Final = 1000
"""The same in a run of hours."""
LEVELS: Final = (False, True)
"""Isolation levels of readers: whether they see committed transactions only."""


@contextmanager
def limited_epochs(count: int) -> Iterator[None]:
    """Let producer ids have so many epochs for clients, to exhaust them often; 0: as many as in production."""
    before = state.LAST_CLIENT_EPOCH, state.EPOCH_MAX
    for module in (state, ending) if count else ():
        vars(module).update(LAST_CLIENT_EPOCH=count - 1, EPOCH_MAX=count)
    try:
        yield
    finally:
        for module in (state, ending):
            vars(module).update(LAST_CLIENT_EPOCH=before[0], EPOCH_MAX=before[1])


class TransactionWorld(ClientWorld):
    """The world of a run with transactions."""

    def __init__(self, seed: int, options: Options, trace: TextIO | None = None,
                 listen: Callable[[int, float, Event], None] | None = None) -> None:
        names = [f"{topic}-{index}" for topic in (TOPIC, OFFSETS_TOPIC) for index in range(options.partitions)]
        self.transaction_history = History(names, [Log() for _ in names])
        super().__init__(seed, options, self.transaction_history, trace, listen)
        self.spans = Spans(options.transaction_ms / 1000, lambda: self.loop.now_us / SECOND)
        self.writers: list[Writer] = []
        self.readers: list[Reader] = []
        self.share_leaders: list[ShareLeader] = []

    # --- the run ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        self.spans.excuse()
        self._begin_clients()
        self._note()
        try:
            with limited_epochs(self.cluster.options.epochs):
                super().run()
        finally:
            self._end_clients()
        self._judge_transactions()

    def _begin_clients(self) -> None:
        options = self.cluster.options
        indexes = range(options.partitions)
        for place in range(options.transactions):
            number = self._new_number()
            if place % 3 == 1 and options.partitions > 1:
                reader = PartitionReader(number, self._async, self._random(number), committed=True)
                number += 1
                writer: Writer = Transformer(number, self._async, self._random(number), 0, indexes[1:], reader)
            else:
                writer = Writer(number, self._async, self._random(number), indexes)
            self.writers.append(writer)
        for _ in range(options.readers):
            self._begin_readers()
        for place in range(options.share):
            number = self._new_number()
            self.share_leaders.append(ShareLeader(
                number, self._async, self._random(number), place % options.partitions, self._any_broker))
        for writer in self.writers:
            writer.begin()
        for leader in self.share_leaders:
            leader.begin()

    def _begin_readers(self) -> None:
        for index in range(self.cluster.options.partitions):
            for committed in LEVELS:
                number = self._new_number()
                reader = Reader(number, self._async, self._random(number), index, committed=committed)
                self.readers.append(reader)
                reader.begin()

    def _end_earlier_readers(self) -> None:
        """End the readers that have seen everything, but those that began last: they see it all again."""
        for reader in self.readers[:-self._readers_per_begin]:
            reader.is_on = False
        del self.readers[:-self._readers_per_begin]

    @property
    def _readers_per_begin(self) -> int:
        return len(LEVELS) * self.cluster.options.partitions

    def _leader_marks(self) -> dict[int, tuple[int, int]]:
        """Return the last stable offset and the high watermark of each partition of the history that has a leader."""
        found = {}
        image = self.metadata.image
        for number, name in enumerate(self.transaction_history.partitions):
            topic, _, index = name.rpartition("-")
            registration = image.partition(topic, int(index))
            node = None if registration is None else next(
                (each for each in self._nodes() if each.id == registration.leader), None)
            if node is not None and node.broker is not None:
                replica = node.broker.replicas.get((topic, int(index)))
                if replica is not None and replica.is_leader and not replica.partition.log.closed:
                    stable = replica.partition.log.last_stable_offset
                    found[number] = stable, replica.high_watermark
        return found

    def _note(self) -> None:
        for number, marks in self._leader_marks().items():
            self.spans.note(number, *marks)
        options = self.cluster.options
        every_ms = max(LONG_NOTE_MS if options.quiet_seconds else NOTE_MS, options.transaction_ms // NOTES_PER_TIMEOUT)
        self.loop.after(every_ms * MILLISECOND, self._note)

    # --- phases -------------------------------------------------------------------------------------------------------

    def settling_us(self, options: Options) -> int:
        """See `World.settling_us`. The late end of an abandoned transaction is sent after a pause, which may begin with
        the last fault and be longer than a transaction's time-out."""
        return super().settling_us(options) + longest_pause_ms(options.transaction_ms) * MILLISECOND

    def begin_phase(self, number: int) -> None:
        """Begin another phase with faults, after a quiet one."""
        super().begin_phase(number)
        self.spans.excuse()
        workers: list[Writer | ShareLeader] = [*self.writers, *self.share_leaders]
        for each in workers:
            each.is_on = True
            each.begin()

    def converged(self) -> None:
        """Judge the records of the coordinators. Then let a quiet phase pass, in which time-outs and expiry happen."""
        self._judge_compaction()
        options = self.cluster.options
        if options.quiet_seconds:
            self._end_earlier_readers()
            self.stay_converged(options.quiet_seconds * SECOND)

    def _judge_compaction(self) -> None:
        for node in self._nodes():
            for (topic, index), replica in ({} if node.broker is None else node.broker.replicas).items():
                if topic == TRANSACTION_TOPIC and replica.is_leader:
                    removed = judge_compaction(f"{topic}-{index}", node.broker_disk.path_of((topic, index)),
                                               self.storage.root / "compacted")
                    self.counts["records of coordinators compacted"] += removed

    # --- healed -------------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        workers: list[Writer | ShareLeader] = [*self.writers, *self.share_leaders]
        for each in workers:
            each.is_on = False
        super()._heal()
        self._begin_readers()

    def also_missing(self) -> ViolationError | None:
        missing = super().also_missing()
        if missing is not None:
            return missing
        self.spans.settle()
        return self._transactions_missing()

    def _transactions_missing(self) -> ViolationError | None:
        for leader in self.share_leaders:
            if not leader.is_idle:
                return ViolationError("AcknowledgedIsRead", f"client {leader.id} still waits")
        for writer in self.writers:
            if not writer.is_idle:
                return ViolationError("TransactionsEnd", f"{writer.name} still waits")
        marks = self._leader_marks()
        for number, name in enumerate(self.transaction_history.partitions):
            if number in marks and marks[number][0] != marks[number][1]:
                return ViolationError("TransactionsEnd", f"{name}: the last stable offset is {marks[number][0]}, the "
                                                         f"high watermark {marks[number][1]}")
        for reader in self.readers:
            if reader.index in marks and reader.position < marks[reader.index][1]:
                return ViolationError("unseen", f"{reader.view.reader} is at {reader.position} of "
                                                f"{self.transaction_history.partitions[reader.index]}, which ends at "
                                                f"{marks[reader.index][1]}")
        return None

    # --- judged -------------------------------------------------------------------------------------------------------

    def _judge_transactions(self) -> None:
        """Judge everything that the clients did and saw by `kraft.testing.transactions`."""
        history = self.transaction_history
        marks = self._leader_marks()
        image = self.metadata.image
        for number, name in enumerate(history.partitions):
            topic, _, index = name.rpartition("-")
            topic_id = image.topic_ids.get(topic)
            truth = None if topic_id is None else self.truth.partitions.get((topic_id, int(index)))
            log = history.logs[number]
            if truth is None:
                continue
            log.end = truth.end_offset
            log.stable_end = marks[number][0] if number in marks else log.end
            for batch in truth.committed if topic == TOPIC else ():
                if batch.value >= 0:
                    for place in range(batch.end_offset - batch.base_offset):
                        log.offsets.append(batch.base_offset + place)
                        log.codes.append(batch.value + place)
        history.open_spans = self.spans.all()
        verdict = judge(history)
        if verdict.anomalies:
            first = verdict.anomalies[0]
            raise ViolationError(first.kind, f"{first.text} ({len(verdict.anomalies)} anomalies)")
