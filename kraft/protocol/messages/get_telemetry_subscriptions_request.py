"""GetTelemetrySubscriptionsRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/GetTelemetrySubscriptionsRequest.json: change that.
"""

from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class GetTelemetrySubscriptionsRequest(Message):
    __slots__ = ("client_instance_id", "unknown_tags")
    API_KEY = 71
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        client_instance_id: UUID = ZERO_UUID,
        unknown_tags: Tags = (),
    ) -> None:
        self.client_instance_id = client_instance_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            client_instance_id=r.uuid(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.client_instance_id)
        w.tags(self.unknown_tags)
