"""Requests that the transaction coordinator serves:

- AddPartitionsToTxn (24), of clients and of brokers; AddOffsetsToTxn (25); EndTxn (26).
- DescribeTransactions (65), ListTransactions (66).

InitProducerId has a file of its own.
"""

from typing import Final

from kraft.broker.api import Answer, RequestContext, Steps
from kraft.broker.apis.find_coordinator import create
from kraft.broker.broker import Broker
from kraft.broker.coordinator.answer import RequestContext as CoordinatorContext
from kraft.broker.internal_topics import OFFSETS_TOPIC
from kraft.broker.request_parts import is_divided, serve_in_parts
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.message import Message
from kraft.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest

WHOLE_WHEN_SMALL: Final = (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN)
"""Requests that are decided as a whole when they are small: the number of their elements follows from their size."""


def serve(broker: Broker, request: Message, context: RequestContext, answer: Answer) -> Steps | None:
    """Pass the request to the coordinator, which answers now or when its records are committed."""
    coordinator_context = CoordinatorContext(context.version, context.client_id)
    if request.API_KEY == ApiKey.ADD_OFFSETS_TO_TXN and broker.image.topic(OFFSETS_TOPIC) is None:
        create(broker, OFFSETS_TOPIC, context.now_ms)   # a client may add offsets before it looks for their coordinator
    if context.is_small and request.API_KEY in WHOLE_WHEN_SMALL:
        broker.transactions.handle(request, coordinator_context, answer, context.now_ms)
        return None
    return _serve_in_steps(broker, request, context, coordinator_context, answer)


def _serve_in_steps(broker: Broker, request: Message, context: RequestContext, coordinator_context: CoordinatorContext,
                    answer: Answer) -> Steps:
    if isinstance(request, AddPartitionsToTxnRequest) and is_divided(request):
        found = yield from broker.transactions.incomplete(request, context.version)
        coordinator_context = coordinator_context._replace(incomplete=found)
    yield from serve_in_parts(
        request, lambda part, answer_part: broker.transactions.handle(
            part, coordinator_context, answer_part, context.now_ms), answer, context.run)
