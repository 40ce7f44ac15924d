"""Verification of a backup: every file is read back and compared with its digest, and its batches are checked."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kraft.backups.manifest import Manifest, PartitionCopy, Segment
from kraft.backups.store import Store, read
from kraft.metadata.errors import MetadataLogError
from kraft.metadata.image import MetadataImage
from kraft.metadata.snapshot import decode_snapshot
from kraft_native.base.errors import CorruptFileError, CorruptRecordError, ProtocolError
from kraft_native.batch.batch import first_batch, follow_batches

BASE_OFFSET_BYTES: Final = 8


class Fault(NamedTuple):
    """A file of a backup that cannot be used, and the reason."""

    file: str
    reason: str


def verify(store: Store, manifest: Manifest, progress: Callable[[int], None] = lambda _: None) -> Iterator[Fault]:
    """Yield the faults of a backup; `progress` receives the bytes of each file."""
    try:
        read_metadata(store, manifest)
    except CorruptFileError as error:
        yield Fault(manifest.metadata.file, str(error))
    for copy in manifest.partitions:
        for segment in copy.segments:
            try:
                read_segment(store, copy, segment)
            except CorruptFileError as error:
                yield Fault(copy.file(segment), str(error))
            progress(segment.size_bytes)


def read_metadata(store: Store, manifest: Manifest) -> MetadataImage:
    """Return the cluster's metadata. Raises `CorruptFileError` when the file is missing or differs from its digest."""
    metadata = manifest.metadata
    data = _checked(store, metadata.file, metadata.size_bytes, metadata.sha256)
    try:
        return decode_snapshot(data).image(metadata.end_offset, metadata.epoch)
    except (MetadataLogError, ProtocolError) as error:
        raise CorruptFileError(f"{store.place}: {metadata.file}: {error}") from error


class Batches(NamedTuple):
    """Content of a file: whole batches with the offsets [base_offset, end); both are the file's start without any."""

    data: bytes
    base_offset: int
    end: int


def read_segment(store: Store, copy: PartitionCopy, segment: Segment) -> Batches:
    """Return the batches of a file. Raises `CorruptFileError` when it is missing, differs from its digest, or does not
    hold whole and sound batches of its offsets in ascending order."""
    name = copy.file(segment)
    data = _checked(store, name, segment.size_bytes, segment.sha256)
    if not data:
        return Batches(data, segment.start, segment.start)
    try:
        first = first_batch(data, check_crc=False)
        size, end = follow_batches(data, first.base_offset, gaps=True)
    except (CorruptRecordError, ProtocolError) as error:
        raise CorruptFileError(f"{store.place}: {name}: {error}") from error
    if size != len(data) or end > segment.end or first.next_offset <= segment.start:
        raise CorruptFileError(f"{store.place}: {name}: its batches have the offsets {first.base_offset} to {end} in "
                               f"{size} of {len(data)} bytes")
    return Batches(data, first.base_offset, end)


def _checked(store: Store, name: str, size_bytes: int, sha256: str) -> bytes:
    try:
        data = read(store, name)
    except FileNotFoundError:
        raise CorruptFileError(f"{store.place}: {name} is missing") from None
    found = hashlib.sha256(data).hexdigest()
    if len(data) != size_bytes or found != sha256:
        raise CorruptFileError(f"{store.place}: {name}: {len(data)} bytes with digest {found}; the manifest has "
                               f"{size_bytes} bytes with {sha256}")
    return data
