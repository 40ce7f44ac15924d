"""ConsumerGroupCurrentMemberAssignmentValue, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ConsumerGroupCurrentMemberAssignmentValue.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps, nullable_array_steps


class TopicPartitions(Struct):
    __slots__ = ("topic_id", "partitions", "assignment_epochs", "unknown_tags")

    def __init__(
        self, *,
        topic_id: UUID = ZERO_UUID,
        partitions: Iterable[int] = (),
        assignment_epochs: Iterable[int] | None = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = list(partitions)
        self.assignment_epochs = None if assignment_epochs is None else list(assignment_epochs)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            topic_id=r.uuid(),
            partitions=r.array(r.int32),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.assignment_epochs = value.nullable_array(value.int32)
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            topic_id=r.uuid(),
            partitions=(yield from array_steps(r, r.int32)),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.assignment_epochs = (yield from nullable_array_steps(value, value.int32))
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.topic_id)
        w.array(w.int32, self.partitions)
        tags = list(self.unknown_tags)
        if self.assignment_epochs != []:
            value = WireWriter(True)
            value.nullable_array(value.int32, self.assignment_epochs)
            tags.append((0, value.finish()))
        w.tags(tags)


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    __slots__ = (
        "member_epoch", "previous_member_epoch", "state", "assigned_partitions", "partitions_pending_revocation",
        "unknown_tags",
    )
    API_KEY = 8
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: Iterable[TopicPartitions] = (),
        partitions_pending_revocation: Iterable[TopicPartitions] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions = list(assigned_partitions)
        self.partitions_pending_revocation = list(partitions_pending_revocation)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            member_epoch=r.int32(),
            previous_member_epoch=r.int32(),
            state=r.int8(),
            assigned_partitions=r.structs(TopicPartitions.read, version),
            partitions_pending_revocation=r.structs(TopicPartitions.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            member_epoch=r.int32(),
            previous_member_epoch=r.int32(),
            state=r.int8(),
            assigned_partitions=(yield from nested_steps(r, TopicPartitions.read_steps, version)),
            partitions_pending_revocation=(yield from nested_steps(r, TopicPartitions.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.member_epoch)
        w.int32(self.previous_member_epoch)
        w.int8(self.state)
        w.structs(self.assigned_partitions, version)
        w.structs(self.partitions_pending_revocation, version)
        w.tags(self.unknown_tags)
