"""BrokerHeartbeatRequest, versions 0 to 2, flexible from 0.

Made by tools/protocol.py from schemas/messages/BrokerHeartbeatRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import Message, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nullable_array_steps


class BrokerHeartbeatRequest(Message):
    __slots__ = (
        "broker_id", "broker_epoch", "current_metadata_offset", "want_fence", "want_shut_down", "offline_log_dirs",
        "cordoned_log_dirs", "lease_start_time_ms", "unknown_tags",
    )
    API_KEY = 63
    VERSIONS = range(3)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        current_metadata_offset: int = 0,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline_log_dirs: Iterable[UUID] = (),
        cordoned_log_dirs: Iterable[UUID] | None = None,
        lease_start_time_ms: int = -1,
        unknown_tags: Tags = (),
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.current_metadata_offset = current_metadata_offset
        self.want_fence = want_fence
        self.want_shut_down = want_shut_down
        self.offline_log_dirs = list(offline_log_dirs)
        self.cordoned_log_dirs = None if cordoned_log_dirs is None else list(cordoned_log_dirs)
        self.lease_start_time_ms = lease_start_time_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            broker_id=r.int32(),
            broker_epoch=r.int64(),
            current_metadata_offset=r.int64(),
            want_fence=r.boolean(),
            want_shut_down=r.boolean(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0 and version >= 1:
                struct.offline_log_dirs = value.array(value.uuid)
                value.finish()
            elif tag == 1 and version >= 2:
                struct.cordoned_log_dirs = value.nullable_array(value.uuid)
                value.finish()
            elif tag == 100:
                struct.lease_start_time_ms = value.int64()
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
            current_metadata_offset=r.int64(),
            want_fence=r.boolean(),
            want_shut_down=r.boolean(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0 and version >= 1:
                struct.offline_log_dirs = (yield from array_steps(value, value.uuid))
                value.finish()
            elif tag == 1 and version >= 2:
                struct.cordoned_log_dirs = (yield from nullable_array_steps(value, value.uuid))
                value.finish()
            elif tag == 100:
                struct.lease_start_time_ms = value.int64()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.broker_id)
        w.int64(self.broker_epoch)
        w.int64(self.current_metadata_offset)
        w.boolean(self.want_fence)
        w.boolean(self.want_shut_down)
        tags = list(self.unknown_tags)
        if self.offline_log_dirs != []:
            if version < 1:
                raise absent(self, "offline_log_dirs", version)
            value = WireWriter(True)
            value.array(value.uuid, self.offline_log_dirs)
            tags.append((0, value.finish()))
        if self.cordoned_log_dirs is not None:
            if version < 2:
                raise absent(self, "cordoned_log_dirs", version)
            value = WireWriter(True)
            value.nullable_array(value.uuid, self.cordoned_log_dirs)
            tags.append((1, value.finish()))
        if self.lease_start_time_ms != -1:
            value = WireWriter(True)
            value.int64(self.lease_start_time_ms)
            tags.append((100, value.finish()))
        w.tags(tags)
