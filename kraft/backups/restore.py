"""A node's directories, written from a backup while the node is down.

Offsets are kept because the batches are written into the log files as they are. A producer could not do that: it would
close the gaps of compacted topics, begin at offset 0 where records were deleted, and lose producer ids.

A node runs only on a metadata directory that has `meta.properties`, and that file is written last of all. What came
before is worth nothing without it. A restore that was interrupted continues when it is started again with the same
parameters: partitions that have their final name are whole.

| file | meaning |
|---|---|
| `kraft-restore.json` in each directory | parameters of the restore that is in progress; removed in the end |
| `<digest>.restoring` | a partition that is being written |
"""

import hashlib
import json
import shutil
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from kraft.backups.cut import TRANSACTIONS_TOPIC
from kraft.backups.decisions import AsOf, decide
from kraft.backups.manifest import Manifest, PartitionCopy
from kraft.backups.restored_log import Ending, RestoredLog, restore_log
from kraft.backups.restored_metadata import placement, restored_image
from kraft.backups.store import Store, make_directories
from kraft.backups.verify import read_metadata
from kraft.log_dir import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from kraft.metadata.control_records import QuorumRecords
from kraft.metadata.image import MetadataImage
from kraft.metadata.snapshot import encode_snapshot, image_records
from kraft.metadata.versions import FEATURES, KRAFT_VERSION, TRANSACTION_VERSION
from kraft.raft.records import voters_record
from kraft.raft.types import Endpoint, ReplicaKey
from kraft.raft.voters import RECONFIGURABLE, Voter, VoterSet
from kraft.runtime.quorum.state_file import QuorumStateFile, write_quorum_state
from kraft.runtime.storage.formatting import FormatRequest, describe, format_storage, random_id
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME
from kraft.runtime.storage.snapshot_files import SnapshotId, write_snapshot
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.file import file_io
from kraft_native.segment import checkpoints

STATE: Final = "kraft-restore.json"
WORKERS: Final = 2
NO_BROKER_EPOCH: Final = -1
BY_EPOCH_VERSION: Final = 2
LOST_AND_FOUND: Final = "lost+found"
INTERNAL: Final = "__"

Progress = Callable[[PartitionCopy], None]


class Target(NamedTuple):
    """The node whose directories are written. `request` formats them. `nodes` are the brokers of the new cluster, this
    one among them if it `is_broker`. A node that `is_controller` begins with the metadata; the others fetch it.
    `static_voters` are the ids of configured voters."""

    request: FormatRequest
    nodes: tuple[int, ...]
    is_broker: bool = True
    is_controller: bool = True
    static_voters: tuple[int, ...] = ()

    @property
    def metadata_directory(self) -> Path:
        return self.request.metadata_directory or self.request.directories[0]

    @property
    def paths(self) -> list[Path]:
        return list(dict.fromkeys((self.metadata_directory, *self.request.directories)))


class Selection(NamedTuple):
    """Part of a backup to restore. `topics` None: all. Topics by name come with the internal ones."""

    topics: Collection[str] | None = None
    as_of: AsOf = AsOf()


class Restored(NamedTuple):
    """A finished restore: partitions with their offsets, and whether an earlier call had finished it."""

    logs: Mapping[str, RestoredLog]
    bytes_written: int
    was_done: bool = False


def restore(store: Store, manifest: Manifest, target: Target, selection: Selection, now_ms: int,
            progress: Progress = lambda _: None) -> Restored:
    """Write the directories of a node. It can be started afterwards.

    Raises `InvalidArgumentError`, and changes nothing, when a directory holds anything but an interrupted restore with
    the same parameters, or the backup lacks a topic. Raises `CorruptFileError` for a file of the backup that differs
    from its digest, and `OperationError` for a log that does not hold what the backup has.
    """
    copies = selected(manifest, selection)
    note = _note(manifest, target, selection)
    if _is_done(target, note):
        return Restored({}, 0, was_done=True)
    _check_target(target, note)
    image = read_metadata(store, manifest)
    for path in target.paths:
        make_directories(path)
        file_io.write_atomic(path / STATE, note)
    endings = _endings(store, manifest, image, copies, selection.as_of)
    own = _own(image, copies, target) if target.is_broker else []
    logs = _restore_logs(store, own, target, endings, progress)
    if target.is_controller:
        _write_metadata(manifest, restored_image(image, copies, target.nodes), target, now_ms)
    format_storage(target.request, now_ms, uuid.uuid4)
    _remove_notes(target)
    return Restored({copy.name: log for copy, log in zip(own, logs, strict=True)},
                    sum(each.size_bytes for each in own))


def selected(manifest: Manifest, selection: Selection) -> list[PartitionCopy]:
    """Return the partitions to restore. Raises `InvalidArgumentError` for a topic that the backup lacks."""
    copies = [each for each in manifest.partitions if each.topic != TRANSACTIONS_TOPIC]
    if selection.topics is None:
        return copies
    known = {each.topic for each in copies}
    if missing := [topic for topic in selection.topics if topic not in known]:
        raise InvalidArgumentError(f"topics: the backup {manifest.name} has no topic {', '.join(missing)}")
    return [each for each in copies if each.topic in selection.topics or each.topic.startswith(INTERNAL)]


def _note(manifest: Manifest, target: Target, selection: Selection) -> bytes:
    """Return the parameters that a restore must have to continue an interrupted one."""
    request = target.request
    fields: dict[str, Any] = {
        "backup": manifest.name, "manifest": hashlib.sha256(manifest.encode()).hexdigest(),
        "cluster_id": request.cluster_id, "node_id": request.node_id, "nodes": target.nodes,
        "directories": [str(path.absolute()) for path in target.paths],
        "topics": None if selection.topics is None else sorted(selection.topics), "as_of": selection.as_of._asdict()}
    return json.dumps(fields, indent=1).encode() + b"\n"


def _is_done(target: Target, note: bytes) -> bool:
    """Return whether an earlier call wrote everything and was interrupted after that; remove its notes then."""
    noted = [path / STATE for path in target.paths if (path / STATE).exists()]
    if not describe(target.metadata_directory).formatted or not noted:
        return False
    if any(file_io.read_file(path) != note for path in noted):
        raise InvalidArgumentError(f"{noted[0]}: a restore with other parameters was interrupted here; empty the "
                                   "directory, or repeat that one")
    _remove_notes(target)
    return True


def _check_target(target: Target, note: bytes) -> None:
    for path in target.paths:
        if not path.is_dir():
            continue
        held = sorted(each.name for each in path.iterdir()
                      if each.name != LOST_AND_FOUND and not each.name.startswith(STATE))
        if (path / STATE).exists():
            if file_io.read_file(path / STATE) != note:
                raise InvalidArgumentError(f"{path / STATE}: a restore with other parameters was interrupted here; "
                                           "empty the directory, or repeat that one")
        elif held:
            raise InvalidArgumentError(f"{path}: it is not empty, it holds {', '.join(held[:3])}; a restore begins a "
                                       "new cluster, so name empty directories")


def _own(image: MetadataImage, copies: Sequence[PartitionCopy], target: Target) -> list[PartitionCopy]:
    """Return the partitions of which this node has a replica."""
    placed = placement(image, copies, target.nodes)
    return [each for each in copies if target.request.node_id in placed[each.topic, each.partition]]


def _restore_logs(store: Store, copies: Sequence[PartitionCopy], target: Target,
                  endings: Callable[[PartitionCopy], Ending], progress: Progress) -> list[RestoredLog]:
    """Write the logs, one directory after the other, and then the checkpoints."""
    directories = target.request.directories
    places = [directories[number % len(directories)] for number in range(len(copies))]

    def write(job: tuple[PartitionCopy, Path]) -> RestoredLog:
        copy, place = job
        found = restore_log(store, copy, place, endings(copy))
        progress(copy)
        return found

    pool = ThreadPoolExecutor(WORKERS)
    try:
        logs = list(pool.map(write, zip(copies, places, strict=True)))
    finally:
        pool.shutdown(cancel_futures=True)
    for directory in directories:
        there = [(copy, log) for copy, place, log in zip(copies, places, logs, strict=True) if place == directory]
        ends = {(copy.topic, copy.partition): log.log_end_offset for copy, log in there}
        starts = {(copy.topic, copy.partition): log.log_start_offset for copy, log in there if log.log_start_offset}
        checkpoints.write_offsets(directory / RECOVERY_POINTS, {
            (copy.topic, copy.partition): log.recovery_point for copy, log in there})
        checkpoints.write_offsets(directory / HIGH_WATERMARKS, ends)
        checkpoints.write_offsets(directory / LOG_STARTS, starts)
        checkpoints.write_clean_shutdown(directory, NO_BROKER_EPOCH)
    return logs


def _endings(store: Store, manifest: Manifest, image: MetadataImage, copies: Sequence[PartitionCopy],
             as_of: AsOf) -> Callable[[PartitionCopy], Ending]:
    """Return the ending of each partition. It depends on the partitions of all nodes where the restore ends before the
    backup, and producers have used transactions."""
    by_epoch = image.features.get(TRANSACTION_VERSION, 0) >= BY_EPOCH_VERSION
    if as_of.is_end:
        return lambda _: Ending(as_of, manifest.commits, by_epoch, manifest.created_ms)
    if not by_epoch or TRANSACTIONS_TOPIC not in image.topic_ids:
        return lambda copy: Ending(_as_of(copy, as_of), (), by_epoch, manifest.created_ms)
    found = decide(store, [(copy, _as_of(copy, as_of)) for copy in copies], manifest.commits, manifest.created_ms)
    return lambda copy: Ending(AsOf(offset=found.ends[copy.topic, copy.partition] - 1), found.commits, by_epoch,
                               manifest.created_ms, found.limits)


def _as_of(copy: PartitionCopy, as_of: AsOf) -> AsOf:
    """Return the point of one partition: an offset means those of the topics that clients have created."""
    return AsOf() if copy.topic.startswith(INTERNAL) and as_of.offset is not None else as_of


def _write_metadata(manifest: Manifest, image: MetadataImage, target: Target, now_ms: int) -> None:
    """Write the metadata log: a snapshot with the image and the first voters, and nothing after it."""
    directory = target.metadata_directory / DIRECTORY_NAME
    if directory.exists():
        shutil.rmtree(directory)       # of an attempt that was interrupted
    make_directories(directory)
    snapshot = SnapshotId(manifest.metadata.end_offset, manifest.metadata.epoch)
    voters = _voters(target, image)
    quorum = QuorumRecords(kraft_version=RECONFIGURABLE, voters=voters_record(VoterSet.of(*voters))) if voters else None
    write_snapshot(directory, snapshot, encode_snapshot(
        image_records(image), epoch=snapshot.epoch, now_ms=now_ms, last_timestamp_ms=image.timestamp_ms,
        quorum=quorum))
    # A log that begins behind the snapshot. Formatting leaves a directory alone that has one.
    file_io.write_atomic(directory / f"{snapshot.end_offset:020d}.log", b"")
    state = QuorumStateFile(leader_epoch=snapshot.epoch) if voters else \
        QuorumStateFile(leader_epoch=snapshot.epoch, version=0, voters=target.static_voters)
    write_quorum_state(directory, state)


def _voters(target: Target, image: MetadataImage) -> tuple[Voter, ...]:
    """Return the first voters; none where they are configured."""
    request = target.request
    if request.initial_voters or not request.standalone:
        return request.initial_voters
    if not FEATURES[KRAFT_VERSION].default_for(image.metadata_version.level):
        return ()
    endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in request.endpoints)
    return (Voter(ReplicaKey(request.node_id, random_id(uuid.uuid4)), endpoints),)


def _remove_notes(target: Target) -> None:
    for path in target.paths:
        file_io.unlink(path / STATE, missing_ok=True)
        file_io.sync_directory(path)
