"""PartitionRecord, versions 0 to 2, flexible from 0.

Made by tools/protocol.py from schemas/messages/PartitionRecord.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nullable_array_steps


class PartitionRecord(Message):
    __slots__ = (
        "partition_id", "topic_id", "replicas", "isr", "removing_replicas", "adding_replicas", "leader",
        "leader_recovery_state", "leader_epoch", "partition_epoch", "directories", "eligible_leader_replicas",
        "last_known_elr", "unknown_tags",
    )
    API_KEY = 3
    VERSIONS = range(3)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        partition_id: int = -1,
        topic_id: UUID = ZERO_UUID,
        replicas: Iterable[int] = (),
        isr: Iterable[int] = (),
        removing_replicas: Iterable[int] = (),
        adding_replicas: Iterable[int] = (),
        leader: int = -1,
        leader_recovery_state: int = 0,
        leader_epoch: int = -1,
        partition_epoch: int = -1,
        directories: Iterable[UUID] = (),
        eligible_leader_replicas: Iterable[int] | None = None,
        last_known_elr: Iterable[int] | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.replicas = list(replicas)
        self.isr = list(isr)
        self.removing_replicas = list(removing_replicas)
        self.adding_replicas = list(adding_replicas)
        self.leader = leader
        self.leader_recovery_state = leader_recovery_state
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.directories = list(directories)
        self.eligible_leader_replicas = None if eligible_leader_replicas is None else list(eligible_leader_replicas)
        self.last_known_elr = None if last_known_elr is None else list(last_known_elr)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            partition_id=r.int32(),
            topic_id=r.uuid(),
            replicas=r.array(r.int32),
            isr=r.array(r.int32),
            removing_replicas=r.array(r.int32),
            adding_replicas=r.array(r.int32),
            leader=r.int32(),
            leader_epoch=r.int32(),
            partition_epoch=r.int32(),
            directories=r.array(r.uuid) if version >= 1 else [],
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.leader_recovery_state = value.int8()
                value.finish()
            elif tag == 1 and version >= 2:
                struct.eligible_leader_replicas = value.nullable_array(value.int32)
                value.finish()
            elif tag == 2 and version >= 2:
                struct.last_known_elr = value.nullable_array(value.int32)
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
            replicas=(yield from array_steps(r, r.int32)),
            isr=(yield from array_steps(r, r.int32)),
            removing_replicas=(yield from array_steps(r, r.int32)),
            adding_replicas=(yield from array_steps(r, r.int32)),
            leader=r.int32(),
            leader_epoch=r.int32(),
            partition_epoch=r.int32(),
            directories=(yield from array_steps(r, r.uuid)) if version >= 1 else [],
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.leader_recovery_state = value.int8()
                value.finish()
            elif tag == 1 and version >= 2:
                struct.eligible_leader_replicas = (yield from nullable_array_steps(value, value.int32))
                value.finish()
            elif tag == 2 and version >= 2:
                struct.last_known_elr = (yield from nullable_array_steps(value, value.int32))
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_id)
        w.uuid(self.topic_id)
        w.array(w.int32, self.replicas)
        w.array(w.int32, self.isr)
        w.array(w.int32, self.removing_replicas)
        w.array(w.int32, self.adding_replicas)
        w.int32(self.leader)
        w.int32(self.leader_epoch)
        w.int32(self.partition_epoch)
        if version >= 1:
            w.array(w.uuid, self.directories)
        elif self.directories != []:
            raise absent(self, "directories", version)
        tags = list(self.unknown_tags)
        if self.leader_recovery_state != 0:
            value = WireWriter(True)
            value.int8(self.leader_recovery_state)
            tags.append((0, value.finish()))
        if self.eligible_leader_replicas is not None:
            if version < 2:
                raise absent(self, "eligible_leader_replicas", version)
            value = WireWriter(True)
            value.nullable_array(value.int32, self.eligible_leader_replicas)
            tags.append((1, value.finish()))
        if self.last_known_elr is not None:
            if version < 2:
                raise absent(self, "last_known_elr", version)
            value = WireWriter(True)
            value.nullable_array(value.int32, self.last_known_elr)
            tags.append((2, value.finish()))
        w.tags(tags)
