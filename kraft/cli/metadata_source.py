"""Sources of a metadata log for `kraft metadata`: files, ours or Apache Kafka's, or the active controller."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Self

from kraft.cli.log_dump import Range, batches
from kraft.cli.moments import time_ms, time_text, whole_number
from kraft.cli.partition import open_partition
from kraft.cli.partition_story import Stories
from kraft.client import Cluster
from kraft.client.connection import Connection
from kraft.client.quorum import QuorumClient
from kraft.client.refusals import check
from kraft.config.errors import InvalidConfigError
from kraft.metadata.image import EMPTY, MetadataImage
from kraft.metadata.replay import Replayer, logged_records
from kraft.metadata.snapshot import SnapshotContent, decode_snapshot
from kraft.raft.messages import FetchRequest, FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse, Request
from kraft.raft.types import NOBODY, OffsetAndEpoch, ReplicaKey
from kraft.raft.wire_changes import CODECS
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME
from kraft.runtime.storage.snapshot_files import SnapshotId, list_snapshots
from kraft_native.base.errors import CorruptRecordError, OffsetOutOfRangeError
from kraft_native.batch.batch import Batch, walk
from kraft_native.file import file_io

READER: Final = ReplicaKey(NOBODY)


class AsOf(NamedTuple):
    """A point of the log: an offset or a time in milliseconds, both inclusive, or its end when neither is given.
    `option` is the command-line option that names it."""

    offset: int | None = None
    time_ms: int | None = None
    option: str = "--as-of"

    @classmethod
    def parse(cls, text: str | None, option: str = "--as-of") -> Self:
        """Parse an offset, or a time such as 2026-01-31T09:00:00 (UTC unless it has a zone)."""
        if text is None:
            return cls(option=option)
        offset = whole_number(text)
        return cls(offset, time_ms(option, text) if offset is None else None, option)

    def check_end(self, last_offset: int) -> None:
        """Raise `InvalidConfigError` when the log ends before the offset."""
        if self.offset is not None and self.offset > last_offset:
            raise InvalidConfigError(f"{self.option}: offset {self.offset} lies ahead: the log ends with offset "
                                     f"{last_offset}")

    def includes(self, offset: int, timestamp_ms: int) -> bool:
        return (self.offset is None or offset <= self.offset) and (
            self.time_ms is None or timestamp_ms <= self.time_ms)


def from_files(path: Path, as_of: AsOf, story: Stories | None = None) -> MetadataImage:
    """Read the image from a log's directory, from the data directory around it, or from a snapshot (*.checkpoint).

    Everything in the log counts, committed or not, because the files do not show which records are committed. `story`
    receives every record that is read. Raises `CorruptRecordError` for damage.
    """
    if path.is_file():
        snapshot_id = SnapshotId.of(path.name) or SnapshotId(0, 0)
        as_of.check_end(snapshot_id.end_offset - 1)
        return begin(story, _of_snapshot(path, snapshot_id))
    inner = path / DIRECTORY_NAME
    directory = inner if inner.is_dir() else path
    start = EMPTY
    partition = open_partition(directory)
    log_start = min((each.base_offset for each in partition.segments), default=0)
    for snapshot in reversed(list_snapshots(directory)):
        if story is not None and log_start == 0:
            break       # the log is complete, so the story begins with its first record
        if as_of.offset is None or snapshot.end_offset - 1 <= as_of.offset:
            found = _of_snapshot(directory / snapshot.file_name, snapshot)
            if as_of.time_ms is None or found.timestamp_ms <= as_of.time_ms:
                start = found
                break
    damage: list[str] = []
    wanted = Range(start.offset + 1, None, None)
    last_offset = start.offset

    def read() -> Iterator[Batch]:
        nonlocal last_offset
        for _, _, batch in batches(partition, wanted, damage.append):
            last_offset = max(last_offset, batch.last_offset)
            yield batch

    image = replay(begin(story, start), read(), as_of, story)
    if damage:
        raise CorruptRecordError(f"{directory}: {'; '.join(damage)}")
    as_of.check_end(last_offset)
    return image


def _of_snapshot(path: Path, snapshot: SnapshotId) -> MetadataImage:
    return decode_snapshot(file_io.read_file(path)).image(snapshot.end_offset, snapshot.epoch)


def begin(story: Stories | None, image: MetadataImage) -> MetadataImage:
    """Start a story with a snapshot's image, when it does not begin with the log."""
    if story is not None:
        story.starts(image)
    return image


def from_leader(cluster: Cluster, as_of: AsOf, story: Stories | None = None) -> MetadataImage:
    """Read the committed image from the active controller. The connection may be to any node of the cluster."""
    description = QuorumClient(cluster).describe()
    addresses = next((each.addresses for each in description.voters if each.node_id == description.leader), ())
    if addresses:
        host, _, port = addresses[0].partition("://")[2].rpartition(":")
        leader = cluster.connect(host.strip("[]"), int(port))
    else:
        leader = QuorumClient(cluster).leader()     # a release that does not report the voters' addresses
    with leader:
        return Follower(leader, description.epoch, story).read(as_of)


class Follower:
    """Reader of a leader's log that is not a replica of it."""

    def __init__(self, leader: Connection, epoch: int, story: Stories | None = None) -> None:
        self._leader = leader
        self._epoch = epoch
        self._story = story
        self._last_epoch = 0

    def read(self, as_of: AsOf) -> MetadataImage:
        replayer = Replayer(EMPTY)
        while True:
            answer = self._fetch(replayer.offset + 1)
            if answer.snapshot is not None:
                replayer = Replayer(begin(self._story, self._snapshot(answer.snapshot, as_of)))
                self._last_epoch = answer.snapshot.epoch
                continue
            as_of.check_end(answer.high_watermark - 1)
            committed = AsOf(offset=answer.high_watermark - 1)
            found = list(walk(bytes(answer.records))) if isinstance(answer.records, bytes) else []
            before = replayer.offset
            finished = not _replay(replayer, found, (as_of, committed), self._story)
            if found:
                self._last_epoch = found[-1].leader_epoch
            if finished or replayer.offset == before or replayer.offset >= answer.high_watermark - 1:
                replayer.take()
                return replayer.image

    def _fetch(self, offset: int) -> FetchResponse:
        found = self._send_fetch(FetchRequest(
            cluster_id=None, replica=READER, epoch=self._epoch, fetch_offset=offset,
            last_fetched_epoch=self._last_epoch))
        assert isinstance(found, FetchResponse)
        check("the metadata log", found.error)
        return found

    def _snapshot(self, snapshot: OffsetAndEpoch, as_of: AsOf) -> MetadataImage:
        data = b""
        while True:
            found = self._send_fetch(FetchSnapshotRequest(
                cluster_id=None, replica=READER, epoch=self._epoch, snapshot=snapshot, position=len(data)))
            assert isinstance(found, FetchSnapshotResponse)
            check("the metadata snapshot", found.error)
            data += found.data
            if len(data) >= found.size or not found.data:
                break
        content: SnapshotContent = decode_snapshot(data)
        if not as_of.includes(snapshot.offset - 1, content.last_timestamp_ms):
            raise OffsetOutOfRangeError(f"the log reaches back to offset {snapshot.offset - 1} only")
        return content.image(snapshot.offset, snapshot.epoch)

    def _send_fetch(self, request: Request) -> object:
        codec = CODECS[type(request)]
        version = self._leader.version(codec.key)
        answer = self._leader.send(codec.encode_request(request, version), codec.answer, version=version)
        return codec.decode_response(answer)


def replay(start: MetadataImage, found: Iterator[Batch], as_of: AsOf, story: Stories | None) -> MetadataImage:
    """Return the image after the included records. Raises `OffsetOutOfRangeError` when the log does not begin where
    `start` ends."""
    replayer = Replayer(start)
    for batch in found:
        if replayer.offset < 0 < batch.base_offset:
            raise OffsetOutOfRangeError(f"the log begins at offset {batch.base_offset}, and no snapshot reaches so far "
                                        "back")
        if not _replay(replayer, [batch], (as_of,), story):
            break
    replayer.take()
    return replayer.image


def _replay(replayer: Replayer, found: list[Batch], limits: tuple[AsOf, ...], story: Stories | None) -> bool:
    """Replay the batches and return whether all of their records were included."""
    for batch in found:
        for record in logged_records(batch):
            if not all(limit.includes(record.offset, record.timestamp_ms) for limit in limits):
                return False
            if record.offset <= replayer.offset:
                continue
            message = replayer.replay_logged(record)
            if message is not None and story is not None:
                story.apply(record.timestamp_ms, message, record.offset)
    return True


def load(data: Path | None, bootstrap: str, timeout: float, as_of: AsOf) -> MetadataImage:
    """Read the image from files if `data` is given, else from the cluster. Raises `InvalidConfigError` for a point
    beyond both the log and the clock."""
    image = _load(data, bootstrap, timeout, as_of)
    if as_of.time_ms is not None and as_of.time_ms > time.time() * 1000 \
            and _load(data, bootstrap, timeout, AsOf()).offset <= image.offset:
        raise InvalidConfigError(f"{as_of.option}: {time_text(as_of.time_ms)} lies ahead, and nobody knows what will "
                                 "be then")
    return image


def _load(data: Path | None, bootstrap: str, timeout: float, as_of: AsOf) -> MetadataImage:
    if data is not None:
        return from_files(data, as_of)
    with Cluster(bootstrap, timeout=timeout) as cluster:
        return from_leader(cluster, as_of)
