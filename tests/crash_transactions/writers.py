"""Clients with transactions: each thread runs one transaction after the other, through every fault, and records what it
knows of them.

`RdkafkaWriter` is librdkafka's producer, which has no epoch for each transaction; `KraftWriter` is that of
`kraft.client`, which has one.
"""

import contextlib
import logging
import random
import time
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from kraft.client import Cluster
from kraft.client.connection import ConnectionFailedError
from kraft.client.refusals import RefusedError
from kraft.client.transactional_producer import TransactionalProducer
from kraft.testing.transactions.history import Append, Outcome, Transaction, code_of
from tests.crash_cluster.clients import PATIENCE, Client
from tests.crash_transactions.record import Record, encode
from tests.integration.clients import Reachable, librdkafka_producer

CALL_SECONDS: Final = 5.0
GIVE_UP_SECONDS: Final = 30.0
"""A producer whose commit is not answered by then is replaced."""
RECORDS_MAX: Final = 6
FATES: Final = ("commit", "abort", "abandon", "stall")
WEIGHTS: Final = (1690, 290, 16, 4)
"""A transaction that is left to its time-out holds the readers of its partitions back, and a stalled one its writer. So
few are: with many writers there is one at most times."""
PAUSE_SECONDS: Final = 0.2
QUIET: Final = logging.getLogger("kraft.crash_transactions")
"""Log of librdkafka's producers: replaced ones are fenced, which each of them reports as fatal."""
QUIET.propagate = False
QUIET.addHandler(logging.NullHandler())


class LostError(Exception):
    """The producer cannot continue; another one has to take over."""


class Writer(Client):
    """Common part of the writers. `exclusive` is the chance of a transaction that writes the exclusive topic, and
    nothing else, under the lock of the record."""

    def __init__(self, name: str, cluster: Reachable, record: Record, topic: str, seed: str,
                 exclusive: float = 0.1) -> None:
        super().__init__(name)
        self.cluster = cluster
        self.record = record
        self.transactions = 0
        self.lost = 0
        self._topic = topic
        self._exclusive = exclusive
        self.chance = random.Random(f"{seed}.{name}")
        self._number = -1

    # --- the producer

    @abstractmethod
    def open(self, transactional_id: str) -> None:
        """Create a producer that fences its predecessor. Raises `LostError`."""

    @abstractmethod
    def append(self, transaction: Transaction, code: int, partition: int) -> None:
        """Send a record. Raises `LostError`."""

    @abstractmethod
    def commit(self) -> bool:
        """Commit. Return False if the transaction has to be aborted; raise `LostError` without a known outcome."""

    @abstractmethod
    def abort(self) -> None:
        """Abort. Raises `LostError`."""

    # --- work

    def work(self) -> None:
        while not self._end.is_set():
            if self._number < 0:
                self._number = self.record.new_producer(self.name)
            try:
                self.open(f"{self._topic}.{self._number}")
                while not self._end.is_set():
                    self.run_one()
            except LostError:
                self.lost += 1
                self._end.wait(PAUSE_SECONDS * self.chance.random())

    def run_one(self) -> None:
        """Run one transaction."""
        is_exclusive = self.chance.random() < self._exclusive
        topic = self.record.exclusive if is_exclusive else self._topic
        with self.record.lock if is_exclusive else contextlib.nullcontext():
            try:
                self.run_on(self.record.of_topic(topic))
            except LostError:
                if is_exclusive and self._number >= 0:
                    self._settle()
                raise

    def run_on(self, partitions: list[int]) -> None:
        """Run one transaction that writes some of these partitions."""
        number, transaction = self.record.begin(self._number)
        self.transactions += 1
        transaction.outcome = Outcome.ABORTED
        for index in range(self.chance.randint(1, RECORDS_MAX)):
            self.send(number, transaction, index, self.chance.choice(partitions))
        self.finish(transaction, self.chance.choices(FATES, WEIGHTS)[0])

    def send(self, number: int, transaction: Transaction, index: int, partition: int) -> None:
        transaction.appends.append(Append(partition, -1, time.monotonic()))
        self.append(transaction, code_of(number, index), partition)

    def finish(self, transaction: Transaction, fate: str) -> None:
        """End the transaction, or leave it to its time-out: then another producer continues under another id."""
        if fate == "abandon":
            self._number = -1
            raise LostError("abandoned")
        if fate == "stall":
            self._end.wait(self.record.timeout_seconds + 2 * self.chance.random())
        if fate != "abort":
            transaction.outcome, transaction.ending = Outcome.UNKNOWN, time.monotonic()
            if self.commit():
                transaction.outcome, transaction.ended = Outcome.COMMITTED, time.monotonic()
                return
        self.abort()
        transaction.outcome, transaction.ended = Outcome.ABORTED, time.monotonic()

    def _settle(self) -> None:
        """Replace the producer until its last transaction has ended, so that the next one does not overlap it."""
        for _ in self.attempts():
            try:
                self.open(f"{self._topic}.{self._number}")
            except LostError:
                self._end.wait(PAUSE_SECONDS)
            else:
                return

    def attempts(self) -> Iterator[None]:
        """Repeat until it is time to give up."""
        until = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < until:
            yield


class RdkafkaWriter(Writer):
    """Producer of librdkafka."""

    def open(self, transactional_id: str) -> None:
        self.producer = librdkafka_producer(
            self.cluster, transactional_id=transactional_id,
            transaction_timeout_ms=round(self.record.timeout_seconds * 1000), linger_ms=1, retry_backoff_ms=20,
            logger=QUIET, error_cb=lambda _: None, **PATIENCE)
        for _ in self.attempts():
            try:
                self.producer.init_transactions(CALL_SECONDS)
            except KafkaException as error:
                if not _error_of(error).retriable() or self._end.is_set():
                    raise LostError(str(error)) from error
            else:
                self._begin()
                return
        raise LostError("no id was given")

    def _begin(self) -> None:
        try:
            self.producer.begin_transaction()
        except KafkaException as error:
            raise LostError(str(error)) from error

    def append(self, transaction: Transaction, code: int, partition: int) -> None:
        at = len(transaction.appends) - 1

        def delivered(error: KafkaError | None, message: confluent_kafka.Message) -> None:
            offset = message.offset()
            if error is None and offset is not None and offset >= 0:
                transaction.appends[at] = transaction.appends[at]._replace(offset=offset)

        topic, index = self.record.places[partition]
        try:
            self.producer.produce(topic, encode(code, partition), partition=index, on_delivery=delivered)
        except KafkaException as error:
            raise LostError(str(error)) from error
        self.producer.poll(0)

    def commit(self) -> bool:
        return self._until_done(self.producer.commit_transaction)

    def abort(self) -> None:
        if not self._until_done(self.producer.abort_transaction):
            raise LostError("an abort that has to be aborted")

    def _until_done(self, call: Any) -> bool:
        for _ in self.attempts():
            try:
                call(CALL_SECONDS)
            except KafkaException as error:
                if _error_of(error).txn_requires_abort():
                    return False
                if not _error_of(error).retriable():
                    raise LostError(str(error)) from error
            else:
                self._begin()
                return True
        raise LostError("not answered")


class KraftWriter(Writer):
    """Producer of `kraft.client`."""

    _connections: Cluster | None = None

    def open(self, transactional_id: str) -> None:
        if self._connections is not None:
            self._connections.close()
        self._connections = Cluster(self.cluster.address, client_id="kraft-writer", timeout=CALL_SECONDS)
        with _lost():
            self.producer = TransactionalProducer(self._connections, transactional_id,
                                                  expiry_ms=round(self.record.timeout_seconds * 1000))

    def append(self, transaction: Transaction, code: int, partition: int) -> None:
        with _lost():
            offset = self.producer.send(*self.record.places[partition], [(None, encode(code, partition))])
        if offset >= 0:
            transaction.appends[-1] = transaction.appends[-1]._replace(offset=offset)

    def commit(self) -> bool:
        with _lost():
            self.producer.commit()
        return True

    def abort(self) -> None:
        with _lost():
            self.producer.abort()

    def work(self) -> None:
        try:
            super().work()
        finally:
            if self._connections is not None:
                self._connections.close()


@contextlib.contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except (ConnectionFailedError, RefusedError) as error:
        raise LostError(str(error)) from error


def _error_of(error: KafkaException) -> KafkaError:
    found = error.args[0]
    assert isinstance(found, KafkaError)
    return found
