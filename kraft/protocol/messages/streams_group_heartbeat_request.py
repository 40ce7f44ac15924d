"""StreamsGroupHeartbeatRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/StreamsGroupHeartbeatRequest.json: change that.
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
    nullable_structs_steps,
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


class CopartitionGroup(Struct):
    __slots__ = ("source_topics", "source_topic_regex", "repartition_source_topics", "unknown_tags")

    def __init__(
        self, *,
        source_topics: Iterable[int] = (),
        source_topic_regex: Iterable[int] = (),
        repartition_source_topics: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.source_topics = list(source_topics)
        self.source_topic_regex = list(source_topic_regex)
        self.repartition_source_topics = list(repartition_source_topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            source_topics=r.array(r.int16),
            source_topic_regex=r.array(r.int16),
            repartition_source_topics=r.array(r.int16),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            source_topics=(yield from array_steps(r, r.int16)),
            source_topic_regex=(yield from array_steps(r, r.int16)),
            repartition_source_topics=(yield from array_steps(r, r.int16)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.array(w.int16, self.source_topics)
        w.array(w.int16, self.source_topic_regex)
        w.array(w.int16, self.repartition_source_topics)
        w.tags(self.unknown_tags)


class Subtopology(Struct):
    __slots__ = (
        "subtopology_id", "source_topics", "source_topic_regex", "state_changelog_topics", "repartition_sink_topics",
        "repartition_source_topics", "copartition_groups", "unknown_tags",
    )

    def __init__(
        self, *,
        subtopology_id: str = "",
        source_topics: Iterable[str] = (),
        source_topic_regex: Iterable[str] = (),
        state_changelog_topics: Iterable[TopicInfo] = (),
        repartition_sink_topics: Iterable[str] = (),
        repartition_source_topics: Iterable[TopicInfo] = (),
        copartition_groups: Iterable[CopartitionGroup] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = list(source_topics)
        self.source_topic_regex = list(source_topic_regex)
        self.state_changelog_topics = list(state_changelog_topics)
        self.repartition_sink_topics = list(repartition_sink_topics)
        self.repartition_source_topics = list(repartition_source_topics)
        self.copartition_groups = list(copartition_groups)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            subtopology_id=r.string(),
            source_topics=r.array(r.string),
            source_topic_regex=r.array(r.string),
            state_changelog_topics=r.structs(TopicInfo.read, version),
            repartition_sink_topics=r.array(r.string),
            repartition_source_topics=r.structs(TopicInfo.read, version),
            copartition_groups=r.structs(CopartitionGroup.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            subtopology_id=r.string(),
            source_topics=(yield from array_steps(r, r.string)),
            source_topic_regex=(yield from array_steps(r, r.string)),
            state_changelog_topics=(yield from nested_steps(r, TopicInfo.read_steps, version)),
            repartition_sink_topics=(yield from array_steps(r, r.string)),
            repartition_source_topics=(yield from nested_steps(r, TopicInfo.read_steps, version)),
            copartition_groups=(yield from nested_steps(r, CopartitionGroup.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.subtopology_id)
        w.array(w.string, self.source_topics)
        w.array(w.string, self.source_topic_regex)
        w.structs(self.state_changelog_topics, version)
        w.array(w.string, self.repartition_sink_topics)
        w.structs(self.repartition_source_topics, version)
        w.structs(self.copartition_groups, version)
        w.tags(self.unknown_tags)


class Topology(Struct):
    __slots__ = ("epoch", "subtopologies", "unknown_tags")

    def __init__(
        self, *,
        epoch: int = 0,
        subtopologies: Iterable[Subtopology] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.epoch = epoch
        self.subtopologies = list(subtopologies)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            epoch=r.int32(),
            subtopologies=r.structs(Subtopology.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            epoch=r.int32(),
            subtopologies=(yield from nested_steps(r, Subtopology.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.epoch)
        w.structs(self.subtopologies, version)
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


class StreamsGroupHeartbeatRequest(Message):
    __slots__ = (
        "group_id", "member_id", "member_epoch", "endpoint_information_epoch", "instance_id", "rack_id",
        "rebalance_timeout_ms", "topology", "active_tasks", "standby_tasks", "warmup_tasks", "process_id",
        "user_endpoint", "client_tags", "task_offsets", "task_end_offsets", "shutdown_application", "unknown_tags",
    )
    API_KEY = 88
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        endpoint_information_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        topology: Topology | None = None,
        active_tasks: Iterable[TaskIds] | None = None,
        standby_tasks: Iterable[TaskIds] | None = None,
        warmup_tasks: Iterable[TaskIds] | None = None,
        process_id: str | None = None,
        user_endpoint: Endpoint | None = None,
        client_tags: Iterable[KeyValue] | None = None,
        task_offsets: Iterable[TaskOffset] | None = None,
        task_end_offsets: Iterable[TaskOffset] | None = None,
        shutdown_application: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.endpoint_information_epoch = endpoint_information_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology = topology
        self.active_tasks = None if active_tasks is None else list(active_tasks)
        self.standby_tasks = None if standby_tasks is None else list(standby_tasks)
        self.warmup_tasks = None if warmup_tasks is None else list(warmup_tasks)
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = None if client_tags is None else list(client_tags)
        self.task_offsets = None if task_offsets is None else list(task_offsets)
        self.task_end_offsets = None if task_end_offsets is None else list(task_end_offsets)
        self.shutdown_application = shutdown_application
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            member_id=r.string(),
            member_epoch=r.int32(),
            endpoint_information_epoch=r.int32(),
            instance_id=r.nullable_string(),
            rack_id=r.nullable_string(),
            rebalance_timeout_ms=r.int32(),
            topology=r.nullable_struct(Topology.read, version),
            active_tasks=r.nullable_structs(TaskIds.read, version),
            standby_tasks=r.nullable_structs(TaskIds.read, version),
            warmup_tasks=r.nullable_structs(TaskIds.read, version),
            process_id=r.nullable_string(),
            user_endpoint=r.nullable_struct(Endpoint.read, version),
            client_tags=r.nullable_structs(KeyValue.read, version),
            task_offsets=r.nullable_structs(TaskOffset.read, version),
            task_end_offsets=r.nullable_structs(TaskOffset.read, version),
            shutdown_application=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string(),
            member_id=r.string(),
            member_epoch=r.int32(),
            endpoint_information_epoch=r.int32(),
            instance_id=r.nullable_string(),
            rack_id=r.nullable_string(),
            rebalance_timeout_ms=r.int32(),
            topology=(yield from nullable_struct_steps(r, Topology.read_steps, version)),
            active_tasks=(yield from nullable_nested_steps(r, TaskIds.read_steps, version)),
            standby_tasks=(yield from nullable_nested_steps(r, TaskIds.read_steps, version)),
            warmup_tasks=(yield from nullable_nested_steps(r, TaskIds.read_steps, version)),
            process_id=r.nullable_string(),
            user_endpoint=r.nullable_struct(Endpoint.read, version),
            client_tags=(yield from nullable_structs_steps(r, KeyValue.read, version)),
            task_offsets=(yield from nullable_structs_steps(r, TaskOffset.read, version)),
            task_end_offsets=(yield from nullable_structs_steps(r, TaskOffset.read, version)),
            shutdown_application=r.boolean(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.string(self.member_id)
        w.int32(self.member_epoch)
        w.int32(self.endpoint_information_epoch)
        w.nullable_string(self.instance_id)
        w.nullable_string(self.rack_id)
        w.int32(self.rebalance_timeout_ms)
        w.nullable_struct(self.topology, version)
        w.nullable_structs(self.active_tasks, version)
        w.nullable_structs(self.standby_tasks, version)
        w.nullable_structs(self.warmup_tasks, version)
        w.nullable_string(self.process_id)
        w.nullable_struct(self.user_endpoint, version)
        w.nullable_structs(self.client_tags, version)
        w.nullable_structs(self.task_offsets, version)
        w.nullable_structs(self.task_end_offsets, version)
        w.boolean(self.shutdown_application)
        w.tags(self.unknown_tags)
