"""Manifest of a backup: what it holds, with the digest of every file. It is the file that is written last, so a backup
without it does not exist.

A manifest is JSON with one key more, `sha256`: the digest of the rest as compact JSON with sorted keys.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

from kraft.backups.store import Store, read, write
from kraft_native.base.errors import CorruptFileError, InvalidArgumentError

FORMAT: Final = 1
MANIFESTS: Final = "manifests/"
SUFFIX: Final = ".json"
DIGEST: Final = "sha256"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SEGMENT: Final = re.compile(r"(\d{20})-(\d{20})-(-?\d+)-(\d+)-([0-9a-f]{64})\.log")


class Segment(NamedTuple):
    """File of whole batches with the offsets [start, end). Its first batch may begin before `start`, and batches may be
    missing where the log was compacted. `leader_epoch` is that of the leader when the file was read: no batch in it is
    newer, unless the leader changed meanwhile."""

    start: int
    end: int
    leader_epoch: int
    size_bytes: int
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.start:020d}-{self.end:020d}-{self.leader_epoch}-{self.size_bytes}-{self.sha256}.log"

    @classmethod
    def of(cls, file_name: str) -> Self | None:
        """Return the segment of that name; None for another file."""
        found = _SEGMENT.fullmatch(file_name)
        return None if found is None else cls(int(found[1]), int(found[2]), int(found[3]), int(found[4]), found[5])


class PartitionCopy(NamedTuple):
    """Copy of one partition: the offsets [log_start_offset, end_offset), in `segments` without a hole. `leader_epoch`
    is at least that of its last batch."""

    topic: str
    topic_id: UUID
    partition: int
    log_start_offset: int
    end_offset: int
    leader_epoch: int
    segments: tuple[Segment, ...]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.segments)

    def file(self, segment: Segment) -> str:
        """Return the name of a segment's file in the store."""
        return segments_of(self.topic_id, self.partition) + segment.file_name


class Commit(NamedTuple):
    """A transaction that was decided at the common point, and whose marker follows later in this partition."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int


class Metadata(NamedTuple):
    """Snapshot of the metadata log below `end_offset`."""

    end_offset: int
    epoch: int
    size_bytes: int
    sha256: str

    @property
    def file(self) -> str:
        return f"metadata/{self.sha256}.checkpoint"


class Manifest(NamedTuple):
    """One backup. `created_ms` is the time of its common point."""

    name: str
    cluster_id: str
    created_ms: int
    metadata: Metadata
    partitions: tuple[PartitionCopy, ...]
    commits: tuple[Commit, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of batches that a restore reads."""
        return sum(each.size_bytes for each in self.partitions)

    def files(self) -> list[tuple[str, int, str]]:
        """Return name, size and digest of each file but the manifest."""
        found = [(self.metadata.file, self.metadata.size_bytes, self.metadata.sha256)]
        for each in self.partitions:
            found += [(each.file(segment), segment.size_bytes, segment.sha256) for segment in each.segments]
        return found

    def encode(self) -> bytes:
        fields: dict[str, Any] = {
            "format": FORMAT, "name": self.name, "cluster_id": self.cluster_id, "created_ms": self.created_ms,
            "metadata": self.metadata._asdict(),
            "partitions": [{**each._asdict(), "topic_id": str(each.topic_id),
                            "segments": [segment.file_name for segment in each.segments]} for each in self.partitions],
            "commits": [each._asdict() for each in self.commits]}
        return json.dumps({**fields, DIGEST: digest_of(fields)}, indent=1).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """Raises `CorruptFileError`, which names `where`, for anything but a whole manifest."""
        try:
            fields = json.loads(data)
            noted = fields.pop(DIGEST)
            if noted != digest_of(fields):
                raise CorruptFileError(f"{where}: the manifest does not have its digest {noted}")
            if fields["format"] != FORMAT:
                raise CorruptFileError(f"{where}: format {fields['format']} is not {FORMAT}, the one known here")
            return cls(fields["name"], fields["cluster_id"], fields["created_ms"], Metadata(**fields["metadata"]),
                       tuple(map(_partition, fields["partitions"])),
                       tuple(Commit(**each) for each in fields["commits"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptFileError(f"{where}: no manifest of a backup: {error}") from error


def _partition(fields: dict[str, Any]) -> PartitionCopy:
    segments = tuple(map(Segment.of, fields["segments"]))
    if None in segments:
        raise ValueError(f"{fields['topic']}-{fields['partition']}: a file has another form of name")
    return PartitionCopy(**{**fields, "topic_id": UUID(fields["topic_id"]), "segments": segments})


def segments_of(topic_id: UUID, partition: int) -> str:
    """Return the prefix of the files of a partition's segments."""
    return f"segments/{topic_id.hex}/{partition}/"


def digest_of(fields: dict[str, Any]) -> str:
    """Return the digest of a manifest's fields."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def check_name(name: str) -> str:
    """Return the name of a backup. Raises `InvalidArgumentError` for one that no file can have everywhere."""
    if not NAME.fullmatch(name):
        raise InvalidArgumentError(f"name: {name!r} is not 1 to 100 of A-Z a-z 0-9 . _ -, with a letter or digit first")
    return name


def file_of(name: str) -> str:
    """Return the name of a backup's manifest in the store."""
    return f"{MANIFESTS}{name}{SUFFIX}"


def names(store: Store) -> list[str]:
    """Return the names of the backups in a store, sorted. Other files beside them have no such name."""
    found = (each.name.removeprefix(MANIFESTS).removesuffix(SUFFIX) for each in store.files(MANIFESTS)
             if each.name.endswith(SUFFIX))
    return sorted(name for name in found if NAME.fullmatch(name))


def load(store: Store, name: str) -> Manifest:
    """Return the manifest of a backup. Raises `InvalidArgumentError` when the store has none of that name, and
    `CorruptFileError`."""
    file = file_of(check_name(name))
    try:
        data = read(store, file)
    except FileNotFoundError:
        known = ", ".join(names(store)) or "none"
        raise InvalidArgumentError(f"{store.place}: there is no backup {name!r}; it has {known}") from None
    return Manifest.decode(data, f"{store.place}: {file}")


def load_newest(store: Store) -> Manifest:
    """Return the manifest of the newest backup. Raises as `load`."""
    found = load_all(store, names(store))
    if not found:
        raise InvalidArgumentError(f"{store.place}: there is no backup")
    return found[-1]


def load_all(store: Store, wanted: Iterable[str]) -> list[Manifest]:
    """Return the manifests of these backups, oldest first. Raises as `load`."""
    return sorted((load(store, name) for name in wanted), key=lambda each: (each.created_ms, each.name))


def save(store: Store, manifest: Manifest) -> None:
    """Write a manifest. The backup exists from now on."""
    write(store, file_of(manifest.name), manifest.encode())
