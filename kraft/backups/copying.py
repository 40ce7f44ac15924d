"""Copy of one partition: its batches up to an end offset, as files of whole batches.

Files that an earlier backup left, or one that was interrupted, are used again without being read. A file fits when the
leader's log still has all of it: the records of its leader epoch, and of earlier ones, end at or above its end.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kraft.backups.manifest import PartitionCopy, Segment, segments_of
from kraft.backups.store import Store, Writing
from kraft.client.cluster import Cluster
from kraft.client.fetcher import Fetcher, Limits, Losses, PartitionFetch
from kraft.client.refusals import RefusedError, check
from kraft.client.retries import persist
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kraft.protocol.messages.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse
from kraft_native.batch.batch import walk

LIMITS: Final = Limits(partition_bytes=8 << 20)
OFFSETS_MAX: Final = 1 << 30
"""Offsets of one file; the relative offsets of an index have 31 bits."""
DESTINATION_EPOCH_VERSION: Final = 3


class LogMovedError(RefusedError):
    """The log start of the partition has passed the offset that was to be copied next."""

    def __init__(self, what: str, log_start: int) -> None:
        super().__init__(what, ErrorCode.OFFSET_OUT_OF_RANGE, f"the log starts at {log_start} now")
        self.log_start = log_start


class _StopAtLoss(Losses):
    """Raises `LogMovedError` when retention or DeleteRecords was faster than the copy."""

    def resume(self, fetch: PartitionFetch, log_start: int) -> int:
        raise LogMovedError(fetch.what, log_start)


class Copied(NamedTuple):
    """Result of `copy_partition`. `bytes_read` came from the cluster now, `bytes_kept` were in the store."""

    copy: PartitionCopy
    bytes_read: int
    bytes_kept: int


class PartitionCopier:
    """Copier of partitions into a store, one after the other. Used by one thread. `pace` is called with the bytes of
    each answer, and returns when the next one may be read."""

    def __init__(self, cluster: Cluster, store: Store, segment_bytes: int, *, reuse: bool = True,
                 pace: Callable[[int], None] = lambda _: None) -> None:
        self.cluster = cluster
        self.store = store
        self.segment_bytes = segment_bytes
        self.reuse = reuse
        self.pace = pace
        self._fetcher = Fetcher(cluster, LIMITS)

    def copy(self, wanted: PartitionCopy) -> Copied:
        """Copy the offsets of `wanted`, and return it with its segments. Its log start is higher in the end when
        records were deleted meanwhile. Raises `RefusedError` or `ConnectionFailedError`."""
        while True:
            try:
                return self._copy(wanted)
            except LogMovedError as moved:
                if moved.log_start <= wanted.log_start_offset:
                    raise
                start = min(moved.log_start, wanted.end_offset)
                wanted = wanted._replace(log_start_offset=start)

    def _copy(self, wanted: PartitionCopy) -> Copied:
        if wanted.log_start_offset >= wanted.end_offset:
            return Copied(wanted, 0, 0)
        known = self._known(wanted) if self.reuse else []
        epoch = self._leader_epoch(wanted)
        segments: list[Segment] = []
        bytes_read = bytes_kept = 0
        at = wanted.log_start_offset
        while at < wanted.end_offset:
            kept = reusable(known, at, wanted.end_offset, self.segment_bytes)
            if kept is not None:
                found: Iterable[Segment] = (kept,)
                bytes_kept += kept.size_bytes
            else:
                found = list(self._read(wanted, at, epoch))
                bytes_read += sum(each.size_bytes for each in found)
            segments += found
            at = segments[-1].end
        self._leader_epoch(wanted)
        return Copied(wanted._replace(segments=tuple(segments)), bytes_read, bytes_kept)

    def _read(self, wanted: PartitionCopy, start: int, epoch: int) -> Iterator[Segment]:
        """Write the offsets from `start` to the end as files."""
        fetch = self._fetcher.fetch(wanted.topic, wanted.partition, start, wanted.end_offset, _StopAtLoss())
        file = SegmentFile(self.store, wanted, start, epoch)
        try:
            for fetched in fetch:
                file.write(fetched.batches if fetch.offset <= wanted.end_offset
                           else before(fetched.batches, wanted.end_offset))
                self.pace(len(fetched.batches))
                reached = min(fetch.offset, wanted.end_offset)
                if file.size_bytes >= self.segment_bytes or reached - file.start >= OFFSETS_MAX:
                    yield file.finish(reached)
                    file = SegmentFile(self.store, wanted, reached, epoch)
            if file.start < wanted.end_offset:
                yield file.finish(wanted.end_offset)
        finally:
            file.abandon()

    def _known(self, wanted: PartitionCopy) -> list[Segment]:
        """Return the partition's files in the store that the leader's log still has."""
        prefix = segments_of(wanted.topic_id, wanted.partition)
        found = []
        for stored in self.store.files(prefix):
            segment = Segment.of(stored.name.removeprefix(prefix))
            if segment is not None and segment.size_bytes == stored.size_bytes:
                found.append(segment)
        ends = {epoch: self._end_of_epoch(wanted, epoch)
                for epoch in dict.fromkeys(each.leader_epoch for each in found) if epoch >= 0}
        return [each for each in found if ends.get(each.leader_epoch, -1) >= each.end]

    def _end_of_epoch(self, wanted: PartitionCopy, epoch: int) -> int:
        """Return where the records of this leader epoch and of earlier ones end in the leader's log; -1 when the leader
        does not know."""
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(
            topic=wanted.topic, partitions=[OffsetForLeaderPartition(partition=wanted.partition, leader_epoch=epoch)])])

        def attempt() -> int:
            leader = self.cluster.leader(wanted.topic, wanted.partition)
            answer = leader.send(request, OffsetForLeaderEpochResponse).topics[0].partitions[0]
            check(f"epochs of {wanted.name}", answer.error_code)
            return answer.end_offset

        return persist(self.cluster.timeout, attempt, self.cluster.close)

    def _leader_epoch(self, wanted: PartitionCopy) -> int:
        """Return the epoch of the partition's leader; batches that are read from now on have no later one, unless the
        leader changes. Raises `RefusedError` when the topic was deleted, even if another has its name now."""
        topic = persist(self.cluster.timeout, lambda: self.cluster.topic(wanted.topic), self.cluster.close)
        if topic.topic_id != wanted.topic_id:
            raise RefusedError(f"topic {wanted.topic}", ErrorCode.UNKNOWN_TOPIC_ID)
        return next((each.leader_epoch for each in topic.partitions if each.partition_index == wanted.partition), -1)


class SegmentFile:
    """File of a partition's batches that is being written, with its digest."""

    def __init__(self, store: Store, wanted: PartitionCopy, start: int, epoch: int) -> None:
        self.start = start
        self.size_bytes = 0
        self._store = store
        self._wanted = wanted
        self._epoch = epoch
        self._digest = hashlib.sha256()
        self._file: Writing | None = None

    def write(self, batches: memoryview) -> None:
        if self._file is None:
            self._file = self._store.begin()
        self._file.write(batches)
        self._digest.update(batches)
        self.size_bytes += len(batches)

    def finish(self, end: int) -> Segment:
        """Give the file its name; its offsets end before `end`."""
        segment = Segment(self.start, end, self._epoch, self.size_bytes, self._digest.hexdigest())
        if self._file is None:
            self._file = self._store.begin()       # all offsets of the range were compacted away
        self._file.finish(self._wanted.file(segment))
        return segment

    def abandon(self) -> None:
        """Drop the file unless it has its name."""
        if self._file is not None:
            self._file.abandon()


def reusable(known: Sequence[Segment], at: int, end: int, segment_bytes: int) -> Segment | None:
    """Return the file that holds `at` and reaches furthest, up to `end`. It is full, or ends there: the last file of an
    earlier backup is read again, so that many backups do not leave many small files."""
    fit = [each for each in known if each.start <= at < each.end <= end
           and (each.size_bytes >= segment_bytes or each.end == end)]
    return max(fit, key=lambda each: each.end, default=None)


def before(batches: memoryview, end: int) -> memoryview:
    """Return the batches that begin before the offset `end`."""
    size = 0
    for batch in walk(batches, check_crc=False):
        if batch.base_offset >= end:
            break
        size += batch.size_in_bytes
    return batches[:size]
