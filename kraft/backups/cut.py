"""Common point of all partitions of a backup: an end offset for each, chosen while clients continue to write.

Offsets of different partitions cannot be read at one moment. The order of the steps makes up for it:

1. The transactional ids with their producer ids, then `marks`: the high watermark of each partition.
2. The state of every transactional id. What its coordinator has decided by now is *decided*; `decided` stands below.
3. The high watermarks of the offsets topic.
4. The high watermarks of all other partitions.

So whatever a group had committed by step 3 has its records below step 4, and every record of a decided transaction is
below the end of its partition. The commit marker of a transaction that was decided later may be there too, from its
mark on, while other partitions lack it. The end is therefore moved down to the first such marker. All records of
decided transactions were appended before it, because it was appended after step 2.

The result, with the `commits` that decided transactions still lack, is a state in which each transaction is in all of
its partitions or in none. An epoch distinguishes the transactions of a producer, which needs transaction.version 2.
A transactional id whose epochs are exhausted gets another producer id when its transaction is complete. So the
producer id that it had in step 1, and no longer has in step 2, has no undecided transaction. One that it had before
step 1 has no markers behind the marks.

With an earlier one the transactions of a producer have one epoch, and each partition has them whole or not at all.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kraft.backups.manifest import Commit
from kraft.client.cluster import Cluster
from kraft.client.fetcher import Fetcher, Limits
from kraft.client.partitions import EARLIEST, LATEST, Partition, every, list_all_offsets
from kraft.client.retries import persist
from kraft.client.transaction_admin import (
    ListedTransaction,
    Transaction,
    describe_transactions,
    list_transactions,
)
from kraft.protocol.messages.metadata_response import MetadataResponseTopic
from kraft_native.batch.batch import walk
from kraft_native.batch.control import control_records

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
"""Not part of a backup: all transactions of a restored cluster are decided."""
PREPARED_COMMIT: Final = "PrepareCommit"
COMMIT: Final = "COMMIT"
EPOCH_MAX: Final = 0x7FFF
SCAN_LIMITS: Final = Limits(partition_bytes=1 << 20)


class Cut(NamedTuple):
    """The common point. `starts` and `ends` are the offsets [start, end) of each partition."""

    starts: dict[Partition, int]
    ends: dict[Partition, int]
    commits: tuple[Commit, ...]


class Marker(NamedTuple):
    """Commit marker in a partition."""

    offset: int
    producer_id: int
    producer_epoch: int


def choose(cluster: Cluster, names: Sequence[str]) -> Cut:
    """Choose the common point of these topics. Raises `RefusedError` when a partition has no leader for the cluster's
    time-out."""
    return persist(cluster.timeout, lambda: _choose(cluster, names), cluster.close)


def _choose(cluster: Cluster, names: Sequence[str]) -> Cut:
    topics = cluster.metadata(list(names)).topics if names else []
    offsets_topics = [topic for topic in topics if topic.name == OFFSETS_TOPIC]
    others = [topic for topic in topics if topic.name != OFFSETS_TOPIC]
    earlier = list_transactions(cluster)
    marks = _offsets(cluster, topics, LATEST)
    transactions = describe_transactions(cluster, list_transactions(cluster))
    ends = _offsets(cluster, offsets_topics, LATEST)
    ends |= _offsets(cluster, others, LATEST)
    # The second list finds transactional ids that are newer than the first.
    if transactions or list_transactions(cluster):
        decided = decided_epochs(earlier, transactions)
        for partition, marker in _markers(cluster, marks, ends).items():
            if (first := first_undecided(marker, decided)) is not None:
                ends[partition] = first
    starts = _offsets(cluster, topics, EARLIEST)
    return Cut({each: min(starts[each], ends[each]) for each in ends}, ends, prepared_commits(transactions, ends))


def decided_epochs(earlier: Sequence[ListedTransaction], transactions: Sequence[Transaction]) -> dict[int, int]:
    """Return for each producer id the highest epoch of a marker that was decided. `earlier` are the transactional ids
    before the marks, `transactions` their states after them: a producer id that was replaced meanwhile has no more
    transactions."""
    decided = {each.producer_id: each.producer_epoch for each in transactions}
    now = {each.transactional_id: each.producer_id for each in transactions}
    for each in earlier:
        if now.get(each.transactional_id, each.producer_id) != each.producer_id:
            decided.setdefault(each.producer_id, EPOCH_MAX)
    return decided


def first_undecided(markers: Sequence[Marker], decided: Mapping[int, int]) -> int | None:
    """Return the offset of the first commit marker of a transaction that was not decided. `decided` has the epoch of
    each producer id: a marker with that epoch, or an earlier one, is of a decided transaction."""
    return next((each.offset for each in markers if each.producer_epoch > decided.get(each.producer_id, -1)), None)


def prepared_commits(transactions: Sequence[Transaction], ends: Mapping[Partition, int]) -> tuple[Commit, ...]:
    """Return the decided commits whose markers are still being written."""
    return tuple(Commit(*partition, each.producer_id, each.producer_epoch) for each in transactions
                 if each.state == PREPARED_COMMIT for partition in each.partitions if partition in ends)


def _offsets(cluster: Cluster, topics: Sequence[MetadataResponseTopic], timestamp: int) -> dict[Partition, int]:
    return list_all_offsets(cluster, topics, every(topics, timestamp))


def _markers(cluster: Cluster, starts: Mapping[Partition, int],
             ends: Mapping[Partition, int]) -> dict[Partition, list[Marker]]:
    """Return the commit markers from `starts` to before `ends`."""
    fetcher = Fetcher(cluster, SCAN_LIMITS)
    found: dict[Partition, list[Marker]] = {}
    for (topic, index), end in ends.items():
        start = starts[topic, index]
        for fetched in fetcher.fetch(topic, index, start, end):
            for batch in walk(fetched.batches, check_crc=False):
                if batch.is_control and start <= batch.base_offset < end:
                    found.setdefault((topic, index), []).extend(
                        Marker(each.offset, each.producer_id, each.producer_epoch)
                        for each in control_records(bytes(batch)) if each.type_name == COMMIT)
    return found
