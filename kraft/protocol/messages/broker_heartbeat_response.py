"""BrokerHeartbeatResponse, versions 0 to 2, flexible from 0.

Made by tools/protocol.py from schemas/messages/BrokerHeartbeatResponse.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class BrokerHeartbeatResponse(Message):
    __slots__ = (
        "throttle_time_ms", "error_code", "is_caught_up", "is_fenced", "should_shut_down", "active_controller_id",
        "lease_end_time_ms", "unknown_tags",
    )
    API_KEY = 63
    VERSIONS = range(3)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        is_caught_up: bool = False,
        is_fenced: bool = True,
        should_shut_down: bool = False,
        active_controller_id: int = -1,
        lease_end_time_ms: int = -1,
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.is_caught_up = is_caught_up
        self.is_fenced = is_fenced
        self.should_shut_down = should_shut_down
        self.active_controller_id = active_controller_id
        self.lease_end_time_ms = lease_end_time_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            is_caught_up=r.boolean(),
            is_fenced=r.boolean(),
            should_shut_down=r.boolean(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 100:
                struct.active_controller_id = value.int32()
                value.finish()
            elif tag == 101:
                struct.lease_end_time_ms = value.int64()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        w.boolean(self.is_caught_up)
        w.boolean(self.is_fenced)
        w.boolean(self.should_shut_down)
        tags = list(self.unknown_tags)
        if self.active_controller_id != -1:
            value = WireWriter(True)
            value.int32(self.active_controller_id)
            tags.append((100, value.finish()))
        if self.lease_end_time_ms != -1:
            value = WireWriter(True)
            value.int64(self.lease_end_time_ms)
            tags.append((101, value.finish()))
        w.tags(tags)
