"""GroupMetadataValue, versions 0 to 4, flexible from 4.

Made by tools/protocol.py from schemas/messages/GroupMetadataValue.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class MemberMetadata(Struct):
    __slots__ = (
        "member_id", "group_instance_id", "client_id", "client_host", "rebalance_timeout", "session_timeout",
        "subscription", "assignment", "unknown_tags",
    )

    def __init__(
        self, *,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout: int = -1,
        session_timeout: int = 0,
        subscription: bytes = b"",
        assignment: bytes = b"",
        unknown_tags: Tags = (),
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout = rebalance_timeout
        self.session_timeout = session_timeout
        self.subscription = subscription
        self.assignment = assignment
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            member_id=r.string(),
            group_instance_id=r.nullable_string() if version >= 3 else None,
            client_id=r.string(),
            client_host=r.string(),
            rebalance_timeout=r.int32() if version >= 1 else -1,
            session_timeout=r.int32(),
            subscription=r.blob(),
            assignment=r.blob(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.member_id)
        if version >= 3:
            w.nullable_string(self.group_instance_id)
        w.string(self.client_id)
        w.string(self.client_host)
        if version >= 1:
            w.int32(self.rebalance_timeout)
        w.int32(self.session_timeout)
        w.blob(self.subscription)
        w.blob(self.assignment)
        w.tags(self.unknown_tags)


class GroupMetadataValue(Message):
    __slots__ = (
        "protocol_type", "generation", "protocol", "leader", "current_state_timestamp", "members", "unknown_tags",
    )
    API_KEY = 2
    VERSIONS = range(5)
    FLEXIBLE_FROM = 4

    def __init__(
        self, *,
        protocol_type: str = "",
        generation: int = 0,
        protocol: str | None = "",
        leader: str | None = "",
        current_state_timestamp: int = -1,
        members: Iterable[MemberMetadata] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.protocol_type = protocol_type
        self.generation = generation
        self.protocol = protocol
        self.leader = leader
        self.current_state_timestamp = current_state_timestamp
        self.members = list(members)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            protocol_type=r.string(),
            generation=r.int32(),
            protocol=r.nullable_string(),
            leader=r.nullable_string(),
            current_state_timestamp=r.int64() if version >= 2 else -1,
            members=r.structs(MemberMetadata.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            protocol_type=r.string(),
            generation=r.int32(),
            protocol=r.nullable_string(),
            leader=r.nullable_string(),
            current_state_timestamp=r.int64() if version >= 2 else -1,
            members=(yield from structs_steps(r, MemberMetadata.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.protocol_type)
        w.int32(self.generation)
        w.nullable_string(self.protocol)
        w.nullable_string(self.leader)
        if version >= 2:
            w.int64(self.current_state_timestamp)
        w.structs(self.members, version)
        w.tags(self.unknown_tags)
