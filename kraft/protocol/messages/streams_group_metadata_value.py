"""StreamsGroupMetadataValue, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/StreamsGroupMetadataValue.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nullable_structs_steps


class LastAssignmentConfig(Struct):
    __slots__ = ("key", "value", "unknown_tags")

    def __init__(
        self, *,
        key: str = "",
        value: str = "",
        unknown_tags: Tags = (),
    ) -> None:
        self.key = key
        self.value = value
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            key=r.string(),
            value=r.string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.key)
        w.string(self.value)
        w.tags(self.unknown_tags)


class StreamsGroupMetadataValue(Message):
    __slots__ = ("epoch", "metadata_hash", "validated_topology_epoch", "last_assignment_configs", "unknown_tags")
    API_KEY = 17
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        epoch: int = 0,
        metadata_hash: int = 0,
        validated_topology_epoch: int = -1,
        last_assignment_configs: Iterable[LastAssignmentConfig] | None = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self.validated_topology_epoch = validated_topology_epoch
        self.last_assignment_configs = None if last_assignment_configs is None else list(last_assignment_configs)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            epoch=r.int32(),
            metadata_hash=r.int64(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.validated_topology_epoch = value.int32()
                value.finish()
            elif tag == 1:
                struct.last_assignment_configs = value.nullable_structs(LastAssignmentConfig.read, version)
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            epoch=r.int32(),
            metadata_hash=r.int64(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.validated_topology_epoch = value.int32()
                value.finish()
            elif tag == 1:
                struct.last_assignment_configs = (yield from nullable_structs_steps(
                    value, LastAssignmentConfig.read, version))
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.epoch)
        w.int64(self.metadata_hash)
        tags = list(self.unknown_tags)
        if self.validated_topology_epoch != -1:
            value = WireWriter(True)
            value.int32(self.validated_topology_epoch)
            tags.append((0, value.finish()))
        if self.last_assignment_configs != []:
            value = WireWriter(True)
            value.nullable_structs(self.last_assignment_configs, version)
            tags.append((1, value.finish()))
        w.tags(tags)
