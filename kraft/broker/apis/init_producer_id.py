"""InitProducerId (key 22), versions 0 to 5: an id for an idempotent producer, from the block that this broker holds.

Ids with a transactional id belong to the transaction coordinator; this node has none, and says UNSUPPORTED_VERSION,
which clients take as final, after what Kafka would refuse about the request itself.
"""

from kraft.broker.api import Answer, RequestContext, serves
from kraft.broker.broker import Broker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from kraft.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse

ALLOCATE_VERSION = 0
NO_EPOCH = -1


@serves("InitProducerId")
def init_producer_id(broker: Broker, request: InitProducerIdRequest, context: RequestContext, answer: Answer) -> None:
    """Epoch 0 of a new id, always. When the block is used up a new one is asked for, and the answer waits for it."""
    refusal = _refusal(broker, request)
    if refusal != ErrorCode.NONE:
        answer(_refused(refusal))
        return

    def allocated(response: Message) -> None:
        assert isinstance(response, AllocateProducerIdsResponse)
        if response.error_code != ErrorCode.NONE:
            answer(_refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        broker.producer_ids.refill(response.producer_id_start, response.producer_id_len)
        _give(broker, answer)

    if not _give(broker, answer):
        broker.submit(AllocateProducerIdsRequest(broker_id=broker.node_id, broker_epoch=broker.epoch),
                      ALLOCATE_VERSION, context.now_ms, allocated)


def _refusal(broker: Broker, request: InitProducerIdRequest) -> ErrorCode:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return ErrorCode.NONE
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= broker.integer("transaction.max.timeout.ms"):
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.UNSUPPORTED_VERSION


def _give(broker: Broker, answer: Answer) -> bool:
    """Answers with the next id of the block; False when it has none."""
    producer_id = broker.producer_ids.take()
    if producer_id is None:
        return False
    answer(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))
    return True


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=NO_EPOCH)
