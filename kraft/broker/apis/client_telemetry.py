"""GetTelemetrySubscriptions (key 71) and PushTelemetry (72). ApiVersions lists them where the node has a receiver: the
listener of its own metrics."""

from uuid import UUID

from kraft.broker.api import Answer, RequestContext, Steps
from kraft.broker.broker import Broker
from kraft.broker.client_telemetry import COMPRESSION_TYPES, Facts, subscription_id
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.ids import id_text
from kraft.protocol.message import ZERO_UUID
from kraft.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from kraft.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from kraft.protocol.messages.push_telemetry_request import PushTelemetryRequest
from kraft.protocol.messages.push_telemetry_response import PushTelemetryResponse


def get_telemetry_subscriptions(broker: Broker, request: GetTelemetrySubscriptionsRequest, context: RequestContext,
                                answer: Answer) -> Steps:
    """Answer with the metrics that the client is to push. A client without an id gets one."""
    telemetry, client_id = broker.telemetry, request.client_instance_id
    if client_id == ZERO_UUID:
        client_id = telemetry.new_id()
    yield from telemetry.refresh(broker.image)
    code = telemetry.subscribe(client_id, context.now_ms, _facts(client_id, context))
    if code != ErrorCode.NONE:
        answer(GetTelemetrySubscriptionsResponse(error_code=code))
        return
    subscription = telemetry.subscription_of(client_id)
    answer(GetTelemetrySubscriptionsResponse(
        client_instance_id=client_id, subscription_id=subscription_id(client_id, subscription),
        accepted_compression_types=COMPRESSION_TYPES, push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=broker.integer("telemetry.max.bytes"), delta_temporality=True,
        requested_metrics=subscription.metrics))


def push_telemetry(broker: Broker, request: PushTelemetryRequest, context: RequestContext, answer: Answer) -> Steps:
    """Accept by Kafka's rules, and store the values where there is a receiver."""
    telemetry, client_id = broker.telemetry, request.client_instance_id
    yield from telemetry.refresh(broker.image)
    facts = _facts(client_id, context)
    code = telemetry.push(request, broker.integer("telemetry.max.bytes"), context.now_ms, facts)
    if code == ErrorCode.NONE and telemetry.series is not None and request.metrics:
        interval_ms = telemetry.subscription_of(client_id).interval_ms
        code = yield from telemetry.series.receive(client_id, facts, interval_ms,
                                                   (request.compression_type, request.metrics), context.now_ms)
        telemetry.note(client_id, code)
    answer(PushTelemetryResponse(error_code=code))


def _facts(instance: UUID, context: RequestContext) -> Facts:
    """Return what patterns of subscriptions may select by."""
    name, version = context.software
    return {"client_instance_id": id_text(instance), "client_id": context.client_id, "client_software_name": name,
            "client_software_version": version, "client_source_address": context.client_host,
            "client_source_port": str(context.client_port)}
