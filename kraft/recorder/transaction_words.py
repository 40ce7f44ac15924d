"""Names and particulars of events of transactions, as entries of the flight recorder have them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kraft.broker.transactions.events import (
    Began,
    Completed,
    CoordinatorLoaded,
    CoordinatorResigned,
    Decided,
    EndReason,
    Fenced,
    MarkerDelayed,
    MarkerWritten,
    TransactionEvent,
    VerificationRefused,
)
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft.recorder.entry import Entry

REASONS: Final[Mapping[EndReason, str]] = {
    EndReason.CLIENT: "its client requested it",
    EndReason.TIMED_OUT: "it was open for longer than its time-out",
    EndReason.NEW_CLIENT: "a new client initialised its transactional id",
}
BEGINS: Final = "transaction begins"
TO_COMMIT: Final = "transaction is to commit"
TO_ABORT: Final = "transaction is to abort"
COMMITTED: Final = "transaction is committed"
ABORTED: Final = "transaction is aborted"
FENCED: Final = "client is fenced"
NOT_VERIFIED: Final = "batch is not verified"
COORDINATES: Final = "coordinates transactions"
RESIGNED: Final = "stops coordinating transactions"
DELAYED: Final = "marker is delayed"
WRITTEN: Final = "marker is written"
NAMES: Final = (BEGINS, TO_COMMIT, TO_ABORT, COMMITTED, ABORTED, FENCED, NOT_VERIFIED, COORDINATES, RESIGNED, DELAYED,
                WRITTEN)
"""Names of all these events."""


def described(event: TransactionEvent) -> tuple[str, dict[str, Any]]:
    """Return the name of the event and its particulars as plain values."""
    match event:
        case Began(transactional_id, producer_id, epoch):
            return BEGINS, _identity(transactional_id, producer_id, epoch)
        case Decided(transactional_id, producer_id, epoch, commits, partitions, reason):
            return (TO_COMMIT if commits else TO_ABORT,
                    {**_identity(transactional_id, producer_id, epoch), "partitions": partitions,
                     "because": REASONS[reason]})
        case Completed(transactional_id, producer_id, epoch, commits):
            return COMMITTED if commits else ABORTED, _identity(transactional_id, producer_id, epoch)
        case Fenced(transactional_id, error):
            return FENCED, {"transactional_id": transactional_id, "because": name_of(error)}
        case VerificationRefused(transactional_id, producer_id, epoch, topic, partition, error):
            return NOT_VERIFIED, {**_identity(transactional_id, producer_id, epoch), "topic": topic,
                                  "partition": partition, "because": name_of(error)}
        case CoordinatorLoaded(partition, leader_epoch, transactional_ids):
            return COORDINATES, {"of": partition, "epoch": leader_epoch, "transactional_ids": transactional_ids}
        case CoordinatorResigned(partition, leader_epoch):
            return RESIGNED, {"of": partition, "epoch": leader_epoch}
    return _marker(event)


def _identity(transactional_id: str, producer_id: int, epoch: int) -> dict[str, Any]:
    return {"transactional_id": transactional_id, "producer": producer_id, "producer_epoch": epoch}


def _marker(event: MarkerWritten | MarkerDelayed) -> tuple[str, dict[str, Any]]:
    values: dict[str, Any] = {"producer": event.producer_id, "producer_epoch": event.epoch, "topic": event.topic,
                              "partition": event.partition}
    if isinstance(event, MarkerDelayed):
        return DELAYED, {**values, "because": name_of(event.error)}
    if event.error != ErrorCode.NONE:
        values["because"] = name_of(event.error)
    return WRITTEN, values


def of_transactional_id(entries: Iterable[Entry], transactional_id: str) -> list[Entry]:
    """Return the entries about a transactional id, and about the markers of its producers."""
    entries = list(entries)
    producers = dict.fromkeys(each.values.get("producer") for each in entries
                              if each.values.get("transactional_id") == transactional_id)
    return [each for each in entries if each.values.get("transactional_id") == transactional_id
            or (each.what in (DELAYED, WRITTEN) and each.values.get("producer") in producers)]
