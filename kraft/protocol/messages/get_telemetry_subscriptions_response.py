"""GetTelemetrySubscriptionsResponse, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/GetTelemetrySubscriptionsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps


class GetTelemetrySubscriptionsResponse(Message):
    __slots__ = (
        "throttle_time_ms", "error_code", "client_instance_id", "subscription_id", "accepted_compression_types",
        "push_interval_ms", "telemetry_max_bytes", "delta_temporality", "requested_metrics", "unknown_tags",
    )
    API_KEY = 71
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        client_instance_id: UUID = ZERO_UUID,
        subscription_id: int = 0,
        accepted_compression_types: Iterable[int] = (),
        push_interval_ms: int = 0,
        telemetry_max_bytes: int = 0,
        delta_temporality: bool = False,
        requested_metrics: Iterable[str] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.accepted_compression_types = list(accepted_compression_types)
        self.push_interval_ms = push_interval_ms
        self.telemetry_max_bytes = telemetry_max_bytes
        self.delta_temporality = delta_temporality
        self.requested_metrics = list(requested_metrics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            client_instance_id=r.uuid(),
            subscription_id=r.int32(),
            accepted_compression_types=r.array(r.int8),
            push_interval_ms=r.int32(),
            telemetry_max_bytes=r.int32(),
            delta_temporality=r.boolean(),
            requested_metrics=r.array(r.string),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            client_instance_id=r.uuid(),
            subscription_id=r.int32(),
            accepted_compression_types=(yield from array_steps(r, r.int8)),
            push_interval_ms=r.int32(),
            telemetry_max_bytes=r.int32(),
            delta_temporality=r.boolean(),
            requested_metrics=(yield from array_steps(r, r.string)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        w.uuid(self.client_instance_id)
        w.int32(self.subscription_id)
        w.array(w.int8, self.accepted_compression_types)
        w.int32(self.push_interval_ms)
        w.int32(self.telemetry_max_bytes)
        w.boolean(self.delta_temporality)
        w.array(w.string, self.requested_metrics)
        w.tags(self.unknown_tags)
