"""AllocateProducerIds: brokers get blocks of ids from the cluster (KIP-730)."""

from typing import Final

from kraft.controller.brokers import check_broker_epoch
from kraft.controller.decision import Context, Decision, RefusedError
from kraft.metadata.snapshot import Record
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from kraft.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from kraft.protocol.messages.producer_ids_record import ProducerIdsRecord

BLOCK_SIZE: Final = 1_000
_ID_MAX: Final = (1 << 63) - 1


def allocate_producer_ids(
    context: Context, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    """Return the next block. Ids of a block whose answer is lost are never used."""
    check_broker_epoch(context.image, request.broker_id, request.broker_epoch)
    first = max(0, context.image.next_producer_id)
    if first > _ID_MAX - BLOCK_SIZE:
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up")
    return Decision(
        AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=BLOCK_SIZE),
        [Record(ProducerIdsRecord(broker_id=request.broker_id, broker_epoch=request.broker_epoch,
                                  next_producer_id=first + BLOCK_SIZE))])


def allocate_producer_ids_refused(
    _request: AllocateProducerIdsRequest, code: ErrorCode, _message: str | None
) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=code)
