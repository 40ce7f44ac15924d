"""Requests about producers and transactions, whose permissions depend on the version or on more than one name."""

from collections.abc import Generator
from functools import partial
from typing import Any, Final

from kraft.broker.access.rules import Call, Check, Elements, Hides, Place, on_cluster, plainly
from kraft.broker.access.serving import as_requested, denials, divide, keep_allowed
from kraft.broker.api import Steps, each_step
from kraft.broker.internal_topics import is_internal
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kraft.protocol.messages.describe_transactions_response import DescribeTransactionsResponse, TransactionState
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kraft.security.acls import Operation, ResourceType

TRANSACTIONAL_ID: Final = ResourceType.TRANSACTIONAL_ID
FIRST_OF_BROKERS: Final = 4
"""First version of AddPartitionsToTxn that brokers send; clients send earlier ones."""

# --- InitProducerId ---------------------------------------------------------------------------------------------------

INIT_CHECKS: Final = (
    Check(Operation.WRITE, TRANSACTIONAL_ID, "transactional_id", "with a transactional id"),
    Check(Operation.TWO_PHASE_COMMIT, TRANSACTIONAL_ID, "transactional_id", "and with `enable2_pc`"),
    on_cluster(Operation.IDEMPOTENT_WRITE, "without a transactional id, or WRITE on any topic"),
)


def init_producer_id(call: Call) -> Steps | None:
    """Give an id to a client that may write."""
    request, access = call.request, call.access
    code = ErrorCode.NONE
    if request.transactional_id is None:
        if not (access.may(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
                or access.may_to_any(Operation.WRITE, ResourceType.TOPIC)):
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    elif not access.may(Operation.WRITE, TRANSACTIONAL_ID, request.transactional_id) or (
            request.enable2_pc and not access.may(
                Operation.TWO_PHASE_COMMIT, TRANSACTIONAL_ID, request.transactional_id)):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if code != ErrorCode.NONE:
        call.answer(InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1))
        return None
    return call.serve(request, call.answer)


# --- AddPartitionsToTxn -----------------------------------------------------------------------------------------------

ADD_CHECKS: Final = (
    on_cluster(Operation.CLUSTER_ACTION, "from version 4 on, which brokers send"),
    Check(Operation.WRITE, TRANSACTIONAL_ID, "v3_and_below_transactional_id", "below version 4"),
    Check(Operation.WRITE, ResourceType.TOPIC, "v3_and_below_topics.name",
          "below version 4; with a topic that is refused the others are not attempted"),
)


def add_partitions_to_txn(call: Call) -> Steps | None:
    """Add partitions for a client that may write to all of them, or for a broker."""
    request, access = call.request, call.access
    if call.version >= FIRST_OF_BROKERS:
        if access.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
            return call.serve(request, call.answer)
        call.answer(plainly(call, request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return None
    return _add_for_client(call)


def _add_for_client(call: Call) -> Steps:
    request = call.request
    if not call.access.may(Operation.WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        yield from _answer_topics(call, dict.fromkeys((each.name for each in request.v3_and_below_topics), code))
        return
    codes: dict[str, ErrorCode] = {}
    for topic in request.v3_and_below_topics:
        may_write = not is_internal(topic.name) and call.access.may(Operation.WRITE, ResourceType.TOPIC, topic.name)
        codes[topic.name] = ErrorCode.OPERATION_NOT_ATTEMPTED if may_write else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        yield
    if ErrorCode.TOPIC_AUTHORIZATION_FAILED in codes.values():
        yield from _answer_topics(call, codes)
    else:
        yield from call.pass_on(request, call.answer)


def _answer_topics(call: Call, codes: dict[str, ErrorCode]) -> Steps:
    """Answer each topic with its code. A partition that does not exist is no secret where its topic is allowed."""
    results = []
    for topic in call.request.v3_and_below_topics:
        partitions = yield from each_step(partial(_partition, call, topic.name, codes[topic.name]), topic.partitions)
        results.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=partitions))
    call.answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))


def _partition(call: Call, topic: str, code: ErrorCode, index: int) -> AddPartitionsToTxnPartitionResult:
    if code == ErrorCode.OPERATION_NOT_ATTEMPTED and call.image.partition(topic, index) is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)


# --- DescribeTransactions ---------------------------------------------------------------------------------------------

DESCRIBED: Final = Elements(
    "transactional_ids", "transaction_states",
    Check(Operation.DESCRIBE, TRANSACTIONAL_ID, "transactional_ids"),
    lambda code, name: TransactionState(transactional_id=name, error_code=code),
    place=Place.AS_REQUESTED)
TOPICS: Final = Hides("topics", Check(Operation.DESCRIBE, ResourceType.TOPIC, "transaction_states.topics.topic",
                                      "topics without it are removed", silent=True))
DESCRIBE_CHECKS: Final = (DESCRIBED.check, TOPICS.check)


def describe_transactions(call: Call) -> Steps:
    """Describe the transactions that the client may describe, with the topics that it may describe."""
    divided = yield from divide(DESCRIBED, call, call.request.transactional_ids)
    refused = yield from denials(DESCRIBED, divided)
    if refused and not divided.allowed:
        call.answer(DescribeTransactionsResponse(transaction_states=refused))
        return

    def complete(response: DescribeTransactionsResponse) -> Steps:
        for state in response.transaction_states:
            yield from keep_allowed(TOPICS, call, state)
            yield
        if refused:
            response.transaction_states = yield from as_requested(
                divided.errors, response.transaction_states, refused)

    yield from call.pass_on(call.request.replace(transactional_ids=divided.allowed), call.filtered(complete))


# --- WriteTxnMarkers --------------------------------------------------------------------------------------------------


def markers_refused(_call: Call, request: Any, code: ErrorCode) -> Generator[None, None, Message]:
    """Return the refusal of WriteTxnMarkers, with the error of each partition."""
    response = WriteTxnMarkersResponse()
    for marker in request.markers:
        result = WritableTxnMarkerResult(producer_id=marker.producer_id)
        response.markers.append(result)
        for topic in marker.topics:
            partitions = yield from each_step(
                lambda index: WritableTxnMarkerPartitionResult(partition_index=index, error_code=code),
                topic.partition_indexes)
            result.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
            yield
        yield
    return response
