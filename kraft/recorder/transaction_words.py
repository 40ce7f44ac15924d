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
DELAYED: Final = "marker is delayed"
WRITTEN: Final = "marker is written"
NAMES: Final = (
    "transaction begins", "transaction is to commit", "transaction is to abort", "transaction is committed",
    "transaction is aborted", "client is fenced", "batch is not verified", "coordinates transactions",
    "stops coordinating transactions", DELAYED, WRITTEN)
"""Names of all these events."""


def described(event: TransactionEvent) -> tuple[str, dict[str, Any]]:
    """Return the name of the event and its particulars as plain values."""
    match event:
        case Began(transactional_id, producer_id, epoch):
            return "transaction begins", _identity(transactional_id, producer_id, epoch)
        case Decided(transactional_id, producer_id, epoch, commits, partitions, reason):
            return (f"transaction is to {'commit' if commits else 'abort'}",
                    {**_identity(transactional_id, producer_id, epoch), "partitions": partitions,
                     "because": REASONS[reason]})
        case Completed(transactional_id, producer_id, epoch, commits):
            return (f"transaction is {'committed' if commits else 'aborted'}",
                    _identity(transactional_id, producer_id, epoch))
        case Fenced(transactional_id, error):
            return "client is fenced", {"transactional_id": transactional_id, "because": name_of(error)}
        case VerificationRefused(transactional_id, producer_id, epoch, topic, partition, error):
            return ("batch is not verified", {**_identity(transactional_id, producer_id, epoch), "topic": topic,
                                              "partition": partition, "because": name_of(error)})
        case CoordinatorLoaded(partition, leader_epoch, transactional_ids):
            return "coordinates transactions", {"of": partition, "epoch": leader_epoch,
                                                "transactional_ids": transactional_ids}
        case CoordinatorResigned(partition, leader_epoch):
            return "stops coordinating transactions", {"of": partition, "epoch": leader_epoch}
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
