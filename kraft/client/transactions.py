"""Transactions of one transactional id (KIP-98, KIP-447, KIP-890, KIP-939), for producers that send record batches of
their own.

The cluster's finalized level of `transaction.version` decides how:

- Below 2, a request adds each partition before its first batch. The producer's epoch changes when the producer begins.
- From 2 on, the first batch adds its partition itself, and the end of each transaction returns the producer's next
  epoch. So a late request of an ended transaction is always refused.

With two-phase commit, a prepared transaction does not expire. It waits until its producer, or a later producer of its
transactional id, completes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from kraft.client.cluster import Cluster
from kraft.client.connection import Connection
from kraft.client.features import describe_features
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
from kraft_native.base.errors import InvalidArgumentError, UnsupportedVersionError

FEATURE: Final = "transaction.version"
LEVEL_WITH_IMPLICIT_PARTITIONS: Final = 2

# The newest versions before KIP-890's second part.
VERSION_MAX: Final = {InitProducerIdRequest: 4, AddPartitionsToTxnRequest: 3, AddOffsetsToTxnRequest: 3,
                      TxnOffsetCommitRequest: 4, EndTxnRequest: 4}
TWO_PHASE_VERSION: Final = 6        # of InitProducerId
GROUP: Final = 0
TRANSACTION: Final = 1

Response = TypeVar("Response", bound=Message)


class GroupMember(NamedTuple):
    """Group whose offsets are committed. With a member and its generation, the coordinator refuses a commit of a member
    that has lost its partitions (KIP-447)."""

    group: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class Offset(NamedTuple):
    """Offset to commit, with its metadata."""

    offset: int
    metadata: str = ""


def has_transactions(cluster: Cluster) -> bool:
    """Return whether the cluster supports transactions at all."""
    return EndTxnRequest.API_KEY in cluster.any().versions


class Transactions:
    """Transactions of one producer, one after the other: `begin` once, then for each transaction `add`, batches,
    `commit_offset`, `end`.

    Every method retries temporary errors for `timeout` seconds. Then, and at once for other errors, it raises
    `RefusedError` or `ConnectionFailedError`. The request may still have taken effect: the next producer's `begin`
    completes or aborts the transaction. One thread uses it.

    - `producer_id`, `producer_epoch`: those of the next batch; they may change with `begin` and `end`.
    - `adds_implicitly`: a batch adds its partition to the transaction, in Produce from version 12 on.
    - `prepared`: state of the prepared transaction, "producer id:epoch"; None without one.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, *, expiry_ms: int, timeout: float,
                 two_phase: bool = False) -> None:
        """The cluster aborts a transaction that is open for longer than `expiry_ms`, unless `two_phase` is set. That
        requires a cluster with `transaction.two.phase.commit.enable`."""
        self.transactional_id = transactional_id
        self.two_phase = two_phase
        self.producer_id = -1
        self.producer_epoch = -1
        self.adds_implicitly = False
        self.prepared: str | None = None
        self._cluster = cluster
        self._expiry_ms = expiry_ms
        self._timeout = timeout
        self._is_open = False

    def begin(self, *, keep_prepared: bool = False) -> None:
        """Start a new epoch of the producer. Producers of earlier epochs are fenced, and their open transactions are
        aborted. With `keep_prepared`, the open transaction of an earlier producer is kept; then `prepared` is its
        state, and `complete` has to be called next."""
        self._begin(-1, -1, keep_prepared=keep_prepared)

    def renew(self) -> None:
        """Abort the open transaction and start a new epoch of this producer (KIP-360), unless a later producer has
        fenced it."""
        self._begin(self.producer_id, self.producer_epoch, keep_prepared=False)

    def _begin(self, producer_id: int, producer_epoch: int, *, keep_prepared: bool) -> None:
        if keep_prepared and not self.two_phase:
            raise InvalidArgumentError("keep_prepared: only a producer with two_phase may keep a prepared transaction")
        levels = persist(self._timeout, lambda: describe_features(self._cluster), self._cluster.close).features
        self.adds_implicitly = FEATURE in levels and levels[FEATURE].level >= LEVEL_WITH_IMPLICIT_PARTITIONS
        if self.two_phase and not self.adds_implicitly:
            # Two transactions of one epoch would have the same state, and `complete` could commit the wrong one.
            raise UnsupportedVersionError(f"two_phase: the cluster has {FEATURE} below "
                                          f"{LEVEL_WITH_IMPLICIT_PARTITIONS}, so a transaction has no epoch of its own")
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self._expiry_ms,
            producer_id=producer_id, producer_epoch=producer_epoch, enable2_pc=self.two_phase,
            keep_prepared_txn=keep_prepared)

        def attempt(coordinator: Connection) -> InitProducerIdResponse:
            version = two_phase_version(coordinator) if self.two_phase else None
            found = self._send(coordinator, request, InitProducerIdResponse, version)
            check(f"transactional id {self.transactional_id}", found.error_code)
            return found

        given = self._request(self.transactional_id, TRANSACTION, attempt)
        self.producer_id, self.producer_epoch = given.producer_id, given.producer_epoch
        self.prepared = None
        if given.ongoing_txn_producer_id >= 0:
            self.prepared = f"{given.ongoing_txn_producer_id}:{given.ongoing_txn_producer_epoch}"
        self._is_open = self.prepared is not None

    def add(self, topic: str, partition: int) -> None:
        """Add a partition to the open transaction, before its first batch."""
        self._check_not_prepared()
        self._is_open = True
        if self.adds_implicitly:
            return
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
        self.commit_offsets(GroupMember(group), {place: Offset(offset, metadata)})

    def commit_offsets(self, member: GroupMember, offsets: Mapping[Partition, Offset]) -> None:
        """Commit offsets of a group as part of the open transaction."""
        self._check_not_prepared()
        self._is_open = True
        what = f"group {member.group} in transaction {self.transactional_id}"
        adding = AddOffsetsToTxnRequest(transactional_id=self.transactional_id, producer_id=self.producer_id,
                                        producer_epoch=self.producer_epoch, group_id=member.group)
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), each in offsets.items():
            topics.setdefault(topic, []).append(TxnOffsetCommitRequestPartition(
                partition_index=partition, committed_offset=each.offset, committed_metadata=each.metadata))
        committing = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id, producer_id=self.producer_id, producer_epoch=self.producer_epoch,
            group_id=member.group, generation_id=member.generation_id, member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()])

        def add(coordinator: Connection) -> None:
            check(what, self._send(coordinator, adding, AddOffsetsToTxnResponse).error_code)

        def commit(coordinator: Connection) -> None:
            found = self._send(coordinator, committing, TxnOffsetCommitResponse)
            for each in (each for topic in found.topics for each in topic.partitions):
                check(what, each.error_code)

        if not self.adds_implicitly:
            self._request(self.transactional_id, TRANSACTION, add)
        self._request(member.group, GROUP, commit)

    def end(self, *, commit: bool) -> None:
        """Commit the open transaction, or abort it. Does nothing for a transaction without batches and offsets."""
        if not self._is_open:
            return
        request = EndTxnRequest(transactional_id=self.transactional_id, producer_id=self.producer_id,
                                producer_epoch=self.producer_epoch, committed=commit)

        def attempt(coordinator: Connection) -> EndTxnResponse:
            found = self._send(coordinator, request, EndTxnResponse)
            check(f"transaction {self.transactional_id}", found.error_code)
            return found

        given = self._request(self.transactional_id, TRANSACTION, attempt)
        if given.producer_id >= 0:
            self.producer_id, self.producer_epoch = given.producer_id, given.producer_epoch
        self.prepared = None
        self._is_open = False

    def prepare(self) -> str:
        """Prepare the open transaction, whose batches are acknowledged, and return its state: nothing further can
        be added to it. Store the state with the other system's transaction; `complete` receives it. A transaction
        without batches and offsets cannot be prepared, because its end would begin no epoch."""
        if not self.two_phase:
            raise InvalidArgumentError("two_phase: a transaction without it expires, so it cannot be prepared")
        self._check_not_prepared()
        if not self._is_open:
            raise InvalidArgumentError(f"transaction {self.transactional_id}: nothing to prepare; it needs a batch "
                                       "or an offset")
        self.prepared = f"{self.producer_id}:{self.producer_epoch}"
        return self.prepared

    def complete(self, state: str | None) -> bool:
        """End the prepared transaction as the other system decided, and return whether it was committed. It is
        committed if `state`, which that system has committed last, is its state, and aborted otherwise."""
        is_committed = self.prepared is not None and state == self.prepared
        self.end(commit=is_committed)
        self.prepared = None
        return is_committed

    def _check_not_prepared(self) -> None:
        if self.prepared is not None:
            raise InvalidArgumentError(f"transaction {self.transactional_id}: {self.prepared} is prepared and must "
                                       "be completed first")

    def _send(self, coordinator: Connection, request: Message, response: type[Response],
              version: int | None = None) -> Response:
        if version is None:
            version = coordinator.version(
                request.API_KEY, None if self.adds_implicitly else VERSION_MAX[type(request)])
        return coordinator.send(request, response, version=version)

    def _request(self, key: str, key_type: int, question: Callable[[Connection], Answer]) -> Answer:
        return persist(self._timeout, lambda: question(self._cluster.coordinator(key, key_type)), self._cluster.close)


def two_phase_version(coordinator: Connection) -> int:
    """Return the version of InitProducerId for two-phase commit; raise `UnsupportedVersionError` where the coordinator
    does not have it."""
    if coordinator.versions.get(InitProducerIdRequest.API_KEY, (0, -1))[1] < TWO_PHASE_VERSION:
        raise UnsupportedVersionError(f"{coordinator.address}: the cluster has no two-phase commit (InitProducerId "
                                      f"{TWO_PHASE_VERSION})")
    return TWO_PHASE_VERSION
