"""StreamsGroupDescribeResponse, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/StreamsGroupDescribeResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import (
    array_steps,
    nested_steps,
    nullable_nested_steps,
    nullable_struct_steps,
    structs_steps,
)


class KeyValue(Struct):
    __slots__ = ("key", "value", "unknown_tags")

    def __init__(
        self, *,
        key: str = "",
        value: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.key = key
        self.value = value
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            key=r.string(),
            value=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.key)
        w.string(self.value)
        w.tags(self.unknown_tags)


class TopicInfo(Struct):
    __slots__ = ("name", "partitions", "replication_factor", "topic_configs", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: Iterable[KeyValue] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = list(topic_configs)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.int32(),
            replication_factor=r.int16(),
            topic_configs=r.structs(KeyValue.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=r.int32(),
            replication_factor=r.int16(),
            topic_configs=(yield from structs_steps(r, KeyValue.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.int32(self.partitions)
        w.int16(self.replication_factor)
        w.structs(self.topic_configs, version)
        w.tags(self.unknown_tags)


class Subtopology(Struct):
    __slots__ = (
        "subtopology_id", "source_topics", "repartition_sink_topics", "state_changelog_topics",
        "repartition_source_topics", "unknown_tags",
    )

    def __init__(
        self, *,
        subtopology_id: str = "",
        source_topics: Iterable[str] = (),
        repartition_sink_topics: Iterable[str] = (),
        state_changelog_topics: Iterable[TopicInfo] = (),
        repartition_source_topics: Iterable[TopicInfo] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = list(source_topics)
        self.repartition_sink_topics = list(repartition_sink_topics)
        self.state_changelog_topics = list(state_changelog_topics)
        self.repartition_source_topics = list(repartition_source_topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            subtopology_id=r.string(),
            source_topics=r.array(r.string),
            repartition_sink_topics=r.array(r.string),
            state_changelog_topics=r.structs(TopicInfo.read, version),
            repartition_source_topics=r.structs(TopicInfo.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            subtopology_id=r.string(),
            source_topics=(yield from array_steps(r, r.string)),
            repartition_sink_topics=(yield from array_steps(r, r.string)),
            state_changelog_topics=(yield from nested_steps(r, TopicInfo.read_steps, version)),
            repartition_source_topics=(yield from nested_steps(r, TopicInfo.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.subtopology_id)
        w.array(w.string, self.source_topics)
        w.array(w.string, self.repartition_sink_topics)
        w.structs(self.state_changelog_topics, version)
        w.structs(self.repartition_source_topics, version)
        w.tags(self.unknown_tags)


class Topology(Struct):
    __slots__ = ("epoch", "subtopologies", "unknown_tags")

    def __init__(
        self, *,
        epoch: int = 0,
        subtopologies: Iterable[Subtopology] | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.epoch = epoch
        self.subtopologies = None if subtopologies is None else list(subtopologies)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            epoch=r.int32(),
            subtopologies=r.nullable_structs(Subtopology.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            epoch=r.int32(),
            subtopologies=(yield from nullable_nested_steps(r, Subtopology.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.epoch)
        w.nullable_structs(self.subtopologies, version)
        w.tags(self.unknown_tags)


class Endpoint(Struct):
    __slots__ = ("host", "port", "unknown_tags")

    def __init__(
        self, *,
        host: str = "",
        port: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            host=r.string(),
            port=r.uint16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.host)
        w.uint16(self.port)
        w.tags(self.unknown_tags)


class TaskOffset(Struct):
    __slots__ = ("subtopology_id", "partition", "offset", "unknown_tags")

    def __init__(
        self, *,
        subtopology_id: str = "",
        partition: int = 0,
        offset: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partition = partition
        self.offset = offset
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            subtopology_id=r.string(),
            partition=r.int32(),
            offset=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.subtopology_id)
        w.int32(self.partition)
        w.int64(self.offset)
        w.tags(self.unknown_tags)


class TaskIds(Struct):
    __slots__ = ("subtopology_id", "partitions", "unknown_tags")

    def __init__(
        self, *,
        subtopology_id: str = "",
        partitions: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            subtopology_id=r.string(),
            partitions=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            subtopology_id=r.string(),
            partitions=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.subtopology_id)
        w.array(w.int32, self.partitions)
        w.tags(self.unknown_tags)


class Assignment(Struct):
    __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks", "unknown_tags")

    def __init__(
        self, *,
        active_tasks: Iterable[TaskIds] = (),
        standby_tasks: Iterable[TaskIds] = (),
        warmup_tasks: Iterable[TaskIds] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.active_tasks = list(active_tasks)
        self.standby_tasks = list(standby_tasks)
        self.warmup_tasks = list(warmup_tasks)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            active_tasks=r.structs(TaskIds.read, version),
            standby_tasks=r.structs(TaskIds.read, version),
            warmup_tasks=r.structs(TaskIds.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            active_tasks=(yield from nested_steps(r, TaskIds.read_steps, version)),
            standby_tasks=(yield from nested_steps(r, TaskIds.read_steps, version)),
            warmup_tasks=(yield from nested_steps(r, TaskIds.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.active_tasks, version)
        w.structs(self.standby_tasks, version)
        w.structs(self.warmup_tasks, version)
        w.tags(self.unknown_tags)


class Member(Struct):
    __slots__ = (
        "member_id", "member_epoch", "instance_id", "rack_id", "client_id", "client_host", "topology_epoch",
        "process_id", "user_endpoint", "client_tags", "task_offsets", "task_end_offsets", "assignment",
        "target_assignment", "is_classic", "unknown_tags",
    )

    def __init__(
        self, *,
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: Endpoint | None = None,
        client_tags: Iterable[KeyValue] = (),
        task_offsets: Iterable[TaskOffset] = (),
        task_end_offsets: Iterable[TaskOffset] = (),
        assignment: Assignment | None = None,
        target_assignment: Assignment | None = None,
        is_classic: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = list(client_tags)
        self.task_offsets = list(task_offsets)
        self.task_end_offsets = list(task_end_offsets)
        self.assignment = Assignment() if assignment is None else assignment
        self.target_assignment = Assignment() if target_assignment is None else target_assignment
        self.is_classic = is_classic
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            member_id=r.string(),
            member_epoch=r.int32(),
            instance_id=r.nullable_string(),
            rack_id=r.nullable_string(),
            client_id=r.string(),
            client_host=r.string(),
            topology_epoch=r.int32(),
            process_id=r.string(),
            user_endpoint=r.nullable_struct(Endpoint.read, version),
            client_tags=r.structs(KeyValue.read, version),
            task_offsets=r.structs(TaskOffset.read, version),
            task_end_offsets=r.structs(TaskOffset.read, version),
            assignment=Assignment.read(r, version),
            target_assignment=Assignment.read(r, version),
            is_classic=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            member_id=r.string(),
            member_epoch=r.int32(),
            instance_id=r.nullable_string(),
            rack_id=r.nullable_string(),
            client_id=r.string(),
            client_host=r.string(),
            topology_epoch=r.int32(),
            process_id=r.string(),
            user_endpoint=r.nullable_struct(Endpoint.read, version),
            client_tags=(yield from structs_steps(r, KeyValue.read, version)),
            task_offsets=(yield from structs_steps(r, TaskOffset.read, version)),
            task_end_offsets=(yield from structs_steps(r, TaskOffset.read, version)),
            assignment=(yield from Assignment.read_steps(r, version)),
            target_assignment=(yield from Assignment.read_steps(r, version)),
            is_classic=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.member_id)
        w.int32(self.member_epoch)
        w.nullable_string(self.instance_id)
        w.nullable_string(self.rack_id)
        w.string(self.client_id)
        w.string(self.client_host)
        w.int32(self.topology_epoch)
        w.string(self.process_id)
        w.nullable_struct(self.user_endpoint, version)
        w.structs(self.client_tags, version)
        w.structs(self.task_offsets, version)
        w.structs(self.task_end_offsets, version)
        self.assignment.write(w, version)
        self.target_assignment.write(w, version)
        w.boolean(self.is_classic)
        w.tags(self.unknown_tags)


class DescribedGroup(Struct):
    __slots__ = (
        "error_code", "error_message", "group_id", "group_state", "group_epoch", "assignment_epoch", "topology",
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
        topology: Topology | None = None,
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
        self.topology = topology
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
            topology=r.nullable_struct(Topology.read, version),
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
            topology=(yield from nullable_struct_steps(r, Topology.read_steps, version)),
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
        w.nullable_struct(self.topology, version)
        w.structs(self.members, version)
        w.int32(self.authorized_operations)
        w.tags(self.unknown_tags)


class StreamsGroupDescribeResponse(Message):
    __slots__ = ("throttle_time_ms", "groups", "unknown_tags")
    API_KEY = 89
    VERSIONS = range(1)
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
