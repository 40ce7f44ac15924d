"""Requests that the share coordinator serves, for brokers: InitializeShareGroupState (83), ReadShareGroupState (84),
WriteShareGroupState (85), DeleteShareGroupState (86), ReadShareGroupStateSummary (87).

All of them are refused with UNSUPPORTED_VERSION while `share.version` is 0, and with NOT_COORDINATOR before their topic
exists.
"""

from kraft.broker.api import Answer, RequestContext, Steps
from kraft.broker.broker import Broker
from kraft.broker.coordinator.answer import RequestContext as CoordinatorContext
from kraft.broker.request_parts import serve_in_parts
from kraft.broker.share_state.responses import refused
from kraft.metadata.versions import SHARE_VERSION
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message


def serve(broker: Broker, request: Message, context: RequestContext, answer: Answer) -> Steps:
    """Pass the request to the coordinator, which answers now or when its records are committed."""
    def send(part: Message, answer_part: Answer) -> None:
        if not broker.image.features.get(SHARE_VERSION):
            answer_part(refused(part, ErrorCode.UNSUPPORTED_VERSION))
        elif broker.share_state is None:
            answer_part(refused(part, ErrorCode.NOT_COORDINATOR))
        else:
            broker.share_state.handle(part, CoordinatorContext(context.version, context.client_id), answer_part,
                                      context.now_ms)

    return serve_in_parts(request, send, answer, context.run)
