"""Code that may delete data (docs/internals/deletion.md): directories that are lost or mixed up in any way cost no
byte."""

import ast
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from kraft.broker.replica_plan import Action, plan_change
from kraft.client import Cluster, state
from kraft.client.topics import create_topic
from kraft.log_dir import TopicPartition, strays_in
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import EMPTY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.remove_topic_record import RemoveTopicRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.runtime.server_node import ServerNode
from kraft_native.base.errors import KraftError
from kraft_native.segment.checkpoints import MetaProperties, read_meta_properties, write_meta_properties
from tests.integration.admin import wait_until
from tests.runtime.nodes import config, with_node
from tests.runtime.test_server_node import fetch, produce
from tools.tree import ROOT

SECONDS = 20.0
TOPICS = {"t": 2, "u": 1}
METADATA = "__cluster_metadata-0"


def settings(top: Path) -> Any:
    """Settings of two log directories and one for the metadata log."""
    return config(top, log_dirs=f"{top / 'a'},{top / 'b'}", metadata_log_dir=str(top / "m"))


def values(topic: str, partition: int) -> list[bytes]:
    return [b"%s %d %d" % (topic.encode(), partition, number) for number in range(20)]


def delete(cluster: Cluster, name: str) -> None:
    answer = cluster.controller().send(DeleteTopicsRequest(topic_names=[name], timeout_ms=5000), DeleteTopicsResponse,
                                       version=5)
    assert answer.responses[0].error_code == ErrorCode.NONE


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories of three kinds. `node` is a node with records in `t-0`, `t-1` and `u-0`, of which `a` and `b` each
    have at least one. `early` is its metadata directory before the topics. `other` is another cluster's node."""
    top = tmp_path_factory.mktemp("templates")

    def fill(cluster: Cluster, _node: ServerNode) -> None:
        for name, partitions in TOPICS.items():
            create_topic(cluster, name, partitions)
            for partition in range(partitions):
                answer = produce(cluster, name, *values(name, partition), partition=partition)
                assert answer.error_code == ErrorCode.NONE

    with_node(settings(top / "node"), lambda _cluster, _node: None)
    shutil.copytree(top / "node" / "m", top / "early")
    with_node(settings(top / "node"), fill)
    with_node(settings(top / "other"), fill)
    return top


class Disk(NamedTuple):
    """One node's directories under test."""

    top: Path
    templates: Path

    @property
    def a(self) -> Path:
        return self.top / "a"

    @property
    def b(self) -> Path:
        return self.top / "b"

    @property
    def m(self) -> Path:
        return self.top / "m"

    def find(self, name: str) -> Path:
        return next(path / name for path in (self.a, self.b) if (path / name).is_dir())

    def directories(self, prefix: str) -> list[str]:
        return [path.name for directory in (self.a, self.b) for path in directory.iterdir()
                if path.name.startswith(prefix) and not path.name.endswith("-delete")]

    def elsewhere(self, name: str) -> Path:
        return next(path for path in (self.a, self.b) if not (path / name).is_dir())

    def edit(self, directory: Path, **changed: Any) -> None:
        found = read_meta_properties(directory)
        assert found is not None
        fields = {"node_id": found.node_id, "cluster_id": found.cluster_id, "directory_id": found.directory_id}
        write_meta_properties(directory, MetaProperties(**{**fields, **changed}))

    def put(self, source: Path, target: Path) -> None:
        shutil.rmtree(target)
        shutil.copytree(source, target)


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def empty(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.mkdir()


def named_future(disk: Disk) -> None:
    disk.find("t-0").rename(disk.elsewhere("t-0") / f"t-0.{'0' * 32}-future")


def named_deleted(disk: Disk) -> None:
    path = disk.find("t-0")
    path.rename(path.with_name(f"t-0.{'0' * 32}-delete"))


def half_a_copy(disk: Disk) -> None:
    shutil.copytree(disk.find("t-0"), disk.elsewhere("t-0") / "t-0")
    os.truncate(disk.elsewhere("u-0") / "t-0" / f"{0:020}.log", 100)


def two_futures(disk: Disk) -> None:
    for name in ("1", "2"):
        shutil.copytree(disk.find("t-0"), disk.elsewhere("t-0") / f"t-0.{name * 32}-future")


def to_other_topic(disk: Disk) -> None:
    """Return a directory whose name the metadata has for another topic id."""
    swap(disk.find("t-0"), disk.find("u-0"))


MOVES = "two future replicas"        # the move is finished: one copy takes the replica's place
WAYS: dict[str, tuple[Callable[[Disk], object], str]] = {
    "log directory removed": (lambda disk: shutil.rmtree(disk.b), "mount it if its disk is not mounted"),
    "log directory emptied": (lambda disk: empty(disk.b), "mount it if its disk is not mounted"),
    "metadata directory removed": (lambda disk: shutil.rmtree(disk.m), "the metadata log is missing"),
    "metadata directory emptied": (lambda disk: empty(disk.m), "the metadata log is missing"),
    "metadata directory swapped with a log directory": (
        lambda disk: swap(disk.m, disk.a), "let metadata.log.dir name that directory"),
    "log directories swapped": (lambda disk: swap(disk.a, disk.b), ""),
    "metadata log removed": (lambda disk: shutil.rmtree(disk.m / METADATA), "the metadata log of this controller"),
    "metadata log emptied": (lambda disk: empty(disk.m / METADATA), "the vote of this controller"),
    "segments of the metadata log removed": (
        lambda disk: [path.unlink() for path in (disk.m / METADATA).iterdir() if path.name != "quorum-state"],
        "every record of the metadata log"),
    "vote removed": (lambda disk: (disk.m / METADATA / "quorum-state").unlink(), "the vote of this controller"),
    "meta.properties of the metadata directory removed": (
        lambda disk: (disk.m / "meta.properties").unlink(), "holds the metadata log"),
    "meta.properties of a log directory removed": (
        lambda disk: (disk.find("u-0").parent / "meta.properties").unlink(), "but the directory holds"),
    "every meta.properties removed": (
        lambda disk: [(path / "meta.properties").unlink() for path in (disk.a, disk.b, disk.m)], "is missing, but"),
    "meta.properties emptied": (lambda disk: (disk.m / "meta.properties").write_text(""), "names no node"),
    "node id edited": (lambda disk: disk.edit(disk.a, node_id=7), "formatted for node 7"),
    "cluster id edited": (lambda disk: disk.edit(disk.b, cluster_id="labLABlabLABlabLABlabA"), "formatted for node 1"),
    "directory id edited": (lambda disk: disk.edit(disk.a, directory_id=UUID(int=1 << 100)), ""),
    "directory id edited to a reserved one": (
        lambda disk: disk.edit(disk.m, directory_id=UUID(int=99)), "the node draws a new id then"),
    "one directory id twice": (
        lambda disk: shutil.copyfile(disk.b / "meta.properties", disk.a / "meta.properties"), "one of them is a copy"),
    "log directory of another cluster": (
        lambda disk: disk.put(disk.templates / "other" / "a", disk.a), "formatted for node 1 of cluster"),
    "metadata directory of another cluster": (
        lambda disk: disk.put(disk.templates / "other" / "m", disk.m), "formatted for node 1 of cluster"),
    "metadata directory of before the topics": (lambda disk: disk.put(disk.templates / "early", disk.m), ""),
    "partition renamed": (lambda disk: disk.find("t-0").rename(disk.find("t-0").with_name("orders-0")), ""),
    "partition renumbered": (lambda disk: disk.find("t-0").rename(disk.find("t-0").with_name("t-7")), ""),
    "partition named deleted": (named_deleted, ""),
    "partition named a future replica elsewhere": (named_future, ""),
    "partitions of two topics swapped": (to_other_topic, ""),
    "partition moved to the other directory": (
        lambda disk: shutil.move(disk.find("t-0"), disk.elsewhere("t-0") / "t-0"), ""),
    "partition copied to the other directory": (
        lambda disk: shutil.copytree(disk.find("t-0"), disk.elsewhere("t-0") / "t-0"), ""),
    "part of a copy in the other directory": (half_a_copy, ""),
    MOVES: (two_futures, ""),
    "partition of another cluster": (
        lambda disk: shutil.copytree(disk.templates / "other" / "a" / "u-0", disk.a / "foreign-0")
        if (disk.templates / "other" / "a" / "u-0").is_dir()
        else shutil.copytree(disk.templates / "other" / "b" / "u-0", disk.a / "foreign-0"), ""),
    "partition without its metadata": (lambda disk: (disk.find("t-0") / "partition.metadata").unlink(), ""),
}


def user_bytes(top: Path, *, doomed: bool = False) -> dict[bytes, int]:
    """Count the segments with user records by content, wherever they lie. With `doomed`, count also those that are
    about to be deleted."""
    found: dict[bytes, int] = {}
    for path in top.rglob("*.log"):
        data = path.read_bytes().rstrip(b"\0")
        is_kept = doomed or not path.parent.name.endswith("-delete")
        if data and is_kept and METADATA not in path.parts:
            found[data] = found.get(data, 0) + 1
    return found


@pytest.mark.parametrize("way", WAYS)
def test_no_way_of_losing_or_mixing_up_directories_deletes_data(
        tmp_path: Path, templates: Path, caplog: pytest.LogCaptureFixture, way: str) -> None:
    """Either the node does not start, and reports what to do. Or it starts, and what it does not serve is a stray."""
    top = tmp_path / "node"
    shutil.copytree(templates / "node", top)
    change, complaint = WAYS[way]
    change(Disk(top, templates))
    before = user_bytes(top, doomed=True)
    served: list[str] = []

    def look(cluster: Cluster, _node: ServerNode) -> None:
        wait_until(lambda: not state.partitions(cluster.metadata()).without_leader, "all have a leader", SECONDS)
        for topic in cluster.metadata().topics:
            served.extend(f"{topic.name}-{each.partition_index}" for each in topic.partitions
                          if fetch(cluster, topic.name, partition=each.partition_index))

    if complaint:
        with pytest.raises(KraftError, match=complaint):
            with_node(settings(top), look)
    else:
        with_node(settings(top), look)
    after = user_bytes(top)
    assert {data for data, count in before.items() if after.get(data, 0) < (1 if way == MOVES else count)} == set()
    held = sum(before.values()) - (way == MOVES)
    strays = sum(len(strays_in(path)) for path in (top / "a", top / "b") if path.is_dir())
    if not complaint:
        assert len(served) + strays >= held, "what is not served is a stray"
        assert caplog.text.count("is renamed to") == strays
    caplog.clear()


def test_replicas_that_the_metadata_log_deletes_are_deleted(tmp_path: Path, templates: Path) -> None:
    """The directory is deleted while the node runs, or at the next start if it came back, as after a power loss."""
    top = tmp_path / "node"
    shutil.copytree(templates / "node", top)
    disk = Disk(top, templates)
    again = disk.find("t-0")
    shutil.copytree(again, top / "kept")

    def first(cluster: Cluster, _node: ServerNode) -> None:
        delete(cluster, "t")
        wait_until(lambda: not disk.directories("t-"), "the replicas are renamed", SECONDS)

    with_node(settings(top), first)
    assert len(user_bytes(top)) == 1 + 1, "u-0, and what was kept"
    (top / "kept").rename(again)
    with_node(settings(top), lambda cluster, _node: create_topic(cluster, "v", 1))
    assert disk.directories("t-") == []
    assert len(user_bytes(top)) == 1


def test_a_topic_missing_from_a_snapshot_was_not_deleted() -> None:
    """A broker that fetches a snapshot of metadata without its topics sets them aside."""
    topic_id = UUID(int=1000)
    delta = MetadataDelta(EMPTY)
    delta.replay(TopicRecord(name="t", topic_id=topic_id))
    delta.replay(PartitionRecord(topic_id=topic_id, partition_id=0, replicas=[1], isr=[1], leader=1))
    image = delta.finish(1, 0, 0)
    deleted = MetadataDelta(image)
    deleted.replay(RemoveTopicRecord(topic_id=topic_id))
    for delta, recorded in ((deleted, True), (MetadataDelta.between(image, EMPTY), False)):
        [step] = plan_change(delta, 1)
        assert (step.action, step.topic_id, step.recorded) == (Action.REMOVE, topic_id, recorded)


def test_names_of_strays() -> None:
    name = TopicPartition("t", 0)
    assert TopicPartition.of_stray(name.stray_name()) == name
    assert TopicPartition.named(name.stray_name()) is None
    long = TopicPartition("x" * 249, 12)
    assert len(long.stray_name()) == 255
    assert (found := TopicPartition.of_stray(long.stray_name())) is not None
    assert found.partition == 12


def test_one_module_removes_partition_directories() -> None:
    """Only `kraft.runtime.storage.removals` calls functions that remove or retire a directory."""
    calls = {"rmtree", "rmdir", "retire", "retire_future"}
    for part in ("runtime", "broker", "controller"):
        for path in (ROOT / "kraft" / part).rglob("*.py"):
            found = {node.func.attr for node in ast.walk(ast.parse(path.read_text()))
                     if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in calls}
            assert not found or path.name == "removals.py", (path, found)
