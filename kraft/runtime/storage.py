"""Formatting of data directories, and what they are: the files that exist before a node ever ran (KIP-785, KIP-853).

    <dir>/meta.properties                                   version, node id, cluster id, directory id; in every
    directory <dir>/bootstrap.checkpoint                              feature levels that an empty log begins with; in
    every directory <metadata dir>/__cluster_metadata-0/0...0-0...0.checkpoint   kraft.version 1 and the first voters

`format_storage` may be called again with the same arguments, and completes what a crash interrupted: `meta.properties`
is the last file of each directory, so a directory that has it is whole.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final
from uuid import UUID

from kraft.immutable import immutable
from kraft.metadata.image import RESERVED_IDS, Endpoint
from kraft.metadata.quorum import QuorumRecords
from kraft.metadata.snapshot import Record, decode_snapshot, encode_snapshot
from kraft.metadata.versions import BY_LEVEL, FEATURES, KRAFT_VERSION, LATEST, METADATA_VERSION, default_features
from kraft.protocol.ids import id_text
from kraft.protocol.messages.feature_level_record import FeatureLevelRecord
from kraft.raft.records import voters_record
from kraft.raft.types import Endpoint as RaftEndpoint
from kraft.raft.types import ReplicaKey
from kraft.raft.voters import RECONFIGURABLE, Voter, VoterSet
from kraft.runtime.metadata_directory import DIRECTORY_NAME
from kraft.runtime.snapshot_files import SnapshotId, list_snapshots, write_snapshot
from kraft_native import checkpoints, fileio
from kraft_native.errors import CorruptFileError, InvalidArgumentError, StorageError

BOOTSTRAP_CHECKPOINT: Final = "bootstrap.checkpoint"

# Draws a random id, such as `uuid.uuid4`.
DrawId = Callable[[], UUID]


@immutable
class FormatRequest:
    """`directories`: `log.dirs`, and `metadata_directory` (None: the first of them). `features`: levels that differ
    from the defaults of `metadata_level`.

    The first voters are one of three: this node alone (`standalone`), reached at `endpoints`, the controller listeners;
    `initial_voters`, this node one of them or not; or nobody that this directory knows of: the node finds them by its
    configuration.
    """

    node_id: int
    cluster_id: str
    directories: tuple[Path, ...]
    endpoints: tuple[Endpoint, ...] = ()
    metadata_directory: Path | None = None
    metadata_level: int = LATEST.level
    features: Mapping[str, int] = field(default_factory=dict)
    standalone: bool = True
    initial_voters: tuple[Voter, ...] = ()


@immutable
class DirectoryInfo:
    """What one directory is. `problem` says why it cannot be used."""

    path: Path
    formatted: bool
    node_id: int | None = None
    cluster_id: str | None = None
    directory_id: UUID | None = None
    holds_metadata_log: bool = False
    features: Mapping[str, int] = field(default_factory=dict)
    snapshots: tuple[SnapshotId, ...] = ()
    problem: str | None = None


def random_id(draw: DrawId) -> UUID:
    """A random id that may be used for directories, topics and clusters."""
    while True:
        found = draw()
        if found.int >= RESERVED_IDS and not id_text(found).startswith("-"):
            return found


def feature_levels(metadata_level: int, overrides: Mapping[str, int]) -> dict[str, int]:
    """The feature levels to format with; `InvalidArgumentError` for levels that do not exist or do not fit."""
    if metadata_level not in BY_LEVEL:
        raise InvalidArgumentError(
            f"metadata.version: {metadata_level} is not one of {min(BY_LEVEL)} to {max(BY_LEVEL)}")
    levels = default_features(metadata_level)
    for name, level in overrides.items():
        feature = FEATURES.get(name)
        if feature is None:
            raise InvalidArgumentError(f"feature: {name!r} is not one of {', '.join(FEATURES)}")
        if not 0 <= level <= feature.latest:
            raise InvalidArgumentError(f"{name}: {level} is not in 0 to {feature.latest}")
        for at, needed in feature.requires:
            if level >= at and metadata_level < needed:
                raise InvalidArgumentError(f"{name}: {level} needs metadata.version {needed}, not {metadata_level}")
        levels.pop(name, None)
        if level:
            levels[name] = level
    return {METADATA_VERSION: levels.pop(METADATA_VERSION), **{name: levels[name] for name in sorted(levels)}}


def format_storage(request: FormatRequest, now_ms: int, draw: DrawId) -> list[DirectoryInfo]:
    """Formats the directories, creating them where needed, and says what they are now.

    Directories that are formatted for the same node and cluster stay as they are. `InvalidArgumentError`, and nothing
    is changed, when one of them belongs to another node or cluster, or the arguments contradict each other.
    """
    _check(request)
    metadata_directory = request.metadata_directory or request.directories[0]
    paths = list(dict.fromkeys((metadata_directory, *request.directories)))
    before = [describe(path) for path in paths]
    for info in before:
        if info.problem:
            raise InvalidArgumentError(f"{info.path}: {info.problem}")
        if info.formatted and (info.node_id, info.cluster_id) != (request.node_id, request.cluster_id):
            raise InvalidArgumentError(f"{info.path}: it is formatted for node {info.node_id} of cluster "
                                       f"{info.cluster_id}, not for node {request.node_id} of {request.cluster_id}")
    levels = feature_levels(request.metadata_level, request.features)
    bootstrap = b"".join(encode_snapshot(
        [Record(FeatureLevelRecord(name=name, feature_level=level)) for name, level in levels.items()
         if name != KRAFT_VERSION],
        epoch=0, now_ms=now_ms, last_timestamp_ms=0))
    for info in before:
        if not info.formatted:
            _format_directory(info.path, request, info.path == metadata_directory, bootstrap, now_ms, draw)
    return [describe(path) for path in paths]


def _check(request: FormatRequest) -> None:
    if request.node_id < 0:
        raise InvalidArgumentError(f"node.id: {request.node_id} is below 0")
    if not request.directories:
        raise InvalidArgumentError("log.dirs: no directory is given")
    if not request.cluster_id:
        raise InvalidArgumentError("cluster id: it is empty")
    if request.standalone and not request.endpoints:
        raise InvalidArgumentError("controller.listener.names: a voter needs an address for its controller listener")
    if request.standalone and request.initial_voters:
        raise InvalidArgumentError("initial voters: a standalone node has none but itself")
    for what, values in (("node", [voter.key.node_id for voter in request.initial_voters]),
                         ("directory id", [voter.key.directory_id for voter in request.initial_voters])):
        if len(dict.fromkeys(values)) != len(values):
            raise InvalidArgumentError(f"initial voters: they have one {what} twice")
    if request.initial_voters and request.features.get(KRAFT_VERSION) == 0:
        raise InvalidArgumentError(f"{KRAFT_VERSION}: at level 0 the voters are configured, not formatted")


def _format_directory(
    path: Path, request: FormatRequest, holds_metadata: bool, bootstrap: bytes, now_ms: int, draw: DrawId
) -> None:
    _make_directory(path)
    directory_id = random_id(draw)
    fileio.write_atomic(path / BOOTSTRAP_CHECKPOINT, bootstrap)
    kraft_version = dict(request.features).get(
        KRAFT_VERSION, FEATURES[KRAFT_VERSION].default_for(request.metadata_level))
    voters = request.initial_voters
    if holds_metadata and voters:
        directory_id = next((voter.key.directory_id for voter in voters if voter.key.node_id == request.node_id),
                            directory_id)
    elif request.standalone and kraft_version:
        voters = (Voter(ReplicaKey(request.node_id, directory_id),
                        tuple(RaftEndpoint(each.name, each.host, each.port) for each in request.endpoints)),)
    if holds_metadata and voters:
        quorum = QuorumRecords(kraft_version=RECONFIGURABLE, voters=voters_record(VoterSet.of(*voters)))
        _write_voters(path / DIRECTORY_NAME, quorum, now_ms)
    checkpoints.write_meta_properties(
        path, checkpoints.MetaProperties(request.node_id, request.cluster_id, directory_id))


def _write_voters(directory: Path, quorum: QuorumRecords, now_ms: int) -> None:
    """The snapshot that a log begins with."""
    _make_directory(directory)
    for leftover in list_snapshots(directory):
        # Of an interrupted attempt, with another directory id: without meta.properties the log never began.
        fileio.unlink(directory / leftover.file_name)
    write_snapshot(directory, SnapshotId(0, 0), encode_snapshot(
        (), epoch=0, now_ms=now_ms, last_timestamp_ms=now_ms, quorum=quorum))


def _make_directory(path: Path) -> None:
    """Makes the directory, and those above it, unless they are there; durable, so that what is in it can be."""
    if not path.is_dir():
        if not path.parent.is_dir():
            _make_directory(path.parent)
        fileio.make_directory(path)
    fileio.sync_directory(path.parent)


def describe(path: Path) -> DirectoryInfo:
    """What a directory is; one that does not exist is not formatted. Reads only."""
    if not path.is_dir():
        problem = "it exists and is no directory" if path.exists() else None
        return DirectoryInfo(path, formatted=False, problem=problem)
    properties = checkpoints.read_meta_properties(path)
    if properties is None:
        problem = None
        if any((path / DIRECTORY_NAME).glob("*.log")):
            problem = "it holds a metadata log but no meta.properties"
        return DirectoryInfo(path, formatted=False, problem=problem)
    metadata = path / DIRECTORY_NAME
    return DirectoryInfo(
        path, formatted=True, node_id=properties.node_id, cluster_id=properties.cluster_id,
        directory_id=properties.directory_id, holds_metadata_log=metadata.is_dir(),
        features={record.message.name: record.message.feature_level for record in read_bootstrap(path)
                  if isinstance(record.message, FeatureLevelRecord)},
        snapshots=tuple(list_snapshots(metadata)) if metadata.is_dir() else (),
    )


def unusable(paths: Sequence[Path], metadata_directory: Path) -> list[Path]:
    """Directories of a node that was formatted which cannot be read: it starts without them. None as long as the one
    with the metadata log cannot, or nothing is formatted: then whoever uses them says what is wrong."""
    found = [path for path in paths if not _can_be_read(path)]
    return [] if metadata_directory in found or not describe(metadata_directory).formatted else found


def _can_be_read(path: Path) -> bool:
    try:
        describe(path)
        return path.is_dir() or not path.exists()
    except (OSError, StorageError, CorruptFileError):
        return False


def read_bootstrap(path: Path) -> Sequence[Record]:
    """The records that the log of this directory's cluster begins with; none when nothing says so."""
    file = path / BOOTSTRAP_CHECKPOINT
    return decode_snapshot(fileio.read_file(file)).messages if file.exists() else ()


def formatted_identity(node_id: int, paths: Sequence[Path]) -> tuple[str, UUID]:
    """The cluster's id, and the directory id of the first of these directories, which were all formatted for this node;
    `InvalidArgumentError` when they were not: the nodes of a cluster have one id, so none of them makes it up."""
    found = [describe(path) for path in paths]
    for info in found:
        if not info.formatted:
            raise InvalidArgumentError(f"{info.path}: {info.problem or 'it is not formatted'}; all nodes of a cluster "
                                       "are formatted with its id: kraft storage format --cluster-id")
        if (info.node_id, info.cluster_id) != (node_id, found[0].cluster_id):
            raise InvalidArgumentError(f"{info.path}: it is formatted for node {info.node_id} of cluster "
                                       f"{info.cluster_id}, not for node {node_id} of {found[0].cluster_id}")
    assert found[0].cluster_id is not None
    assert found[0].directory_id is not None
    return found[0].cluster_id, found[0].directory_id
