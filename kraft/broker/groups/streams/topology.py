"""Topology of a streams application: subtopologies with the topics that they read and write (KIP-1071).

A request and a record describe it in the same form, so one function reads both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple


class InternalTopic(NamedTuple):
    """A topic that the application needs for itself. `partitions` is 0 where it follows from other topics,
    `replication_factor` where the broker's default counts."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(NamedTuple):
    """Topics that need the same number of partitions, as indexes into the lists of their subtopology."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


class Subtopology(NamedTuple):
    """Part of a topology whose tasks are independent of those of other parts."""

    id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[InternalTopic, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def inputs(self) -> Iterator[str]:
        """Names of all topics that it reads."""
        yield from self.source_topics
        for each in self.repartition_source_topics:
            yield each.name

    @property
    def internal_topics(self) -> Iterator[InternalTopic]:
        yield from self.repartition_source_topics
        yield from self.state_changelog_topics


class Topology(NamedTuple):
    """Topology of a group. Subtopologies are in the order of the request."""

    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()

    def readers(self) -> dict[str, str]:
        """Return the subtopology that reads a topic, by the name of the topic."""
        return {topic: each.id for each in self.subtopologies for topic in each.inputs}

    def required_topics(self) -> list[str]:
        """Return the names of all topics that tasks need, in order. A change of one of them begins a rebalance."""
        return sorted(dict.fromkeys(
            name for each in self.subtopologies
            for name in (*each.inputs, *(topic.name for topic in each.state_changelog_topics))))

    @property
    def named_topics(self) -> Iterator[str]:
        """All names of topics, some of them several times."""
        for each in self.subtopologies:
            yield from each.inputs
            yield from each.repartition_sink_topics
            for topic in each.state_changelog_topics:
                yield topic.name


def is_larger(message: Any, limit: int) -> bool:
    """Return whether the topology in a request has more than `limit` subtopologies, topics, settings and indexes. It
    visits about `limit` of them at most."""
    size = 0
    for each in message.subtopologies:
        size += 1 + len(each.source_topics) + len(each.source_topic_regex) + len(each.repartition_sink_topics)
        size += len(each.state_changelog_topics) + len(each.repartition_source_topics) + len(each.copartition_groups)
        if size > limit:
            return True
        size += sum(len(topic.topic_configs)
                    for topics in (each.state_changelog_topics, each.repartition_source_topics) for topic in topics)
        size += sum(len(group.source_topics) + len(group.source_topic_regex) + len(group.repartition_source_topics)
                    for group in each.copartition_groups)
    return size > limit


def topology_of(message: Any) -> Topology:
    """Return the topology in a request, or in the value of a record."""
    return Topology(message.epoch, tuple(
        Subtopology(
            each.subtopology_id, tuple(each.source_topics), tuple(each.source_topic_regex),
            _topics(each.state_changelog_topics), tuple(each.repartition_sink_topics),
            _topics(each.repartition_source_topics),
            tuple(CopartitionGroup(tuple(group.source_topics), tuple(group.source_topic_regex),
                                   tuple(group.repartition_source_topics)) for group in each.copartition_groups))
        for each in message.subtopologies))


def _topics(listed: Sequence[Any]) -> tuple[InternalTopic, ...]:
    return tuple(InternalTopic(each.name, each.partitions, each.replication_factor,
                               tuple((setting.key, setting.value) for setting in each.topic_configs))
                 for each in listed)
