"""A running node is backed up and restored by the commands; clients then see the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from kraft.backups import manifest as manifests
from kraft.backups.manifest import Manifest
from kraft.backups.store import Directory
from kraft.cli.command import run
from kraft.client import Cluster
from kraft.client.partitions import LATEST, list_all_offsets
from kraft.runtime.server_node import ServerNode
from tests.backups.source import LISTENERS, Source, batch_of, differences, ends_of, state_of, visible
from tests.runtime.nodes import config, with_node


def command(*arguments: object) -> int:
    return run([str(each) for each in ("backup", *arguments)])


def address(node: ServerNode) -> str:
    return f"127.0.0.1:{node.listeners['PLAINTEXT'].port}"


def loaded(place: Path, name: str) -> Manifest:
    return manifests.load(Directory(place), name)


def test_a_restored_node_has_what_the_source_had(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, restored = tmp_path / "backups", tmp_path / "restored"

    def source(cluster: Cluster, node: ServerNode) -> dict[str, Any]:
        filled = Source(cluster)
        filled.create()
        assert command("create", place, "--name", "first", "--bootstrap", address(node), "--json") == 0
        assert json.loads(capsys.readouterr().out)["bytes_kept"] == 0
        found = state_of(cluster, ends_of(loaded(place, "first").partitions))
        filled.produce(10)             # after the backup
        filled.open.commit()
        return found

    before = with_node(config(tmp_path / "source"), source)
    assert command("verify", place) == 0
    assert command("restore", place, "--data", restored, *LISTENERS) == 0
    assert differences(Directory(place), loaded(place, "first"), restored) == []
    ends = ends_of(loaded(place, "first").partitions)

    def served(cluster: Cluster, _node: ServerNode) -> tuple[dict[str, Any], Any, int]:
        after = state_of(cluster, {each: ends.get(each, 0) for each in before["records"]})
        committed = {topic: visible(cluster, (topic, 0)) for topic in ("from", "to")}
        offset = Source(cluster).producer.send({("orders", 0): batch_of(0, 1)})["orders", 0]
        return after, committed, offset

    after, committed, offset = with_node(config(restored), served)
    assert after == before
    assert committed == {topic: [b"ended 0", b"ended 2"] for topic in ("from", "to")}, "the open transaction is aborted"
    assert offset == ends["orders", 0]


def test_a_second_backup_refers_to_full_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "backups"

    def create(node: ServerNode, name: str, *more: str) -> dict[str, Any]:
        assert command("create", place, "--name", name, "--bootstrap", address(node), "--segment-mib", 1, "--json",
                       *more) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    def work(cluster: Cluster, node: ServerNode) -> None:
        filled = Source(cluster)
        filled.create()
        big = batch_of(0, 10_000)
        for _ in range(6):
            filled.producer.send({("orders", 0): big})
        first = create(node, "a")
        filled.producer.send({("orders", 0): big})
        second, third = create(node, "b"), create(node, "c")
        full = create(node, "d", "--full")
        assert (first["bytes_kept"], full["bytes_kept"]) == (0, 0)
        assert second["bytes_kept"] > 5 * len(big)
        assert second["bytes"] == second["bytes_read"] + second["bytes_kept"] == full["bytes_read"]
        assert third["bytes_read"] == 0, "nothing has changed"
        assert command("create", place, "--name", "a", "--bootstrap", address(node)) == 1
        assert "has a backup 'a'" in capsys.readouterr().err

    with_node(config(tmp_path / "source"), work)
    assert command("list", place, "--json") == 0
    assert [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()] == ["a", "b", "c", "d"]
    for name in "abcd":
        assert command("verify", place, name) == 0
    assert command("restore", place, "b", "--data", tmp_path / "restored", *LISTENERS) == 0
    assert differences(Directory(place), loaded(place, "b"), tmp_path / "restored") == []


def test_damage_is_found_and_never_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, target = tmp_path / "backups", tmp_path / "restored"

    def work(cluster: Cluster, node: ServerNode) -> None:
        Source(cluster).create()
        assert command("create", place, "--name", "a", "--bootstrap", address(node)) == 0

    with_node(config(tmp_path / "source"), work)
    copy = next(each for each in loaded(place, "a").partitions if each.topic == "orders")
    path = place / copy.file(copy.segments[0])
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:100] + bytes((whole[100] ^ 1,)) + whole[101:], None):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        assert command("verify", place, "a") == 1
        assert copy.segments[0].sha256 in capsys.readouterr().err
        assert command("restore", place, "a", "--data", target, *LISTENERS) == 1
        assert not (target / copy.name).exists()
        assert not (target / "meta.properties").exists()
    path.write_bytes(whole)
    assert command("restore", place, "a", "--data", target, *LISTENERS) == 0
    assert command("restore", place, "a", "--data", target, *LISTENERS) == 1
    assert "is not empty" in capsys.readouterr().err
    manifest = place / "manifests" / "a.json"
    manifest.write_text(manifest.read_text().replace('"partition": 1', '"partition": 3'))
    assert command("verify", place, "a") == 1
    assert "does not have its digest" in capsys.readouterr().err


def test_one_topic_as_of_an_offset(tmp_path: Path) -> None:
    place, target = tmp_path / "backups", tmp_path / "restored"

    def work(cluster: Cluster, node: ServerNode) -> None:
        Source(cluster).create()
        assert command("create", place, "--name", "a", "--bootstrap", address(node)) == 0

    def served(cluster: Cluster, _node: ServerNode) -> tuple[list[str | None], int, Any]:
        topic = cluster.topic("orders")
        names = [each.name for each in cluster.metadata().topics if not (each.name or "").startswith("__")]
        return (names, list_all_offsets(cluster, [topic], {("orders", 0): LATEST})["orders", 0],
                state_of(cluster)["groups"])

    with_node(config(tmp_path / "source"), work)
    assert command("restore", place, "--data", target, "--topic", "orders", "--as-of", 20, *LISTENERS) == 0
    names, end, groups = with_node(config(target), served)
    assert (names, end) == (["orders"], 21)
    assert groups["orders", 0].offset == 17


@pytest.mark.parametrize(("arguments", "reason"), [
    (("create", "PLACE", "--name", "../x"), "is not 1 to 100 of"),
    (("list", "s3://"), "is not a directory or s3://bucket/prefix"),
    (("verify", "PLACE", "none"), "there is no backup 'none'"), (("verify", "PLACE"), "there is no backup"),
    (("restore", "PLACE", "--data", "DATA"), "there is no backup"),
])
def test_wrong_arguments(arguments: tuple[str, ...], reason: str, tmp_path: Path,
                         capsys: pytest.CaptureFixture[str]) -> None:
    names = {"PLACE": tmp_path / "backups", "DATA": tmp_path / "data"}
    assert command(*(names.get(each, each) for each in arguments)) == 1
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
