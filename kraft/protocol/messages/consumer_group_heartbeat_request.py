"""ConsumerGroupHeartbeatRequest, versions 0 to 1, flexible from 0.

Made by tools/protocol.py from schemas/messages/ConsumerGroupHeartbeatRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nullable_array_steps, nullable_nested_steps


class TopicPartitions(Struct):
    __slots__ = ("topic_id", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic_id: UUID = ZERO_UUID,
        partitions: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic_id=r.uuid(),
            partitions=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic_id=r.uuid(),
            partitions=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.topic_id)
        w.array(w.int32, self.partitions)
        w.tags(self.unknown_tags)


class ConsumerGroupHeartbeatRequest(Message):
    __slots__ = (
        "group_id", "member_id", "member_epoch", "instance_id", "rack_id", "rebalance_timeout_ms",
        "subscribed_topic_names", "subscribed_topic_regex", "server_assignor", "topic_partitions", "unknown_tags",
    )
    API_KEY = 68
    VERSIONS = range(2)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: Iterable[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: Iterable[TopicPartitions] | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = None if subscribed_topic_names is None else list(subscribed_topic_names)
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = None if topic_partitions is None else list(topic_partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            group_id=r.string(),
            member_id=r.string(),
            member_epoch=r.int32(),
            instance_id=r.nullable_string(),
            rack_id=r.nullable_string(),
            rebalance_timeout_ms=r.int32(),
            subscribed_topic_names=r.nullable_array(r.string),
            subscribed_topic_regex=r.nullable_string() if version >= 1 else None,
            server_assignor=r.nullable_string(),
            topic_partitions=r.nullable_structs(TopicPartitions.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            group_id=r.string(),
            member_id=r.string(),
            member_epoch=r.int32(),
            instance_id=r.nullable_string(),
            rack_id=r.nullable_string(),
            rebalance_timeout_ms=r.int32(),
            subscribed_topic_names=(yield from nullable_array_steps(r, r.string)),
            subscribed_topic_regex=r.nullable_string() if version >= 1 else None,
            server_assignor=r.nullable_string(),
            topic_partitions=(yield from nullable_nested_steps(r, TopicPartitions.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.group_id)
        w.string(self.member_id)
        w.int32(self.member_epoch)
        w.nullable_string(self.instance_id)
        w.nullable_string(self.rack_id)
        w.int32(self.rebalance_timeout_ms)
        w.nullable_array(w.string, self.subscribed_topic_names)
        if version >= 1:
            w.nullable_string(self.subscribed_topic_regex)
        elif self.subscribed_topic_regex is not None:
            raise absent(self, "subscribed_topic_regex", version)
        w.nullable_string(self.server_assignor)
        w.nullable_structs(self.topic_partitions, version)
        w.tags(self.unknown_tags)
