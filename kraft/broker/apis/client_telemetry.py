"""GetTelemetrySubscriptions (key 71) and PushTelemetry (72). ApiVersions does not list them: there is no receiver."""

from kraft.broker.api import Answer, RequestContext
from kraft.broker.broker import Broker
from kraft.broker.client_telemetry import COMPRESSION_TYPES, PUSH_INTERVAL_MS, subscription_id
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import ZERO_UUID
from kraft.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from kraft.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from kraft.protocol.messages.push_telemetry_request import PushTelemetryRequest
from kraft.protocol.messages.push_telemetry_response import PushTelemetryResponse


def get_telemetry_subscriptions(broker: Broker, request: GetTelemetrySubscriptionsRequest, context: RequestContext,
                                answer: Answer) -> None:
    """Answer with a subscription to no metrics. A client without an id gets one."""
    client_id = request.client_instance_id
    if client_id == ZERO_UUID:
        client_id = broker.telemetry.new_id()
    code = broker.telemetry.subscribe(client_id, context.now_ms)
    if code != ErrorCode.NONE:
        answer(GetTelemetrySubscriptionsResponse(error_code=code))
        return
    answer(GetTelemetrySubscriptionsResponse(
        client_instance_id=client_id, subscription_id=subscription_id(client_id),
        accepted_compression_types=COMPRESSION_TYPES, push_interval_ms=PUSH_INTERVAL_MS,
        telemetry_max_bytes=broker.integer("telemetry.max.bytes"), delta_temporality=True))


def push_telemetry(broker: Broker, request: PushTelemetryRequest, context: RequestContext, answer: Answer) -> None:
    """Accept by Kafka's rules and discard."""
    answer(PushTelemetryResponse(error_code=broker.telemetry.push(
        request, broker.integer("telemetry.max.bytes"), context.now_ms)))
