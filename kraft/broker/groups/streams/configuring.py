"""Configuration of a topology for the topics that exist: numbers of partitions of internal topics, and of tasks.

An internal topic is created with as many partitions as this needs (RepartitionTopics, CopartitionedTopicsEnforcer and
ChangelogTopics of Kafka):

- A repartition topic has its own number, or that of the widest input of a subtopology that writes to it.
- Topics that are read together have the same number. Where that is open, the widest of them counts.
- A subtopology has as many tasks as its widest input has partitions. Each of its changelog topics has that many
  partitions too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from typing import Final, NamedTuple

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.groups.consumer.cluster import Topics
from kraft.broker.groups.streams.topology import InternalTopic, Subtopology, Topology
from kraft.protocol.error_codes import ErrorCode

NAMED_MAX: Final = 3
"""Topics that a status names."""


class StatusCode(IntEnum):
    """Codes of the status in an answer to a heartbeat."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    """Part of the answer to a heartbeat that says what the group waits for."""

    code: StatusCode
    detail: str


class ConfiguredSubtopology(NamedTuple):
    """A subtopology whose internal topics all have a number of partitions."""

    tasks: int
    subtopology: Subtopology

    @property
    def is_stateful(self) -> bool:
        return bool(self.subtopology.state_changelog_topics)


class Configured(NamedTuple):
    """Outcome of a configuration: tasks can be assigned, or `status` says what is missing. `missing` are the internal
    topics to create. `subtopologies` is empty when the topics do not fit the topology."""

    subtopologies: Mapping[str, ConfiguredSubtopology]
    missing: tuple[InternalTopic, ...] = ()
    status: Status | None = None

    @property
    def is_ready(self) -> bool:
        return self.status is None

    @property
    def task_count(self) -> int:
        return sum(each.tasks for each in self.subtopologies.values())


class _NotPossibleError(Exception):
    """The topics do not fit the topology."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


def configure(topology: Topology, topics: Topics) -> Configured:
    """Configure a topology. Refuses with STREAMS_INVALID_TOPOLOGY one that no topics could fit."""
    try:
        _check_sources(topology, topics)
        counts = _Counts(topology, topics)
        counts.decide()
        subtopologies = {each.id: counts.configured(each) for each in
                         sorted(topology.subtopologies, key=lambda each: each.id)}
        missing = _missing(subtopologies.values(), topics)
    except _NotPossibleError as error:
        return Configured({}, (), error.status)
    if not missing:
        return Configured(subtopologies)
    return Configured(subtopologies, missing, Status(
        StatusCode.MISSING_INTERNAL_TOPICS,
        f"Internal topics are missing: {_listed(sorted(each.name for each in missing))}"))


def _check_sources(topology: Topology, topics: Topics) -> None:
    missing = sorted(dict.fromkeys(name for each in topology.subtopologies for name in each.source_topics
                                   if topics.partition_count(name) is None))
    if missing:
        raise _NotPossibleError(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_listed(missing)} are missing.")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


class _Counts:
    """Numbers of partitions of internal topics, in the making."""

    def __init__(self, topology: Topology, topics: Topics) -> None:
        self._subtopologies = topology.subtopologies
        self._topics = topics
        self._fixed = {topic.name: topic.partitions for each in topology.subtopologies
                       for topic in each.repartition_source_topics if topic.partitions}
        self._decided = dict(self._fixed)

    def decide(self) -> None:
        """Decide all numbers. Raises _NotPossibleError, and refuses a topology with a loop."""
        self._follow_sinks()
        for each in self._subtopologies:
            for group in each.copartition_groups:
                self._equalize(sorted(dict.fromkeys((
                    *(each.source_topics[at] for at in group.source_topics),
                    *(each.repartition_source_topics[at].name for at in group.repartition_source_topics)))))
        for each in self._subtopologies:
            widest = self._widest(each)
            self._decided.update((topic.name, widest) for topic in each.state_changelog_topics)

    def configured(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        """Return the subtopology with the numbers of its internal topics."""
        return ConfiguredSubtopology(self._widest(subtopology), subtopology._replace(
            state_changelog_topics=self._counted(subtopology.state_changelog_topics),
            repartition_source_topics=self._counted(subtopology.repartition_source_topics)))

    def _counted(self, listed: Iterable[InternalTopic]) -> tuple[InternalTopic, ...]:
        return tuple(each if each.partitions else each._replace(partitions=self._decided[each.name])
                     for each in listed)

    def _count(self, name: str) -> int | None:
        """Return the number of partitions of a topic that exists, or that it is to get."""
        existing = self._topics.partition_count(name)
        return self._decided.get(name) if existing is None else existing

    def _widest(self, subtopology: Subtopology) -> int:
        """Return the largest number of partitions of an input."""
        counts = [self._count(name) or 0 for name in subtopology.inputs]
        if not counts:
            raise _invalid(f"No source topics found for subtopology {subtopology.id}")
        return max(counts)

    def _follow_sinks(self) -> None:
        """Give a number to the topics that subtopologies write to.

        Subtopologies take turns in their order, and again when one of their inputs got a number, until nothing changes.
        The first number that a topic gets stays, so another order would give other numbers (KAFKA-10689).
        """
        readers: dict[str, list[int]] = {}
        for number, each in enumerate(self._subtopologies):
            for topic in each.repartition_source_topics:
                readers.setdefault(topic.name, []).append(number)
        turns = [(0, number) for number in range(len(self._subtopologies))]
        done: dict[int, None] = {}
        while turns:
            turn, number = heappop(turns)
            count = None if number in done else self._known_width(self._subtopologies[number])
            if count is None:
                continue
            done[number] = None
            for sink in self._subtopologies[number].repartition_sink_topics:
                if sink not in self._decided:
                    self._decided[sink] = count
                    for reader in readers.get(sink, ()):
                        heappush(turns, (turn + (reader <= number), reader))
        if any(sink not in self._decided for each in self._subtopologies for sink in each.repartition_sink_topics):
            raise _invalid("Failed to compute number of partitions for all repartition topics. There may be loops in "
                           "the topology that cannot be resolved.")
        if any(topic not in self._decided for topic in readers):
            raise _invalid("Failed to compute number of partitions for all repartition topics, because a repartition "
                           "source topic is never used as a sink topic.")

    def _known_width(self, subtopology: Subtopology) -> int | None:
        """Return the largest number of partitions of the inputs that have one by now; None without any."""
        counts = [self._decided.get(topic.name) for topic in subtopology.repartition_source_topics]
        counts += (self._count(name) for name in subtopology.source_topics)
        return max((each for each in counts if each is not None), default=None)

    def _equalize(self, names: list[str]) -> None:
        """Give topics that are read together the same number of partitions."""
        open_or_fixed = dict.fromkeys(
            topic.name for each in self._subtopologies for topic in each.repartition_source_topics)
        internal = [each for each in names if each in open_or_fixed]
        leading = [each for each in names if each not in open_or_fixed] or [
            each for each in internal if each in self._fixed]
        if leading:
            count = self._same(leading, names)
        else:
            count = max((self._count(each) or 0 for each in internal), default=0)
        for each in internal:
            if each in self._fixed and self._count(each) != count:
                raise _NotPossibleError(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{self._count(each)}] of repartition topic [{each}] doesn't match number of "
                    f"partitions [{count}] of the source topic.")
            self._decided[each] = count

    def _same(self, leading: list[str], names: list[str]) -> int:
        """Return the number of partitions that these topics have in common."""
        counts = [self._count(each) or 0 for each in leading]
        if min(counts) < max(counts):
            shown = _listed([f"{each}={self._count(each)}" for each in names])
            raise _NotPossibleError(StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                               f"Following topics do not have the same number of partitions: [{shown}]")
        return counts[0]


def _missing(subtopologies: Iterable[ConfiguredSubtopology], topics: Topics) -> tuple[InternalTopic, ...]:
    """Return the internal topics that do not exist. Raises _NotPossibleError if one has other partitions."""
    missing: dict[str, InternalTopic] = {}
    for each in subtopologies:
        for topic in each.subtopology.internal_topics:
            found = topics.partition_count(topic.name)
            if found is None:
                missing[topic.name] = topic
            elif found != topic.partitions:
                raise _NotPossibleError(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Existing topic {topic.name} has different number of partitions: expected {topic.partitions}, "
                    f"found {found}")
    return tuple(missing.values())
