"""Formatting: Kafka's files with Kafka's content, idempotent, and safe against an interruption at any point."""

import errno
import random
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.metadata.snapshot import decode_snapshot
from kraft.protocol.ids import id_text
from kraft.runtime.storage.formatting import (
    BOOTSTRAP_CHECKPOINT,
    FormatRequest,
    LogDirInfo,
    describe,
    feature_levels,
    format_storage,
    random_id,
    read_bootstrap,
)
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME
from kraft.runtime.storage.snapshot_files import SnapshotId
from kraft_native.base.errors import InvalidArgumentError, StorageError
from kraft_native.batch.batch import walk
from kraft_native.file import faults
from tests.controller.world import ids
from tests.golden import golden, needs_golden
from tests.runtime.quorum.metadata_nodes import CLUSTER, ENDPOINT, NOW_MS


def request(*directories: Path, **fields: Any) -> FormatRequest:
    return FormatRequest(**{
        "node_id": 1, "cluster_id": CLUSTER, "directories": directories, "endpoints": (ENDPOINT,), **fields})


def shape(data: bytes) -> list[tuple[int, int, int, bool]]:
    return [(batch.base_offset, batch.last_offset, batch.leader_epoch, batch.is_control) for batch in walk(data)]


def keys(path: Path) -> list[str]:
    return sorted(line.split("=")[0] for line in path.read_text().splitlines() if "=" in line)


@needs_golden
def test_the_files_are_those_that_kafka_makes(tmp_path: Path) -> None:
    """The same batches with the same records, apart from times, ids and ports."""
    format_storage(request(tmp_path / "d"), NOW_MS, ids(900))
    for name in (BOOTSTRAP_CHECKPOINT, f"{DIRECTORY_NAME}/{SnapshotId(0, 0).file_name}"):
        ours, kafkas = (tmp_path / "d" / name).read_bytes(), golden("node", "data", name).read_bytes()
        assert shape(ours) == shape(kafkas)
        mine, theirs = decode_snapshot(ours), decode_snapshot(kafkas)
        assert mine.messages == theirs.messages
        assert mine.quorum.kraft_version == theirs.quorum.kraft_version
        assert (mine.quorum.voters is None) == (theirs.quorum.voters is None)
    assert (tmp_path / "d" / DIRECTORY_NAME / SnapshotId(0, 0).file_name).stat().st_mode & 0o777 == 0o400
    assert keys(tmp_path / "d" / "meta.properties") == keys(golden("node", "data", "meta.properties"))


def test_formatting_again_changes_nothing(tmp_path: Path) -> None:
    first = format_storage(request(tmp_path / "d" / "e"), NOW_MS, ids(900))
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert format_storage(request(tmp_path / "d" / "e"), NOW_MS + 1, ids(950)) == first
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files
    [info] = first
    assert (info.formatted, info.node_id, info.cluster_id, info.holds_metadata_log) == (True, 1, CLUSTER, True)
    assert info.features["metadata.version"] == 30
    assert info.snapshots == (SnapshotId(0, 0),)


def test_several_directories(tmp_path: Path) -> None:
    """One directory holds the metadata log; a new one joins the others later."""
    made = format_storage(request(tmp_path / "a", tmp_path / "b", metadata_directory=tmp_path / "m"), NOW_MS, ids())
    assert [info.path.name for info in made] == ["m", "a", "b"]
    assert [info.holds_metadata_log for info in made] == [True, False, False]
    assert len({info.directory_id for info in made}) == 3
    made = format_storage(request(tmp_path / "m", tmp_path / "c"), NOW_MS, ids(5000))
    assert [info.formatted for info in made] == [True, True]


def test_directories_of_others_are_refused(tmp_path: Path) -> None:
    format_storage(request(tmp_path / "a"), NOW_MS, ids())
    for other in (request(tmp_path / "b", tmp_path / "a", node_id=2),
                  request(tmp_path / "b", tmp_path / "a", cluster_id="another")):
        with pytest.raises(InvalidArgumentError, match="is formatted for node 1"):
            format_storage(other, NOW_MS, ids())
    assert not (tmp_path / "b").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgumentError, match="no directory"):
        format_storage(request(tmp_path / "file"), NOW_MS, ids())


@pytest.mark.parametrize(("fields", "match"), [
    ({"node_id": -1}, "node.id"), ({"cluster_id": ""}, "cluster id"), ({"endpoints": ()}, "controller listener"),
    ({"directories": ()}, "log.dirs"), ({"metadata_level": 6}, "metadata.version"),
    ({"metadata_level": 31}, "metadata.version"), ({"features": {"x": 1}}, "feature"),
    ({"features": {"group.version": 2}}, "group.version"),
    ({"features": {"eligible.leader.replicas.version": 1}, "metadata_level": 22}, "needs metadata.version"),
])
def test_bad_requests(tmp_path: Path, fields: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        format_storage(request(*fields.pop("directories", (tmp_path / "d",)), **fields), NOW_MS, ids())
    assert not (tmp_path / "d").exists() or not describe(tmp_path / "d").formatted


def test_a_random_id_does_not_look_like_an_option() -> None:
    source = random.Random(3)
    drawn: list[UUID] = []

    def draw() -> UUID:
        drawn.append(UUID(int=source.getrandbits(128)))
        return drawn[-1]

    found = [random_id(draw) for _ in range(2000)]
    assert found == [each for each in drawn if not id_text(each).startswith("-")]
    assert len(found) < len(drawn)
    assert random_id(iter([UUID(int=99), UUID(int=100)]).__next__) == UUID(int=100)


def test_feature_defaults() -> None:
    assert feature_levels(30, {}) == {
        "metadata.version": 30, "eligible.leader.replicas.version": 1, "group.version": 1, "share.version": 1,
        "streams.version": 1, "transaction.version": 2}
    assert feature_levels(7, {}) == {"metadata.version": 7}
    assert feature_levels(22, {}) == {"metadata.version": 22, "group.version": 1}
    assert "share.version" not in feature_levels(30, {"share.version": 0})


def test_a_format_that_fails_anywhere_can_be_done_again(tmp_path: Path) -> None:
    """The directory counts as not formatted until the last file exists; then it is complete."""
    number = 0
    while True:
        directory = tmp_path / str(number)
        with faults.fail_at(number + 1, error=errno.EIO, under=tmp_path) as plan:
            try:
                format_storage(request(directory), NOW_MS, ids())
            except StorageError:
                assert plan.fired
        if not plan.fired:
            break
        info: LogDirInfo = describe(directory)
        [again] = format_storage(request(directory), NOW_MS, ids(8000))
        assert again.formatted
        assert not info.formatted or again.directory_id == info.directory_id
        assert len(read_bootstrap(directory)) == 6
        voters = decode_snapshot((directory / DIRECTORY_NAME / SnapshotId(0, 0).file_name).read_bytes()).quorum.voters
        assert voters is not None
        assert voters.voters[0].voter_directory_id == again.directory_id
        number += 1
    assert number > 15
