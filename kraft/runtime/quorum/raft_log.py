"""The consensus core's log port on a log on disk: offsets, epochs and control records of the metadata log."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kraft.metadata.control_records import control_message, encode_control
from kraft.metadata.errors import MetadataLogError
from kraft.raft.ports import AppendedControl
from kraft.raft.records import ControlRecord, of_message, to_message
from kraft.raft.types import UNKNOWN_OFFSET, OffsetAndEpoch
from kraft_native.base.errors import CorruptRecordError, ProtocolError
from kraft_native.batch.batch import Batch, plain_end, walk
from kraft_native.batch.control import control_batch, control_records
from kraft_native.batch.records import values_batch
from kraft_native.facade.log import Log

READ_BYTES: Final = 8 << 20


class Proposal(NamedTuple):
    """Proposal of the state machine: values of records that become one batch, and their time."""

    payloads: Sequence[bytes]
    timestamp_ms: int


class RaftLog:
    """`LogPort`. `start_epoch` is that of the snapshot at whose end the log starts, 0 for a log that starts at 0."""

    def __init__(self, log: Log, start_epoch: int = 0) -> None:
        self.log = log
        self._start_epoch = start_epoch
        self.start_offset = log.log_start_offset
        self.end = self._read_end()
        """See `LogPort`; stored, because the core reads start and end all the time."""
        self._is_flushed = True
        self._last: tuple[int, bytes] = UNKNOWN_OFFSET, b""
        """Base offset and bytes of the batch that was appended last as leader: followers fetch it next."""
        log.flush_on_request()

    @property
    def start(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.start_offset, self._start_epoch)

    def _read_end(self) -> OffsetAndEpoch:
        end_offset = self.log.log_end_offset
        return (self.start if end_offset == self.start_offset
                else OffsetAndEpoch(end_offset, self.log.epochs.latest_epoch))

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        entries = self.log.epochs.entries()
        if epoch < 0 or self.end == self.start or not entries or epoch < entries[0][0]:
            return self.start
        found, end_offset = self.log.epochs.end_offset_for(epoch, self.log.log_end_offset)
        if found == UNKNOWN_OFFSET:
            # The epoch is above all in the cache: the last one is the largest below.
            return self.end
        return OffsetAndEpoch(end_offset, found)

    def append(self, records: object, epoch: int, now_ms: int) -> int:  # noqa: ARG002 - a proposal has its own time
        assert isinstance(records, Proposal)
        batch = values_batch(records.payloads, records.timestamp_ms, base_offset=self.log.log_end_offset,
                             leader_epoch=epoch)
        return self._append(batch, epoch, records.timestamp_ms)

    def append_control(self, records: Sequence[ControlRecord], epoch: int, now_ms: int) -> int:
        batch = control_batch([encode_control(to_message(record)) for record in records], timestamp_ms=now_ms,
                              base_offset=self.log.log_end_offset, leader_epoch=epoch)
        return self._append(batch, epoch, now_ms)

    def _append(self, batch: bytes, epoch: int, now_ms: int) -> int:
        base_offset = self.log.log_end_offset
        end_offset = self.log.append_as_raft_leader(batch, epoch, now_ms=now_ms).last_offset + 1
        self._last = base_offset, batch
        self._is_flushed = False
        self.end = OffsetAndEpoch(end_offset, epoch)
        return end_offset

    def flush_appended(self) -> None:
        """Begin to flush what was appended as leader."""
        if not self._is_flushed:
            self._is_flushed = True
            self.log.flush_soon()      # the answer to a proposal waits for it

    def append_leased(self, records: object) -> int:
        """Append fetched records that the core need not see, and begin to flush them. Return the log end; -1, and
        append nothing, when the core has to process them: other than plain records of the last epoch, or refused
        ones."""
        assert isinstance(records, bytes | memoryview)
        end = self.end
        end_offset = plain_end(records, end.offset, end.epoch)
        if end_offset < 0:
            return -1
        try:
            self.log.append_as_follower(records)
        except ProtocolError:
            return -1
        self.log.flush_soon()
        self.end = OffsetAndEpoch(end_offset, end.epoch)
        return end_offset

    def append_fetched(self, records: object, epoch: int) -> tuple[AppendedControl, ...]:
        assert isinstance(records, bytes | memoryview)
        controls: list[AppendedControl] = []
        end = self.end
        for batch in walk(records):
            if batch.base_offset != end.offset or batch.leader_epoch < end.epoch:
                raise CorruptRecordError(f"a batch at {batch.base_offset}@{batch.leader_epoch} does not continue a log "
                                         f"that ends at {end}")
            if batch.leader_epoch > epoch:
                raise CorruptRecordError(f"a batch at {batch.base_offset}@{batch.leader_epoch} cannot come from the "
                                         f"leader of epoch {epoch}")
            end = OffsetAndEpoch(batch.next_offset, batch.leader_epoch)
            controls += _controls(batch)
        self.log.append_as_follower(records)
        self.log.flush_soon()          # the next Fetch waits for it
        self.end = self._read_end()
        return tuple(controls)

    def truncate(self, end_offset: int) -> None:
        self._last = UNKNOWN_OFFSET, b""
        self.log.truncate_to(end_offset)
        self.end = self._read_end()
        assert self.log.log_end_offset == end_offset, f"cut to {self.log.log_end_offset}, not to {end_offset}"

    def read(self, start_offset: int, max_bytes: int) -> bytes | None:
        base_offset, batch = self._last
        if start_offset == base_offset:
            return batch               # the batches behind it are sent with the next answer
        return bytes(self.log.read(start_offset, max(1, max_bytes), "log_end")) or None

    def controls(self) -> tuple[AppendedControl, ...]:
        return tuple(control for batch in self.batches(self.log.log_start_offset, self.log.log_end_offset)
                     for control in _controls(batch))

    # --- for its owners

    def batches(self, offset: int, end_offset: int) -> Iterator[Batch]:
        """The batches from the one with `offset` up to `end_offset`, the end of a batch. Raises `MetadataLogError`
        where one is missing."""
        while offset < end_offset:
            piece = self.log.read(offset, READ_BYTES, "log_end")
            if not len(piece):
                raise MetadataLogError(f"{self.log.directory}: nothing at offset {offset}, but the log ends at "
                                       f"{self.log.log_end_offset}")
            for batch in walk(bytes(piece)):
                if batch.base_offset >= end_offset:
                    return
                yield batch
            offset = piece.next_offset

    def continues(self, snapshot: OffsetAndEpoch) -> bool:
        """Return whether this log begins behind the snapshot's last record or has it, so that the rest of the log may
        stay."""
        if snapshot.offset > self.log.log_end_offset:
            return False
        before = [epoch for epoch, start_offset in self.log.epochs.entries() if start_offset < snapshot.offset]
        return snapshot.offset <= self.log.log_start_offset or not before or before[-1] == snapshot.epoch

    def restart_at(self, start: OffsetAndEpoch) -> None:
        """Empty the log; the next records follow the snapshot `start`."""
        self._last = UNKNOWN_OFFSET, b""
        self.log.truncate_fully_and_start_at(start.offset)
        self._starts(start.epoch)

    def trim(self, start: OffsetAndEpoch) -> None:
        """Move the log start, durably, to the end of the snapshot `start`."""
        self.log.flush()               # only what is durable may be removed
        self.log.delete_records(start.offset)
        self._starts(start.epoch)

    def _starts(self, epoch: int) -> None:
        self.start_offset, self._start_epoch = self.log.log_start_offset, epoch
        self.end = self._read_end()


def _controls(batch: Batch) -> Iterator[AppendedControl]:
    if not batch.is_control:
        return
    for control in control_records(batch):
        try:
            record = of_message(control_message(control.type, control.value or b""))
        except MetadataLogError as error:
            raise CorruptRecordError(str(error)) from error
        if record is not None:
            yield AppendedControl(control.offset, record)
