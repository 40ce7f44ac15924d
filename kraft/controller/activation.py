"""Records that a controller writes when it becomes the active one (KIP-631, KIP-868)."""

from collections.abc import Sequence
from typing import Final

from kraft.controller.configs import elr_safety_records
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import EMPTY
from kraft.metadata.snapshot import Record
from kraft.protocol.messages.abort_transaction_record import AbortTransactionRecord
from kraft.protocol.messages.begin_transaction_record import BeginTransactionRecord
from kraft.protocol.messages.end_transaction_record import EndTransactionRecord

BOOTSTRAP: Final = "Bootstrap records"
FAILOVER: Final = "Controller failover"


def activation_records(
    bootstrap: Sequence[Record], min_insync_replicas: str, *, empty: bool, in_transaction: bool
) -> list[Record]:
    """Return the first records of a new active controller. They end the transaction that the previous one left open. If
    the log has no state yet, `empty`, they also contain the records of `bootstrap.checkpoint`, in one transaction where
    the metadata.version supports it."""
    records = [Record(AbortTransactionRecord(reason=FAILOVER))] if in_transaction else []
    if not empty:
        return records
    delta = MetadataDelta(EMPTY)
    for record in bootstrap:
        delta.replay(record.message)
    image = delta.finish(0, 0, 0)
    first = [*bootstrap]
    if image.elr_enabled:
        first += elr_safety_records(image, min_insync_replicas)
    if not image.metadata_version.transactions:
        return records + first
    return [*records, Record(BeginTransactionRecord(name=BOOTSTRAP)), *first, Record(EndTransactionRecord())]
