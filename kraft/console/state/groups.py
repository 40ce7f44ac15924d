"""Groups with their lag, and one group with its members and partitions."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from kraft.client import Cluster
from kraft.client.groups import (
    Committed,
    DescribedGroup,
    ListedGroup,
    Member,
    committed_offsets,
    describe_group,
    list_groups,
)
from kraft.client.partitions import EARLIEST, LATEST, Partition, list_offsets
from kraft.console.parts import Part, attempt
from kraft.protocol.error_codes import ErrorCode

PAGE_ROWS: Final = 50


class Place(NamedTuple):
    """A group's position in one partition. `start` and `end` are None where the leader did not answer; `member` is the
    client that reads it, empty for none."""

    partition: Partition
    committed: int
    start: int | None
    end: int | None
    member: str
    metadata: str

    @property
    def lag(self) -> int | None:
        """Records between the committed offset and the end; None where the end is unknown."""
        return None if self.end is None else max(0, self.end - self.committed)

    @property
    def lost(self) -> int:
        """Records below the log start that the group has not read."""
        return 0 if self.start is None else max(0, self.start - self.committed)

    @property
    def is_past_end(self) -> bool:
        return self.end is not None and self.committed > self.end


class GroupRow(NamedTuple):
    """One group of a list, with the sum of its lags; `lag` has the problem where it could not be read."""

    listed: ListedGroup
    lag: Part[int]
    partitions: int


class GroupDetail(NamedTuple):
    """One group."""

    described: DescribedGroup
    places: tuple[Place, ...]
    places_problem: str | None

    @property
    def lag(self) -> int:
        return sum(place.lag or 0 for place in self.places)

    @property
    def idle_members(self) -> tuple[Member, ...]:
        """Members without a partition."""
        return tuple(each for each in self.described.members if each.partitions == ())


def groups_page(cluster: Cluster, words: str, number: int, size: int = PAGE_ROWS) -> tuple[list[GroupRow], int, int]:
    """Return the rows of one page, its number, and the count of all matching groups."""
    found = [each for each in list_groups(cluster) if all(word in each.group.lower() for word in words.lower().split())]
    pages = max(1, -(-len(found) // size))
    number = min(max(1, number), pages)
    return [_row(cluster, each) for each in found[(number - 1) * size:number * size]], number, len(found)


def _row(cluster: Cluster, listed: ListedGroup) -> GroupRow:
    def lag() -> tuple[int, int]:
        found = places(cluster, committed_offsets(cluster, listed.group), ())
        return sum(place.lag or 0 for place in found), len(found)

    part = attempt(lag)
    return GroupRow(listed, Part(None if part.value is None else part.value[0], part.problem),
                    part.otherwise((0, 0))[1])


def group_detail(cluster: Cluster, name: str) -> GroupDetail:
    """Return one group. Raises `RefusedError` for a missing one."""
    described = describe_group(cluster, name)
    part = attempt(lambda: places(cluster, committed_offsets(cluster, name), described.members))
    return GroupDetail(described, tuple(part.otherwise([])), part.problem)


def places(cluster: Cluster, committed: dict[Partition, Committed], members: Iterable[Member]) -> list[Place]:
    """Return the positions for these committed offsets."""
    names = list(dict.fromkeys(topic for topic, _ in committed))
    topics = [topic for topic in (cluster.metadata(names).topics if names else [])
              if topic.error_code == ErrorCode.NONE]
    known = {(topic.name, each.partition_index) for topic in topics for each in topic.partitions}
    wanted = [partition for partition in committed if partition in known]
    starts = list_offsets(cluster, topics, dict.fromkeys(wanted, EARLIEST))
    ends = list_offsets(cluster, topics, dict.fromkeys(wanted, LATEST))
    readers = {partition: member.client_id for member in members for partition in member.partitions or ()}
    return [Place(partition, each.offset, starts.get(partition), ends.get(partition), readers.get(partition, ""),
                  each.metadata) for partition, each in sorted(committed.items())]
