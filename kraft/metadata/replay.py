"""Replay: records in log order in, images out.

Metadata transactions are handled (KIP-868). The records between BeginTransactionRecord and EndTransactionRecord become
visible with the end. When AbortTransactionRecord comes instead, they never do.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kraft.metadata.delta import MetadataDelta
from kraft.metadata.errors import MetadataLogError
from kraft.metadata.image import EMPTY, MetadataImage
from kraft.protocol.message import Message
from kraft.protocol.messages.abort_transaction_record import AbortTransactionRecord
from kraft.protocol.messages.begin_transaction_record import BeginTransactionRecord
from kraft.protocol.messages.end_transaction_record import EndTransactionRecord
from kraft.protocol.record_frames import decode_record
from kraft_native.batch.batch import Batch
from kraft_native.batch.records import records

_TRANSACTION_RECORDS: Final = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


class LoggedRecord(NamedTuple):
    """Record as a log file has it. `value` is None for a control record, which is not part of the state."""

    offset: int
    epoch: int
    timestamp_ms: int
    value: bytes | None


def logged_records(batch: Batch) -> Iterator[LoggedRecord]:
    """Yield the records of a batch of the metadata log for a `Replayer`."""
    for record in records(batch, control=batch.is_control):
        value = None if batch.is_control else record.value or b""
        yield LoggedRecord(record.offset, batch.leader_epoch, record.timestamp_ms, value)


class Replayer:
    """Replay of records on top of `image`. `replay` accepts records; `take` returns what became visible since the last
    `take`.

    After a `MetadataLogError` it must not be used any further.
    """

    def __init__(self, image: MetadataImage = EMPTY):
        self.image = image            # visible, as of the last `take`
        self.offset = image.offset    # of the last record replayed, visible or not, and its epoch
        self.transaction_offset = -1  # of the open transaction's first record, -1: none is open
        self.epoch = image.epoch
        self._timestamp_ms = image.timestamp_ms
        self._delta = MetadataDelta(image)
        self._ready: list[tuple[MetadataDelta, MetadataImage]] = []

    @property
    def in_transaction(self) -> bool:
        return self.transaction_offset >= 0

    def replay(self, record: object, offset: int, epoch: int, timestamp_ms: int) -> None:
        """Apply the record at `offset`; offsets ascend."""
        if type(record) in _TRANSACTION_RECORDS:
            self._transaction(record, offset)
        else:
            self._delta.replay(record)
        self.advance(offset, epoch, timestamp_ms)

    def advance(self, offset: int, epoch: int, timestamp_ms: int) -> None:
        """Advance over a record at `offset` that is not part of the state: a control record."""
        if offset <= self.offset:
            raise MetadataLogError(f"offset {offset} comes after offset {self.offset}")
        self.offset = offset
        self.epoch = epoch
        self._timestamp_ms = timestamp_ms

    def replay_logged(self, record: LoggedRecord) -> Message | None:
        """Replay a record of a log file; return its message, None for a control record."""
        if record.value is None:
            self.advance(record.offset, record.epoch, record.timestamp_ms)
            return None
        message, _ = decode_record(record.value)
        self.replay(message, record.offset, record.epoch, record.timestamp_ms)
        return message

    def take(self) -> list[tuple[MetadataDelta, MetadataImage]]:
        """Return what became visible, as (delta, the image after it), oldest first; empty when nothing did."""
        if not self.in_transaction:
            self._finish()
        ready, self._ready = self._ready, []
        return ready

    def _finish(self) -> None:
        """Make the records replayed so far visible."""
        if self.offset > self.image.offset:
            self.image = self._delta.finish(self.offset, self.epoch, self._timestamp_ms)
            self._ready.append((self._delta, self.image))
        self._delta = MetadataDelta(self.image)

    def _transaction(self, record: object, offset: int) -> None:
        if isinstance(record, BeginTransactionRecord):
            if self.in_transaction:
                raise MetadataLogError(f"a transaction begins at offset {offset} inside the one that began at "
                                       f"{self.transaction_offset}")
            self._finish()
            self.transaction_offset = offset
        elif not self.in_transaction:
            raise MetadataLogError(f"{type(record).__name__} at offset {offset} ends a transaction that never began")
        else:
            self.transaction_offset = -1
            if isinstance(record, AbortTransactionRecord):
                self._delta = MetadataDelta(self.image)
