"""CreateDelegationTokenResponse, versions 1 to 3, flexible from 2.

Made by tools/protocol.py from schemas/messages/CreateDelegationTokenResponse.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter


class CreateDelegationTokenResponse(Message):
    __slots__ = (
        "error_code", "principal_type", "principal_name", "token_requester_principal_type",
        "token_requester_principal_name", "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms", "token_id",
        "hmac", "throttle_time_ms", "unknown_tags",
    )
    API_KEY = 38
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp_ms: int = 0,
        expiry_timestamp_ms: int = 0,
        max_timestamp_ms: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        throttle_time_ms: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp_ms = issue_timestamp_ms
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.token_id = token_id
        self.hmac = hmac
        self.throttle_time_ms = throttle_time_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            principal_type=r.string(),
            principal_name=r.string(),
            token_requester_principal_type=r.string() if version >= 3 else "",
            token_requester_principal_name=r.string() if version >= 3 else "",
            issue_timestamp_ms=r.int64(),
            expiry_timestamp_ms=r.int64(),
            max_timestamp_ms=r.int64(),
            token_id=r.string(),
            hmac=r.blob(),
            throttle_time_ms=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.string(self.principal_type)
        w.string(self.principal_name)
        if version >= 3:
            w.string(self.token_requester_principal_type)
        elif self.token_requester_principal_type != "":
            raise absent(self, "token_requester_principal_type", version)
        if version >= 3:
            w.string(self.token_requester_principal_name)
        elif self.token_requester_principal_name != "":
            raise absent(self, "token_requester_principal_name", version)
        w.int64(self.issue_timestamp_ms)
        w.int64(self.expiry_timestamp_ms)
        w.int64(self.max_timestamp_ms)
        w.string(self.token_id)
        w.blob(self.hmac)
        w.int32(self.throttle_time_ms)
        w.tags(self.unknown_tags)
