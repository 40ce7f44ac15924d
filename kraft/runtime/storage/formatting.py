"""Formatting and description of data directories: the files that exist before a node ever ran (KIP-785, KIP-853).

    <dir>/meta.properties        version, node id, cluster id, directory id; in every directory
    <dir>/bootstrap.checkpoint   feature levels that an empty log begins with; in every directory
    <metadata dir>/__cluster_metadata-0/0...0-0...0.checkpoint   kraft.version 1 and the first voters

`format_storage` may be called again with the same arguments, and completes an interrupted formatting. `meta.properties`
is the last file of each directory, so a directory that has it is whole. That of the metadata directory is the last of
all: when it exists, every directory is whole, and an empty one has lost its files.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final
from uuid import UUID

from kraft.log_dir import METADATA_TOPIC, STRAY_SUFFIX, TopicPartition, directories_in
from kraft.metadata.control_records import QuorumRecords
from kraft.metadata.errors import MetadataLogError
from kraft.metadata.image import RESERVED_IDS, Endpoint
from kraft.metadata.snapshot import Record, SnapshotContent, decode_snapshot, encode_snapshot
from kraft.metadata.versions import BY_LEVEL, FEATURES, KRAFT_VERSION, LATEST, METADATA_VERSION, default_features
from kraft.protocol.ids import id_text
from kraft.protocol.messages.feature_level_record import FeatureLevelRecord
from kraft.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from kraft.raft.records import voters_record
from kraft.raft.types import Endpoint as RaftEndpoint
from kraft.raft.types import ReplicaKey
from kraft.raft.voters import RECONFIGURABLE, Voter, VoterSet
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME, START_MARK
from kraft.runtime.storage.snapshot_files import SnapshotId, list_snapshots, write_snapshot
from kraft.structs import immutable
from kraft_native.base.errors import CorruptFileError, InvalidArgumentError, ProtocolError, StorageError
from kraft_native.file import file_io
from kraft_native.segment import checkpoints

BOOTSTRAP_CHECKPOINT: Final = "bootstrap.checkpoint"
META_PROPERTIES: Final = "meta.properties"
NAMED_MAX: Final = 3
KEEP_DATA: Final = "kraft storage format --keep-data"
NAMED_LATER: Final = "(its first leader makes the id)"
DASH_BITS: Final = 62
"""First six bits of an id whose text begins with a dash."""

# Draws a random id, such as `uuid.uuid4`.
DrawId = Callable[[], UUID]


@immutable
class FormatRequest:
    """Arguments of `format_storage`.

    `directories` are `log.dirs`, besides `metadata_directory` (None: the first of them). `features` are levels that
    differ from the defaults of `metadata_level`. `cluster_id` is empty where the first leader of the initial voters
    creates it.

    The first voters are one of three:

    - This node alone (`standalone`), reached at `endpoints`, the controller listeners.
    - `initial_voters`, with or without this node.
    - None that this directory knows: the node finds them by its configuration.
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
    credentials: tuple[UserScramCredentialRecord, ...] = ()
    """Credentials that the metadata log begins with. Only the first leader's directory is read for them."""
    keep_data: bool = False
    """Format a directory that holds partitions but is not formatted, too. Its content stays."""


@immutable
class LogDirInfo:
    """Description of one directory.

    `problem` is the reason why it cannot be used. It is `nameless` when it holds data and nothing names its node.
    `partitions` counts the directories of partitions, without strays.
    """

    path: Path
    formatted: bool
    node_id: int | None = None
    cluster_id: str | None = None
    directory_id: UUID | None = None
    holds_metadata_log: bool = False
    features: Mapping[str, int] = field(default_factory=dict)
    snapshots: tuple[SnapshotId, ...] = ()
    problem: str | None = None
    nameless: bool = False
    partitions: int = 0
    strays: tuple[str, ...] = ()


def random_id(draw: DrawId) -> UUID:
    """Draw a random id that is valid for directories, topics and clusters: its text may not begin with a dash."""
    while True:
        found = draw()
        if found.int >= RESERVED_IDS and found.int >> 122 != DASH_BITS:
            return found


def feature_levels(metadata_level: int, overrides: Mapping[str, int]) -> dict[str, int]:
    """Feature levels to format with. Raises `InvalidArgumentError` for levels that do not exist or do not fit."""
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


def format_storage(request: FormatRequest, now_ms: int, draw: DrawId) -> list[LogDirInfo]:
    """Format the directories, creating them where needed, and return their descriptions.

    Directories that are formatted for the same node and cluster stay as they are. Raises `InvalidArgumentError`, and
    changes nothing, when one of them belongs to another node or cluster, or the arguments contradict each other.
    """
    _check(request)
    metadata_directory = request.metadata_directory or request.directories[0]
    paths = list(dict.fromkeys((metadata_directory, *request.directories)))
    before = [describe(path) for path in paths]
    for info in before:
        if info.problem and not (info.nameless and request.keep_data):
            raise InvalidArgumentError(f"{info.path}: {info.problem}")
        _check_owner(info, request.node_id, request.cluster_id)
    holding = next((info for info in before if info.formatted and info.partitions), None)
    if not before[0].formatted and holding is not None and not request.keep_data:
        raise InvalidArgumentError(
            f"{metadata_directory}: a new metadata log would begin here, and know none of the partitions in "
            f"{holding.path}; mount or restore the directory, or give --keep-data: those that the cluster's metadata "
            f"does not name become strays then")
    levels = feature_levels(request.metadata_level, request.features)
    if request.credentials and not BY_LEVEL[request.metadata_level].scram:
        raise InvalidArgumentError(f"metadata.version: {request.metadata_level} has no SCRAM credentials")
    bootstrap = b"".join(encode_snapshot(
        [*(Record(FeatureLevelRecord(name=name, feature_level=level)) for name, level in levels.items()
           if name != KRAFT_VERSION), *map(Record, request.credentials)],
        epoch=0, now_ms=now_ms, last_timestamp_ms=0))
    fresh = [info.path for info in before if not info.formatted]
    ids = {path: random_id(draw) for path in fresh}
    if metadata_directory in fresh:
        ids[metadata_directory] = _begin_metadata(metadata_directory, request, ids[metadata_directory], bootstrap,
                                                  now_ms)
    for path in reversed(fresh):
        if path != metadata_directory:
            _make_directory(path)
            file_io.write_atomic(path / BOOTSTRAP_CHECKPOINT, bootstrap)
        checkpoints.write_meta_properties(
            path, checkpoints.MetaProperties(request.node_id, request.cluster_id, ids[path]))
    return [describe(path) for path in paths]


def _check(request: FormatRequest) -> None:
    if request.node_id < 0:
        raise InvalidArgumentError(f"node.id: {request.node_id} is below 0")
    if not request.directories:
        raise InvalidArgumentError("log.dirs: no directory is given")
    if not request.cluster_id and not request.initial_voters:
        raise InvalidArgumentError("cluster id: it is empty; only the first leader of initial voters makes one")
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


def _begin_metadata(path: Path, request: FormatRequest, directory_id: UUID, bootstrap: bytes, now_ms: int) -> UUID:
    """Write all of the metadata directory but `meta.properties`. Returns the directory id, which the initial voters may
    name."""
    _make_directory(path)
    if not any((path / DIRECTORY_NAME).glob("*.log")):
        file_io.unlink(path / START_MARK, missing_ok=True)
    file_io.write_atomic(path / BOOTSTRAP_CHECKPOINT, bootstrap)
    kraft_version = dict(request.features).get(
        KRAFT_VERSION, FEATURES[KRAFT_VERSION].default_for(request.metadata_level))
    voters = request.initial_voters
    if voters:
        directory_id = next((voter.key.directory_id for voter in voters if voter.key.node_id == request.node_id),
                            directory_id)
    elif request.standalone and kraft_version:
        voters = (Voter(ReplicaKey(request.node_id, directory_id),
                        tuple(RaftEndpoint(each.name, each.host, each.port) for each in request.endpoints)),)
    # It exists from now on: a formatted node whose directory is missing has lost its metadata log.
    _make_directory(path / DIRECTORY_NAME)
    if any((path / DIRECTORY_NAME).glob("*.log")):
        return _noted_id(path / DIRECTORY_NAME, request.node_id) or directory_id
    if voters:
        quorum = QuorumRecords(kraft_version=RECONFIGURABLE, voters=voters_record(VoterSet.of(*voters)))
        _write_voters(path / DIRECTORY_NAME, quorum, now_ms)
    return directory_id


def _noted_id(directory: Path, node_id: int) -> UUID | None:
    """Directory id of this voter in the newest snapshot of a metadata log that has voters."""
    for snapshot in reversed(list_snapshots(directory)):
        voters = _snapshot(directory / snapshot.file_name, "move it away, or restore it").quorum.voters
        if voters is not None:
            return next((each.voter_directory_id for each in voters.voters if each.voter_id == node_id), None)
    return None


def _write_voters(directory: Path, quorum: QuorumRecords, now_ms: int) -> None:
    """Write the snapshot that a log begins with."""
    for leftover in list_snapshots(directory):
        # From an interrupted attempt, with another directory id: without meta.properties the log never began.
        file_io.unlink(directory / leftover.file_name)
    write_snapshot(directory, SnapshotId(0, 0), encode_snapshot(
        (), epoch=0, now_ms=now_ms, last_timestamp_ms=now_ms, quorum=quorum))


def _make_directory(path: Path) -> None:
    """Create the directory and its missing parents; durable, so that its content can be."""
    if not path.is_dir():
        if not path.parent.is_dir():
            _make_directory(path.parent)
        file_io.make_directory(path)
    file_io.sync_directory(path.parent)


def describe(path: Path) -> LogDirInfo:
    """Describe a directory; one that does not exist is not formatted. Reads only."""
    if not path.is_dir():
        problem = "it exists and is no directory" if path.exists() else None
        return LogDirInfo(path, formatted=False, problem=problem)
    properties = read_identity(path)
    held, strays = _partitions_in(path)
    if properties is None:
        has_log = any((path / DIRECTORY_NAME).glob("*.log"))
        mark = [START_MARK] if (path / START_MARK).exists() else []
        named = ["the metadata log", *held, *strays] if has_log else [*mark, *held, *strays]
        problem = None
        if named:
            more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
            problem = (f"{META_PROPERTIES} is missing, but the directory holds {', '.join(named[:NAMED_MAX])}{more}; "
                       f"restore the file, name another directory, or have it written again: {KEEP_DATA}")
        return LogDirInfo(path, formatted=False, problem=problem, nameless=bool(named), partitions=len(held),
                             strays=strays)
    metadata = path / DIRECTORY_NAME
    return LogDirInfo(
        path, formatted=True, node_id=properties.node_id, cluster_id=properties.cluster_id,
        directory_id=properties.directory_id, holds_metadata_log=metadata.is_dir(),
        features={record.message.name: record.message.feature_level for record in read_bootstrap(path)
                  if isinstance(record.message, FeatureLevelRecord)},
        snapshots=tuple(list_snapshots(metadata)) if metadata.is_dir() else (), partitions=len(held), strays=strays,
    )


def _partitions_in(path: Path) -> tuple[list[str], tuple[str, ...]]:
    """Names of the directories of partitions, with those of interrupted moves and deletions, and of the strays."""
    def is_one(name: str) -> bool:
        found = TopicPartition.named(name) or TopicPartition.of_future(name) or TopicPartition.of_deleted(name)
        return found is not None and found.topic != METADATA_TOPIC

    names = directories_in(path)
    strays = tuple(name for name in names if name.endswith(STRAY_SUFFIX) and TopicPartition.of_stray(name) is not None)
    return [name for name in names if is_one(name)], strays


def read_identity(path: Path) -> checkpoints.MetaProperties | None:
    """Read the directory's `meta.properties`; None without one. For one that no KRaft node can use, raises
    `CorruptFileError` or `InvalidArgumentError`, with the remedy."""
    file = path / META_PROPERTIES
    try:
        found = checkpoints.read_meta_properties(path)
    except CorruptFileError as error:
        raise CorruptFileError(f"{error}; restore the file, or delete it and have it written again: "
                               f"{KEEP_DATA}") from error
    if found is not None and found.directory_id is not None and found.directory_id.int < RESERVED_IDS:
        raise CorruptFileError(f"{file}: directory.id {id_text(found.directory_id)} is reserved; restore the file, or "
                               "remove the line: the node draws a new id then")
    if found is None or found.version == 1:
        return found
    if found.node_id is None and found.cluster_id is None:
        raise CorruptFileError(f"{file}: it names no node and no cluster; restore the file, or delete it and have it "
                               f"written again: {KEEP_DATA}")
    raise InvalidArgumentError(f"{file}: version 0 is of a broker with ZooKeeper (broker.id {found.node_id}); migrate "
                               "its cluster to KRaft with Apache Kafka 3.9 first, or name another directory")


def ensure_directory_ids(paths: Sequence[Path], draw: DrawId) -> None:
    """Give a directory id, durably, to each formatted directory that has none, as those of Kafka before 3.7."""
    for path in paths:
        found = read_identity(path)
        if found is not None and found.directory_id is None:
            checkpoints.write_meta_properties(
                path, checkpoints.MetaProperties(found.node_id, found.cluster_id, random_id(draw)))


def unusable(paths: Sequence[Path], metadata_directory: Path) -> list[Path]:
    """Directories of a formatted node that cannot be read: it starts without them. Empty while the metadata directory
    cannot be read or nothing is formatted: then the caller that opens them reports the problem."""
    found = [path for path in paths if not _can_be_read(path)]
    return [] if metadata_directory in found or read_identity(metadata_directory) is None else found


def check_directories(metadata_directory: Path, paths: Sequence[Path]) -> None:
    """Check, before a node formats new directories, that either all directories are new or none is. Otherwise one of
    them lost its files, or its disk is not mounted, or it is another node's: raises `InvalidArgumentError`, and changes
    nothing."""
    found = [describe(path) for path in paths]
    for info in found:
        if info.problem:
            raise InvalidArgumentError(f"{info.path}: {info.problem}")
    formatted = [info for info in found if info.formatted]
    for info in found:
        if info.formatted or not formatted:
            continue
        if info.path != metadata_directory:
            raise InvalidArgumentError(
                f"{info.path}: it is empty or missing, but {formatted[0].path} is formatted for node "
                f"{formatted[0].node_id}; mount it if its disk is not mounted; if it is new: kraft storage format")
        if not (info.path / BOOTSTRAP_CHECKPOINT).exists():
            elsewhere = next((each.path for each in formatted if each.holds_metadata_log), None)
            raise InvalidArgumentError(
                f"{info.path}: the metadata log is missing, but {formatted[0].path} is formatted for node "
                f"{formatted[0].node_id}; mount or restore the directory"
                + (f", or let metadata.log.dir name {elsewhere}, which holds one" if elsewhere else "")
                + f"; to begin with new metadata, and partitions set aside: {KEEP_DATA}")
    check_distinct(found)


def check_distinct(found: Sequence[LogDirInfo]) -> None:
    """Raise `InvalidArgumentError` when two directories have one id: one is a copy of the other."""
    known: dict[UUID, Path] = {}
    for info in found:
        if info.directory_id is not None and known.setdefault(info.directory_id, info.path) != info.path:
            raise InvalidArgumentError(
                f"{info.path / META_PROPERTIES}: its directory.id {id_text(info.directory_id)} is that of "
                f"{known[info.directory_id]} too: one of them is a copy; take one out of log.dirs")


def _can_be_read(path: Path) -> bool:
    try:
        describe(path)
        return path.is_dir() or not path.exists()
    except (OSError, StorageError, CorruptFileError):
        return False
    except InvalidArgumentError:
        return True                    # a whole file with a refused content


def read_bootstrap(path: Path) -> Sequence[Record]:
    """Records that the log of this directory's cluster begins with; none without the file."""
    file = path / BOOTSTRAP_CHECKPOINT
    return _snapshot(file, "restore the file, or copy that of another log directory of this node").messages if (
        file.exists()) else ()


def _snapshot(file: Path, ways_out: str) -> SnapshotContent:
    """Read a file of records. Raises `CorruptFileError` when it is damaged."""
    try:
        return decode_snapshot(file_io.read_file(file))
    except (ProtocolError, MetadataLogError) as error:
        raise CorruptFileError(f"{file}: it is damaged ({error}); {ways_out}") from error


def _check_owner(info: LogDirInfo, node_id: int, cluster_id: str) -> None:
    if info.formatted and (info.node_id, info.cluster_id) != (node_id, cluster_id):
        raise InvalidArgumentError(
            f"{info.path}: it is formatted for node {info.node_id} of cluster {info.cluster_id or NAMED_LATER}, "
            f"not for node {node_id} of {cluster_id or NAMED_LATER}")


def settle_cluster_id(formatted: Sequence[LogDirInfo]) -> str:
    """Return the cluster id of these directories, empty when none has it. Directories that lack it, because a crash
    interrupted its writing, get it."""
    found = next((info.cluster_id for info in formatted if info.cluster_id), "")
    if found:
        write_cluster_id([info.path for info in formatted], found)
    return found


def write_cluster_id(paths: Sequence[Path], cluster_id: str) -> None:
    """Give this cluster id, durably, to each formatted directory that has none."""
    for path in paths:
        found = read_identity(path)
        if found is not None and not found.cluster_id:
            checkpoints.write_meta_properties(
                path, checkpoints.MetaProperties(found.node_id, cluster_id, found.directory_id))


def formatted_identity(node_id: int, paths: Sequence[Path]) -> tuple[str, UUID]:
    """Return the cluster id, empty when it is still to come, and the directory id of the first directory. Raises
    `InvalidArgumentError` unless all directories are formatted for this node: the nodes of a cluster share one id, so
    no node invents it."""
    ensure_directory_ids(paths, uuid.uuid4)
    found = [describe(path) for path in paths]
    cluster_id = next((info.cluster_id for info in found if info.cluster_id), "")
    for info in found:
        if info.problem:
            raise InvalidArgumentError(f"{info.path}: {info.problem}")
        if not info.formatted:
            raise InvalidArgumentError(f"{info.path}: it is not formatted; all nodes of a cluster are formatted with "
                                       "its id: kraft storage format --cluster-id. If it was: mount or restore it")
        _check_owner(info, node_id, cluster_id if info.cluster_id else "")
    check_distinct(found)
    assert found[0].directory_id is not None
    return settle_cluster_id(found), found[0].directory_id
