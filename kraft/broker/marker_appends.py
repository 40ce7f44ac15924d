"""Markers of transactions in partitions that this broker leads: for WriteTxnMarkers, and for its own coordinator."""

from collections.abc import Callable
from typing import Final, NamedTuple

from kraft.broker.broker import Broker
from kraft.broker.internal_topics import OFFSETS_TOPIC
from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import KraftError
from kraft_native.partition.partition import Partition


class TransactionEnd(NamedTuple):
    """Content of a marker."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commits: bool
    transaction_version: int


class Appended(NamedTuple):
    """Marker in a log. `partition` is None when it was refused with `error`."""

    partition: Partition | None
    end_offset: int
    error: int

    def call_when_committed(self, settled: Callable[[int], None], timeout_ms: int) -> None:
        """Call `settled` with the error of the marker, NONE once it is committed: now or later."""
        if self.partition is None:
            settled(self.error)
        else:
            self.partition.call_when_committed(self.end_offset, settled, timeout_ms=timeout_ms)


NOWHERE: Final = -1


def append_marker(broker: Broker, end: TransactionEnd, topic: str, index: int, now_ms: int) -> Appended:
    """Append a marker to the log of a partition; one that is in the log already only has to be committed. The
    coordinator of groups applies those of `__consumer_offsets` at once."""
    partition = broker.partition(topic, index)
    if partition is None:
        return Appended(None, NOWHERE, broker.absence(topic, index))
    try:
        info = partition.append_marker(end.producer_id, end.producer_epoch, end.coordinator_epoch, end.commits,
                                       transaction_version=end.transaction_version, now_ms=now_ms)
    except KraftError as error:
        return Appended(None, NOWHERE, error.code)
    end_offset = info.last_offset + 1
    if topic == OFFSETS_TOPIC:
        # Also without an append: the marker voids what is being verified.
        broker.groups.marker_appended(index, end.producer_id, end.commits, partition.log.log_end_offset, now_ms)
    return Appended(partition, end_offset, ErrorCode.NONE)
