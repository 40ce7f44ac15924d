"""Producer of transactions: records and offsets of one transaction become visible together, or not at all.

```
with Cluster("localhost:9092") as cluster, TransactionalProducer(cluster, "billing-1") as producer:
    producer.send("invoices", 0, [(b"key", b"value")])
    producer.commit()
```

With `two_phase`, a transaction of the cluster and one of a database commit together (KIP-939):

1. `state = producer.prepare()`: the records are stored, and the transaction does not expire.
2. The database stores `state` in the transaction that is to commit with it, and commits it. This decides.
3. `producer.complete(state)`.

After a crash, at any point, a producer with `keep_prepared` and `producer.complete(state)`, with the state that the
database has committed last, ends the transaction as the database decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Final, Self

from kraft.client.cluster import Cluster
from kraft.client.connection import ConnectionFailedError
from kraft.client.partitions import Partition
from kraft.client.producer import Producer
from kraft.client.refusals import RefusedError
from kraft.client.transactions import GroupMember, Offset, Transactions
from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.batch.records import BatchBuilder

EXPIRY_MS_DEFAULT: Final = 60_000
FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


class TransactionalProducer:
    """Producer of the transactions of one transactional id, one after the other. Used by one thread; a context manager
    that aborts what is neither committed nor prepared.

    All methods raise `RefusedError` or `ConnectionFailedError`; then call `abort`, or create the producer again. A
    transaction of which a record or an offset failed can only be aborted. The caller closes `cluster`.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, *, expiry_ms: int = EXPIRY_MS_DEFAULT,
                 two_phase: bool = False, keep_prepared: bool = False, codec: str = "none") -> None:
        """Fence every other producer of the transactional id and abort its transaction. With `keep_prepared` that
        transaction is kept: call `complete` first.

        `expiry_ms`: the cluster aborts a transaction that is open for longer, except with `two_phase`."""
        self._transactions = Transactions(cluster, transactional_id, expiry_ms=expiry_ms, timeout=cluster.timeout,
                                          two_phase=two_phase)
        self._producer = Producer(cluster, transactional_id=transactional_id)
        self._codec = codec
        self._added: set[Partition] = set()
        self._has_failed = False        # a batch or an offset, which may be stored nevertheless
        self._transactions.begin(keep_prepared=keep_prepared)
        self._continue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self.prepared is not None:
            return
        try:
            self.abort()
        except (ConnectionFailedError, RefusedError) as failure:
            if isinstance(failure, RefusedError) and failure.code in FENCED:
                return                 # the next producer has aborted the transaction
            if error is None:
                raise
            error.add_note(f"the transaction is left to expire or to the next producer: {failure}")

    @property
    def prepared(self) -> str | None:
        """State of the prepared transaction; None without one."""
        return self._transactions.prepared

    def send(self, topic: str, partition: int, records: Iterable[tuple[bytes | None, bytes | None]]) -> int:
        """Append records, each a key and a value, to a partition as part of the transaction, and wait until they are
        stored. Return the offset of the first. Without records raise `InvalidArgumentError`."""
        builder = BatchBuilder(self._codec)
        for key, value in records:
            builder.append(value, key)
        if not len(builder):
            raise InvalidArgumentError("records: none, must be at least one")
        return self.send_batches({(topic, partition): builder.build()})[topic, partition]

    def send_batches(self, batches: Mapping[Partition, bytes]) -> dict[Partition, int]:
        """Append one record batch to each of these partitions as part of the transaction, and wait until they are
        stored. Return the offsets of their first records."""
        self._check_sound()
        self._has_failed = True
        for place in batches:
            if place not in self._added:
                self._transactions.add(*place)
                self._added.add(place)
        offsets = self._producer.send(batches)
        self._has_failed = False
        return offsets

    def commit_offsets(self, member: GroupMember, offsets: Mapping[Partition, Offset]) -> None:
        """Commit offsets of a group as part of the transaction."""
        self._check_sound()
        self._has_failed = True
        self._transactions.commit_offsets(member, offsets)
        self._has_failed = False

    def commit(self) -> None:
        """Commit the transaction. The next `send` begins another."""
        self._check_sound()
        self._end(commit=True)

    def abort(self) -> None:
        """Abort the transaction."""
        if self._has_failed and not self._transactions.adds_implicitly:
            # The batch may be stored without an answer. In this epoch the next batch would be taken for its repetition.
            self._transactions.renew()
            self._continue()
        else:
            self._end(commit=False)

    def prepare(self) -> str:
        """Prepare the transaction and return its state; see the module."""
        self._check_sound()
        return self._transactions.prepare()

    def complete(self, state: str | None) -> bool:
        """End the prepared transaction: commit it if `state`, the one that the database has committed last, is its
        state, and abort it otherwise. Return whether it was committed."""
        is_committed = self._transactions.complete(state)
        self._continue()
        return is_committed

    def _check_sound(self) -> None:
        if self._has_failed:
            raise InvalidArgumentError("the transaction: a record or an offset failed, so it has to be aborted")

    def _end(self, *, commit: bool) -> None:
        self._transactions.end(commit=commit)
        self._continue()

    def _continue(self) -> None:
        """Use the producer id and epoch of the next transaction."""
        self._has_failed = False
        self._added.clear()
        self._producer.adopt((self._transactions.producer_id, self._transactions.producer_epoch),
                             adds_implicitly=self._transactions.adds_implicitly)
