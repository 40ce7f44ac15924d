"""DescribeDelegationTokenResponse, versions 1 to 3, flexible from 2.

Made by tools/protocol.py from schemas/messages/DescribeDelegationTokenResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, structs_steps


class DescribedDelegationTokenRenewer(Struct):
    __slots__ = ("principal_type", "principal_name", "unknown_tags")

    def __init__(
        self, *,
        principal_type: str = "",
        principal_name: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            principal_type=r.string(),
            principal_name=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.principal_type)
        w.string(self.principal_name)
        w.tags(self.unknown_tags)


class DescribedDelegationToken(Struct):
    __slots__ = (
        "principal_type", "principal_name", "token_requester_principal_type", "token_requester_principal_name",
        "issue_timestamp", "expiry_timestamp", "max_timestamp", "token_id", "hmac", "renewers", "unknown_tags",
    )

    def __init__(
        self, *,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        renewers: Iterable[DescribedDelegationTokenRenewer] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp = issue_timestamp
        self.expiry_timestamp = expiry_timestamp
        self.max_timestamp = max_timestamp
        self.token_id = token_id
        self.hmac = hmac
        self.renewers = list(renewers)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            principal_type=r.string(),
            principal_name=r.string(),
            token_requester_principal_type=r.string() if version >= 3 else "",
            token_requester_principal_name=r.string() if version >= 3 else "",
            issue_timestamp=r.int64(),
            expiry_timestamp=r.int64(),
            max_timestamp=r.int64(),
            token_id=r.string(),
            hmac=r.blob(),
            renewers=r.structs(DescribedDelegationTokenRenewer.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            principal_type=r.string(),
            principal_name=r.string(),
            token_requester_principal_type=r.string() if version >= 3 else "",
            token_requester_principal_name=r.string() if version >= 3 else "",
            issue_timestamp=r.int64(),
            expiry_timestamp=r.int64(),
            max_timestamp=r.int64(),
            token_id=r.string(),
            hmac=r.blob(),
            renewers=(yield from structs_steps(r, DescribedDelegationTokenRenewer.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
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
        w.int64(self.issue_timestamp)
        w.int64(self.expiry_timestamp)
        w.int64(self.max_timestamp)
        w.string(self.token_id)
        w.blob(self.hmac)
        w.structs(self.renewers, version)
        w.tags(self.unknown_tags)


class DescribeDelegationTokenResponse(Message):
    __slots__ = ("error_code", "tokens", "throttle_time_ms", "unknown_tags")
    API_KEY = 41
    VERSIONS = range(1, 4)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        error_code: int = 0,
        tokens: Iterable[DescribedDelegationToken] = (),
        throttle_time_ms: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.tokens = list(tokens)
        self.throttle_time_ms = throttle_time_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            tokens=r.structs(DescribedDelegationToken.read, version),
            throttle_time_ms=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            tokens=(yield from nested_steps(r, DescribedDelegationToken.read_steps, version)),
            throttle_time_ms=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.structs(self.tokens, version)
        w.int32(self.throttle_time_ms)
        w.tags(self.unknown_tags)
