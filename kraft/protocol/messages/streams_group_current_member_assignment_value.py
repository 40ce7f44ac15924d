"""StreamsGroupCurrentMemberAssignmentValue, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/StreamsGroupCurrentMemberAssignmentValue.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps, nullable_array_steps


class TaskIds(Struct):
    __slots__ = ("subtopology_id", "partitions", "assignment_epochs", "unknown_tags")

    def __init__(
        self, *,
        subtopology_id: str = "",
        partitions: Iterable[int] = (),
        assignment_epochs: Iterable[int] | None = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = list(partitions)
        self.assignment_epochs = None if assignment_epochs is None else list(assignment_epochs)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            subtopology_id=r.string(),
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
            subtopology_id=r.string(),
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
        w.string(self.subtopology_id)
        w.array(w.int32, self.partitions)
        tags = list(self.unknown_tags)
        if self.assignment_epochs != []:
            value = WireWriter(True)
            value.nullable_array(value.int32, self.assignment_epochs)
            tags.append((0, value.finish()))
        w.tags(tags)


class StreamsGroupCurrentMemberAssignmentValue(Message):
    __slots__ = (
        "member_epoch", "previous_member_epoch", "state", "active_tasks", "standby_tasks", "warmup_tasks",
        "active_tasks_pending_revocation", "standby_tasks_pending_revocation", "warmup_tasks_pending_revocation",
        "unknown_tags",
    )
    API_KEY = 22
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        active_tasks: Iterable[TaskIds] = (),
        standby_tasks: Iterable[TaskIds] = (),
        warmup_tasks: Iterable[TaskIds] = (),
        active_tasks_pending_revocation: Iterable[TaskIds] = (),
        standby_tasks_pending_revocation: Iterable[TaskIds] = (),
        warmup_tasks_pending_revocation: Iterable[TaskIds] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.active_tasks = list(active_tasks)
        self.standby_tasks = list(standby_tasks)
        self.warmup_tasks = list(warmup_tasks)
        self.active_tasks_pending_revocation = list(active_tasks_pending_revocation)
        self.standby_tasks_pending_revocation = list(standby_tasks_pending_revocation)
        self.warmup_tasks_pending_revocation = list(warmup_tasks_pending_revocation)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            member_epoch=r.int32(),
            previous_member_epoch=r.int32(),
            state=r.int8(),
            active_tasks=r.structs(TaskIds.read, version),
            standby_tasks=r.structs(TaskIds.read, version),
            warmup_tasks=r.structs(TaskIds.read, version),
            active_tasks_pending_revocation=r.structs(TaskIds.read, version),
            standby_tasks_pending_revocation=r.structs(TaskIds.read, version),
            warmup_tasks_pending_revocation=r.structs(TaskIds.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            member_epoch=r.int32(),
            previous_member_epoch=r.int32(),
            state=r.int8(),
            active_tasks=(yield from nested_steps(r, TaskIds.read_steps, version)),
            standby_tasks=(yield from nested_steps(r, TaskIds.read_steps, version)),
            warmup_tasks=(yield from nested_steps(r, TaskIds.read_steps, version)),
            active_tasks_pending_revocation=(yield from nested_steps(r, TaskIds.read_steps, version)),
            standby_tasks_pending_revocation=(yield from nested_steps(r, TaskIds.read_steps, version)),
            warmup_tasks_pending_revocation=(yield from nested_steps(r, TaskIds.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.member_epoch)
        w.int32(self.previous_member_epoch)
        w.int8(self.state)
        w.structs(self.active_tasks, version)
        w.structs(self.standby_tasks, version)
        w.structs(self.warmup_tasks, version)
        w.structs(self.active_tasks_pending_revocation, version)
        w.structs(self.standby_tasks_pending_revocation, version)
        w.structs(self.warmup_tasks_pending_revocation, version)
        w.tags(self.unknown_tags)
