"""AlterReplicaLogDirsRequest, versions 1 to 2, flexible from 2.

Made by tools/protocol.py from schemas/messages/AlterReplicaLogDirsRequest.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps


class AlterReplicaLogDirTopic(Struct):
    __slots__ = ("name", "partitions", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partitions: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.array(r.int32),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=(yield from array_steps(r, r.int32)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.array(w.int32, self.partitions)
        w.tags(self.unknown_tags)


class AlterReplicaLogDir(Struct):
    __slots__ = ("path", "topics", "unknown_tags")

    def __init__(
        self, *,
        path: str = "",
        topics: Iterable[AlterReplicaLogDirTopic] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.path = path
        self.topics = list(topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            path=r.string(),
            topics=r.structs(AlterReplicaLogDirTopic.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            path=r.string(),
            topics=(yield from nested_steps(r, AlterReplicaLogDirTopic.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.path)
        w.structs(self.topics, version)
        w.tags(self.unknown_tags)


class AlterReplicaLogDirsRequest(Message):
    __slots__ = ("dirs", "unknown_tags")
    API_KEY = 34
    VERSIONS = range(1, 3)
    FLEXIBLE_FROM = 2

    def __init__(
        self, *,
        dirs: Iterable[AlterReplicaLogDir] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.dirs = list(dirs)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            dirs=r.structs(AlterReplicaLogDir.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            dirs=(yield from nested_steps(r, AlterReplicaLogDir.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.structs(self.dirs, version)
        w.tags(self.unknown_tags)
