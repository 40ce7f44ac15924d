"""FetchRequest, versions 4 to 18, flexible from 12.

Made by tools/protocol.py from schemas/messages/FetchRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps, structs_steps


class ReplicaState(Struct):
    __slots__ = ("replica_id", "replica_epoch", "unknown_tags")

    def __init__(
        self, *,
        replica_id: int = -1,
        replica_epoch: int = -1,
        unknown_tags: Tags = (),
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            replica_id=r.int32(),
            replica_epoch=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.replica_id)
        w.int64(self.replica_epoch)
        w.tags(self.unknown_tags)


class FetchPartition(Struct):
    __slots__ = (
        "partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "log_start_offset",
        "partition_max_bytes", "replica_directory_id", "high_watermark", "unknown_tags",
    )

    def __init__(
        self, *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: UUID = ZERO_UUID,
        high_watermark: int = 9223372036854775807,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            partition=r.int32(),
            current_leader_epoch=r.int32() if version >= 9 else -1,
            fetch_offset=r.int64(),
            last_fetched_epoch=r.int32() if version >= 12 else -1,
            log_start_offset=r.int64() if version >= 5 else -1,
            partition_max_bytes=r.int32(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0 and version >= 17:
                struct.replica_directory_id = value.uuid()
                value.finish()
            elif tag == 1 and version >= 18:
                struct.high_watermark = value.int64()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition)
        if version >= 9:
            w.int32(self.current_leader_epoch)
        w.int64(self.fetch_offset)
        if version >= 12:
            w.int32(self.last_fetched_epoch)
        elif self.last_fetched_epoch != -1:
            raise absent(self, "last_fetched_epoch", version)
        if version >= 5:
            w.int64(self.log_start_offset)
        w.int32(self.partition_max_bytes)
        tags = list(self.unknown_tags)
        if version >= 17 and self.replica_directory_id != ZERO_UUID:
            value = WireWriter(True)
            value.uuid(self.replica_directory_id)
            tags.append((0, value.finish()))
        if version >= 18 and self.high_watermark != 9223372036854775807:
            value = WireWriter(True)
            value.int64(self.high_watermark)
            tags.append((1, value.finish()))
        w.tags(tags)


class FetchTopic(Struct):
    __slots__ = ("topic", "topic_id", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: Iterable[FetchPartition] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic=r.string() if version <= 12 else "",
            topic_id=r.uuid() if version >= 13 else ZERO_UUID,
            partitions=r.structs(FetchPartition.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic=r.string() if version <= 12 else "",
            topic_id=r.uuid() if version >= 13 else ZERO_UUID,
            partitions=(yield from structs_steps(r, FetchPartition.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version <= 12:
            w.string(self.topic)
        if version >= 13:
            w.uuid(self.topic_id)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class ForgottenTopic(Struct):
    __slots__ = ("topic", "topic_id", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic=r.string() if version <= 12 else "",
            topic_id=r.uuid() if version >= 13 else ZERO_UUID,
            partitions=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic=r.string() if version <= 12 else "",
            topic_id=r.uuid() if version >= 13 else ZERO_UUID,
            partitions=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version <= 12:
            w.string(self.topic)
        if version >= 13:
            w.uuid(self.topic_id)
        w.array(w.int32, self.partitions)
        w.tags(self.unknown_tags)


class FetchRequest(Message):
    __slots__ = (
        "cluster_id", "replica_id", "replica_state", "max_wait_ms", "min_bytes", "max_bytes", "isolation_level",
        "session_id", "session_epoch", "topics", "forgotten_topics_data", "rack_id", "is_follower", "unknown_tags",
    )
    API_KEY = 1
    VERSIONS = range(4, 19)
    FLEXIBLE_FROM = 12

    def __init__(
        self, *,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: ReplicaState | None = None,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: Iterable[FetchTopic] = (),
        forgotten_topics_data: Iterable[ForgottenTopic] = (),
        rack_id: str = "",
        is_follower: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state = ReplicaState() if replica_state is None else replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = list(topics)
        self.forgotten_topics_data = list(forgotten_topics_data)
        self.rack_id = rack_id
        self.is_follower = is_follower
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            replica_id=r.int32() if version <= 14 else -1,
            max_wait_ms=r.int32(),
            min_bytes=r.int32(),
            max_bytes=r.int32(),
            isolation_level=r.int8(),
            session_id=r.int32() if version >= 7 else 0,
            session_epoch=r.int32() if version >= 7 else -1,
            topics=r.structs(FetchTopic.read, version),
            forgotten_topics_data=r.structs(ForgottenTopic.read, version) if version >= 7 else [],
            rack_id=r.string() if version >= 11 else "",
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.cluster_id = value.nullable_string()
                value.finish()
            elif tag == 1 and version >= 15:
                struct.replica_state = ReplicaState.read(value, version)
                value.finish()
            elif tag == 100:
                struct.is_follower = value.boolean()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            replica_id=r.int32() if version <= 14 else -1,
            max_wait_ms=r.int32(),
            min_bytes=r.int32(),
            max_bytes=r.int32(),
            isolation_level=r.int8(),
            session_id=r.int32() if version >= 7 else 0,
            session_epoch=r.int32() if version >= 7 else -1,
            topics=(yield from nested_steps(r, FetchTopic.read_steps, version)),
            forgotten_topics_data=(
                (yield from nested_steps(r, ForgottenTopic.read_steps, version))
                if version >= 7
                else []
            ),
            rack_id=r.string() if version >= 11 else "",
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.cluster_id = value.nullable_string()
                value.finish()
            elif tag == 1 and version >= 15:
                struct.replica_state = ReplicaState.read(value, version)
                value.finish()
            elif tag == 100:
                struct.is_follower = value.boolean()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        if version <= 14:
            w.int32(self.replica_id)
        elif self.replica_id != -1:
            raise absent(self, "replica_id", version)
        w.int32(self.max_wait_ms)
        w.int32(self.min_bytes)
        w.int32(self.max_bytes)
        w.int8(self.isolation_level)
        if version >= 7:
            w.int32(self.session_id)
        if version >= 7:
            w.int32(self.session_epoch)
        w.structs(self.topics, version)
        if version >= 7:
            w.structs(self.forgotten_topics_data, version)
        elif self.forgotten_topics_data != []:
            raise absent(self, "forgotten_topics_data", version)
        if version >= 11:
            w.string(self.rack_id)
        tags = list(self.unknown_tags)
        if version >= 12 and self.cluster_id is not None:
            value = WireWriter(True)
            value.nullable_string(self.cluster_id)
            tags.append((0, value.finish()))
        if self.replica_state != ReplicaState():
            if version < 15:
                raise absent(self, "replica_state", version)
            value = WireWriter(True)
            self.replica_state.write(value, version)
            tags.append((1, value.finish()))
        if version >= 12 and self.is_follower:
            value = WireWriter(True)
            value.boolean(self.is_follower)
            tags.append((100, value.finish()))
        w.tags(tags)
