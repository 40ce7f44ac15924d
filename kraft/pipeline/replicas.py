"""Discovery of replicas in data directories, and of the range that may be read of each."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from kraft.files.partition_files import PartitionFiles
from kraft.log_dir import HIGH_WATERMARKS, METADATA_TOPIC, TopicPartition, partitions_in
from kraft_native.base.errors import CorruptFileError, InvalidArgumentError
from kraft_native.segment import checkpoints

CLEANER_POINTS = "cleaner-offset-checkpoint"
FIRST_DIRTY_KEY = "first_dirty_offset"
HIGH_WATERMARK_KEY = "high_watermark"


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of a partition. Offsets are those that its owner publishes, or the last recorded ones.

    `high_watermark`: -1 when none is recorded. `cleaned_end`: below it a cleaner may have removed records, on each
    replica at another time; 0 without a cleaner. `segment_starts`: base offsets, rising.
    """

    name: TopicPartition
    directory: str
    node_id: int | None
    log_start: int
    high_watermark: int
    cleaned_end: int
    segment_starts: tuple[int, ...]
    size_bytes: int

    @property
    def label(self) -> str:
        """Name of the replica in a report."""
        return self.directory if self.node_id is None else f"node {self.node_id} ({self.directory})"


def find_replicas(directories: Iterable[Path], topics: Collection[str] = ()) -> dict[TopicPartition, list[Replica]]:
    """Return the partitions in these data directories (members of `log.dirs`), by name; all topics except the metadata
    log when none are named. A partition's own directory is accepted, too. `InvalidArgumentError` for one that is
    neither."""
    found: dict[TopicPartition, list[Replica]] = {}
    for directory in directories:
        for replica in _replicas_in(directory.resolve(), topics):
            found.setdefault(replica.name, []).append(replica)
    return dict(sorted(found.items()))


def _replicas_in(directory: Path, topics: Collection[str]) -> list[Replica]:
    if not directory.is_dir():
        raise InvalidArgumentError(f"{directory} is not a directory")
    if any(directory.glob("[0-9]*.log")):
        names = [name for name in partitions_in(directory.parent) if name.directory_name == directory.name]
        directory = directory.parent
    else:
        names = [name for name in partitions_in(directory)
                 if (name.topic in topics if topics else name.topic != METADATA_TOPIC)]
    marks, cleaned = _offsets(directory / HIGH_WATERMARKS), _offsets(directory / CLEANER_POINTS)
    meta = checkpoints.read_meta_properties(directory)
    shared = checkpoints.SharedOffsets()
    return [_replica(directory, name, None if meta is None else meta.node_id, marks, cleaned, shared) for name in names
            if any((directory / name.directory_name).glob("[0-9]*.log"))]


def _replica(top: Path, name: TopicPartition, node_id: int | None, marks: dict[tuple[str, int], int],
             cleaned: dict[tuple[str, int], int], shared: checkpoints.SharedOffsets) -> Replica:
    partition = PartitionFiles(top / name.directory_name)
    live = partition.live()
    state = checkpoints.read_log_state(partition.directory)
    noted = {} if state is None else state.extra
    if live is not None:
        high_watermark = live["high_watermark"]
    else:
        high_watermark = marks.get(name, int(noted.get(HIGH_WATERMARK_KEY, -1)))
    return Replica(name, str(partition.directory), node_id, partition.log_start(shared), high_watermark,
                   max(cleaned.get(name, 0), int(noted.get(FIRST_DIRTY_KEY, 0)), 0),
                   tuple(segment.base_offset for segment in partition.segments), partition.size_bytes)


def _offsets(path: Path) -> dict[tuple[str, int], int]:
    """Return a checkpoint's offsets; none when the file does not exist. A file that cannot be read is an error: without
    it, records could be shown that were never committed."""
    if not path.exists():
        return {}
    try:
        return checkpoints.read_offsets(path)
    except CorruptFileError as error:
        raise InvalidArgumentError(f"{path} cannot be read, so nobody knows what is committed: {error}") from error
