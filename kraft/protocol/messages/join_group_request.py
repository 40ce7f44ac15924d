"""JoinGroupRequest, versions 0 to 9, flexible from 6.

Made by tools/protocol.py from schemas/messages/JoinGroupRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class JoinGroupRequestProtocol(Struct):
    __slots__ = ("name", "metadata", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        metadata: bytes = b"",
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.metadata = metadata
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            metadata=r.blob(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.blob(self.metadata)
        w.tags(self.unknown_tags)


class JoinGroupRequest(Message):
    __slots__ = (
        "group_id", "session_timeout_ms", "rebalance_timeout_ms", "member_id", "group_instance_id", "protocol_type",
        "protocols", "reason", "unknown_tags",
    )
    API_KEY = 11
    VERSIONS = range(10)
    FLEXIBLE_FROM = 6

    def __init__(
        self, *,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: Iterable[JoinGroupRequestProtocol] = (),
        reason: str | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = list(protocols)
        self.reason = reason
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            session_timeout_ms=r.int32(),
            rebalance_timeout_ms=r.int32() if version >= 1 else -1,
            member_id=r.string(),
            group_instance_id=r.nullable_string() if version >= 5 else None,
            protocol_type=r.string(),
            protocols=r.structs(JoinGroupRequestProtocol.read, version),
            reason=r.nullable_string() if version >= 8 else None,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string(),
            session_timeout_ms=r.int32(),
            rebalance_timeout_ms=r.int32() if version >= 1 else -1,
            member_id=r.string(),
            group_instance_id=r.nullable_string() if version >= 5 else None,
            protocol_type=r.string(),
            protocols=(yield from structs_steps(r, JoinGroupRequestProtocol.read, version)),
            reason=r.nullable_string() if version >= 8 else None,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.int32(self.session_timeout_ms)
        if version >= 1:
            w.int32(self.rebalance_timeout_ms)
        w.string(self.member_id)
        if version >= 5:
            w.nullable_string(self.group_instance_id)
        elif self.group_instance_id is not None:
            raise absent(self, "group_instance_id", version)
        w.string(self.protocol_type)
        w.structs(self.protocols, version)
        if version >= 8:
            w.nullable_string(self.reason)
        w.tags(self.unknown_tags)
