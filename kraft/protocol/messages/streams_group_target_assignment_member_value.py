"""StreamsGroupTargetAssignmentMemberValue, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/StreamsGroupTargetAssignmentMemberValue.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps


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


class StreamsGroupTargetAssignmentMemberValue(Message):
    __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks", "unknown_tags")
    API_KEY = 21
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

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
