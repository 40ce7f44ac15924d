"""PushTelemetryRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/PushTelemetryRequest.json: change that.
"""

from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class PushTelemetryRequest(Message):
    __slots__ = ("client_instance_id", "subscription_id", "terminating", "compression_type", "metrics", "unknown_tags")
    API_KEY = 72
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        client_instance_id: UUID = ZERO_UUID,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: bytes = b"",
        unknown_tags: Tags = (),
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            client_instance_id=r.uuid(),
            subscription_id=r.int32(),
            terminating=r.boolean(),
            compression_type=r.int8(),
            metrics=r.blob(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.client_instance_id)
        w.int32(self.subscription_id)
        w.boolean(self.terminating)
        w.int8(self.compression_type)
        w.blob(self.metrics)
        w.tags(self.unknown_tags)
