"""A transaction coordinator with its logs, its brokers and its clock in memory, for tests.

Every response goes through its wire form in the version of its request. Markers are written at once by default.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kraft.broker.coordinator.answer import RequestContext
from kraft.broker.internal_topics import OFFSETS_TOPIC
from kraft.broker.transactions.config import TransactionCoordinatorConfig
from kraft.broker.transactions.coordinator import TransactionCoordinator
from kraft.broker.transactions.records import decode
from kraft.broker.transactions.state import Identity, Status, TopicPartition, Transaction
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kraft.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from kraft.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.broker.node import START_MS, Logs, Pending

TIMEOUT_MS = 60_000
FIRST_ID = 1_000
EXHAUSTED = 32_766
PARTITIONS = 3


def marker_response(request: WriteTxnMarkersRequest,
                    code_of: Callable[[TopicPartition], ErrorCode]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(markers=[
        WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[
            WritableTxnMarkerTopicResult(name=topic.name, partitions=[
                WritableTxnMarkerPartitionResult(partition_index=index, error_code=code_of((topic.name, index)))
                for index in topic.partition_indexes])
            for topic in marker.topics])
        for marker in request.markers])


class Cluster:
    """Topic "orders" with four partitions on brokers 1 and 2, and `__consumer_offsets`."""

    def __init__(self) -> None:
        self.transaction_version = 2
        self.is_current = True
        self.leaders: dict[TopicPartition, int] = {("orders", index): 1 + index % 2 for index in range(4)}
        self.leaders |= {(OFFSETS_TOPIC, index): 1 for index in range(50)}

    def leader_of(self, topic: str, partition: int) -> int | None:
        return self.leaders.get((topic, partition))

    def partition_count(self, topic: str) -> int | None:
        return sum(name == topic for name, _ in self.leaders) or None


class Ids:
    """Producer ids from 1000; with `holds` they are given by `release`, with `fails` there are none."""

    def __init__(self) -> None:
        self.numbers = itertools.count(FIRST_ID)
        self.holds = self.fails = False
        self.waiting: list[Callable[[int | None], None]] = []

    def take(self, _now_ms: int, answer: Callable[[int | None], None]) -> None:
        if self.holds:
            self.waiting.append(answer)
        else:
            answer(None if self.fails else next(self.numbers))

    def release(self) -> None:
        self.holds = False
        waiting, self.waiting = self.waiting, []
        for answer in waiting:
            self.take(0, answer)


class TxnNode:
    """One node that leads all partitions of `__transaction_state`. `lag`: appends are committed only by `commit`."""

    def __init__(self, *, lag: bool = False, version: int = 2, **config: Any) -> None:
        self.now_ms = START_MS
        self.logs = Logs(PARTITIONS)
        self.cluster = Cluster()
        self.cluster.transaction_version = version
        self.ids = Ids()
        self.config = TransactionCoordinatorConfig(**config)
        self.lag = lag
        self.epoch = 0
        self.written: list[tuple[int, WriteTxnMarkersRequest]] = []     # by broker, in their order
        self.answers_markers = True
        self.marker_code: Callable[[TopicPartition], ErrorCode] = lambda _: ErrorCode.NONE
        self.coordinator = self._new_coordinator()
        self.load()

    def _new_coordinator(self) -> TransactionCoordinator:
        coordinator = TransactionCoordinator(self.config, self.logs, self.cluster, self.ids)
        coordinator.partition_count = PARTITIONS
        return coordinator

    def load(self) -> None:
        self.epoch += 1
        shards = self.coordinator.shards
        for partition in range(PARTITIONS):
            if shards.start_load(partition, self.epoch):
                shards.load(partition, self.logs.stored(partition))
                shards.finish_load(partition, len(self.logs.records[partition]), self.logs.committed[partition],
                                   self.now_ms)
        self.settle()

    def fail_over(self) -> None:
        """Lose everything in memory and load the logs again, as the next coordinator does."""
        self.coordinator = self._new_coordinator()
        self.load()

    def commit(self) -> None:
        for index in range(PARTITIONS):
            self.logs.committed[index] = len(self.logs.records[index])
            self.coordinator.committed(index, self.logs.committed[index], self.now_ms)

    def settle(self) -> None:
        """Commit, write markers and run what is due, until nothing is left."""
        for _ in range(1000):
            if not self.lag:
                self.commit()
            busy = self.answers_markers and sum(map(self.write_markers, (1, 2))) > 0
            deadline_ms = self.coordinator.deadline_ms
            if deadline_ms is not None and deadline_ms <= self.now_ms:
                self.coordinator.tick(self.now_ms)
            elif not busy:
                return
        raise AssertionError("it does not settle")

    def write_markers(self, broker: int) -> bool:
        """Let a broker serve one request; return whether one was due."""
        dispatch = self.coordinator.markers.take(broker)
        if dispatch is None:
            return False
        request = WriteTxnMarkersRequest.decode(dispatch.request.encode(2), 2)
        self.written.append((broker, request))
        self.coordinator.markers.answered(dispatch, self.marker_response(request), self.now_ms)
        return True

    def marker_response(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return marker_response(request, self.marker_code)

    def markers(self) -> list[tuple[int, int, bool, str, int]]:
        """Written markers: producer id, epoch, commits, topic, partition."""
        return [(marker.producer_id, marker.producer_epoch, marker.transaction_result, topic.name, index)
                for _, request in self.written for marker in request.markers for topic in marker.topics
                for index in topic.partition_indexes]

    def advance(self, delay_ms: int) -> None:
        until_ms = self.now_ms + delay_ms
        while (deadline_ms := self.coordinator.deadline_ms) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.coordinator.tick(self.now_ms)
            self.settle()
        self.now_ms = until_ms

    def send(self, request: Message, version: int | None = None) -> Pending:
        version = type(request).VERSIONS[-1] if version is None else version
        pending = Pending(type(request).decode(request.encode(version), version), version)

        def respond(response: Message) -> None:
            assert pending.response is None, f"{request} was answered twice"
            pending.response = type(response).decode(response.encode(version), version, exact=True)

        self.coordinator.handle(pending.request, RequestContext(version), respond, self.now_ms)
        self.settle()
        return pending

    def call(self, request: Message, version: int | None = None) -> Any:
        pending = self.send(request, version)
        assert pending.answered, f"{request} was not answered"
        return pending.response

    def transaction(self, transactional_id: str = "t") -> Transaction:
        _, state = self.coordinator.shards.for_key(transactional_id, self.now_ms)
        return state.transactions[transactional_id]

    def status(self, transactional_id: str = "t") -> Status:
        return self.transaction(transactional_id).status

    def history(self) -> list[Status | None]:
        """Status in each record of the logs; None for a deleted id."""
        found = []
        for partition in range(PARTITIONS):
            for record in self.logs.stored(partition):
                replayed = decode(record)
                assert replayed is not None
                found.append(None if replayed.transaction is None else replayed.transaction.status)
        return found


def set_epoch(node: TxnNode, epoch: int, transactional_id: str = "t", **changes: Any) -> None:
    """Write the transaction of that id with another producer epoch, as if many transactions had passed."""
    _, state = node.coordinator.shards.for_key(transactional_id, node.now_ms)
    state.put(replace(state.transactions[transactional_id], producer_epoch=epoch, **changes))
    node.settle()


# -------------------------------------------------------------------- requests

def init(node: TxnNode, expected: Identity | None = None, *, name: str = "t", timeout_ms: int = TIMEOUT_MS,
         version: int = 6, two_phase: bool = False, keep: bool = False) -> Pending:
    producer_id, epoch = expected or (-1, -1)
    return node.send(InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=producer_id, producer_epoch=epoch,
        enable2_pc=two_phase, keep_prepared_txn=keep), version)


def new_producer(node: TxnNode, **options: Any) -> Identity:
    response = init(node, **options).response
    assert response.error_code == ErrorCode.NONE
    return Identity(response.producer_id, response.producer_epoch)


def add_one(node: TxnNode, identity: Identity, *partitions: int, name: str = "t", version: int = 5,
            verify: bool = False, topic: str = "orders") -> list[ErrorCode]:
    """Add partitions of a topic (0 by default), by a broker from version 4; return their errors."""
    topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions or (0,)))]
    if version < 4:
        response = node.call(AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name, v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch, v3_and_below_topics=topics), version)
        results = response.results_by_topic_v3_and_below
    else:
        response = node.call(AddPartitionsToTxnRequest(transactions=[AddPartitionsToTxnTransaction(
            transactional_id=name, producer_id=identity.producer_id, producer_epoch=identity.epoch,
            verify_only=verify, topics=topics)]), version)
        results = response.results_by_transaction[0].topic_results
    return [_code(each.partition_error_code) for result in results for each in result.results_by_partition]


def end_pending(node: TxnNode, identity: Identity, commits: bool = True, *, name: str = "t",
                version: int = 5) -> Pending:
    return node.send(EndTxnRequest(transactional_id=name, producer_id=identity.producer_id,
                                   producer_epoch=identity.epoch, committed=commits), version)


def end(node: TxnNode, identity: Identity, commits: bool = True, *, name: str = "t", version: int = 5) -> Any:
    pending = end_pending(node, identity, commits, name=name, version=version)
    assert pending.answered, "EndTxn was not answered"
    return pending.response


def end_error(node: TxnNode, identity: Identity, commits: bool = True, **options: Any) -> ErrorCode:
    return _code(end(node, identity, commits, **options).error_code)


def next_of(response: Any) -> Identity:
    assert response.error_code == ErrorCode.NONE
    return Identity(response.producer_id, response.producer_epoch)


def add_offsets(node: TxnNode, identity: Identity, group: str = "g", *, name: str = "t", version: int = 4) -> ErrorCode:
    return _code(node.call(AddOffsetsToTxnRequest(
        transactional_id=name, producer_id=identity.producer_id, producer_epoch=identity.epoch, group_id=group),
        version).error_code)


def described(node: TxnNode, name: str = "t") -> Any:
    return node.call(DescribeTransactionsRequest(transactional_ids=[name])).transaction_states[0]


def _code(number: int) -> ErrorCode:
    return next(error for error in ErrorCode if error == number)
