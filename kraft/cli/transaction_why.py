"""`kraft why topic/partition`: the transaction that holds back the readers of committed records."""

from collections.abc import Iterable, Sequence
from typing import Final

from kraft.cli.moments import now_ms
from kraft.cli.partition_names import partition_text
from kraft.client import Cluster
from kraft.client.partitions import Partition
from kraft.client.transaction_admin import (
    OpenTransaction,
    Transaction,
    is_hanging,
    open_transactions,
    owners,
)
from kraft.recorder.why import Answer
from kraft_native.base.errors import KraftError

OVERDUE_MS: Final = 10_000
"""Time after its time-out that a coordinator may need to end a transaction."""


def transaction_answers(cluster: Cluster, partitions: Sequence[Partition]) -> list[Answer]:
    """Name the holder of each partition's last stable offset: the open transaction that began first. None
    for partitions without open transactions."""
    try:
        return [answer for _, answer in answers_by_partition(cluster, partitions)]
    except KraftError as error:
        return [Answer("transaction", -1, True, f"The open transactions are not known: {error}.")]


def answers_by_partition(cluster: Cluster, partitions: Sequence[Partition]) -> list[tuple[Partition, Answer]]:
    """Return the holders, each with its partition. Raises when the open transactions cannot be read."""
    topics = cluster.metadata(list(dict.fromkeys(topic for topic, _ in partitions))).topics
    found = owners(cluster, topics, holders_of(open_transactions(cluster, topics, partitions)))
    time_ms = now_ms()
    return [(holder.partition, about_transaction(holder, owner, time_ms)) for holder, owner in found]


def holders_of(found: Iterable[OpenTransaction]) -> list[OpenTransaction]:
    """Return the transaction with the lowest offset of each partition."""
    first: dict[Partition, OpenTransaction] = {}
    for each in found:
        if each.partition not in first or each.start_offset < first[each.partition].start_offset:
            first[each.partition] = each
    return list(first.values())


def about_transaction(holder: OpenTransaction, known: Transaction | None, time_ms: int) -> Answer:
    """Describe the holder; `known` is the state of its transactional id, None when no coordinator knows its
    producer."""
    name = partition_text(holder.partition)
    text = (f"Readers of committed records of {name} stop at offset {holder.start_offset}, where an open "
            f"transaction of producer {holder.producer_id} in epoch {holder.producer_epoch} begins. Its last record is "
            f"{_seconds(time_ms - holder.last_ms)} old.")
    abort = f"`kraft transactions abort {name} --start-offset {holder.start_offset}` ends it"
    if known is None:
        return Answer("transaction", -1, False, f"{text} No coordinator knows this producer, so the transaction hangs; "
                                                f"{abort}.")
    text += f" Its transactional id is {known.transactional_id!r}, in state {known.state} at broker {known.coordinator}"
    if is_hanging(holder, known):
        return Answer("transaction", known.coordinator, False,
                      f"{text}, without this partition, so the transaction hangs; {abort}.")
    age_ms = time_ms - known.started_ms
    text += f", open for {_seconds(age_ms)}"
    if known.is_two_phase:
        return Answer("transaction", known.coordinator, True,
                      f"{text}. It is of two-phase commit and does not expire: its owner ends it, or `kraft "
                      f"transactions abort --transactional-id {known.transactional_id}`.")
    return Answer("transaction", known.coordinator, age_ms <= known.timeout_ms + OVERDUE_MS,
                  f"{text}, with a time-out of {_seconds(known.timeout_ms)}.")


def _seconds(duration_ms: int) -> str:
    return f"{max(0, duration_ms) / 1000:.1f} s"
