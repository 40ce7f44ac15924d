"""Handlers of a broker's APIs, behind the checks of the table."""

from functools import cache

from kraft.broker.access.rules import Call
from kraft.broker.access.serving import serve_checked
from kraft.broker.access.table import ROWS
from kraft.broker.api import Answer, Handler, RequestContext, Steps
from kraft.broker.apis import handler_of
from kraft.broker.broker import Broker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.security.access import Access


@cache
def checked_handler_of(api_key: int) -> Handler:
    """Return the handler of an API for a broker that has an authorizer: it serves what the client may do."""
    handler, row = handler_of(api_key), ROWS[api_key]

    def serve(broker: Broker, request: Message, context: RequestContext, answer: Answer) -> Steps | None:
        assert broker.authorizer is not None, "there is nothing to check"
        access = Access(broker.authorizer.now(), context.principal, context.client_host)
        if broker.access_audit is not None:
            answer = broker.access_audit.watch(
                access, request, context.version, context.client, context.listener, answer)
        allowed = context._replace(access=access)

        def refuse(part: Message, code: ErrorCode, message: str) -> Message:
            # Found only when it is needed: a node without a broker has no way to a controller to refuse for.
            return broker.controller.refuse(part, code, message)

        return serve_checked(row, Call(
            access, request, context.version, answer,
            lambda part, part_answer: handler(broker, part, allowed, part_answer), context.run,
            refuse, broker.image, broker))

    return serve
