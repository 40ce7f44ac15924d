"""Creation of a backup: metadata, the common point, the batches, and last the manifest."""

import hashlib
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final, NamedTuple

from kraft.backups.copying import Copied, PartitionCopier
from kraft.backups.cut import TRANSACTIONS_TOPIC, choose
from kraft.backups.manifest import Manifest, Metadata, PartitionCopy, check_name, names, save
from kraft.backups.store import Store, prepared, write
from kraft.client.cluster import Cluster
from kraft.client.refusals import RefusedError
from kraft.metadata.image import MetadataImage
from kraft.metadata.snapshot import encode_snapshot, image_records
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kraft_native.base.errors import InvalidArgumentError

SEGMENT_BYTES: Final = 64 << 20
WORKERS: Final = 2

Progress = Callable[[Copied], None]
ReadImage = Callable[[], MetadataImage]


class Plan(NamedTuple):
    """Parameters of a backup. `topics` None: all of them. With `reuse`, files of earlier backups are not copied again.
    """

    name: str
    topics: Collection[str] | None = None
    segment_bytes: int = SEGMENT_BYTES
    reuse: bool = True
    workers: int = WORKERS
    bytes_per_second: float = 0.0
    """Limit of what is read from the cluster; 0: none."""


class Created(NamedTuple):
    """A finished backup: its manifest, the bytes that came from the cluster, and those that the store had."""

    manifest: Manifest
    bytes_read: int
    bytes_kept: int


class Pace:
    """Limit of the bytes per second of all threads; 0: none. Any thread may use it."""

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._free_at = time.monotonic()
        self._lock = threading.Lock()

    def wait(self, count: int) -> None:
        """Wait until `count` bytes more fit the limit."""
        if self._bytes_per_second <= 0:
            return
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + count / self._bytes_per_second
            pause = self._free_at - now
        time.sleep(max(pause, 0.0))


def create(cluster: Cluster, store: Store, plan: Plan, read_image: ReadImage,
           progress: Progress = lambda _: None) -> Created:
    """Create a backup of the cluster. `read_image` returns its committed metadata. `progress` is called for each copied
    partition, by any thread.

    The backup exists when this returns, and not before. A second call after an interruption uses the files of the
    first. Raises `InvalidArgumentError` when the store has a backup of that name or the cluster lacks a topic of the
    plan; `RefusedError` and `ConnectionFailedError`.
    """
    _check_new(store, check_name(plan.name))
    image = read_image()
    wanted = _wanted(image, plan)
    with prepared(store):
        cut = choose(cluster, [topic.name for topic in image.topics.values() if topic.name in wanted])
        created_ms = time.time_ns() // 1_000_000
        copies = [PartitionCopy(topic.name, topic.topic_id, index, cut.starts[topic.name, index],
                                cut.ends[topic.name, index], partition.leader_epoch, ())
                  for topic, index, partition in image.partitions() if (topic.name, index) in cut.ends]
        copied = _copy_all(cluster, store, plan, copies, progress)
        # Producer ids and leader epochs that appear in the batches may be newer than the image.
        image = _with_newest(image, latest := read_image())
        partitions = tuple(each.copy._replace(leader_epoch=_leader_epoch(latest, each.copy)) for each in copied)
        manifest = Manifest(plan.name, _cluster_id(cluster), created_ms, _write_metadata(store, image, created_ms),
                            partitions, cut.commits)
        _check_new(store, plan.name)            # one that ended meanwhile stays
        save(store, manifest)
    return Created(manifest, sum(each.bytes_read for each in copied), sum(each.bytes_kept for each in copied))


def _check_new(store: Store, name: str) -> None:
    if name in names(store):
        raise InvalidArgumentError(f"name: {store.place} has a backup {name!r}")


def _wanted(image: MetadataImage, plan: Plan) -> Collection[str]:
    """Return the topics to copy. A plan with topics has the internal ones, too."""
    present = [name for name in image.topic_ids if name != TRANSACTIONS_TOPIC]
    if plan.topics is None:
        return present
    if missing := [name for name in plan.topics if name not in present]:
        raise InvalidArgumentError(f"topics: the cluster has no topic {', '.join(missing)}")
    return [name for name in present if name in plan.topics or name.startswith("__")]


def _copy_all(cluster: Cluster, store: Store, plan: Plan, copies: list[PartitionCopy],
              progress: Progress) -> list[Copied]:
    """Copy the partitions in several threads, each with connections of its own; return them in the same order. Topics
    that were deleted meanwhile are omitted, with all of their partitions."""
    local = threading.local()
    clusters: list[Cluster] = []
    pace = Pace(plan.bytes_per_second)

    def copy(wanted: PartitionCopy) -> Copied | None:
        copier = getattr(local, "copier", None)
        if copier is None:
            own = Cluster(",".join(f"{host}:{port}" for host, port in cluster.bootstrap), client_id=cluster.client_id,
                          timeout=cluster.timeout, security=cluster.security)
            clusters.append(own)
            copier = local.copier = PartitionCopier(
                own, store, plan.segment_bytes, reuse=plan.reuse, pace=pace.wait)
        try:
            found = copier.copy(wanted)
        except RefusedError as error:
            if error.code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
                return None
            raise
        progress(found)
        return found

    pool = ThreadPoolExecutor(max(1, plan.workers))
    try:
        found = list(pool.map(copy, copies))
    finally:
        pool.shutdown(cancel_futures=True)
        for each in clusters:
            each.close()
    deleted = [wanted.topic for wanted, each in zip(copies, found, strict=True) if each is None]
    return [each for each in found if each is not None and each.copy.topic not in deleted]


def _with_newest(image: MetadataImage, latest: MetadataImage) -> MetadataImage:
    return replace(image, next_producer_id=max(image.next_producer_id, latest.next_producer_id))


def _leader_epoch(latest: MetadataImage, copy: PartitionCopy) -> int:
    partition = latest.partition(copy.topic, copy.partition)
    return copy.leader_epoch if partition is None else max(copy.leader_epoch, partition.leader_epoch)


def _cluster_id(cluster: Cluster) -> str:
    return cluster.send(DescribeClusterRequest(), DescribeClusterResponse).cluster_id


def _write_metadata(store: Store, image: MetadataImage, now_ms: int) -> Metadata:
    data = b"".join(encode_snapshot(image_records(image), epoch=image.epoch, now_ms=now_ms,
                                    last_timestamp_ms=image.timestamp_ms))
    metadata = Metadata(image.offset + 1, image.epoch, len(data), hashlib.sha256(data).hexdigest())
    write(store, metadata.file, data)
    return metadata
