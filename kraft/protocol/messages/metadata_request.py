"""MetadataRequest, versions 0 to 13, flexible from 9.

Made by tools/protocol.py from schemas/messages/MetadataRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nullable_structs_steps, structs_steps


class MetadataRequestTopic(Struct):
    __slots__ = ("topic_id", "name", "unknown_tags")

    def __init__(
        self, *,
        topic_id: UUID = ZERO_UUID,
        name: str | None = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_id=r.uuid() if version >= 10 else ZERO_UUID,
            name=r.nullable_string() if version >= 10 else r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 10:
            w.uuid(self.topic_id)
        if version >= 10:
            w.nullable_string(self.name)
        else:
            w.string(self.name)
        w.tags(self.unknown_tags)


class MetadataRequest(Message):
    __slots__ = (
        "topics", "allow_auto_topic_creation", "include_cluster_authorized_operations",
        "include_topic_authorized_operations", "unknown_tags",
    )
    API_KEY = 3
    VERSIONS = range(14)
    FLEXIBLE_FROM = 9

    def __init__(
        self, *,
        topics: Iterable[MetadataRequestTopic] | None = (),
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.topics = None if topics is None else list(topics)
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topics=(
                r.nullable_structs(MetadataRequestTopic.read, version)
                if version >= 1
                else r.structs(MetadataRequestTopic.read, version)
            ),
            allow_auto_topic_creation=r.boolean() if version >= 4 else True,
            include_cluster_authorized_operations=r.boolean() if 8 <= version <= 10 else False,
            include_topic_authorized_operations=r.boolean() if version >= 8 else False,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topics=(
                (yield from nullable_structs_steps(r, MetadataRequestTopic.read, version))
                if version >= 1
                else (yield from structs_steps(r, MetadataRequestTopic.read, version))
            ),
            allow_auto_topic_creation=r.boolean() if version >= 4 else True,
            include_cluster_authorized_operations=r.boolean() if 8 <= version <= 10 else False,
            include_topic_authorized_operations=r.boolean() if version >= 8 else False,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version >= 1:
            w.nullable_structs(self.topics, version)
        else:
            w.structs(self.topics, version)
        if version >= 4:
            w.boolean(self.allow_auto_topic_creation)
        elif not self.allow_auto_topic_creation:
            raise absent(self, "allow_auto_topic_creation", version)
        if 8 <= version <= 10:
            w.boolean(self.include_cluster_authorized_operations)
        elif self.include_cluster_authorized_operations:
            raise absent(self, "include_cluster_authorized_operations", version)
        if version >= 8:
            w.boolean(self.include_topic_authorized_operations)
        elif self.include_topic_authorized_operations:
            raise absent(self, "include_topic_authorized_operations", version)
        w.tags(self.unknown_tags)
