"""ControllerHeartbeatResponse, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ControllerHeartbeatResponse.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class ControllerHeartbeatResponse(Message):
    __slots__ = ("error_code", "start_snapshot", "leader_id", "leader_epoch", "unknown_tags")
    API_KEY = 1001
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        error_code: int = 0,
        start_snapshot: bool = False,
        leader_id: int = -1,
        leader_epoch: int = -1,
        unknown_tags: Tags = (),
    ) -> None:
        self.error_code = error_code
        self.start_snapshot = start_snapshot
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            error_code=r.int16(),
            start_snapshot=r.boolean(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.leader_id = value.int32()
                value.finish()
            elif tag == 1:
                struct.leader_epoch = value.int32()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int16(self.error_code)
        w.boolean(self.start_snapshot)
        tags = list(self.unknown_tags)
        if self.leader_id != -1:
            value = WireWriter(True)
            value.int32(self.leader_id)
            tags.append((0, value.finish()))
        if self.leader_epoch != -1:
            value = WireWriter(True)
            value.int32(self.leader_epoch)
            tags.append((1, value.finish()))
        w.tags(tags)
