"""Search of a topic's records on the server: bytes in keys, values and headers, by time and offset.

A search runs in slices, so that each request of a browser is bounded. A slice reads for about `SLICE_SECONDS` or until
it has `MATCHES_MAX` matches. It returns the place where the next one continues. Compiled code searches an answer of
the leader at a time, and makes one object for each match.
"""

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from kraft.client import Cluster
from kraft.client.fetcher import Fetcher, Limits, Losses, PartitionFetch
from kraft.client.partitions import EARLIEST, LATEST, Partition, every, list_offsets
from kraft.client.refusals import check
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.batch.records import Record
from kraft_native.columns.search import HEADERS, KEYS, VALUES, find_records

SLICE_SECONDS: Final = 1.0
MATCHES_MAX: Final = 100
FETCH: Final = Limits(8 << 20, 8 << 20, wait_ms=100)
EVERYWHERE: Final = KEYS | VALUES | HEADERS
NEEDLE_BYTES_MAX: Final = 4096


class Query(NamedTuple):
    """Condition on records. `needle` empty: every record. `where`: a sum of KEYS, VALUES and HEADERS. Times in
    milliseconds since 1970, inclusive; offsets: `start` inclusive, `end` exclusive; `partition` None means all."""

    needle: bytes = b""
    where: int = EVERYWHERE
    from_ms: int | None = None
    to_ms: int | None = None
    start: int | None = None
    end: int | None = None
    partition: int | None = None


class Cursor(NamedTuple):
    """Place where a slice begins: a partition and an offset in it."""

    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Parse `PARTITION.OFFSET`. Raises `InvalidArgumentError` for other texts."""
        partition, _, offset = text.partition(".")
        if not (partition.isdecimal() and offset.isdecimal()) or len(text) > 40:
            raise InvalidArgumentError(f"cursor: {text!r} is not PARTITION.OFFSET")
        return cls(int(partition), int(offset))

    def __str__(self) -> str:
        return f"{self.partition}.{self.offset}"


class Match(NamedTuple):
    """One record that was found."""

    partition: int
    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Slice(NamedTuple):
    """Result of one slice. `cursor` None: the search is at its end. `done` and `total` count offsets of all partitions,
    for a progress bar; `read_bytes` are those of this slice, as stored."""

    matches: tuple[Match, ...]
    cursor: Cursor | None
    done: int
    total: int
    read_bytes: int
    seconds: float


class Range(NamedTuple):
    """Offsets [start, end) of one partition."""

    partition: int
    start: int
    end: int


class _Skips(Losses):
    """Retention may remove records while they are searched: the search continues at the log start."""

    def resume(self, fetch: PartitionFetch, log_start: int) -> int:
        return max(fetch.offset, log_start) if log_start >= 0 else fetch.end


def ranges(cluster: Cluster, topic: str, query: Query) -> list[Range]:
    """Return the offsets to read of each partition, in the order of partitions. Partitions without a leader are
    omitted. Raises `RefusedError` for a missing topic."""
    found = cluster.metadata([topic]).topics[0]
    check(f"topic {topic}", found.error_code)
    wanted = {key: stamp for key, stamp in every([found], EARLIEST).items()
              if query.partition is None or key[1] == query.partition}
    starts = list_offsets(cluster, [found], wanted)
    ends = list_offsets(cluster, [found], dict.fromkeys(wanted, LATEST))
    if query.from_ms is not None:
        later = list_offsets(cluster, [found], dict.fromkeys(wanted, max(0, query.from_ms)))
        starts = {key: later[key] if later.get(key, -1) >= 0 else ends[key] for key in starts if key in ends}
    return [Range(index, max(starts[name, index], query.start or 0),
                  ends[name, index] if query.end is None else min(ends[name, index], query.end))
            for name, index in sorted(_both(starts, ends))]


def _both(starts: dict[Partition, int], ends: dict[Partition, int]) -> list[Partition]:
    return [partition for partition in starts if partition in ends]


def search(cluster: Cluster, topic: str, query: Query, cursor: Cursor | None = None, *,
           seconds: float = SLICE_SECONDS, matches_max: int = MATCHES_MAX) -> Slice:
    """Run one slice. Raises `RefusedError` and `ConnectionFailedError` as a `PartitionFetch` does, `CorruptRecordError`
    for damaged batches, and `InvalidArgumentError` for a needle that is too long."""
    if len(query.needle) > NEEDLE_BYTES_MAX:
        raise InvalidArgumentError(f"search: {len(query.needle)} bytes; at most {NEEDLE_BYTES_MAX}")
    parts = [each for each in ranges(cluster, topic, query) if each.start < each.end]
    began = time.monotonic()        # not before: on a slow cluster the offsets alone would take each slice
    total = sum(each.end - each.start for each in parts)
    matches: list[Match] = []
    read_bytes, fetcher = 0, Fetcher(cluster, FETCH)
    at: Cursor | None = None
    for part in parts:
        if cursor is not None and part.partition < cursor.partition:
            continue
        start = max(part.start, cursor.offset) if cursor is not None and part.partition == cursor.partition else \
            part.start
        if start >= part.end:
            continue
        if time.monotonic() - began >= seconds or len(matches) >= matches_max:
            at = Cursor(part.partition, start)
            break
        for size, next_offset in _partition(fetcher, topic, part, start, query, matches, matches_max):
            read_bytes += size
            is_full = len(matches) >= matches_max or time.monotonic() - began >= seconds
            if is_full and next_offset < part.end:
                at = Cursor(part.partition, next_offset)
                break
        if at is not None:
            break
    done = sum(_done(each, at) for each in parts)
    return Slice(tuple(matches), at, done, total, read_bytes, time.monotonic() - began)


def _done(part: Range, at: Cursor | None) -> int:
    """Return how many offsets of a partition were read when the search continues at `at`."""
    if at is None or part.partition < at.partition:
        return part.end - part.start
    return min(max(0, at.offset - part.start), part.end - part.start) if part.partition == at.partition else 0


def _partition(fetcher: Fetcher, topic: str, part: Range, start: int, query: Query, matches: list[Match],
               matches_max: int) -> Iterator[tuple[int, int]]:
    """Add the matches of one partition. Yields, for each answer, its bytes and the offset where to continue."""
    fetch = fetcher.fetch(topic, part.partition, start, part.end, _Skips())
    for fetched in fetch:
        next_offset, position, offset = fetch.offset, 0, max(fetched.start, start)
        while position < len(fetched.batches) and len(matches) < matches_max:
            found = find_records(fetched.batches, query.needle, position=position, start_offset=offset,
                                 end_offset=part.end, from_ms=query.from_ms, to_ms=query.to_ms, where=query.where,
                                 max_records=matches_max - len(matches))
            matches += [match_of(part.partition, each) for each in found.records]
            if (found.next_position, found.next_offset) == (position, offset):
                break
            position, offset = found.next_position, found.next_offset
        if len(matches) >= matches_max:
            next_offset = offset
        yield len(fetched.batches), next_offset


def match_of(partition: int, record: Record) -> Match:
    """Return a record as a match. Bytes of a header's name that are not UTF-8 become U+FFFD."""
    headers = tuple((name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), value)
                    for name, value in record.headers)
    return Match(partition, record.offset, record.timestamp_ms, record.key, record.value, headers)
