"""Stray partition directories of a stopped node, and their way back (docs/internals/deletion.md).

A stray becomes the replica of a partition again when the metadata has a partition of its topic id and number on this
node, and no other directory has it. `locked` keeps a node from starting meanwhile.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import UUID

from kraft.log_dir import TopicPartition, strays_in, topic_id_in
from kraft.metadata.image import MetadataImage
from kraft.structs import immutable
from kraft_native.base.errors import LogLockedError, OperationError
from kraft_native.file import file_io


@immutable
class Stray:
    """One stray. `target` is the partition that the metadata has for it on this node; None where it has none, with the
    reason in `why`. `copies` are the directories that have this partition now."""

    path: Path
    name: TopicPartition
    topic_id: UUID | None
    size_bytes: int
    target: TopicPartition | None
    why: str
    copies: tuple[Path, ...] = ()


def list_strays(directories: Sequence[Path], image: MetadataImage, node_id: int) -> list[Stray]:
    """The strays of all these directories, which must be all directories of the node, by directory and name. Reads
    only."""
    there = [directory for directory in directories if directory.is_dir()]
    return [_stray(path, name, there, image, node_id) for directory in there for name, path in strays_in(directory)]


def _stray(path: Path, name: TopicPartition, directories: Sequence[Path], image: MetadataImage, node_id: int) -> Stray:
    topic_id = topic_id_in(path)
    size_bytes = sum(each.stat().st_size for each in path.glob("*.log"))
    topic = None if topic_id is None else image.topics.get(topic_id)
    partition = None if topic is None else topic.partitions.get(name.partition)
    why, target = "", None
    if topic_id is None:
        why = "it does not say to which topic id it belongs"
    elif topic is None:
        why = "the metadata has no topic of its id"
    elif partition is None or node_id not in partition.replicas:
        why = f"the metadata has no replica of {topic.name}-{name.partition} on node {node_id}"
    else:
        target = TopicPartition(topic.name, name.partition)
    copies = () if target is None else tuple(
        each for directory in directories if (each := directory / target.directory_name).is_dir())
    return Stray(path, name, topic_id, size_bytes, target, why, copies)


def adopt(stray: Stray, *, replace: bool = False) -> Path:
    """Give a stray the name of its replica again, durably; return the new path. With `replace` another copy becomes a
    stray first. Raises `OperationError`, and changes nothing, when it cannot be adopted."""
    if stray.target is None:
        raise OperationError(f"{stray.path}: {stray.why}")
    if stray.copies and not replace:
        raise OperationError(f"{stray.path}: {stray.copies[0]} has the replica already; with --replace that one "
                             "becomes a stray")
    for copy in stray.copies:
        file_io.rename(copy, copy.with_name(stray.target.stray_name()))
        file_io.sync_directory(copy.parent)
    adopted = stray.path.with_name(stray.target.directory_name)
    file_io.rename(stray.path, adopted)
    file_io.sync_directory(adopted.parent)
    return adopted


@contextmanager
def locked(directories: Sequence[Path]) -> Iterator[None]:
    """Hold the locks of all directories. Raises `LogLockedError` when a node has one of them open."""
    with ExitStack() as held:
        for directory in directories:
            if directory.is_dir():
                lock = file_io.FileLock(directory / ".lock")
                if not lock.acquired:
                    raise LogLockedError(f"{directory}: a node has this directory open; stop it first")
                held.callback(lock.release)
        yield
