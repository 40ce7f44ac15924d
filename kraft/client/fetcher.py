"""Fetcher of record batches from the leaders of partitions. The next Fetch is on its way while the caller uses the last
answer, so at most two answers are in memory."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kraft.client.cluster import Cluster
from kraft.client.connection import Connection, ConnectionFailedError
from kraft.client.partitions import EARLIEST, LATEST, list_all_offsets, list_offsets
from kraft.client.refusals import RefusedError, check
from kraft.client.retries import Attempts
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse, PartitionData
from kraft_native.batch.batch import first_batch, follow_batches
from kraft_native.batch.records import Record, records

FETCH_VERSION_MAX: Final = 12      # the newest that names topics
ANSWER_BYTES_MAX: Final = 2**31 - 1
PARTITION_BYTES: Final = 4 << 20
WAIT_MS: Final = 500


class Limits(NamedTuple):
    """Limits of one Fetch: bytes of a partition and of the answer, which a first batch may exceed, and the fewest
    bytes for which the leader answers before `wait_ms`."""

    partition_bytes: int = PARTITION_BYTES
    answer_bytes: int = ANSWER_BYTES_MAX
    min_bytes: int = 1
    wait_ms: int = WAIT_MS


LIMITS: Final = Limits()
AT_ONCE: Final = Limits(1 << 20, 1 << 20, wait_ms=0)


class Fetched(NamedTuple):
    """Whole batches of one answer. Records before `start` are not wanted. `aborted`: (producer id, first offset) of the
    transactions that a reader of committed records skips."""

    start: int
    batches: memoryview
    aborted: list[tuple[int, int]]


class Losses:
    """Decisions about offsets that a partition lacks: these end the fetch with an error."""

    def resume(self, fetch: "PartitionFetch", log_start: int) -> int:
        """Return the offset where the fetch continues, whose own offset is missing, or raise an error. `log_start` is
        -1 when it is not known."""
        raise RefusedError(fetch.what, ErrorCode.OFFSET_OUT_OF_RANGE,
                           f"offset {fetch.offset} is not in the log, which starts at {log_start}")

    def end_with_topic(self, fetch: "PartitionFetch", seconds: float) -> bool:  # noqa: ARG002
        """Return whether the fetch ends without an error when the topic has been unknown for `seconds`."""
        return False


FAILS: Final = Losses()


class Fetcher:
    """Reader of partitions, one at a time. Used by one thread. The caller closes `cluster`, whose security its
    connections have.

    `committed`: also report aborted transactions, and read up to the last stable offset. `stall_seconds`: limit for an
    answer with batches, and by default the cluster's time-out. `rack`: that of the reader, for leaders that send
    readers to followers.
    """

    def __init__(self, cluster: Cluster, limits: Limits = LIMITS, *, committed: bool = False, rack: str = "",
                 stall_seconds: float | None = None) -> None:
        self.cluster = cluster
        self.limits = limits
        self.committed = committed
        self.rack = rack
        self.stall_seconds = cluster.timeout if stall_seconds is None else stall_seconds

    def fetch(self, topic: str, partition: int, start: int, end: int, losses: Losses = FAILS) -> "PartitionFetch":
        """Return the batches with the offsets from `start` to before `end`. Their first and last batch may hold more.
        """
        return PartitionFetch(self, topic, partition, start, end, losses)

    def fetch_to_end(self, topic: str, partition: int, start: int, losses: Losses = FAILS) -> "PartitionFetch":
        """Return the batches from `start` up to the high watermark of this moment. Raises `RefusedError` or
        `ConnectionFailedError` when it cannot be determined."""
        name = (topic, partition)
        end = list_all_offsets(self.cluster, [self.cluster.topic(topic)], {name: LATEST})[name]
        return self.fetch(topic, partition, start, end, losses)

    def records(self, topic: str, partition: int, offset: int) -> list[Record]:
        """Return the record at `offset` and those after it that one Fetch returns. Raises `RefusedError` when the
        partition has no record at this offset, and what iterating a `PartitionFetch` raises."""
        for fetched in self.fetch(topic, partition, offset, offset + 1):
            found = [each for each in records(fetched.batches) if each.offset >= offset]
            if found and found[0].offset == offset:
                return found
        raise RefusedError(f"partition {topic}-{partition} at offset {offset}", ErrorCode.OFFSET_OUT_OF_RANGE)


class PartitionFetch:
    """Batches of one partition, from `offset` up to `end`; iterate it once.

    It follows the partition to its current leader. Iterating raises `RefusedError` or `ConnectionFailedError` when the
    leader refuses with another than a temporary error, or no batch comes for the fetcher's `stall_seconds`, and
    `CorruptRecordError` for damaged batches.
    """

    def __init__(self, fetcher: Fetcher, topic: str, partition: int, start: int, end: int, losses: Losses) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = start
        self.end = end
        self.what = f"{topic}-{partition} [{start}, {end})"
        self._fetcher = fetcher
        self._losses = losses
        self._attempts = Attempts(fetcher.stall_seconds)
        self._sought = False

    def seek(self, offset: int) -> None:
        """Continue from `offset`; an answer on its way is dropped."""
        self.offset = offset
        self._sought = True

    def __iter__(self) -> Iterator[Fetched]:
        cluster = self._fetcher.cluster
        while self.offset < self.end:
            try:
                yield from self._from_leader(cluster.leader(self.topic, self.partition))
            except (ConnectionFailedError, RefusedError) as error:
                code = error.code if isinstance(error, RefusedError) else ErrorCode.NONE
                if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._losses.end_with_topic(
                        self, self._attempts.elapsed):
                    return
                if code == ErrorCode.CORRUPT_MESSAGE:      # the leader's log is damaged
                    raise
                self._attempts.again(error)
                cluster.close()

    def _from_leader(self, leader: Connection) -> Iterator[Fetched]:
        """Fetch until the range ends, or the caller seeks. Raises when the node does not lead the partition any more.
        """
        version = leader.version(FetchRequest.API_KEY, FETCH_VERSION_MAX)
        request = self._request()
        leader.post(request, version)
        while True:
            answer = leader.answer(request, FetchResponse, version)
            check(self.what, answer.error_code)
            part = answer.responses[0].partitions[0]
            start, batches = self.offset, self._advance(part)
            failure = None
            if self.offset < self.end:
                request = self._request()
                try:
                    leader.post(request, version)
                except ConnectionFailedError as error:
                    failure = error  # the batches before the failure are whole
            if batches:
                try:
                    yield Fetched(start, batches, [(each.producer_id, each.first_offset)
                                                   for each in part.aborted_transactions or ()])
                except GeneratorExit:
                    self._fetcher.cluster.close()
                    raise
                self._attempts.progress()
            if self._sought:
                self._sought = False
                self._fetcher.cluster.close()
                return
            if failure is not None:
                raise failure
            if self.offset >= self.end:
                return

    def _request(self) -> FetchRequest:
        fetcher = self._fetcher
        return fetch_request(self.topic, self.partition, self.offset, fetcher.limits, committed=fetcher.committed,
                             rack=fetcher.rack)

    def _advance(self, answer: PartitionData) -> memoryview:
        """Move past the answer's whole batches, and return them. Raises the leader's refusal, or an error when nothing
        comes for too long."""
        data = memoryview(answer.records or b"")
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.offset = self._losses.resume(self, self._log_start())
            return data[:0]
        check(self.what, answer.error_code)
        whole, end = follow_batches(data, self.offset, gaps=True)
        if end > self.offset:
            self.offset = end
            self._attempts.progress()
            return data[:whole]
        if data:
            first_batch(data)  # raises with what is wrong
        if self._attempts.over:
            raise ConnectionFailedError(f"{self.what}: nothing came for offset {self.offset}; the partition's high "
                                        f"watermark is {answer.high_watermark}")
        return data[:0]

    def _log_start(self) -> int:
        name, cluster = (self.topic, self.partition), self._fetcher.cluster
        return list_offsets(cluster, [cluster.topic(self.topic)], {name: EARLIEST}).get(name, -1)


def fetch_request(topic: str, partition: int, offset: int, limits: Limits, *, committed: bool = False,
                  rack: str = "") -> FetchRequest:
    """Return the request for a partition's batches from `offset` on, without a session."""
    part = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=limits.partition_bytes)
    return FetchRequest(max_wait_ms=limits.wait_ms, min_bytes=limits.min_bytes, max_bytes=limits.answer_bytes,
                        isolation_level=int(committed), session_epoch=-1, rack_id=rack,
                        topics=[FetchTopic(topic=topic, partitions=[part])])
