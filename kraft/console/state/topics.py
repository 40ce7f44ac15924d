"""Topics of a cluster in pages, and one topic with its partitions."""

from array import array
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from kraft.client import Cluster
from kraft.client.partitions import EARLIEST, LATEST, Partition, every, list_offsets
from kraft.client.refusals import check
from kraft.console.parts import Part, attempt
from kraft.protocol.messages.metadata_response import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

PAGE_ROWS: Final = 100
SEPARATOR: Final = "\n"
"""No name of a topic has it."""
NUMBERS: Final = 5
"""Numbers of a row."""
Order = Literal["name", "partitions", "problems"]


class TopicRow(NamedTuple):
    """One topic of a list. `without_leader` and `under_replicated` count partitions."""

    name: str
    partitions: int
    replicas: int
    without_leader: int
    under_replicated: int
    is_internal: bool

    @property
    def problems(self) -> int:
        return self.without_leader + self.under_replicated


class TopicTable:
    """All topics in little memory: one text with the names, and their numbers. Rows are made when they are read.

    A console keeps it for its next pages. The names of an answer would keep the memory of the whole answer, because
    they lie all over it.
    """

    __slots__ = ("_names", "_numbers")

    def __init__(self, rows: Iterable[TopicRow] = ()) -> None:
        found = sorted(rows)
        self._names = SEPARATOR.join(row.name for row in found)
        self._numbers = array("i", (int(number) for row in found for number in row[1:]))

    def __len__(self) -> int:
        return len(self._numbers) // NUMBERS

    def __iter__(self) -> Iterator[TopicRow]:
        numbers = iter(self._numbers)
        rows = zip(self._names.split(SEPARATOR), *[numbers] * NUMBERS, strict=False)
        for name, partitions, replicas, without_leader, under_replicated, is_internal in rows:
            yield TopicRow(name, partitions, replicas, without_leader, under_replicated, bool(is_internal))


class TopicPage(NamedTuple):
    """Rows of one page. `number` begins at 1; `matching` counts the rows of all pages."""

    rows: tuple[TopicRow, ...]
    number: int
    pages: int
    matching: int
    total: int


class PartitionRow(NamedTuple):
    """One partition of a topic. Offsets are None where the leader did not answer."""

    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    start: int | None
    end: int | None

    @property
    def missing(self) -> tuple[int, ...]:
        """Replicas that are not in sync."""
        return tuple(each for each in self.replicas if each not in self.isr)

    @property
    def is_well(self) -> bool:
        return self.leader >= 0 and not self.missing


class TopicDetail(NamedTuple):
    """One topic. `offsets` has the problem when offsets could not be read."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionRow, ...]
    offsets_problem: str | None


def topic_table(metadata: MetadataResponse) -> TopicTable:
    """Return all topics, sorted by name."""
    return TopicTable(map(_row, metadata.topics))


def _row(topic: MetadataResponseTopic) -> TopicRow:
    without_leader = under_replicated = replicas = 0
    for each in topic.partitions:
        without_leader += each.leader_id < 0
        under_replicated += len(each.isr_nodes) < len(each.replica_nodes)
        replicas = max(replicas, len(each.replica_nodes))
    return TopicRow(topic.name or "", len(topic.partitions), replicas, without_leader, under_replicated,
                    topic.is_internal)


def page_of(rows: TopicTable, *, words: str = "", number: int = 1, order: Order = "name",
            internal: bool = False, only_problems: bool = False, size: int = PAGE_ROWS) -> TopicPage:
    """Return one page of the topics whose names contain all `words`. A number past the last page means the last."""
    wanted = words.lower().split()
    found = [row for row in rows if (internal or not row.is_internal) and (not only_problems or row.problems)
             and all(word in row.name.lower() for word in wanted)]
    if order == "partitions":
        found.sort(key=lambda row: (-row.partitions, row.name))
    elif order == "problems":
        found.sort(key=lambda row: (-row.without_leader, -row.under_replicated, row.name))
    pages = max(1, -(-len(found) // size))
    number = min(max(1, number), pages)
    return TopicPage(tuple(found[(number - 1) * size:number * size]), number, pages, len(found), len(rows))


def topic_detail(cluster: Cluster, name: str) -> TopicDetail:
    """Return one topic with its offsets. Raises `RefusedError` for a missing topic."""
    found = cluster.metadata([name]).topics[0]
    check(f"topic {name}", found.error_code)
    starts = attempt(lambda: list_offsets(cluster, [found], every([found], EARLIEST)))
    ends = attempt(lambda: list_offsets(cluster, [found], every([found], LATEST)))
    rows = tuple(partition_row(each, name, starts, ends)
                 for each in sorted(found.partitions, key=lambda each: each.partition_index))
    topic_id = "" if not found.topic_id.int else str(found.topic_id)
    return TopicDetail(name, topic_id, found.is_internal, rows, starts.problem or ends.problem)


def partition_row(each: MetadataResponsePartition, topic: str, starts: Part[dict[Partition, int]],
                  ends: Part[dict[Partition, int]]) -> PartitionRow:
    key = (topic, each.partition_index)
    return PartitionRow(each.partition_index, each.leader_id, each.leader_epoch, tuple(each.replica_nodes),
                        tuple(each.isr_nodes), tuple(each.offline_replicas), starts.otherwise({}).get(key),
                        ends.otherwise({}).get(key))


def red_partitions(topic: str, rows: Iterable[PartitionRow]) -> list[Partition]:
    """Return the partitions that need an explanation."""
    return [(topic, row.number) for row in rows if not row.is_well]
