"""StreamsGroupTopologyValue, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/StreamsGroupTopologyValue.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps, structs_steps


class TopicConfig(Struct):
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


class TopicInfo(Struct):
    __slots__ = ("name", "partitions", "replication_factor", "topic_configs", "unknown_tags")

    def __init__(
        self, *,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: Iterable[TopicConfig] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = list(topic_configs)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            name=r.string(),
            partitions=r.int32(),
            replication_factor=r.int16(),
            topic_configs=r.structs(TopicConfig.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            name=r.string(),
            partitions=r.int32(),
            replication_factor=r.int16(),
            topic_configs=(yield from structs_steps(r, TopicConfig.read, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.name)
        w.int32(self.partitions)
        w.int16(self.replication_factor)
        w.structs(self.topic_configs, version)
        w.tags(self.unknown_tags)


class CopartitionGroup(Struct):
    __slots__ = ("source_topics", "source_topic_regex", "repartition_source_topics", "unknown_tags")

    def __init__(
        self, *,
        source_topics: Iterable[int] = (),
        source_topic_regex: Iterable[int] = (),
        repartition_source_topics: Iterable[int] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.source_topics = list(source_topics)
        self.source_topic_regex = list(source_topic_regex)
        self.repartition_source_topics = list(repartition_source_topics)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            source_topics=r.array(r.int16),
            source_topic_regex=r.array(r.int16),
            repartition_source_topics=r.array(r.int16),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            source_topics=(yield from array_steps(r, r.int16)),
            source_topic_regex=(yield from array_steps(r, r.int16)),
            repartition_source_topics=(yield from array_steps(r, r.int16)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.array(w.int16, self.source_topics)
        w.array(w.int16, self.source_topic_regex)
        w.array(w.int16, self.repartition_source_topics)
        w.tags(self.unknown_tags)


class Subtopology(Struct):
    __slots__ = (
        "subtopology_id", "source_topics", "source_topic_regex", "state_changelog_topics", "repartition_sink_topics",
        "repartition_source_topics", "copartition_groups", "unknown_tags",
    )

    def __init__(
        self, *,
        subtopology_id: str = "",
        source_topics: Iterable[str] = (),
        source_topic_regex: Iterable[str] = (),
        state_changelog_topics: Iterable[TopicInfo] = (),
        repartition_sink_topics: Iterable[str] = (),
        repartition_source_topics: Iterable[TopicInfo] = (),
        copartition_groups: Iterable[CopartitionGroup] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = list(source_topics)
        self.source_topic_regex = list(source_topic_regex)
        self.state_changelog_topics = list(state_changelog_topics)
        self.repartition_sink_topics = list(repartition_sink_topics)
        self.repartition_source_topics = list(repartition_source_topics)
        self.copartition_groups = list(copartition_groups)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            subtopology_id=r.string(),
            source_topics=r.array(r.string),
            source_topic_regex=r.array(r.string),
            state_changelog_topics=r.structs(TopicInfo.read, version),
            repartition_sink_topics=r.array(r.string),
            repartition_source_topics=r.structs(TopicInfo.read, version),
            copartition_groups=r.structs(CopartitionGroup.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            subtopology_id=r.string(),
            source_topics=(yield from array_steps(r, r.string)),
            source_topic_regex=(yield from array_steps(r, r.string)),
            state_changelog_topics=(yield from nested_steps(r, TopicInfo.read_steps, version)),
            repartition_sink_topics=(yield from array_steps(r, r.string)),
            repartition_source_topics=(yield from nested_steps(r, TopicInfo.read_steps, version)),
            copartition_groups=(yield from nested_steps(r, CopartitionGroup.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.string(self.subtopology_id)
        w.array(w.string, self.source_topics)
        w.array(w.string, self.source_topic_regex)
        w.structs(self.state_changelog_topics, version)
        w.array(w.string, self.repartition_sink_topics)
        w.structs(self.repartition_source_topics, version)
        w.structs(self.copartition_groups, version)
        w.tags(self.unknown_tags)


class StreamsGroupTopologyValue(Message):
    __slots__ = ("epoch", "subtopologies", "unknown_tags")
    API_KEY = 23
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        epoch: int = 0,
        subtopologies: Iterable[Subtopology] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.epoch = epoch
        self.subtopologies = list(subtopologies)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            epoch=r.int32(),
            subtopologies=r.structs(Subtopology.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            epoch=r.int32(),
            subtopologies=(yield from nested_steps(r, Subtopology.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.epoch)
        w.structs(self.subtopologies, version)
        w.tags(self.unknown_tags)
