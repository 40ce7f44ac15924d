"""RemoveRaftVoterRequest, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/RemoveRaftVoterRequest.json: change that.
"""

from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Tags
from kraft_native.base.wire import WireReader, WireWriter


class RemoveRaftVoterRequest(Message):
    __slots__ = ("cluster_id", "voter_id", "voter_directory_id", "unknown_tags")
    API_KEY = 81
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        cluster_id: str | None = "",
        voter_id: int = 0,
        voter_directory_id: UUID = ZERO_UUID,
        unknown_tags: Tags = (),
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            cluster_id=r.nullable_string(),
            voter_id=r.int32(),
            voter_directory_id=r.uuid(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_string(self.cluster_id)
        w.int32(self.voter_id)
        w.uuid(self.voter_directory_id)
        w.tags(self.unknown_tags)
