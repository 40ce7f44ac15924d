"""InitProducerId (key 22), versions 0 to 5: an id for an idempotent producer, from the blocks of this broker.

Ids with a transactional id belong to the transaction coordinator, which this node does not have. It first checks what
Kafka would refuse about the request itself. Then it answers with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every
client treats as final. After UNSUPPORTED_VERSION librdkafka would repeat the request without end.
"""

from kraft.broker.api import Answer, RequestContext
from kraft.broker.broker import Broker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse

NO_EPOCH = -1


def init_producer_id(broker: Broker, request: InitProducerIdRequest, context: RequestContext, answer: Answer) -> None:
    """Answer with epoch 0 of a new id. Without a free id the answer waits for the controller."""
    def taken(producer_id: int | None) -> None:
        if producer_id is None:
            answer(_refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            answer(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))

    refusal = _refusal(broker, request)
    if refusal != ErrorCode.NONE:
        answer(_refused(refusal))
    else:
        broker.producer_ids.take(context.now_ms, taken)


def _refusal(broker: Broker, request: InitProducerIdRequest) -> ErrorCode:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return ErrorCode.NONE
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= broker.integer("transaction.max.timeout.ms"):
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=NO_EPOCH)
