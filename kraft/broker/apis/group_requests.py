"""Requests that the group coordinator serves:

- JoinGroup (11), Heartbeat (12), LeaveGroup (13), SyncGroup (14).
- DescribeGroups (15), ListGroups (16), DeleteGroups (42).
- OffsetCommit (8), OffsetFetch (9), OffsetDelete (47), TxnOffsetCommit (28).
"""

from kraft.broker.api import Answer, RequestContext, Steps
from kraft.broker.broker import Broker
from kraft.broker.coordinator.answer import RequestContext as CoordinatorContext
from kraft.broker.request_parts import serve_in_parts
from kraft.protocol.message import Message


def serve(broker: Broker, request: Message, context: RequestContext, answer: Answer) -> Steps:
    """Pass the request to the coordinator, which answers now or when its records are committed. The host gets a slash
    in front, as in Kafka."""
    coordinator_context = CoordinatorContext(context.version, context.client_id, f"/{context.client_host}")
    return serve_in_parts(
        request, lambda part, answer_part: broker.groups.handle(part, coordinator_context, answer_part, context.now_ms),
        answer, context.run)
