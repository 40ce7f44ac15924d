"""Transactions of a cluster as operators see them (KIP-664, KIP-994, KIP-939): listed, described, aborted.

A transaction is hanging if a partition has records of it and its coordinator does not know that. No producer and no
coordinator will end it then, and readers of committed records stop at its first record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kraft.client.cluster import Cluster
from kraft.client.connection import Connection
from kraft.client.partitions import Partition
from kraft.client.refusals import RefusedError, check
from kraft.client.retries import persist
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kraft.protocol.messages.describe_producers_response import DescribeProducersResponse
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest
from kraft.protocol.messages.list_transactions_response import ListTransactionsResponse
from kraft.protocol.messages.metadata_response import MetadataResponseTopic
from kraft.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kraft.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse

TRANSACTION: Final = 1              # key type of transactional ids in FindCoordinator
NO_EXPIRY_MS: Final = 2**31 - 1     # time-out of transactions with two-phase commit
ONGOING: Final = "Ongoing"
STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")
TERMINATED_TIMEOUT_MS: Final = 60_000   # of a transactional id after its two-phase commit was terminated
DURATION_VERSION: Final = 1         # first version of ListTransactions with a filter by duration


class ListedTransaction(NamedTuple):
    """One transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


class Transaction(NamedTuple):
    """State of one transactional id. `started_ms` is -1 without an open transaction; `partitions` are those that its
    coordinator knows."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int
    partitions: tuple[Partition, ...]
    coordinator: int

    @property
    def is_two_phase(self) -> bool:
        """True for two-phase commit: the transaction does not expire."""
        return self.timeout_ms == NO_EXPIRY_MS


class OpenTransaction(NamedTuple):
    """A producer's open transaction in the log of one partition. `last_ms` is the time of the producer's last batch."""

    partition: Partition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_ms: int


def list_transactions(cluster: Cluster, *, states: Sequence[str] = (), producer_ids: Sequence[int] = (),
                      longer_than_ms: int = -1) -> list[ListedTransaction]:
    """Return the transactional ids of every broker, sorted, that match all filters: these states, these producer ids,
    open for longer."""
    found = []
    for node in cluster.nodes():
        broker = cluster.node(node.node_id)
        request = ListTransactionsRequest(state_filters=states, producer_id_filters=producer_ids,
                                          duration_filter=longer_than_ms)
        if longer_than_ms >= 0 and broker.version(request.API_KEY) < DURATION_VERSION:
            check(f"transactions of node {node.node_id} by their duration", ErrorCode.UNSUPPORTED_VERSION)
        answer = broker.send(request, ListTransactionsResponse)
        check(f"transactions of node {node.node_id}", answer.error_code)
        found += [ListedTransaction(each.transactional_id, each.producer_id, each.transaction_state, node.node_id)
                  for each in answer.transaction_states]
    return sorted(found)


def describe_transactions(cluster: Cluster, listed: Iterable[ListedTransaction]) -> list[Transaction]:
    """Return the state of listed transactional ids; those that expired meanwhile are omitted."""
    by_node: dict[int, list[str]] = {}
    for each in listed:
        by_node.setdefault(each.coordinator, []).append(each.transactional_id)
    found = []
    for node_id, names in by_node.items():
        found += _described(cluster.node(node_id), node_id, names)
    return sorted(found)


def describe_transaction(cluster: Cluster, transactional_id: str) -> Transaction:
    """Return the state of a transactional id. Raises `RefusedError` when its coordinator does not know it, and at once
    `ConnectionFailedError` when no broker can be reached."""
    cluster.check_access()

    def attempt() -> Transaction:
        node_id = cluster.coordinator_id(transactional_id, TRANSACTION)
        found = _described(cluster.node(node_id), node_id, [transactional_id])
        if not found:
            raise RefusedError(f"transactional id {transactional_id}", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return found[0]

    return persist(cluster.timeout, attempt, cluster.close)


def _described(coordinator: Connection, node_id: int, names: Sequence[str]) -> list[Transaction]:
    """Return the states of those that the coordinator knows."""
    answer = coordinator.send(DescribeTransactionsRequest(transactional_ids=names), DescribeTransactionsResponse)
    found = []
    for each in answer.transaction_states:
        if each.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            continue
        check(f"transactional id {each.transactional_id}", each.error_code)
        partitions = tuple(sorted((topic.topic, index) for topic in each.topics for index in topic.partitions))
        found.append(Transaction(each.transactional_id, each.producer_id, each.producer_epoch, each.transaction_state,
                                 each.transaction_timeout_ms, each.transaction_start_time_ms, partitions, node_id))
    return found


def open_transactions(cluster: Cluster, topics: Iterable[MetadataResponseTopic],
                      partitions: Iterable[Partition]) -> list[OpenTransaction]:
    """Return the open transactions in the logs of these partitions, whose metadata is `topics`. Partitions without a
    leader are omitted."""
    wanted = dict.fromkeys(partitions)
    by_leader: dict[int, dict[str, list[int]]] = {}
    for topic in topics:
        for each in topic.partitions:
            name = topic.name or ""
            if (name, each.partition_index) in wanted and each.leader_id >= 0:
                by_leader.setdefault(each.leader_id, {}).setdefault(name, []).append(each.partition_index)
    found = []
    for leader, indexes in sorted(by_leader.items()):
        request = DescribeProducersRequest(topics=[
            TopicRequest(name=name, partition_indexes=each) for name, each in indexes.items()])
        for answer in cluster.node(leader).send(request, DescribeProducersResponse).topics:
            for described in answer.partitions:
                place = (answer.name, described.partition_index)
                check(f"producers of {place[0]}-{place[1]}", described.error_code, described.error_message)
                found += [OpenTransaction(place, each.producer_id, each.producer_epoch, max(each.coordinator_epoch, 0),
                                          each.current_txn_start_offset, each.last_timestamp)
                          for each in described.active_producers if each.current_txn_start_offset >= 0]
    return sorted(found)


def owners(cluster: Cluster, topics: Iterable[MetadataResponseTopic],
           found: Sequence[OpenTransaction]) -> list[tuple[OpenTransaction, Transaction | None]]:
    """Return open transactions with the states of their transactional ids; None for a producer that no coordinator
    knows. Those that end meanwhile are omitted. `topics` is the metadata of their partitions."""
    if not found:
        return []
    listed = list_transactions(cluster, producer_ids=list(dict.fromkeys(each.producer_id for each in found)))
    known = {each.producer_id: each for each in describe_transactions(cluster, listed)}
    pairs = [(each, known.get(each.producer_id)) for each in found]
    unknown = [each.partition for each, owner in pairs if is_hanging(each, owner)]
    # What a coordinator does not know may have ended, in the log too, since the log was read.
    still = {(each.partition, each.start_offset) for each in open_transactions(cluster, topics, unknown)}
    return [(each, owner) for each, owner in pairs
            if not is_hanging(each, owner) or (each.partition, each.start_offset) in still]


def is_hanging(found: OpenTransaction, owner: Transaction | None) -> bool:
    """Return whether the coordinator does not know that the transaction is open in its partition."""
    return owner is None or found.partition not in owner.partitions


def abort_open(cluster: Cluster, transaction: OpenTransaction) -> None:
    """Append the marker that aborts a transaction to its partition, whatever its coordinator knows."""
    topic, index = transaction.partition
    request = WriteTxnMarkersRequest(markers=[WritableTxnMarker(
        producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch, transaction_result=False,
        coordinator_epoch=transaction.coordinator_epoch,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])])])

    def attempt() -> None:
        answer = cluster.leader(topic, index).send(request, WriteTxnMarkersResponse)
        for each in (each for marker in answer.markers for name in marker.topics for each in name.partitions):
            check(f"transaction of producer {transaction.producer_id} in {topic}-{index}", each.error_code)

    persist(cluster.timeout, attempt, cluster.close)


def terminate(cluster: Cluster, transactional_id: str) -> None:
    """Abort the open transaction of a transactional id and fence its producer. The next producer begins without it.
    This also ends a transaction of two-phase commit, prepared or not."""
    timeout_ms = describe_transaction(cluster, transactional_id).timeout_ms
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=(
        TERMINATED_TIMEOUT_MS if timeout_ms == NO_EXPIRY_MS else timeout_ms))

    def attempt() -> None:
        coordinator = cluster.coordinator(transactional_id, TRANSACTION)
        check(f"transactional id {transactional_id}", coordinator.send(request, InitProducerIdResponse).error_code)

    persist(cluster.timeout, attempt, cluster.close)
