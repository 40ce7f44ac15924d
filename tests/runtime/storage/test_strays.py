"""`kraft storage strays`: listed, adopted and discarded, on what a node left."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kraft.cli.command import run
from kraft.log_dir import strays_in
from kraft.runtime.storage.strays import locked
from kraft_native.base.errors import LogLockedError
from tests.runtime.nodes import with_node
from tests.runtime.storage.test_removals import Disk, settings, templates, values
from tests.runtime.test_server_node import fetch

__all__ = ["templates"]


@pytest.fixture
def disk(tmp_path: Path, templates: Path, caplog: pytest.LogCaptureFixture) -> Disk:
    """A node whose `t-0` was renamed by hand, and that ran since: it has a stray, and a new, empty `t-0`."""
    shutil.copytree(templates / "node", tmp_path / "node")
    disk = Disk(tmp_path / "node", templates)
    disk.find("t-0").rename(disk.find("t-0").with_name("orders-0"))
    with_node(settings(disk.top), lambda cluster, _node: fetch(cluster, "t"))
    caplog.clear()
    return disk


def strays(disk: Disk, capsys: pytest.CaptureFixture[str], command: str, *arguments: str,
           code: int = 0) -> list[Any]:
    """Return the lines of the output, as objects for `list`; after an error those of standard error."""
    given = [f"log.dirs={disk.a},{disk.b}", f"metadata.log.dir={disk.m}"]
    options = [*(["--json"] if command == "list" else []), "--set", given[0], "--set", given[1]]
    assert run(["storage", "strays", command, *arguments, *options]) == code
    printed = capsys.readouterr()
    lines = (printed.err if code else printed.out).splitlines()
    return [json.loads(line) for line in lines] if command == "list" else lines


def test_a_stray_becomes_the_replica_again(disk: Disk, capsys: pytest.CaptureFixture[str]) -> None:
    [row] = strays(disk, capsys, "list")
    assert (row["partition"], row["adoptable"]) == ("orders-0", False)
    assert "--replace makes that one a stray" in row["reason"]
    assert "--replace" in strays(disk, capsys, "adopt", row["name"], code=1)[0]
    assert strays(disk, capsys, "adopt", "--all") == []
    assert strays(disk, capsys, "adopt", "--all", "--replace", "--dry-run") == [
        f"{row['directory']}/{row['name']} -> t-0"]
    strays(disk, capsys, "adopt", row["name"], "--replace")
    served: list[list[bytes]] = []
    with_node(settings(disk.top), lambda cluster, _node: served.append(fetch(cluster, "t")))
    assert served == [values("t", 0)]
    [empty] = strays(disk, capsys, "list")
    assert (empty["partition"], empty["bytes"]) == ("t-0", 0)


def test_a_stray_is_deleted_when_the_operator_says_so(disk: Disk, capsys: pytest.CaptureFixture[str],
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    [row] = strays(disk, capsys, "list")
    [line] = strays(disk, capsys, "discard", row["name"], "--dry-run")
    assert line.startswith(f"{row['directory']}/{row['name']}  ")
    monkeypatch.setattr("click.confirm", lambda _text, abort: None)
    strays(disk, capsys, "discard", "--all")
    assert [strays_in(path) for path in (disk.a, disk.b)] == [[], []]
    assert "is no stray of this node" in strays(disk, capsys, "discard", row["name"], "--yes", code=1)[0]
    assert "give the names of strays, or --all" in strays(disk, capsys, "adopt", code=1)[0]


def test_not_while_a_node_runs(disk: Disk, capsys: pytest.CaptureFixture[str]) -> None:
    with locked([disk.a, disk.b]):
        assert "stop it first" in strays(disk, capsys, "discard", "--all", "--yes", code=1)[0]
        assert len(strays(disk, capsys, "list")) == 1
        with pytest.raises(LogLockedError, match="a node has this directory open"), locked([disk.b]):
            raise AssertionError("it was locked")
