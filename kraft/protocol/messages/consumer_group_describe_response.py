"""ConsumerGroupDescribeResponse, versions 0 to 1, flexible from 0.

Made by tools/protocol.py from schemas/messages/ConsumerGroupDescribeResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps


class TopicPartitions(Struct):
    __slots__ = ("topic_id", "topic_name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic_id: UUID = ZERO_UUID,
        topic_name: str = "",
        partitions: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_id=r.uuid(),
            topic_name=r.string(),
            partitions=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic_id=r.uuid(),
            topic_name=r.string(),
            partitions=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.topic_id)
        w.string(self.topic_name)
        w.array(w.int32, self.partitions)
        w.tags(self.unknown_tags)


class Assignment(Struct):
    __slots__ = ("topic_partitions", "unknown_tags")

    def __init__(
        self, *,
        topic_partitions: Iterable[TopicPartitions] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_partitions = list(topic_partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_partitions=r.structs(TopicPartitions.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic_partitions=(yield from nested_steps(r, TopicPartitions.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.topic_partitions, version)
        w.tags(self.unknown_tags)


class Member(Struct):
    __slots__ = (
        "member_id", "instance_id", "rack_id", "member_epoch", "client_id", "client_host", "subscribed_topic_names",
        "subscribed_topic_regex", "assignment", "target_assignment", "member_type", "unknown_tags",
    )

    def __init__(
        self, *,
        member_id: str = "",
        instance_id: str | None = None,
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: Iterable[str] = (),
        subscribed_topic_regex: str | None = None,
        assignment: Assignment | None = None,
        target_assignment: Assignment | None = None,
        member_type: int = -1,
        unknown_tags: Tags = (),
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = list(subscribed_topic_names)
        self.subscribed_topic_regex = subscribed_topic_regex
        self.assignment = Assignment() if assignment is None else assignment
        self.target_assignment = Assignment() if target_assignment is None else target_assignment
        self.member_type = member_type
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            member_id=r.string(),
            instance_id=r.nullable_string(),
            rack_id=r.nullable_string(),
            member_epoch=r.int32(),
            client_id=r.string(),
            client_host=r.string(),
            subscribed_topic_names=r.array(r.string),
            subscribed_topic_regex=r.nullable_string(),
            assignment=Assignment.read(r, version),
            target_assignment=Assignment.read(r, version),
            member_type=r.int8() if version >= 1 else -1,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            member_id=r.string(),
            instance_id=r.nullable_string(),
            rack_id=r.nullable_string(),
            member_epoch=r.int32(),
            client_id=r.string(),
            client_host=r.string(),
            subscribed_topic_names=(yield from array_steps(r, r.string)),
            subscribed_topic_regex=r.nullable_string(),
            assignment=(yield from Assignment.read_steps(r, version)),
            target_assignment=(yield from Assignment.read_steps(r, version)),
            member_type=r.int8() if version >= 1 else -1,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.member_id)
        w.nullable_string(self.instance_id)
        w.nullable_string(self.rack_id)
        w.int32(self.member_epoch)
        w.string(self.client_id)
        w.string(self.client_host)
        w.array(w.string, self.subscribed_topic_names)
        w.nullable_string(self.subscribed_topic_regex)
        self.assignment.write(w, version)
        self.target_assignment.write(w, version)
        if version >= 1:
            w.int8(self.member_type)
        w.tags(self.unknown_tags)


class DescribedGroup(Struct):
    __slots__ = (
        "error_code", "error_message", "group_id", "group_state", "group_epoch", "assignment_epoch", "assignor_name",
        "members", "authorized_operations", "unknown_tags",
    )

    def __init__(
        self, *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: Iterable[Member] = (),
        authorized_operations: int = -2147483648,
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members = list(members)
        self.authorized_operations = authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            error_code=r.int16(),
            error_message=r.nullable_string(),
            group_id=r.string(),
            group_state=r.string(),
            group_epoch=r.int32(),
            assignment_epoch=r.int32(),
            assignor_name=r.string(),
            members=r.structs(Member.read, version),
            authorized_operations=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            error_code=r.int16(),
            error_message=r.nullable_string(),
            group_id=r.string(),
            group_state=r.string(),
            group_epoch=r.int32(),
            assignment_epoch=r.int32(),
            assignor_name=r.string(),
            members=(yield from nested_steps(r, Member.read_steps, version)),
            authorized_operations=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.string(self.group_id)
        w.string(self.group_state)
        w.int32(self.group_epoch)
        w.int32(self.assignment_epoch)
        w.string(self.assignor_name)
        w.structs(self.members, version)
        w.int32(self.authorized_operations)
        w.tags(self.unknown_tags)


class ConsumerGroupDescribeResponse(Message):
    __slots__ = ("throttle_time_ms", "groups", "unknown_tags")
    API_KEY = 69
    VERSIONS = range(2)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        groups: Iterable[DescribedGroup] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = list(groups)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            groups=r.structs(DescribedGroup.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            groups=(yield from nested_steps(r, DescribedGroup.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.structs(self.groups, version)
        w.tags(self.unknown_tags)
