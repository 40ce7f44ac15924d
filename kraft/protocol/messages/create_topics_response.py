"""CreateTopicsResponse, versions 2 to 7, flexible from 5.

Made by tools/protocol.py from schemas/messages/CreateTopicsResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, nullable_structs_steps


class CreatableTopicConfigs(Struct):
    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            value=r.nullable_string(),
            read_only=r.boolean(),
            config_source=r.int8(),
            is_sensitive=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.nullable_string(self.value)
        w.boolean(self.read_only)
        w.int8(self.config_source)
        w.boolean(self.is_sensitive)
        w.tags(self.unknown_tags)


class CreatableTopicResult(Struct):
    __slots__ = (
        "name", "topic_id", "error_code", "error_message", "topic_config_error_code", "num_partitions",
        "replication_factor", "configs", "unknown_tags",
    )

    def __init__(
        self, *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = "",
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: Iterable[CreatableTopicConfigs] | None = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs = None if configs is None else list(configs)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            name=r.string(),
            topic_id=r.uuid() if version >= 7 else ZERO_UUID,
            error_code=r.int16(),
            error_message=r.nullable_string(),
            num_partitions=r.int32() if version >= 5 else -1,
            replication_factor=r.int16() if version >= 5 else -1,
            configs=r.nullable_structs(CreatableTopicConfigs.read, version) if version >= 5 else [],
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.topic_config_error_code = value.int16()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            name=r.string(),
            topic_id=r.uuid() if version >= 7 else ZERO_UUID,
            error_code=r.int16(),
            error_message=r.nullable_string(),
            num_partitions=r.int32() if version >= 5 else -1,
            replication_factor=r.int16() if version >= 5 else -1,
            configs=(yield from nullable_structs_steps(r, CreatableTopicConfigs.read, version)) if version >= 5 else [],
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.topic_config_error_code = value.int16()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        if version >= 7:
            w.uuid(self.topic_id)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        if version >= 5:
            w.int32(self.num_partitions)
        if version >= 5:
            w.int16(self.replication_factor)
        if version >= 5:
            w.nullable_structs(self.configs, version)
        tags = list(self.unknown_tags)
        if version >= 5 and self.topic_config_error_code != 0:
            value = WireWriter(True)
            value.int16(self.topic_config_error_code)
            tags.append((0, value.finish()))
        w.tags(tags)


class CreateTopicsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "unknown_tags")
    API_KEY = 19
    VERSIONS = range(2, 8)
    FLEXIBLE_FROM = 5

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        topics: Iterable[CreatableTopicResult] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            topics=r.structs(CreatableTopicResult.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            topics=(yield from nested_steps(r, CreatableTopicResult.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
