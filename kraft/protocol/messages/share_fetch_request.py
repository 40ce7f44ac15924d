"""ShareFetchRequest, versions 1 to 2, flexible from 1.

Made by tools/protocol.py from schemas/messages/ShareFetchRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps


class AcknowledgementBatch(Struct):
    __slots__ = ("first_offset", "last_offset", "acknowledge_types", "unknown_tags")

    def __init__(
        self, *,
        first_offset: int = 0,
        last_offset: int = 0,
        acknowledge_types: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types = list(acknowledge_types)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            first_offset=r.int64(),
            last_offset=r.int64(),
            acknowledge_types=r.array(r.int8),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            first_offset=r.int64(),
            last_offset=r.int64(),
            acknowledge_types=(yield from array_steps(r, r.int8)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int64(self.first_offset)
        w.int64(self.last_offset)
        w.array(w.int8, self.acknowledge_types)
        w.tags(self.unknown_tags)


class FetchPartition(Struct):
    __slots__ = ("partition_index", "acknowledgement_batches", "unknown_tags")

    def __init__(
        self, *,
        partition_index: int = 0,
        acknowledgement_batches: Iterable[AcknowledgementBatch] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches = list(acknowledgement_batches)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            partition_index=r.int32(),
            acknowledgement_batches=r.structs(AcknowledgementBatch.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            partition_index=r.int32(),
            acknowledgement_batches=(yield from nested_steps(r, AcknowledgementBatch.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.structs(self.acknowledgement_batches, version)
        w.tags(self.unknown_tags)


class FetchTopic(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic_id: UUID = ZERO_UUID,
        partitions: Iterable[FetchPartition] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_id=r.uuid(),
            partitions=r.structs(FetchPartition.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic_id=r.uuid(),
            partitions=(yield from nested_steps(r, FetchPartition.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.topic_id)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class ForgottenTopic(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic_id: UUID = ZERO_UUID,
        partitions: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_id=r.uuid(),
            partitions=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic_id=r.uuid(),
            partitions=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.topic_id)
        w.array(w.int32, self.partitions)
        w.tags(self.unknown_tags)


class ShareFetchRequest(Message):
    __slots__ = (
        "group_id", "member_id", "share_session_epoch", "max_wait_ms", "min_bytes", "max_bytes", "max_records",
        "batch_size", "share_acquire_mode", "is_renew_ack", "topics", "forgotten_topics_data", "unknown_tags",
    )
    API_KEY = 78
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        max_records: int = 0,
        batch_size: int = 0,
        share_acquire_mode: int = 0,
        is_renew_ack: bool = False,
        topics: Iterable[FetchTopic] = (),
        forgotten_topics_data: Iterable[ForgottenTopic] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.batch_size = batch_size
        self.share_acquire_mode = share_acquire_mode
        self.is_renew_ack = is_renew_ack
        self.topics = list(topics)
        self.forgotten_topics_data = list(forgotten_topics_data)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.nullable_string(),
            member_id=r.nullable_string(),
            share_session_epoch=r.int32(),
            max_wait_ms=r.int32(),
            min_bytes=r.int32(),
            max_bytes=r.int32(),
            max_records=r.int32(),
            batch_size=r.int32(),
            share_acquire_mode=r.int8() if version >= 2 else 0,
            is_renew_ack=r.boolean() if version >= 2 else False,
            topics=r.structs(FetchTopic.read, version),
            forgotten_topics_data=r.structs(ForgottenTopic.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.nullable_string(),
            member_id=r.nullable_string(),
            share_session_epoch=r.int32(),
            max_wait_ms=r.int32(),
            min_bytes=r.int32(),
            max_bytes=r.int32(),
            max_records=r.int32(),
            batch_size=r.int32(),
            share_acquire_mode=r.int8() if version >= 2 else 0,
            is_renew_ack=r.boolean() if version >= 2 else False,
            topics=(yield from nested_steps(r, FetchTopic.read_steps, version)),
            forgotten_topics_data=(yield from nested_steps(r, ForgottenTopic.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_string(self.group_id)
        w.nullable_string(self.member_id)
        w.int32(self.share_session_epoch)
        w.int32(self.max_wait_ms)
        w.int32(self.min_bytes)
        w.int32(self.max_bytes)
        w.int32(self.max_records)
        w.int32(self.batch_size)
        if version >= 2:
            w.int8(self.share_acquire_mode)
        if version >= 2:
            w.boolean(self.is_renew_ack)
        elif self.is_renew_ack:
            raise absent(self, "is_renew_ack", version)
        w.structs(self.topics, version)
        w.structs(self.forgotten_topics_data, version)
        w.tags(self.unknown_tags)
