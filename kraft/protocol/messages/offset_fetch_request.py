"""OffsetFetchRequest, versions 1 to 10, flexible from 6.

Made by tools/protocol.py from schemas/messages/OffsetFetchRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps, nullable_nested_steps


class OffsetFetchRequestTopic(Struct):
    __slots__ = ("name", "partition_indexes", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partition_indexes: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partition_indexes = list(partition_indexes)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partition_indexes=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partition_indexes=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.array(w.int32, self.partition_indexes)
        w.tags(self.unknown_tags)


class OffsetFetchRequestTopics(Struct):
    __slots__ = ("name", "topic_id", "partition_indexes", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partition_indexes: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes = list(partition_indexes)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string() if version <= 9 else "",
            topic_id=r.uuid() if version >= 10 else ZERO_UUID,
            partition_indexes=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string() if version <= 9 else "",
            topic_id=r.uuid() if version >= 10 else ZERO_UUID,
            partition_indexes=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version <= 9:
            w.string(self.name)
        if version >= 10:
            w.uuid(self.topic_id)
        w.array(w.int32, self.partition_indexes)
        w.tags(self.unknown_tags)


class OffsetFetchRequestGroup(Struct):
    __slots__ = ("group_id", "member_id", "member_epoch", "topics", "unknown_tags")

    def __init__(
        self, *,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: Iterable[OffsetFetchRequestTopics] | None = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = None if topics is None else list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            member_id=r.nullable_string() if version >= 9 else None,
            member_epoch=r.int32() if version >= 9 else -1,
            topics=r.nullable_structs(OffsetFetchRequestTopics.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string(),
            member_id=r.nullable_string() if version >= 9 else None,
            member_epoch=r.int32() if version >= 9 else -1,
            topics=(yield from nullable_nested_steps(r, OffsetFetchRequestTopics.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        if version >= 9:
            w.nullable_string(self.member_id)
        if version >= 9:
            w.int32(self.member_epoch)
        w.nullable_structs(self.topics, version)
        w.tags(self.unknown_tags)


class OffsetFetchRequest(Message):
    __slots__ = ("group_id", "topics", "groups", "require_stable", "unknown_tags")
    API_KEY = 9
    VERSIONS = range(1, 11)
    FLEXIBLE_FROM = 6

    def __init__(
        self, *,
        group_id: str = "",
        topics: Iterable[OffsetFetchRequestTopic] | None = (),
        groups: Iterable[OffsetFetchRequestGroup] = (),
        require_stable: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.topics = None if topics is None else list(topics)
        self.groups = list(groups)
        self.require_stable = require_stable
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string() if version <= 7 else "",
            topics=(
                (r.nullable_structs(OffsetFetchRequestTopic.read, version)
                if version >= 2
                else r.structs(OffsetFetchRequestTopic.read, version))
                if version <= 7
                else []
            ),
            groups=r.structs(OffsetFetchRequestGroup.read, version) if version >= 8 else [],
            require_stable=r.boolean() if version >= 7 else False,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string() if version <= 7 else "",
            topics=(
                ((yield from nullable_nested_steps(r, OffsetFetchRequestTopic.read_steps, version))
                if version >= 2
                else (yield from nested_steps(r, OffsetFetchRequestTopic.read_steps, version)))
                if version <= 7
                else []
            ),
            groups=(yield from nested_steps(r, OffsetFetchRequestGroup.read_steps, version)) if version >= 8 else [],
            require_stable=r.boolean() if version >= 7 else False,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version <= 7:
            w.string(self.group_id)
        elif self.group_id != "":
            raise absent(self, "group_id", version)
        if version <= 7:
            if version >= 2:
                w.nullable_structs(self.topics, version)
            else:
                w.structs(self.topics, version)
        elif self.topics != []:
            raise absent(self, "topics", version)
        if version >= 8:
            w.structs(self.groups, version)
        elif self.groups != []:
            raise absent(self, "groups", version)
        if version >= 7:
            w.boolean(self.require_stable)
        elif self.require_stable:
            raise absent(self, "require_stable", version)
        w.tags(self.unknown_tags)
