"""Writers and transformers of other languages: Kafka's own producer in Java, and franz-go.

The client runs in a process of its own (`tests.clients.transactional`). An abandoned transaction is one whose process
is killed with -9.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from kraft.testing.transactions.history import Transaction
from tests.clients import transactional
from tests.clients.transactional import AbortError, Program
from tests.crash_transactions.record import Record, code_of_value, encode
from tests.crash_transactions.transformers import RECORDS_MAX, Consumed, Processing
from tests.crash_transactions.writers import LostError, Writer
from tests.integration.clients import Reachable

NAMES: Final = (transactional.JAVA, transactional.FRANZ_GO)


class ForeignWriter(Writer):
    """Producer of the library `client`."""

    def __init__(self, client: str, name: str, cluster: Reachable, record: Record, topic: str, seed: str) -> None:
        super().__init__(name, cluster, record, topic, seed)
        self._client = client
        self.refusals: Counter[str] = Counter()
        """Number of transactions that the client could only abort, by its reason."""
        self._program: Program | None = None
        self._appends: dict[int, tuple[Transaction, int]] = {}
        """The appends of the open transaction, by code."""

    def work(self) -> None:
        try:
            super().work()
        finally:
            self._kill()

    def finish(self, transaction: Transaction, fate: str) -> None:
        if fate == "abandon":
            self._kill()
        super().finish(transaction, fate)

    def open(self, transactional_id: str) -> None:
        if self._program is None:
            self._program = Program(self._client, self.cluster.address, self._stored)
        self._call("open", transactional_id, round(self.record.timeout_seconds * 1000), *self._group())

    def _group(self) -> tuple[str, ...]:
        """Return the group and the topic that the client consumes."""
        return ()

    def append(self, transaction: Transaction, code: int, partition: int) -> None:
        assert self._program is not None
        if len(transaction.appends) == 1:
            self._appends.clear()
            self._call("begin")
        self._appends[code] = transaction, len(transaction.appends) - 1
        topic, index = self.record.places[partition]
        with self._lost():
            self._program.send(code, topic, index, encode(code, partition))

    def commit(self) -> bool:
        try:
            self._call("commit")
        except AbortError as error:
            self.refusals[str(error)] += 1
            return False
        return True

    def abort(self) -> None:
        try:
            self._call("abort")
        except AbortError as error:
            raise LostError("an abort that has to be aborted") from error

    def _call(self, *words: object) -> list[transactional.Input]:
        assert self._program is not None
        with self._lost():
            return self._program.call(*words)

    def _stored(self, code: int, offset: int) -> None:
        if (place := self._appends.get(code)) is not None:
            transaction, at = place
            transaction.appends[at] = transaction.appends[at]._replace(offset=offset)

    def _kill(self) -> None:
        if self._program is not None:
            self._program.kill()
            self._program = None

    @contextlib.contextmanager
    def _lost(self) -> Iterator[None]:
        try:
            yield
        except transactional.EndedError as error:
            self._kill()
            raise LostError(str(error)) from error
        except transactional.LostError as error:
            raise LostError(str(error)) from error


class ForeignTransformer(Processing, ForeignWriter):
    """Member of `group`. The client itself returns to the group's offsets after an abort."""

    def __init__(self, client: str, name: str, cluster: Reachable, record: Record, group: str, inputs: str,
                 outputs: str, seed: str) -> None:
        super().__init__(client, name, cluster, record, outputs, seed)
        self.group = group
        self.inputs = inputs

    def _group(self) -> tuple[str, ...]:
        return self.group, self.inputs

    def run_one(self) -> None:
        found = self._call("poll", RECORDS_MAX)
        if found:
            self.process([Consumed(each.partition, each.offset, code_of_value(
                each.value, self.record.numbers[each.topic, each.partition])) for each in found])

    def add_offsets(self, positions: dict[int, int]) -> bool:
        """The client adds them when it commits."""
        return True
