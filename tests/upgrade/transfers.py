"""Clients of an upgrade other than plain producers: transactions over two partitions, and a user without rights."""

import struct
import threading
import time
from typing import Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kraft.client.transaction_admin import Transaction, describe_transactions, list_transactions
from kraft_native.base.errors import KraftError
from tests.integration.clients import librdkafka_consumer, librdkafka_producer
from tests.upgrade.cluster import PREFIX, Servers

TOPIC: Final = f"{PREFIX}-transfers"
PARTITIONS: Final = 2
TIMEOUT_MS: Final = 20_000
SECONDS: Final = 30.0
ABORTED_EVERY: Final = 5
CHECK_SECONDS: Final = 10.0
"""Time between two checks of time-outs at a coordinator."""
VALUE: Final = struct.Struct(">iq")
LAST_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")


class Transfers(threading.Thread):
    """Writes 0, 1, 2, ... by one transaction each to every partition; each fifth is aborted."""

    def __init__(self, servers: Servers, number: int) -> None:
        super().__init__(name=f"transfers {number}")
        self.number = number
        self.committed: list[int] = []
        self.aborted: list[int] = []
        self.unknown: list[int] = []
        """Transactions whose end was not answered: either is right."""
        self.problems: list[str] = []
        self._servers = servers
        self._end = threading.Event()

    def run(self) -> None:
        sequence = 0
        while not self._end.is_set():
            producer = librdkafka_producer(
                self._servers, transactional_id=f"{PREFIX}-{self.number}", transaction_timeout_ms=TIMEOUT_MS,
                linger_ms=1, reconnect_backoff_ms=20, reconnect_backoff_max_ms=100, retry_backoff_ms=20)
            try:
                producer.init_transactions(SECONDS)
                while not self._end.is_set():
                    self._one(producer, sequence)
                    sequence += 1
            except KafkaException as error:
                # The next producer ends what this one left, or waits for its end.
                if not error.args[0].retriable() and not error.args[0].txn_requires_abort() \
                        and not error.args[0].fatal():
                    self.problems.append(f"{self.name}: {sequence}: {error}")
                self.unknown.append(sequence)
                sequence += 1

    def _one(self, producer: confluent_kafka.Producer, sequence: int) -> None:
        is_aborted = sequence % ABORTED_EVERY == ABORTED_EVERY - 1
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, VALUE.pack(self.number, sequence), partition=partition)
        if is_aborted:
            producer.abort_transaction(SECONDS)
            self.aborted.append(sequence)
        else:
            producer.commit_transaction(SECONDS)
            self.committed.append(sequence)

    def end(self) -> None:
        """Begin no more transactions."""
        self._end.set()


class Outsider(threading.Thread):
    """Writes with the login of a user that no entry allows anything: every answer must be a denial."""

    def __init__(self, servers: Servers, topic: str) -> None:
        super().__init__(name="outsider")
        self.denials = 0
        self.problems: list[str] = []
        self._topic = topic
        self._end = threading.Event()
        self._producer = librdkafka_producer(servers, acks="all", message_timeout_ms=5_000, linger_ms=0)

    def run(self) -> None:
        while not self._end.is_set():
            try:
                self._producer.produce(self._topic, b"denied", on_delivery=self._delivered)
            except KafkaException as error:         # what the library has learned before
                self._note(error.args[0])
            self._producer.flush(SECONDS)
            self._end.wait(0.2)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.problems.append(f"{self.name}: offset {message.offset()} was acknowledged")
        else:
            self._note(error)

    def _note(self, error: KafkaError) -> None:
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self.denials += 1
        elif error.code() not in (KafkaError._MSG_TIMED_OUT, KafkaError._TRANSPORT):
            self.problems.append(f"{self.name}: {error}")

    def end(self) -> None:
        """Write no more."""
        self._end.set()


def overdue(servers: Servers) -> list[Transaction]:
    """Return the transactions that are open for longer than their time-out, and the time of a check."""
    try:
        with servers.cluster() as cluster:
            listed = list_transactions(cluster, states=LAST_STATES,
                                       longer_than_ms=TIMEOUT_MS + int(CHECK_SECONDS * 1_000))
            return describe_transactions(cluster, listed)
    except KraftError:
        return []       # a coordinator moves; the next check sees it


def still_open(servers: Servers) -> list[str]:
    """Wait until no transaction is open, for their time-out at most; return those that are."""
    until = time.monotonic() + TIMEOUT_MS / 1_000 + CHECK_SECONDS
    while True:
        with servers.cluster() as cluster:
            found = describe_transactions(cluster, list_transactions(cluster, states=LAST_STATES))
        if not found or time.monotonic() > until:
            return [f"{each.transactional_id}: {each.state}, {TIMEOUT_MS} ms and more after its producer's end"
                    for each in found]
        time.sleep(0.5)


def read_committed(servers: Servers) -> dict[int, list[tuple[int, int]]]:
    """Return the committed (producer, sequence) of each partition, in their order. Raises AssertionError when a
    transaction holds back the end."""
    consumer = librdkafka_consumer(servers, f"{PREFIX}-transfers", isolation_level="read_committed",
                                   enable_partition_eof=True)
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[tuple[int, int]]] = {partition: [] for partition in range(PARTITIONS)}
    unread, until = set(found), time.monotonic() + 2 * SECONDS
    while unread:
        for message in consumer.consume(10_000, 0.5):
            error, value, partition = message.error(), message.value(), message.partition() or 0
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                unread.discard(partition)
            elif isinstance(value, bytes):
                found[partition].append(VALUE.unpack(value))
        assert time.monotonic() < until, f"partitions {sorted(unread)} have no end"
    consumer.close()
    return found


def judge(found: dict[int, list[tuple[int, int]]], writers: list[Transfers]) -> list[str]:
    """Return what is wrong: transactions that are lost, twice, out of order, in one partition only, or aborted and
    there."""
    problems = [problem for each in writers for problem in each.problems]
    for each in writers:
        for partition, pairs in found.items():
            stored = [sequence for number, sequence in pairs if number == each.number]
            where = f"{each.name}, partition {partition}"
            if stored != sorted(set(stored)):
                problems.append(f"{where}: transactions are twice or out of order")
            if lost := sorted(set(each.committed) - set(stored)):
                problems.append(f"{where}: {len(lost)} committed transactions are lost, such as {lost[0]}")
            if wrong := sorted(set(stored) - set(each.committed) - set(each.unknown)):
                problems.append(f"{where}: {len(wrong)} were not committed, such as {wrong[0]}")
    if len({tuple(sorted(pairs)) for pairs in found.values()}) > 1:
        problems.append("transfers: partitions have different transactions")
    return problems
