"""ShareGroupHeartbeatRequest, version 1, flexible from 1.

Made by tools/protocol.py from schemas/messages/ShareGroupHeartbeatRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nullable_array_steps


class ShareGroupHeartbeatRequest(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "rack_id", "subscribed_topic_names", "unknown_tags")
    API_KEY = 76
    VERSIONS = range(1, 2)
    FLEXIBLE_FROM = 1

    def __init__(
        self, *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        rack_id: str | None = None,
        subscribed_topic_names: Iterable[str] | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.rack_id = rack_id
        self.subscribed_topic_names = None if subscribed_topic_names is None else list(subscribed_topic_names)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            member_id=r.string(),
            member_epoch=r.int32(),
            rack_id=r.nullable_string(),
            subscribed_topic_names=r.nullable_array(r.string),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string(),
            member_id=r.string(),
            member_epoch=r.int32(),
            rack_id=r.nullable_string(),
            subscribed_topic_names=(yield from nullable_array_steps(r, r.string)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.string(self.member_id)
        w.int32(self.member_epoch)
        w.nullable_string(self.rack_id)
        w.nullable_array(w.string, self.subscribed_topic_names)
        w.tags(self.unknown_tags)
