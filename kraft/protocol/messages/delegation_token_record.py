"""DelegationTokenRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/DelegationTokenRecord.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps


class DelegationTokenRecord(Message):
    __slots__ = (
        "owner", "requester", "renewers", "issue_timestamp", "max_timestamp", "expiration_timestamp", "token_id",
        "unknown_tags",
    )
    API_KEY = 10
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        owner: str = "",
        requester: str = "",
        renewers: Iterable[str] = (),
        issue_timestamp: int = 0,
        max_timestamp: int = 0,
        expiration_timestamp: int = 0,
        token_id: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.owner = owner
        self.requester = requester
        self.renewers = list(renewers)
        self.issue_timestamp = issue_timestamp
        self.max_timestamp = max_timestamp
        self.expiration_timestamp = expiration_timestamp
        self.token_id = token_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            owner=r.string(),
            requester=r.string(),
            renewers=r.array(r.string),
            issue_timestamp=r.int64(),
            max_timestamp=r.int64(),
            expiration_timestamp=r.int64(),
            token_id=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            owner=r.string(),
            requester=r.string(),
            renewers=(yield from array_steps(r, r.string)),
            issue_timestamp=r.int64(),
            max_timestamp=r.int64(),
            expiration_timestamp=r.int64(),
            token_id=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.owner)
        w.string(self.requester)
        w.array(w.string, self.renewers)
        w.int64(self.issue_timestamp)
        w.int64(self.max_timestamp)
        w.int64(self.expiration_timestamp)
        w.string(self.token_id)
        w.tags(self.unknown_tags)
