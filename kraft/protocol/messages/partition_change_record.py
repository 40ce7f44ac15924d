"""PartitionChangeRecord, versions 0 to 2, flexible from 0.

Made by tools/protocol.py from schemas/messages/PartitionChangeRecord.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nullable_array_steps


class PartitionChangeRecord(Message):
    __slots__ = (
        "partition_id", "topic_id", "isr", "leader", "replicas", "removing_replicas", "adding_replicas",
        "leader_recovery_state", "directories", "eligible_leader_replicas", "last_known_elr", "unknown_tags",
    )
    API_KEY = 5
    VERSIONS = range(3)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        partition_id: int = -1,
        topic_id: UUID = ZERO_UUID,
        isr: Iterable[int] | None = None,
        leader: int = -2,
        replicas: Iterable[int] | None = None,
        removing_replicas: Iterable[int] | None = None,
        adding_replicas: Iterable[int] | None = None,
        leader_recovery_state: int = -1,
        directories: Iterable[UUID] | None = None,
        eligible_leader_replicas: Iterable[int] | None = None,
        last_known_elr: Iterable[int] | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.isr = None if isr is None else list(isr)
        self.leader = leader
        self.replicas = None if replicas is None else list(replicas)
        self.removing_replicas = None if removing_replicas is None else list(removing_replicas)
        self.adding_replicas = None if adding_replicas is None else list(adding_replicas)
        self.leader_recovery_state = leader_recovery_state
        self.directories = None if directories is None else list(directories)
        self.eligible_leader_replicas = None if eligible_leader_replicas is None else list(eligible_leader_replicas)
        self.last_known_elr = None if last_known_elr is None else list(last_known_elr)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            partition_id=r.int32(),
            topic_id=r.uuid(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.isr = value.nullable_array(value.int32)
                value.finish()
            elif tag == 1:
                struct.leader = value.int32()
                value.finish()
            elif tag == 2:
                struct.replicas = value.nullable_array(value.int32)
                value.finish()
            elif tag == 3:
                struct.removing_replicas = value.nullable_array(value.int32)
                value.finish()
            elif tag == 4:
                struct.adding_replicas = value.nullable_array(value.int32)
                value.finish()
            elif tag == 5:
                struct.leader_recovery_state = value.int8()
                value.finish()
            elif tag == 6 and version >= 2:
                struct.eligible_leader_replicas = value.nullable_array(value.int32)
                value.finish()
            elif tag == 7 and version >= 2:
                struct.last_known_elr = value.nullable_array(value.int32)
                value.finish()
            elif tag == 8 and version >= 1:
                struct.directories = value.nullable_array(value.uuid)
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            partition_id=r.int32(),
            topic_id=r.uuid(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.isr = (yield from nullable_array_steps(value, value.int32))
                value.finish()
            elif tag == 1:
                struct.leader = value.int32()
                value.finish()
            elif tag == 2:
                struct.replicas = (yield from nullable_array_steps(value, value.int32))
                value.finish()
            elif tag == 3:
                struct.removing_replicas = (yield from nullable_array_steps(value, value.int32))
                value.finish()
            elif tag == 4:
                struct.adding_replicas = (yield from nullable_array_steps(value, value.int32))
                value.finish()
            elif tag == 5:
                struct.leader_recovery_state = value.int8()
                value.finish()
            elif tag == 6 and version >= 2:
                struct.eligible_leader_replicas = (yield from nullable_array_steps(value, value.int32))
                value.finish()
            elif tag == 7 and version >= 2:
                struct.last_known_elr = (yield from nullable_array_steps(value, value.int32))
                value.finish()
            elif tag == 8 and version >= 1:
                struct.directories = (yield from nullable_array_steps(value, value.uuid))
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_id)
        w.uuid(self.topic_id)
        tags = list(self.unknown_tags)
        if self.isr is not None:
            value = WireWriter(True)
            value.nullable_array(value.int32, self.isr)
            tags.append((0, value.finish()))
        if self.leader != -2:
            value = WireWriter(True)
            value.int32(self.leader)
            tags.append((1, value.finish()))
        if self.replicas is not None:
            value = WireWriter(True)
            value.nullable_array(value.int32, self.replicas)
            tags.append((2, value.finish()))
        if self.removing_replicas is not None:
            value = WireWriter(True)
            value.nullable_array(value.int32, self.removing_replicas)
            tags.append((3, value.finish()))
        if self.adding_replicas is not None:
            value = WireWriter(True)
            value.nullable_array(value.int32, self.adding_replicas)
            tags.append((4, value.finish()))
        if self.leader_recovery_state != -1:
            value = WireWriter(True)
            value.int8(self.leader_recovery_state)
            tags.append((5, value.finish()))
        if self.eligible_leader_replicas is not None:
            if version < 2:
                raise absent(self, "eligible_leader_replicas", version)
            value = WireWriter(True)
            value.nullable_array(value.int32, self.eligible_leader_replicas)
            tags.append((6, value.finish()))
        if self.last_known_elr is not None:
            if version < 2:
                raise absent(self, "last_known_elr", version)
            value = WireWriter(True)
            value.nullable_array(value.int32, self.last_known_elr)
            tags.append((7, value.finish()))
        if self.directories is not None:
            if version < 1:
                raise absent(self, "directories", version)
            value = WireWriter(True)
            value.nullable_array(value.uuid, self.directories)
            tags.append((8, value.finish()))
        w.tags(tags)
