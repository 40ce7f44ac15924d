"""Files of a store: private ones, names of backups among others, and what cannot be read."""

import errno
import hashlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from kraft.backups import create as creation
from kraft.backups.create import Plan, create
from kraft.backups.manifest import Manifest, Metadata, PartitionCopy, Segment, names, save
from kraft.backups.restore import STATE, Target, _check_target
from kraft.backups.store import Directory, prepared, read, write
from kraft.backups.verify import read_segment, verify
from kraft_native.base.errors import CorruptFileError, InvalidArgumentError, StorageError

EMPTY = Manifest("monday", "cluster", 0, Metadata(0, 0, 0, "0" * 64), (), ())


def test_files_are_private_in_a_directory_that_is_not(tmp_path: Path) -> None:
    """The metadata has keys of credentials."""
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    try:
        with prepared(Directory(tmp_path)) as store:
            write(store, "metadata/a", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "metadata" / "a").stat().st_mode & 0o777 == 0o600


def test_other_files_are_no_backups(tmp_path: Path) -> None:
    store = Directory(tmp_path)
    with prepared(store):
        save(store, EMPTY)
        for name in ("._monday.json", ".json", "old/monday.json", "notes.txt"):
            write(store, f"manifests/{name}", b"x")
    assert names(store) == ["monday"]


def test_a_disk_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error of the store, and no damage that `verify` could name."""
    def broken(*_: object) -> bytes:
        raise OSError(errno.EIO, "broken")

    store = Directory(tmp_path)
    file = SimpleNamespace(read=broken, __enter__=None)
    with prepared(store):
        write(store, "metadata/a", b"x")
    assert read(store, "metadata/a") == b"x"

    class File:
        def __enter__(self) -> Any:
            return file

        def __exit__(self, *exception: object) -> None:
            pass

    monkeypatch.setattr(store, "reader", lambda _name: File())
    with pytest.raises(StorageError, match="metadata"):
        list(verify(store, EMPTY))


def test_a_backup_that_ended_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Directory(tmp_path)
    image: Any = SimpleNamespace(topic_ids={}, topics={}, partitions=list)
    monkeypatch.setattr(creation, "choose", lambda *_: SimpleNamespace(starts={}, ends={}, commits=()))
    monkeypatch.setattr(creation, "_with_newest", lambda image, _: image)
    monkeypatch.setattr(creation, "_cluster_id", lambda _: str(UUID(int=0)))

    def as_another_ends(*_: object) -> Metadata:
        save(store, EMPTY)
        return EMPTY.metadata

    monkeypatch.setattr(creation, "_write_metadata", as_another_ends)
    cluster: Any = SimpleNamespace()
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="has a backup 'monday'"):
            create(cluster, store, Plan("monday"), lambda: image)
    assert (tmp_path / "manifests" / "monday.json").read_bytes() == EMPTY.encode()


def test_a_file_of_the_same_size_with_other_bytes_is_damage(tmp_path: Path) -> None:
    store = Directory(tmp_path)
    data = b"segment"
    segment = Segment(0, 1, 0, len(data), hashlib.sha256(data).hexdigest())
    copy = PartitionCopy("t", UUID(int=1), 0, 0, 1, 0, (segment,))
    with prepared(store):
        write(store, copy.file(segment), b"SEGMENT")
    with pytest.raises(CorruptFileError, match="with digest"):
        read_segment(store, copy, segment)


def test_a_restore_needs_empty_directories(tmp_path: Path) -> None:
    """An interrupted one with the same parameters continues; with others it does not."""
    request: Any = SimpleNamespace(metadata_directory=None, directories=(tmp_path,))
    target = Target(request, (1,))
    (tmp_path / "lost+found").mkdir()
    _check_target(target, b"note")
    (tmp_path / "orders-0").mkdir()
    with pytest.raises(InvalidArgumentError, match="not empty, it holds orders-0"):
        _check_target(target, b"note")
    (tmp_path / STATE).write_bytes(b"note")
    _check_target(target, b"note")
    with pytest.raises(InvalidArgumentError, match="other parameters"):
        _check_target(target, b"another")
