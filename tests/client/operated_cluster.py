"""A cluster whose brokers know these transactions, for tests of operators' tools. Every message goes through its wire
form."""

import dataclasses
from typing import Any, Self

from kraft.client.cluster import Node
from kraft.client.transaction_admin import OpenTransaction, Transaction
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.describe_producers_request import DescribeProducersRequest
from kraft.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest
from kraft.protocol.messages.list_transactions_response import ListTransactionsResponse
from kraft.protocol.messages.list_transactions_response import TransactionState as ListedState
from kraft.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kraft.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from kraft.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)


@dataclasses.dataclass
class OperatedCluster:
    """Brokers 1 and 2, and `more_brokers`; broker 1 leads all partitions of the topic "t". `now_ms` is the time of the
    coordinators. `ending`: producers whose transactions end when their coordinators are queried."""

    known: list[Transaction] = dataclasses.field(default_factory=list)
    open: list[OpenTransaction] = dataclasses.field(default_factory=list)
    now_ms: int = 0
    versions_max: dict[int, int] = dataclasses.field(default_factory=dict)
    timeout: float = 5.0
    markers: list[Any] = dataclasses.field(default_factory=list)
    ending: tuple[int, ...] = ()
    terminated: list[Any] = dataclasses.field(default_factory=list)
    more_brokers: tuple[int, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        pass

    def close(self) -> None:
        pass

    def nodes(self) -> list[Node]:
        return [Node(1, "one", 9092, None), Node(2, "two", 9092, None)]

    def node(self, node_id: int) -> "Broker":
        return Broker(self, node_id)

    def leader(self, _topic: str, _partition: int) -> "Broker":
        return Broker(self, 1)

    def check_access(self) -> None:
        """Do nothing: this cluster serves everyone."""

    def coordinator_id(self, key: str, key_type: int) -> int:
        assert key_type == 1
        return next((each.coordinator for each in self.known if each.transactional_id == key), 1)

    def coordinator(self, key: str, key_type: int) -> "Broker":
        return self.node(self.coordinator_id(key, key_type))

    def metadata(self, topics: list[str] | None = None) -> MetadataResponse:
        assert topics in (None, [], ["t"])
        brokers = [MetadataResponseBroker(node_id=each) for each in (1, 2, *self.more_brokers)]
        return MetadataResponse(brokers=brokers, topics=[MetadataResponseTopic(name="t", partitions=[
            MetadataResponsePartition(partition_index=index, leader_id=1) for index in range(3)])])


class Broker:
    """One broker of it."""

    def __init__(self, cluster: OperatedCluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id

    def version(self, key: int) -> int:
        api = API_BY_KEY[key]
        return min(api.latest_stable, self.cluster.versions_max.get(key, api.latest_stable))

    def send(self, request: Message, response: type[Message]) -> Any:
        version = self.version(request.API_KEY)
        received = type(request).decode(request.encode(version), version)
        answer = getattr(self, f"_{type(request).__name__}")(received)
        return response.decode(answer.encode(version), version)

    def _ListTransactionsRequest(self, request: ListTransactionsRequest) -> Message:  # noqa: N802
        self.cluster.open = [each for each in self.cluster.open if each.producer_id not in self.cluster.ending]
        return ListTransactionsResponse(transaction_states=[
            ListedState(transactional_id=each.transactional_id, producer_id=each.producer_id,
                        transaction_state=each.state)
            for each in self.cluster.known if each.coordinator == self.node_id
            and (not request.state_filters or each.state in request.state_filters)
            and (not request.producer_id_filters or each.producer_id in request.producer_id_filters)
            and (request.duration_filter < 0 or 0 <= each.started_ms < self.cluster.now_ms - request.duration_filter)])

    def _DescribeTransactionsRequest(self, request: DescribeTransactionsRequest) -> Message:  # noqa: N802
        return DescribeTransactionsResponse(transaction_states=[self._state(name) for name in
                                                                request.transactional_ids])

    def _state(self, name: str) -> TransactionState:
        for each in self.cluster.known:
            if (each.transactional_id, each.coordinator) == (name, self.node_id):
                topics: dict[str, list[int]] = {}
                for topic, index in each.partitions:
                    topics.setdefault(topic, []).append(index)
                return TransactionState(
                    transactional_id=name, transaction_state=each.state, transaction_timeout_ms=each.timeout_ms,
                    transaction_start_time_ms=each.started_ms, producer_id=each.producer_id,
                    producer_epoch=each.producer_epoch,
                    topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()])
        return TransactionState(transactional_id=name, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

    def _DescribeProducersRequest(self, request: DescribeProducersRequest) -> Message:  # noqa: N802
        assert self.node_id == 1
        return DescribeProducersResponse(topics=[TopicResponse(name=topic.name, partitions=[
            PartitionResponse(partition_index=index, active_producers=[
                ProducerState(producer_id=99, producer_epoch=0, current_txn_start_offset=-1),
                *(ProducerState(producer_id=each.producer_id, producer_epoch=each.producer_epoch,
                                coordinator_epoch=each.coordinator_epoch or -1, last_timestamp=each.last_ms,
                                current_txn_start_offset=each.start_offset)
                  for each in self.cluster.open if each.partition == (topic.name, index))])
            for index in topic.partition_indexes]) for topic in request.topics])

    def _WriteTxnMarkersRequest(self, request: WriteTxnMarkersRequest) -> Message:  # noqa: N802
        self.cluster.markers += request.markers
        return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=each.producer_id, topics=[
            WritableTxnMarkerTopicResult(name=topic.name, partitions=[
                WritableTxnMarkerPartitionResult(partition_index=index) for index in topic.partition_indexes])
            for topic in each.topics]) for each in request.markers])

    def _InitProducerIdRequest(self, request: InitProducerIdRequest) -> Message:  # noqa: N802
        self.cluster.terminated.append((request.transactional_id, request.transaction_timeout_ms))
        return InitProducerIdResponse(producer_id=7, producer_epoch=1)
