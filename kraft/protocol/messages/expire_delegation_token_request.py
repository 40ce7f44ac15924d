"""ExpireDelegationTokenRequest, versions 1 to 2, flexible from 2.

Made by tools/protocol.py from schemas/messages/ExpireDelegationTokenRequest.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class ExpireDelegationTokenRequest(Message):
    __slots__ = ("hmac", "expiry_time_period_ms", "unknown_tags")
    API_KEY = 40
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        hmac: bytes = b"",
        expiry_time_period_ms: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.hmac = hmac
        self.expiry_time_period_ms = expiry_time_period_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            hmac=r.blob(),
            expiry_time_period_ms=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.blob(self.hmac)
        w.int64(self.expiry_time_period_ms)
        w.tags(self.unknown_tags)
