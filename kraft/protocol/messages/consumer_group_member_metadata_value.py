"""ConsumerGroupMemberMetadataValue, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ConsumerGroupMemberMetadataValue.json: change that.
"""

from collections.abc import Generator, Iterable
from types import EllipsisType
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, structs_steps, tagged_struct_steps


class ClassicProtocol(Struct):
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


class ClassicMemberMetadata(Struct):
    __slots__ = ("session_timeout_ms", "supported_protocols", "unknown_tags")

    def __init__(
        self, *,
        session_timeout_ms: int = 0,
        supported_protocols: Iterable[ClassicProtocol] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.supported_protocols = list(supported_protocols)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            session_timeout_ms=r.int32(),
            supported_protocols=r.structs(ClassicProtocol.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            session_timeout_ms=r.int32(),
            supported_protocols=(yield from structs_steps(r, ClassicProtocol.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.session_timeout_ms)
        w.structs(self.supported_protocols, version)
        w.tags(self.unknown_tags)


class ConsumerGroupMemberMetadataValue(Message):
    __slots__ = (
        "instance_id", "rack_id", "client_id", "client_host", "subscribed_topic_names", "subscribed_topic_regex",
        "rebalance_timeout_ms", "server_assignor", "classic_member_metadata", "unknown_tags",
    )
    API_KEY = 5
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        instance_id: str | None = "",
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: Iterable[str] = (),
        subscribed_topic_regex: str | None = "",
        rebalance_timeout_ms: int = -1,
        server_assignor: str | None = "",
        classic_member_metadata: ClassicMemberMetadata | EllipsisType | None = ...,
        unknown_tags: Tags = (),
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = list(subscribed_topic_names)
        self.subscribed_topic_regex = subscribed_topic_regex
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.server_assignor = server_assignor
        self.classic_member_metadata = (
            ClassicMemberMetadata() if classic_member_metadata is ... else classic_member_metadata
        )
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            instance_id=r.nullable_string(),
            rack_id=r.nullable_string(),
            client_id=r.string(),
            client_host=r.string(),
            subscribed_topic_names=r.array(r.string),
            subscribed_topic_regex=r.nullable_string(),
            rebalance_timeout_ms=r.int32(),
            server_assignor=r.nullable_string(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.classic_member_metadata = value.tagged_struct(ClassicMemberMetadata.read, version)
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            instance_id=r.nullable_string(),
            rack_id=r.nullable_string(),
            client_id=r.string(),
            client_host=r.string(),
            subscribed_topic_names=(yield from array_steps(r, r.string)),
            subscribed_topic_regex=r.nullable_string(),
            rebalance_timeout_ms=r.int32(),
            server_assignor=r.nullable_string(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.classic_member_metadata = (yield from tagged_struct_steps(
                    value, ClassicMemberMetadata.read_steps, version))
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_string(self.instance_id)
        w.nullable_string(self.rack_id)
        w.string(self.client_id)
        w.string(self.client_host)
        w.array(w.string, self.subscribed_topic_names)
        w.nullable_string(self.subscribed_topic_regex)
        w.int32(self.rebalance_timeout_ms)
        w.nullable_string(self.server_assignor)
        tags = list(self.unknown_tags)
        if self.classic_member_metadata != ClassicMemberMetadata():
            value = WireWriter(True)
            value.tagged_struct(self.classic_member_metadata, version)
            tags.append((0, value.finish()))
        w.tags(tags)
