"""StreamsGroupHeartbeatResponse, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/StreamsGroupHeartbeatResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps, nullable_nested_steps, nullable_structs_steps


class Status(Struct):
    __slots__ = ("status_code", "status_detail", "unknown_tags")

    def __init__(
        self, *,
        status_code: int = 0,
        status_detail: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.status_code = status_code
        self.status_detail = status_detail
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            status_code=r.int8(),
            status_detail=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int8(self.status_code)
        w.string(self.status_detail)
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


class TopicPartition(Struct):
    __slots__ = ("topic", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic: str = "",
        partitions: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic = topic
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic=r.string(),
            partitions=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic=r.string(),
            partitions=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.topic)
        w.array(w.int32, self.partitions)
        w.tags(self.unknown_tags)


class EndpointToPartitions(Struct):
    __slots__ = ("user_endpoint", "active_partitions", "standby_partitions", "unknown_tags")

    def __init__(
        self, *,
        user_endpoint: Endpoint | None = None,
        active_partitions: Iterable[TopicPartition] = (),
        standby_partitions: Iterable[TopicPartition] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.user_endpoint = Endpoint() if user_endpoint is None else user_endpoint
        self.active_partitions = list(active_partitions)
        self.standby_partitions = list(standby_partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            user_endpoint=Endpoint.read(r, version),
            active_partitions=r.structs(TopicPartition.read, version),
            standby_partitions=r.structs(TopicPartition.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            user_endpoint=Endpoint.read(r, version),
            active_partitions=(yield from nested_steps(r, TopicPartition.read_steps, version)),
            standby_partitions=(yield from nested_steps(r, TopicPartition.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        self.user_endpoint.write(w, version)
        w.structs(self.active_partitions, version)
        w.structs(self.standby_partitions, version)
        w.tags(self.unknown_tags)


class StreamsGroupHeartbeatResponse(Message):
    __slots__ = (
        "throttle_time_ms", "error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval_ms",
        "acceptable_recovery_lag", "task_offset_interval_ms", "status", "active_tasks", "standby_tasks", "warmup_tasks",
        "endpoint_information_epoch", "partitions_by_user_endpoint", "unknown_tags",
    )
    API_KEY = 88
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str = "",
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        acceptable_recovery_lag: int = 0,
        task_offset_interval_ms: int = 0,
        status: Iterable[Status] | None = (),
        active_tasks: Iterable[TaskIds] | None = None,
        standby_tasks: Iterable[TaskIds] | None = None,
        warmup_tasks: Iterable[TaskIds] | None = None,
        endpoint_information_epoch: int = 0,
        partitions_by_user_endpoint: Iterable[EndpointToPartitions] | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.acceptable_recovery_lag = acceptable_recovery_lag
        self.task_offset_interval_ms = task_offset_interval_ms
        self.status = None if status is None else list(status)
        self.active_tasks = None if active_tasks is None else list(active_tasks)
        self.standby_tasks = None if standby_tasks is None else list(standby_tasks)
        self.warmup_tasks = None if warmup_tasks is None else list(warmup_tasks)
        self.endpoint_information_epoch = endpoint_information_epoch
        self.partitions_by_user_endpoint = (
            None if partitions_by_user_endpoint is None else list(partitions_by_user_endpoint)
        )
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            member_id=r.string(),
            member_epoch=r.int32(),
            heartbeat_interval_ms=r.int32(),
            acceptable_recovery_lag=r.int32(),
            task_offset_interval_ms=r.int32(),
            status=r.nullable_structs(Status.read, version),
            active_tasks=r.nullable_structs(TaskIds.read, version),
            standby_tasks=r.nullable_structs(TaskIds.read, version),
            warmup_tasks=r.nullable_structs(TaskIds.read, version),
            endpoint_information_epoch=r.int32(),
            partitions_by_user_endpoint=r.nullable_structs(EndpointToPartitions.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
            error_message=r.nullable_string(),
            member_id=r.string(),
            member_epoch=r.int32(),
            heartbeat_interval_ms=r.int32(),
            acceptable_recovery_lag=r.int32(),
            task_offset_interval_ms=r.int32(),
            status=(yield from nullable_structs_steps(r, Status.read, version)),
            active_tasks=(yield from nullable_nested_steps(r, TaskIds.read_steps, version)),
            standby_tasks=(yield from nullable_nested_steps(r, TaskIds.read_steps, version)),
            warmup_tasks=(yield from nullable_nested_steps(r, TaskIds.read_steps, version)),
            endpoint_information_epoch=r.int32(),
            partitions_by_user_endpoint=(yield from nullable_nested_steps(r, EndpointToPartitions.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        w.nullable_string(self.error_message)
        w.string(self.member_id)
        w.int32(self.member_epoch)
        w.int32(self.heartbeat_interval_ms)
        w.int32(self.acceptable_recovery_lag)
        w.int32(self.task_offset_interval_ms)
        w.nullable_structs(self.status, version)
        w.nullable_structs(self.active_tasks, version)
        w.nullable_structs(self.standby_tasks, version)
        w.nullable_structs(self.warmup_tasks, version)
        w.int32(self.endpoint_information_epoch)
        w.nullable_structs(self.partitions_by_user_endpoint, version)
        w.tags(self.unknown_tags)
