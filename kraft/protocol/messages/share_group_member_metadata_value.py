"""ShareGroupMemberMetadataValue, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/ShareGroupMemberMetadataValue.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps


class ShareGroupMemberMetadataValue(Message):
    __slots__ = ("rack_id", "client_id", "client_host", "subscribed_topic_names", "unknown_tags")
    API_KEY = 10
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: Iterable[str] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = list(subscribed_topic_names)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            rack_id=r.nullable_string(),
            client_id=r.string(),
            client_host=r.string(),
            subscribed_topic_names=r.array(r.string),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            rack_id=r.nullable_string(),
            client_id=r.string(),
            client_host=r.string(),
            subscribed_topic_names=(yield from array_steps(r, r.string)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.nullable_string(self.rack_id)
        w.string(self.client_id)
        w.string(self.client_host)
        w.array(w.string, self.subscribed_topic_names)
        w.tags(self.unknown_tags)
