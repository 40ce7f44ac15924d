"""SyncGroupResponse, versions 0 to 5, flexible from 4.

Made by tools/protocol.py from schemas/messages/SyncGroupResponse.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class SyncGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment", "unknown_tags")
    API_KEY = 14
    VERSIONS = range(6)
    FLEXIBLE_FROM = 4

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: bytes = b"",
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32() if version >= 1 else 0,
            error_code=r.int16(),
            protocol_type=r.nullable_string() if version >= 5 else None,
            protocol_name=r.nullable_string() if version >= 5 else None,
            assignment=r.blob(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 1:
            w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        if version >= 5:
            w.nullable_string(self.protocol_type)
        if version >= 5:
            w.nullable_string(self.protocol_name)
        w.blob(self.assignment)
        w.tags(self.unknown_tags)
