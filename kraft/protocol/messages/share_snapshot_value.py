"""ShareSnapshotValue, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ShareSnapshotValue.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class StateBatch(Struct):
    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count", "unknown_tags")

    def __init__(
        self, *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            first_offset=r.int64(),
            last_offset=r.int64(),
            delivery_state=r.int8(),
            delivery_count=r.int16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int64(self.first_offset)
        w.int64(self.last_offset)
        w.int8(self.delivery_state)
        w.int16(self.delivery_count)
        w.tags(self.unknown_tags)


class ShareSnapshotValue(Message):
    __slots__ = (
        "snapshot_epoch", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "create_timestamp",
        "write_timestamp", "state_batches", "unknown_tags",
    )
    API_KEY = 0
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        snapshot_epoch: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        create_timestamp: int = 0,
        write_timestamp: int = 0,
        state_batches: Iterable[StateBatch] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.snapshot_epoch = snapshot_epoch
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.create_timestamp = create_timestamp
        self.write_timestamp = write_timestamp
        self.state_batches = list(state_batches)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            snapshot_epoch=r.int32(),
            state_epoch=r.int32(),
            leader_epoch=r.int32(),
            start_offset=r.int64(),
            create_timestamp=r.int64(),
            write_timestamp=r.int64(),
            state_batches=r.structs(StateBatch.read, version),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.delivery_complete_count = value.int32()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            snapshot_epoch=r.int32(),
            state_epoch=r.int32(),
            leader_epoch=r.int32(),
            start_offset=r.int64(),
            create_timestamp=r.int64(),
            write_timestamp=r.int64(),
            state_batches=(yield from structs_steps(r, StateBatch.read, version)),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.delivery_complete_count = value.int32()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.snapshot_epoch)
        w.int32(self.state_epoch)
        w.int32(self.leader_epoch)
        w.int64(self.start_offset)
        w.int64(self.create_timestamp)
        w.int64(self.write_timestamp)
        w.structs(self.state_batches, version)
        tags = list(self.unknown_tags)
        if self.delivery_complete_count != -1:
            value = WireWriter(True)
            value.int32(self.delivery_complete_count)
            tags.append((0, value.finish()))
        w.tags(tags)
