"""UpdateRaftVoterResponse, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/UpdateRaftVoterResponse.json: change that.
"""

from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter


class CurrentLeader(Struct):
    __slots__ = ("leader_id", "leader_epoch", "host", "port", "unknown_tags")

    def __init__(
        self, *,
        leader_id: int = -1,
        leader_epoch: int = -1,
        host: str = "",
        port: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            host=r.string(),
            port=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.leader_id)
        w.int32(self.leader_epoch)
        w.string(self.host)
        w.int32(self.port)
        w.tags(self.unknown_tags)


class UpdateRaftVoterResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "current_leader", "unknown_tags")
    API_KEY = 82
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        current_leader: CurrentLeader | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.current_leader = CurrentLeader() if current_leader is None else current_leader
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.current_leader = CurrentLeader.read(value, version)
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        w.int16(self.error_code)
        tags = list(self.unknown_tags)
        if self.current_leader != CurrentLeader():
            value = WireWriter(True)
            self.current_leader.write(value, version)
            tags.append((0, value.finish()))
        w.tags(tags)
