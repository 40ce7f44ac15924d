"""BrokerRegistrationChangeRecord, versions 0 to 3, flexible from 0.

Made by tools/protocol.py from schemas/messages/BrokerRegistrationChangeRecord.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import Message, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nullable_array_steps


class BrokerRegistrationChangeRecord(Message):
    __slots__ = (
        "broker_id", "broker_epoch", "fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs",
        "unknown_tags",
    )
    API_KEY = 17
    VERSIONS = range(4)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        broker_id: int = 0,
        broker_epoch: int = 0,
        fenced: int = 0,
        in_controlled_shutdown: int = 0,
        log_dirs: Iterable[UUID] = (),
        cordoned_log_dirs: Iterable[UUID] | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs = list(log_dirs)
        self.cordoned_log_dirs = None if cordoned_log_dirs is None else list(cordoned_log_dirs)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            broker_id=r.int32(),
            broker_epoch=r.int64(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.fenced = value.int8()
                value.finish()
            elif tag == 1 and version >= 1:
                struct.in_controlled_shutdown = value.int8()
                value.finish()
            elif tag == 2 and version >= 2:
                struct.log_dirs = value.array(value.uuid)
                value.finish()
            elif tag == 3 and version >= 3:
                struct.cordoned_log_dirs = value.nullable_array(value.uuid)
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            broker_id=r.int32(),
            broker_epoch=r.int64(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.fenced = value.int8()
                value.finish()
            elif tag == 1 and version >= 1:
                struct.in_controlled_shutdown = value.int8()
                value.finish()
            elif tag == 2 and version >= 2:
                struct.log_dirs = (yield from array_steps(value, value.uuid))
                value.finish()
            elif tag == 3 and version >= 3:
                struct.cordoned_log_dirs = (yield from nullable_array_steps(value, value.uuid))
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.broker_id)
        w.int64(self.broker_epoch)
        tags = list(self.unknown_tags)
        if self.fenced != 0:
            value = WireWriter(True)
            value.int8(self.fenced)
            tags.append((0, value.finish()))
        if self.in_controlled_shutdown != 0:
            if version < 1:
                raise absent(self, "in_controlled_shutdown", version)
            value = WireWriter(True)
            value.int8(self.in_controlled_shutdown)
            tags.append((1, value.finish()))
        if self.log_dirs != []:
            if version < 2:
                raise absent(self, "log_dirs", version)
            value = WireWriter(True)
            value.array(value.uuid, self.log_dirs)
            tags.append((2, value.finish()))
        if self.cordoned_log_dirs is not None:
            if version < 3:
                raise absent(self, "cordoned_log_dirs", version)
            value = WireWriter(True)
            value.nullable_array(value.uuid, self.cordoned_log_dirs)
            tags.append((3, value.finish()))
        w.tags(tags)
