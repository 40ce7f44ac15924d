"""InitProducerId (key 22), versions 0 to 6: an id and an epoch for a producer.

An idempotent producer gets epoch 0 of a new id, from the blocks of this broker. Ids with a transactional id belong to
the transaction coordinator. Version 6 has the fields of two-phase commit (KIP-939).
"""

from kraft.broker.api import Answer, RequestContext
from kraft.broker.broker import Broker
from kraft.broker.coordinator.answer import RequestContext as CoordinatorContext
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse

NO_EPOCH = -1


def init_producer_id(broker: Broker, request: InitProducerIdRequest, context: RequestContext, answer: Answer) -> None:
    """Answer with an id. Without a free one the answer waits for the controller."""
    def taken(producer_id: int | None) -> None:
        if producer_id is None:
            answer(_refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            answer(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))

    if (request.producer_id == -1) != (request.producer_epoch == -1):
        answer(_refused(ErrorCode.INVALID_REQUEST))
    elif request.transactional_id is None:
        broker.producer_ids.take(context.now_ms, taken)
    else:
        broker.transactions.handle(request, CoordinatorContext(context.version, context.client_id), answer,
                                   context.now_ms)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=NO_EPOCH)
