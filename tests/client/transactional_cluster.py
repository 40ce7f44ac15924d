"""One node with transactions in memory, for tests of clients. Every message goes through its wire form."""

from types import SimpleNamespace
from typing import Any, Self

from kraft.client.connection import ConnectionFailedError
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kraft.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from kraft.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from kraft.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse, FinalizedFeatureKey
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.end_txn_response import EndTxnResponse
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.produce_request import ProduceRequest
from kraft.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kraft.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kraft.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kraft_native.batch.batch import first_batch


class TransactionalNode:
    """A cluster of one node, its connection, and its log. `level` is that of `transaction.version`.

    - `sent`: each request with its version.
    - `errors`: codes that the next requests of a type are answered with.
    - `lost`: requests of these types take effect, and their next answer is lost.
    """

    timeout = 5.0
    address = "node:1"

    def __init__(self, level: int = 2, *, init_version: int = 6) -> None:
        self.level = level
        self.versions = {key: (api.versions.start, api.versions.stop - 1) for key, api in API_BY_KEY.items()}
        self.versions[InitProducerIdRequest.API_KEY] = (0, init_version)
        self.sent: list[tuple[Message, int]] = []
        self.errors: dict[type[Message], list[int]] = {}
        self.lost: list[type[Message]] = []
        self.epoch = self.ended_epoch = -1
        self.ongoing: tuple[int, int] | None = None
        self.open: list[bytes] = []
        self.visible: list[bytes] = []
        self.offsets: list[tuple[str, int, int]] = []
        self.ends: list[bool] = []
        self.added = False

    def any(self) -> Self:
        return self

    def node(self, _node_id: int) -> Self:
        return self

    def coordinator(self, _key: str, _key_type: int) -> Self:
        return self

    def close(self) -> None:
        pass

    def topic(self, _name: str) -> Any:
        return SimpleNamespace(partitions=[
            SimpleNamespace(partition_index=index, leader_id=1, error_code=ErrorCode.NONE) for index in range(2)])

    def version(self, key: int, at_most: int | None = None) -> int:
        return min(self.versions[key][1], API_BY_KEY[key].latest_stable, 99 if at_most is None else at_most)

    def sent_versions(self, kind: type[Message]) -> list[int]:
        return [version for request, version in self.sent if type(request) is kind]

    def send(self, request: Message, response: type[Message], *, version: int) -> Any:
        received = type(request).decode(request.encode(version), version)
        self.sent.append((received, version))
        if self.errors.get(type(request)):
            answer = self._refuse(received, self.errors[type(request)].pop(0))
        else:
            answer = getattr(self, f"_{type(request).__name__}")(received, version)
        if type(request) in self.lost:
            self.lost.remove(type(request))
            raise ConnectionFailedError("closed")
        return response.decode(answer.encode(version), version)

    def _refuse(self, request: Message, code: int) -> Message:
        if isinstance(request, ProduceRequest):
            return self._produced(request, code)
        return {InitProducerIdRequest: InitProducerIdResponse, EndTxnRequest: EndTxnResponse}[
            type(request)](error_code=code)   # type: ignore[index]

    def _ApiVersionsRequest(self, _request: ApiVersionsRequest, _version: int) -> Message:  # noqa: N802
        return ApiVersionsResponse(finalized_features_epoch=1, finalized_features=[FinalizedFeatureKey(
            name="transaction.version", max_version_level=self.level, min_version_level=0)] if self.level else [])

    def _InitProducerIdRequest(self, request: InitProducerIdRequest, _version: int) -> Message:  # noqa: N802
        if request.producer_epoch not in (-1, self.epoch):
            return InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED)
        self.epoch += 1
        self.ended_epoch = -1
        if not request.keep_prepared_txn:
            self._end(commit=False)
        kept = self.ongoing or (-1, -1)
        return InitProducerIdResponse(producer_id=7, producer_epoch=self.epoch, ongoing_txn_producer_id=kept[0],
                                      ongoing_txn_producer_epoch=kept[1])

    def _AddPartitionsToTxnRequest(self, request: AddPartitionsToTxnRequest, _version: int) -> Message:  # noqa: N802
        self.added = True
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[AddPartitionsToTxnTopicResult(
            name=topic.name, results_by_partition=[AddPartitionsToTxnPartitionResult(partition_index=index)
                                                   for index in topic.partitions])
            for topic in request.v3_and_below_topics])

    def _AddOffsetsToTxnRequest(self, _request: AddOffsetsToTxnRequest, _version: int) -> Message:  # noqa: N802
        self.added = True
        return AddOffsetsToTxnResponse()

    def _ProduceRequest(self, request: ProduceRequest, version: int) -> Message:  # noqa: N802
        data = bytes(request.topic_data[0].partition_data[0].records or b"")
        batch = first_batch(data)
        assert batch.is_transactional
        if batch.producer_epoch != self.epoch:
            return self._produced(request, ErrorCode.INVALID_PRODUCER_EPOCH)
        assert self.added or version >= 12, "the partition is not in the transaction"
        self.ongoing = self.ongoing or (7, self.epoch)
        self.open.append(data)
        return self._produced(request, ErrorCode.NONE)

    def _produced(self, request: ProduceRequest, code: int) -> Message:
        return ProduceResponse(responses=[TopicProduceResponse(name=topic.name, partition_responses=[
            PartitionProduceResponse(index=each.index, error_code=code, base_offset=len(self.open))
            for each in topic.partition_data]) for topic in request.topic_data])

    def _TxnOffsetCommitRequest(self, request: TxnOffsetCommitRequest, version: int) -> Message:  # noqa: N802
        assert self.added or version >= 5, "the group is not in the transaction"
        self.ongoing = self.ongoing or (7, self.epoch)
        self.offsets += [(topic.name, each.partition_index, each.committed_offset)
                         for topic in request.topics for each in topic.partitions]
        return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name=topic.name, partitions=[
            TxnOffsetCommitResponsePartition(partition_index=each.partition_index) for each in topic.partitions])
            for topic in request.topics])

    def _EndTxnRequest(self, request: EndTxnRequest, version: int) -> Message:  # noqa: N802
        if request.producer_epoch != self.ended_epoch:      # not a repetition
            if request.producer_epoch != self.epoch:
                return EndTxnResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH)
            self._end(commit=request.committed)
            self.ends.append(request.committed)
            if version >= 5:
                self.ended_epoch = self.epoch
                self.epoch += 1
        if version < 5:
            return EndTxnResponse()
        return EndTxnResponse(producer_id=7, producer_epoch=self.epoch)

    def _end(self, *, commit: bool) -> None:
        if commit:
            self.visible += self.open
        self.open = []
        self.ongoing = None
        self.added = False
