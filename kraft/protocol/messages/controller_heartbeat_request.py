"""ControllerHeartbeatRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ControllerHeartbeatRequest.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class ControllerHeartbeatRequest(Message):
    __slots__ = ("controller_id", "last_snapshot_offset", "last_snapshot_epoch", "cluster_id", "unknown_tags")
    API_KEY = 1001
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        controller_id: int = 0,
        last_snapshot_offset: int = 0,
        last_snapshot_epoch: int = -1,
        cluster_id: str | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.controller_id = controller_id
        self.last_snapshot_offset = last_snapshot_offset
        self.last_snapshot_epoch = last_snapshot_epoch
        self.cluster_id = cluster_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            controller_id=r.int32(),
            last_snapshot_offset=r.int64(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.last_snapshot_epoch = value.int32()
                value.finish()
            elif tag == 1:
                struct.cluster_id = value.nullable_string()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.controller_id)
        w.int64(self.last_snapshot_offset)
        tags = list(self.unknown_tags)
        if self.last_snapshot_epoch != -1:
            value = WireWriter(True)
            value.int32(self.last_snapshot_epoch)
            tags.append((0, value.finish()))
        if self.cluster_id is not None:
            value = WireWriter(True)
            value.nullable_string(self.cluster_id)
            tags.append((1, value.finish()))
        w.tags(tags)
