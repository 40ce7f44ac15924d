"""Replicated brokers whose directories are lost or mixed up in any way: no byte of user data is deleted.

`tests/runtime/storage/test_removals.py` is the same for a single node. Here the other replicas are complete. So a
broker that starts must have every replica again, and what it sets aside stays on the disk.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kraft.client.topics import create_topic
from kraft.local.cluster import LocalCluster
from kraft.local.errors import LocalNodeError
from kraft.local.local_node import LocalNode
from kraft.protocol.error_codes import ErrorCode
from kraft.testing.pytest_plugin import NewCluster
from tests.integration.admin import wait_until
from tests.runtime.test_server_node import fetch, produce

SECONDS = 30.0
TOPICS = {"t": 13, "u": 2}
REPLICAS = sum(TOPICS.values())
METADATA = "__cluster_metadata-0"


def values(topic: str, partition: int, age: str) -> list[bytes]:
    return [b"%s %d %s %d" % (topic.encode(), partition, age.encode(), number) for number in range(10)]


class Disk(NamedTuple):
    """Directories of one stopped broker: `a` and `b` with partitions, `m` with the metadata log. `older` is a copy of
    them; `other` are the directories of another broker in their current state."""

    top: Path
    older: Path
    other: Path

    def find(self, partition: int, topic: str = "t") -> Path:
        return next(path for each in "ab" if (path := self.top / each / f"{topic}-{partition}").is_dir())

    def elsewhere(self, path: Path) -> Path:
        return self.top / ("b" if path.parent.name == "a" else "a")

    def copy_of(self, top: Path, path: Path) -> Path:
        return next(found for each in "ab" if (found := top / each / path.name).is_dir())


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def empty(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


def put(source: Path, target: Path) -> None:
    shutil.rmtree(target)
    shutil.copytree(source, target)


def renamed(path: Path, name: str) -> None:
    path.rename(path.with_name(name))


# Each change is applied to a partition of its own, all of them between one stop and the next start.
PARTITION_WAYS: tuple[Callable[[Disk, Path], object], ...] = (
    lambda disk, path: shutil.rmtree(path),
    lambda disk, path: empty(path),
    lambda disk, path: renamed(path, "orders-0"),
    lambda disk, path: renamed(path, "t-77"),
    lambda disk, path: renamed(path, f"{path.name}.{'0' * 32}-delete"),
    lambda disk, path: path.rename(disk.elsewhere(path) / f"{path.name}.{'0' * 32}-future"),
    lambda disk, path: shutil.move(path, disk.elsewhere(path) / path.name),
    lambda disk, path: shutil.copytree(path, disk.elsewhere(path) / path.name),
    lambda disk, path: put(disk.copy_of(disk.older, path), path),
    lambda disk, path: put(disk.copy_of(disk.other, path), path),
    lambda disk, path: (path / "partition.metadata").unlink(),
    lambda disk, path: os.truncate(path / f"{0:020}.log", 0),
    lambda disk, path: swap(path, disk.find(0, "u")),
)

# Each change has a stop and a start of its own.
ALLOWED: dict[str, Callable[[Disk], object]] = {
    "log directories swapped": lambda disk: swap(disk.top / "a", disk.top / "b"),
    "older copy of a log directory": lambda disk: put(disk.older / "a", disk.top / "a"),
    "metadata log removed": lambda disk: shutil.rmtree(disk.top / "m" / METADATA),
    "older copy of the metadata directory": lambda disk: put(disk.older / "m", disk.top / "m"),
}

# Changes after which the broker does not start. The text is a part of its error.
REFUSED: dict[str, tuple[Callable[[Disk], object], str]] = {
    "log directory removed": (lambda disk: shutil.rmtree(disk.top / "b"), "mount or restore it"),
    "log directory emptied": (lambda disk: empty(disk.top / "b"), "mount or restore it"),
    "log directory of another broker": (lambda disk: put(disk.other / "a", disk.top / "a"), "formatted for node"),
    "metadata directory removed": (lambda disk: shutil.rmtree(disk.top / "m"), "mount or restore it"),
    "metadata directory emptied": (lambda disk: empty(disk.top / "m"), "mount or restore it"),
    "metadata directory of another broker": (lambda disk: put(disk.other / "m", disk.top / "m"), "formatted for node"),
    "meta.properties removed": (lambda disk: (disk.top / "a" / "meta.properties").unlink(), "but the directory holds"),
}


def user_data(tops: list[Path]) -> Counter[bytes]:
    """Count the copies of each segment's content that holds user records, wherever it lies, except in directories that
    the node is about to delete."""
    return Counter(data for top in tops for path in top.rglob("*.log")
                   if METADATA not in path.parts and not path.parent.name.endswith("-delete")
                   and (data := path.read_bytes().rstrip(b"\0")))


def lost(before: Counter[bytes], after: Counter[bytes]) -> list[bytes]:
    """Return the contents that have fewer copies than before. A replica that was extended has lost nothing."""
    return [data for data, count in before.items()
            if sum(found for content, found in after.items() if content.startswith(data)) < count]


class World(NamedTuple):
    cluster: LocalCluster
    older: dict[int, Path]
    kept: Path

    @property
    def tops(self) -> list[Path]:
        return [node.directory for node in self.cluster.brokers.values()]

    def disk(self, node: LocalNode) -> Disk:
        other = self.cluster.brokers[node.node_id % len(self.cluster.brokers) + 1]
        return Disk(node.directory, self.older[node.node_id], other.directory)

    def whole(self) -> bool:
        """Return whether every replica is in sync."""
        with self.cluster.client() as client:
            parts = [part for topic in client.metadata(list(TOPICS)).topics for part in topic.partitions]
        return len(parts) == REPLICAS and all(len(part.isr_nodes) == 3 and part.leader_id >= 0 for part in parts)


@pytest.fixture
def world(new_kraft_cluster: NewCluster, tmp_path: Path) -> World:
    cluster = new_kraft_cluster(brokers=3, controllers=1)
    for node in cluster.brokers.values():
        node.settings |= {"log.dirs": f"{node.directory / 'a'},{node.directory / 'b'}",
                          "metadata.log.dir": str(node.directory / "m"), "log.initial.task.delay.ms": "0"}
    cluster.start()
    found = World(cluster, {}, tmp_path / "kept")
    for age in ("early", "late"):
        with cluster.client() as client:
            for topic, count in TOPICS.items():
                create_topic(client, topic, count, 3)
                for partition in range(count):
                    answer = produce(client, topic, *values(topic, partition, age), partition=partition)
                    assert answer.error_code == ErrorCode.NONE
        wait_until(found.whole, "all are in sync", SECONDS)
        if age == "early":
            for node in cluster.brokers.values():
                found.older[node.node_id] = Path(shutil.copytree(node.directory, tmp_path / str(node.node_id)))
    return found


def check_starts(world: World, node: LocalNode, before: Counter[bytes]) -> None:
    node.start()
    wait_until(world.whole, "all are in sync", SECONDS)
    assert lost(before, user_data(world.tops)) == []


def check_refusals(world: World, node: LocalNode) -> None:
    node.stop()
    for name, (change, complaint) in REFUSED.items():
        shutil.copytree(node.directory, world.kept)
        change(world.disk(node))
        before = user_data(world.tops)
        node.launch()
        with pytest.raises(LocalNodeError, match=complaint):
            node.await_ready()
        assert lost(before, user_data(world.tops)) == [], name
        shutil.rmtree(node.directory)
        world.kept.rename(node.directory)
    check_starts(world, node, user_data(world.tops))


def test_no_way_of_losing_or_mixing_up_directories_deletes_data(world: World) -> None:
    nodes = list(world.cluster.brokers.values())
    for node, stop in ((nodes[0], nodes[0].stop), (nodes[1], nodes[1].kill)):
        stop()
        disk = world.disk(node)
        for partition, change in enumerate(PARTITION_WAYS):
            change(disk, disk.find(partition))
        check_starts(world, node, user_data(world.tops))
    for number, change_all in enumerate(ALLOWED.values()):
        node = nodes[(number + 2) % 3]
        node.stop()
        change_all(world.disk(node))
        check_starts(world, node, user_data(world.tops))
    check_refusals(world, nodes[2])
    with world.cluster.client() as client:
        for topic, partition in [(topic, number) for topic, count in TOPICS.items() for number in range(count)]:
            found = fetch(client, topic, partition=partition)
            assert found == [*values(topic, partition, "early"), *values(topic, partition, "late")]
