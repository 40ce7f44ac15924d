"""A node whose derived files are damaged: it serves, and reports which files it created again."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kraft.client import Cluster
from kraft.log_dir import CLEAN_SHUTDOWN, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from kraft.protocol.error_codes import ErrorCode
from kraft.runtime.server_node import ServerNode
from kraft_native.segment.checkpoints import read_partition_metadata
from tests.runtime.nodes import config, with_node
from tests.runtime.test_server_node import fetch, produce
from tests.runtime.upkeep.test_housekeeping import create


def garbage(path: Path) -> None:
    path.write_bytes(b"\xffgarbage")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "kept").write_text("")


DAMAGES: dict[str, Callable[[Path], None]] = {each.__name__: each for each in (garbage, empty, remove, directory)}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a node with a topic for each damage."""
    top = tmp_path_factory.mktemp("derived")

    def fill(cluster: Cluster, _node: ServerNode) -> None:
        for name in DAMAGES:
            create(cluster, name)
            assert produce(cluster, name, name.encode()).error_code == ErrorCode.NONE

    with_node(config(top / "data"), fill)
    return top / "data"


def check(cluster: Cluster, node: ServerNode) -> None:
    for name in DAMAGES:
        assert fetch(cluster, name) == [name.encode()]
        assert produce(cluster, name, b"more").error_code == ErrorCode.NONE
    assert not node.parts.core.replicas.failed
    assert not node.parts.storage.logs.has_offline


def test_a_damaged_topic_id_is_written_again(
        tmp_path: Path, template: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The id comes from the metadata log. Nothing that had the file's place is deleted."""
    data = Path(shutil.copytree(template, tmp_path / "data"))
    ids = {name: read_partition_metadata(data / f"{name}-0") for name in DAMAGES}
    for name, damage in DAMAGES.items():
        damage(data / f"{name}-0" / "partition.metadata")
    with_node(config(data), check)
    assert {name: read_partition_metadata(data / f"{name}-0") for name in DAMAGES} == ids
    assert len(list(data.rglob("kept"))) == 1
    assert caplog.text.count("partition.metadata is missing or damaged; it is written again") == len(DAMAGES)
    caplog.clear()


@pytest.mark.parametrize("damage", [garbage, directory])
def test_damaged_files_of_a_log_directory_do_not_take_it_offline(
        tmp_path: Path, template: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None]) -> None:
    data = Path(shutil.copytree(template, tmp_path / "data"))
    names = (CLEAN_SHUTDOWN, RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS)
    for name in names:
        damage(data / name)

    def look(cluster: Cluster, node: ServerNode) -> None:
        assert not node.parts.storage.logs.was_clean, "a mark that cannot be read is none"
        check(cluster, node)

    with_node(config(data), look)
    for name in names:
        assert f"{data / name}: " in caplog.text
    assert "this counts as an unclean stop" in caplog.text
    caplog.clear()
    with_node(config(data), lambda _cluster, node: check_clean(node))
    assert not caplog.text


def check_clean(node: ServerNode) -> None:
    assert node.parts.storage.logs.was_clean
