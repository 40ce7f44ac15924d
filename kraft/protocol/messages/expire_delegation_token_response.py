"""ExpireDelegationTokenResponse, versions 1 to 2, flexible from 2.

Made by tools/protocol.py from schemas/messages/ExpireDelegationTokenResponse.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class ExpireDelegationTokenResponse(Message):
    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms", "unknown_tags")
    API_KEY = 40
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        error_code: int = 0,
        expiry_timestamp_ms: int = 0,
        throttle_time_ms: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            expiry_timestamp_ms=r.int64(),
            throttle_time_ms=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.int64(self.expiry_timestamp_ms)
        w.int32(self.throttle_time_ms)
        w.tags(self.unknown_tags)
