"""AddRaftVoterRequest, versions 0 to 1, flexible from 0.

Made by tools/protocol.py from schemas/messages/AddRaftVoterRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class Listener(Struct):
    __slots__ = ("name", "host", "port", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        host: str = "",
        port: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            host=r.string(),
            port=r.uint16(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.string(self.host)
        w.uint16(self.port)
        w.tags(self.unknown_tags)


class AddRaftVoterRequest(Message):
    __slots__ = (
        "cluster_id", "timeout_ms", "voter_id", "voter_directory_id", "listeners", "ack_when_committed", "unknown_tags",
    )
    API_KEY = 80
    VERSIONS = range(2)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        cluster_id: str | None = "",
        timeout_ms: int = 0,
        voter_id: int = 0,
        voter_directory_id: UUID = ZERO_UUID,
        listeners: Iterable[Listener] = (),
        ack_when_committed: bool = True,
        unknown_tags: Tags = (),
    ) -> None:
        self.cluster_id = cluster_id
        self.timeout_ms = timeout_ms
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = list(listeners)
        self.ack_when_committed = ack_when_committed
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            cluster_id=r.nullable_string(),
            timeout_ms=r.int32(),
            voter_id=r.int32(),
            voter_directory_id=r.uuid(),
            listeners=r.structs(Listener.read, version),
            ack_when_committed=r.boolean() if version >= 1 else True,
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            cluster_id=r.nullable_string(),
            timeout_ms=r.int32(),
            voter_id=r.int32(),
            voter_directory_id=r.uuid(),
            listeners=(yield from structs_steps(r, Listener.read, version)),
            ack_when_committed=r.boolean() if version >= 1 else True,
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_string(self.cluster_id)
        w.int32(self.timeout_ms)
        w.int32(self.voter_id)
        w.uuid(self.voter_directory_id)
        w.structs(self.listeners, version)
        if version >= 1:
            w.boolean(self.ack_when_committed)
        elif not self.ack_when_committed:
            raise absent(self, "ack_when_committed", version)
        w.tags(self.unknown_tags)
