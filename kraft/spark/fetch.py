"""Read a range of a partition from its leader, in a task. It sends its own Fetch requests, whose batches become
columns without an object per record. The next request is under way while the last answer is converted to columns.

This is for clusters without TLS and SASL; `library_fetch` is for those with them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kraft.client import Cluster, Connection, RefusedError
from kraft.client.connection import ConnectionFailedError
from kraft.client.partitions import EARLIEST, LATEST, list_all_offsets, list_offsets
from kraft.client.refusals import check
from kraft.client.security import PLAINTEXT
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse, PartitionData
from kraft.spark.options import Bound, ReadOptions, Subscription
from kraft.spark.positions import resume_after_loss
from kraft.spark.splits import Range
from kraft_native.batch.batch import first_batch, follow_batches
from kraft_native.columns.reader import ColumnReader, Columns

FETCH_BYTES: Final = 4 << 20
FETCH_WAIT_MS: Final = 500
FETCH_MIN_BYTES: Final = 1
ANSWER_BYTES_MAX: Final = 2**31 - 1
# Newest version that names topics; later ones identify them by id only.
VERSION_MAX: Final = 12
RETRY_PAUSE_SECONDS: Final = 0.1
# After this time a new leader knows its topics.
DELETED_SECONDS: Final = 3.0
LOG: Final = logging.getLogger(__name__)

# Temporary errors: the partition's leader has moved, or is about to.
PASSING: Final = frozenset({
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.REPLICA_NOT_AVAILABLE,
})


class Fetcher:
    """A task's connections to the leaders of its partitions. Used by one thread."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.committed = options.isolation == "read_committed"
        client = options.client
        self.bytes_max = int(client.get("max.partition.fetch.bytes", FETCH_BYTES))
        self.min_bytes = int(client.get("fetch.min.bytes", FETCH_MIN_BYTES))
        self.answer_bytes_max = int(client.get("fetch.max.bytes", ANSWER_BYTES_MAX))
        self.wait_ms = int(client.get("fetch.wait.max.ms", FETCH_WAIT_MS))
        self._cluster = Cluster(client["bootstrap.servers"], client_id=client.get("client.id", "kraft-spark"),
                                timeout=int(client.get("socket.timeout.ms", 30_000)) / 1000, security=PLAINTEXT)

    @classmethod
    def of_cluster(cls, client: Mapping[str, str], timeout_ms: int) -> Fetcher:
        """Return a fetcher for all records of any topic."""
        return cls(ReadOptions(Subscription("all"), Bound("earliest"), Bound("latest"), client=client,
                               timeout_ms=timeout_ms))

    def close(self) -> None:
        self._cluster.close()

    def raw(self, topic: str, partition: int, start: int) -> Iterator[bytes]:
        """Yield record batches from `start` on, up to the committed end at the time of the call.

        Raise `DataLossError` when the log does not reach back to `start`.
        """
        name = (topic, partition)
        end = list_all_offsets(self._cluster, [self._cluster.topic(topic)], {name: LATEST})[name]
        progress = Progress(Range(topic, partition, start, end), self.options)
        for answer, _, sound in self._answers(progress):
            yield (answer.records or b"")[:sound]

    def read(self, piece: Range, columns: Sequence[str]) -> Iterator[Columns]:
        """Yield the records of a range as columns of about 4 MB of batches each.

        Raise `DataLossError` for missing offsets, unless that is allowed. Raise `RefusedError` or
        `ConnectionFailedError` when the partition returns nothing for `kafkaConsumer.pollTimeoutMs`.
        """
        reader = ColumnReader(columns, check_crc=False)
        progress = Progress(piece, self.options)
        for answer, before, sound in self._answers(progress):
            found = reader.read(memoryview(answer.records or b"")[:sound], start_offset=before, end_offset=piece.end,
                                aborted=_aborted(answer))
            if found.next_offset < min(progress.offset, piece.end):
                # The batches are more than columns of 2 GiB hold, or a record is damaged: read again from there.
                progress.offset = found.next_offset
                self._cluster.close()
            if len(found):
                yield found

    def _answers(self, progress: Progress) -> Iterator[tuple[PartitionData, int, int]]:
        """Yield answers with batches as (answer, first wanted offset, bytes of whole batches), up to the end of the
        range. They come from the current leader."""
        while progress.offset < progress.piece.end:
            try:
                leader = self._cluster.leader(progress.piece.topic, progress.piece.partition)
                yield from self._from_leader(leader, progress)
            except (ConnectionFailedError, RefusedError) as error:
                if isinstance(error, RefusedError) and error.code not in PASSING:
                    raise
                if progress.deleted(error):
                    return
                progress.check(error)
                self._cluster.close()
                time.sleep(RETRY_PAUSE_SECONDS)

    def _from_leader(self, leader: Connection, progress: Progress) -> Iterator[tuple[PartitionData, int, int]]:
        """Read until the range ends. Raise when the node does not lead the partition any more."""
        version = leader.version(FetchRequest.API_KEY, VERSION_MAX)
        piece = progress.piece
        request = self._request(progress)
        leader.post(request, version)
        while True:
            answer = _partition(leader.answer(request, FetchResponse, version), piece)
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                progress.skip_deleted(self._log_start(piece))
            before, sound = progress.offset, progress.take(answer)
            failure = None
            if progress.offset < piece.end:
                request = self._request(progress)
                try:
                    leader.post(request, version)
                except ConnectionFailedError as error:
                    failure = error  # the batches before the failure are whole
            if sound:
                yield answer, before, sound
            if failure is not None:
                raise failure
            if progress.offset >= piece.end:
                return

    def _log_start(self, piece: Range) -> int:
        found = list_offsets(self._cluster, [self._cluster.topic(piece.topic)],
                             {(piece.topic, piece.partition): EARLIEST})
        return found.get((piece.topic, piece.partition), -1)

    def _request(self, progress: Progress) -> FetchRequest:
        piece = progress.piece
        partition = FetchPartition(partition=piece.partition, fetch_offset=progress.offset,
                                   partition_max_bytes=self.bytes_max)
        return FetchRequest(max_wait_ms=self.wait_ms, min_bytes=self.min_bytes, max_bytes=self.answer_bytes_max,
                            isolation_level=int(self.committed), rack_id=self.options.client.get("client.rack", ""),
                            topics=[FetchTopic(topic=piece.topic, partitions=[partition])])


def _partition(answer: FetchResponse, piece: Range) -> PartitionData:
    check(str(piece), answer.error_code)
    return answer.responses[0].partitions[0]


def _aborted(answer: PartitionData) -> list[tuple[int, int]]:
    return [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]


class Progress:
    """Position in a range, and the time since it last moved."""

    def __init__(self, piece: Range, options: ReadOptions) -> None:
        self.piece = piece
        self.options = options
        self.offset = piece.start
        self._moved = time.monotonic()

    def take(self, answer: PartitionData) -> int:
        """Move past the answer's batches; return the number of bytes in them.

        Raise the leader's refusal, or an error when nothing comes for too long.
        """
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return 0
        check(str(self.piece), answer.error_code)
        records = answer.records or b""
        sound, end = follow_batches(records, self.offset, gaps=True)
        if end > self.offset:
            self.offset = end
            self._moved = time.monotonic()
            return sound
        if records:
            first_batch(records)  # raises with what is wrong
        self.check(ConnectionFailedError(f"{self.piece}: nothing came for offset {self.offset}; the partition's high "
                                         f"watermark is {answer.high_watermark}"))
        return 0

    def skip_deleted(self, log_start: int) -> None:
        """Fail because the partition lacks the offset, or continue where the log starts now."""
        self.offset = resume_after_loss(self.piece, self.offset, log_start, self.options.fail_on_data_loss)

    def deleted(self, error: Exception) -> bool:
        """Return whether the topic has been unknown for so long that it was deleted. Return False if that must fail the
        query."""
        if not isinstance(error, RefusedError) or error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        if self.options.fail_on_data_loss or time.monotonic() - self._moved < DELETED_SECONDS:
            return False
        LOG.warning("%s: the topic was deleted; what was not read from offset %d on is lost", self.piece, self.offset)
        return True

    def check(self, error: Exception) -> None:
        """Raise `error` when nothing has come for as long as the options allow."""
        if (time.monotonic() - self._moved) * 1000 > self.options.timeout_ms:
            raise error
