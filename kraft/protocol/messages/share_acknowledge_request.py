"""ShareAcknowledgeRequest, versions 1 to 2, flexible from 1.

Made by tools/protocol.py from schemas/messages/ShareAcknowledgeRequest.json: change that.
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


class AcknowledgePartition(Struct):
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


class AcknowledgeTopic(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic_id: UUID = ZERO_UUID,
        partitions: Iterable[AcknowledgePartition] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_id=r.uuid(),
            partitions=r.structs(AcknowledgePartition.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic_id=r.uuid(),
            partitions=(yield from nested_steps(r, AcknowledgePartition.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.topic_id)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class ShareAcknowledgeRequest(Message):
    __slots__ = ("group_id", "member_id", "share_session_epoch", "is_renew_ack", "topics", "unknown_tags")
    API_KEY = 79
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        is_renew_ack: bool = False,
        topics: Iterable[AcknowledgeTopic] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.is_renew_ack = is_renew_ack
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.nullable_string(),
            member_id=r.nullable_string(),
            share_session_epoch=r.int32(),
            is_renew_ack=r.boolean() if version >= 2 else False,
            topics=r.structs(AcknowledgeTopic.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.nullable_string(),
            member_id=r.nullable_string(),
            share_session_epoch=r.int32(),
            is_renew_ack=r.boolean() if version >= 2 else False,
            topics=(yield from nested_steps(r, AcknowledgeTopic.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_string(self.group_id)
        w.nullable_string(self.member_id)
        w.int32(self.share_session_epoch)
        if version >= 2:
            w.boolean(self.is_renew_ack)
        elif self.is_renew_ack:
            raise absent(self, "is_renew_ack", version)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)
