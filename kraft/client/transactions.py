"""Transactions of one transactional id (KIP-98, KIP-447), for producers that send record batches of their own.

The requests are those before KIP-890's second part, which every cluster with transactions supports. A request adds a
partition before its first batch. The producer's epoch changes when the producer begins, not with each transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from kraft.client.cluster import Cluster
from kraft.client.connection import Connection
from kraft.client.partitions import Partition
from kraft.client.refusals import check
from kraft.client.retries import Answer, persist
from kraft.protocol.message import Message
from kraft.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kraft.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from kraft.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kraft.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.end_txn_response import EndTxnResponse
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kraft.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse

# The newest versions before KIP-890's second part.
VERSION_MAX: Final = {InitProducerIdRequest: 4, AddPartitionsToTxnRequest: 3, AddOffsetsToTxnRequest: 3,
                      TxnOffsetCommitRequest: 4, EndTxnRequest: 4}
GROUP: Final = 0
TRANSACTION: Final = 1

Response = TypeVar("Response", bound=Message)


def has_transactions(cluster: Cluster) -> bool:
    """Return whether the cluster supports transactions at all."""
    return EndTxnRequest.API_KEY in cluster.any().versions


class Transactions:
    """Transactions of one producer, one after the other: `begin`, then for each `add`, batches, `commit_offset`, `end`.

    Every method retries temporary errors for `timeout` seconds. Then, and at once for other errors, it raises
    `RefusedError` or `ConnectionFailedError`. The request may still have taken effect: the next producer's `begin`
    completes or aborts the transaction. One thread uses it.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, *, expiry_ms: int, timeout: float) -> None:
        """The cluster aborts a transaction that is open for longer than `expiry_ms`."""
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.producer_epoch = -1
        self._cluster = cluster
        self._expiry_ms = expiry_ms
        self._timeout = timeout

    def begin(self) -> None:
        """Start a new epoch of the producer. Producers of earlier epochs are fenced, and their open transactions are
        aborted."""
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self._expiry_ms)

        def attempt(coordinator: Connection) -> InitProducerIdResponse:
            found = self._send(coordinator, request, InitProducerIdResponse)
            check(f"transactional id {self.transactional_id}", found.error_code)
            return found

        given = self._request(self.transactional_id, TRANSACTION, attempt)
        self.producer_id, self.producer_epoch = given.producer_id, given.producer_epoch

    def add(self, topic: str, partition: int) -> None:
        """Add a partition to the open transaction, before its first batch."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id, v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])])

        def attempt(coordinator: Connection) -> None:
            found = self._send(coordinator, request, AddPartitionsToTxnResponse)
            for each in found.results_by_topic_v3_and_below[0].results_by_partition:
                check(f"{topic}-{partition} in transaction {self.transactional_id}", each.partition_error_code)

        self._request(self.transactional_id, TRANSACTION, attempt)

    def commit_offset(self, group: str, place: Partition, offset: int, metadata: str) -> None:
        """Commit an offset of a group as part of the open transaction."""
        what = f"group {group} in transaction {self.transactional_id}"
        adding = AddOffsetsToTxnRequest(transactional_id=self.transactional_id, producer_id=self.producer_id,
                                        producer_epoch=self.producer_epoch, group_id=group)
        topic = TxnOffsetCommitRequestTopic(name=place[0], partitions=[TxnOffsetCommitRequestPartition(
            partition_index=place[1], committed_offset=offset, committed_metadata=metadata)])
        committing = TxnOffsetCommitRequest(transactional_id=self.transactional_id, producer_id=self.producer_id,
                                            producer_epoch=self.producer_epoch, group_id=group, topics=[topic])

        def add(coordinator: Connection) -> None:
            check(what, self._send(coordinator, adding, AddOffsetsToTxnResponse).error_code)

        def commit(coordinator: Connection) -> None:
            found = self._send(coordinator, committing, TxnOffsetCommitResponse)
            check(what, found.topics[0].partitions[0].error_code)

        self._request(self.transactional_id, TRANSACTION, add)
        self._request(group, GROUP, commit)

    def end(self, *, commit: bool) -> None:
        """Commit the open transaction, or abort it."""
        request = EndTxnRequest(transactional_id=self.transactional_id, producer_id=self.producer_id,
                                producer_epoch=self.producer_epoch, committed=commit)

        def attempt(coordinator: Connection) -> None:
            check(f"transaction {self.transactional_id}", self._send(coordinator, request, EndTxnResponse).error_code)

        self._request(self.transactional_id, TRANSACTION, attempt)

    def _send(self, coordinator: Connection, request: Message, response: type[Response]) -> Response:
        version = coordinator.version(request.API_KEY, VERSION_MAX[type(request)])
        return coordinator.send(request, response, version=version)

    def _request(self, key: str, key_type: int, question: Callable[[Connection], Answer]) -> Answer:
        return persist(self._timeout, lambda: question(self._cluster.coordinator(key, key_type)), self._cluster.close)
