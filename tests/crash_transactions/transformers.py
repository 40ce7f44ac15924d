"""Members of a group that consume, transform and produce: outputs and offsets in one transaction."""

import time
from abc import abstractmethod
from typing import Final, NamedTuple

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

from kraft.testing.transactions.history import Input, OffsetCommit, Outcome
from tests.crash_cluster.clients import LEAVE_POLLS_MAX, PATIENCE
from tests.crash_transactions.record import Record, code_in
from tests.crash_transactions.writers import CALL_SECONDS, PAUSE_SECONDS, LostError, RdkafkaWriter, Writer
from tests.integration.clients import Reachable, librdkafka_consumer

RECORDS_MAX: Final = 20
POLL_SECONDS: Final = 0.1


class Consumed(NamedTuple):
    """A record of the input topic."""

    partition: int
    offset: int
    code: int


class Processing(Writer):
    """Writer of an output for each input record. `group` consumes the topic `inputs`."""

    group: str
    inputs: str

    @abstractmethod
    def add_offsets(self, positions: dict[int, int]) -> bool:
        """Add offsets by partition to the transaction. Return False if it has to be aborted."""

    def process(self, found: list[Consumed]) -> bool:
        """Run one transaction on these records. Return whether it was committed."""
        number, transaction = self.record.begin(self._number)
        self.transactions += 1
        transaction.outcome = Outcome.ABORTED
        positions: dict[int, int] = {}
        for index, each in enumerate(found):
            transaction.inputs.append(Input(self.record.numbers[self.inputs, each.partition], each.offset, each.code))
            positions[each.partition] = each.offset + 1
            self.send(number, transaction, index, self.chance.choice(self.record.of_topic(self._topic)))
        fate = self.chance.choices(("commit", "abort", "abandon"), (900, 90, 10))[0]
        for partition, position in positions.items():
            place = self.record.numbers[self.inputs, partition]
            transaction.commits.append(OffsetCommit(self.group, place, position))
        if self.add_offsets(positions):
            self.finish(transaction, fate)
        else:
            self.abort()
            transaction.ended = time.monotonic()
        return transaction.outcome is Outcome.COMMITTED


class Transformer(Processing, RdkafkaWriter):
    """Member of `group` by librdkafka."""

    def __init__(self, name: str, cluster: Reachable, record: Record, group: str, inputs: str, outputs: str,
                 seed: str) -> None:
        super().__init__(name, cluster, record, outputs, seed)
        self.group = group
        self.inputs = inputs
        self._consumer: confluent_kafka.Consumer | None = None

    def work(self) -> None:
        try:
            super().work()
        finally:
            self._leave()

    def open(self, transactional_id: str) -> None:
        """Create a consumer too: its position has to be that of the group again."""
        self._leave()
        super().open(transactional_id)
        self._consumer = librdkafka_consumer(
            self.cluster, self.group, isolation_level="read_committed", session_timeout_ms=6_000,
            heartbeat_interval_ms=500, error_cb=lambda _: None, **PATIENCE)
        self._consumer.subscribe([self.inputs], on_revoke=self._on_revoke, on_lost=self._on_revoke)
        self._revoked = False

    def _on_revoke(self, _: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        self._revoked = True

    def _leave(self) -> None:
        """Close the consumer. It gives its partitions up first, because librdkafka 2.16.1 would use a thread of its own
        for that, and closing may wait for that thread indefinitely."""
        if self._consumer is None:
            return
        self._consumer.unsubscribe()
        for _ in range(LEAVE_POLLS_MAX):
            if not self._consumer.assignment():
                break
            self._consumer.poll(POLL_SECONDS)
        self._consumer.close()
        self._consumer = None

    def run_one(self) -> None:
        """Run one transaction on the next records. A failed one, and a rebalance, lead to another consumer."""
        assert self._consumer is not None
        self._revoked = False
        messages = [each for each in self._consumer.consume(RECORDS_MAX, POLL_SECONDS) if each.error() is None]
        if self._revoked:
            raise LostError("rebalance")
        if not messages:
            return
        inputs = []
        for message in messages:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            inputs.append(Consumed(partition, offset, code_in(message, self.record.numbers[topic, partition])))
        if not self.process(inputs):
            raise LostError("the consumer has to return to the group's offsets")

    def add_offsets(self, positions: dict[int, int]) -> bool:
        assert self._consumer is not None
        offsets = [TopicPartition(self.inputs, partition, position) for partition, position in positions.items()]
        for _ in self.attempts():
            try:
                self.producer.send_offsets_to_transaction(
                    offsets, self._consumer.consumer_group_metadata(), CALL_SECONDS)
            except KafkaException as error:
                found = error.args[0]
                if found.txn_requires_abort():
                    return False
                if not found.retriable():
                    raise LostError(str(error)) from error
                self._end.wait(PAUSE_SECONDS)
            else:
                return True
        return False
