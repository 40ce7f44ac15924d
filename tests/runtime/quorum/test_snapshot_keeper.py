"""The loop continues while a thread writes a snapshot, and learns the outcome."""

import errno
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.runtime.quorum import snapshot_keeper
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME
from kraft.runtime.storage.snapshot_files import SnapshotId, list_snapshots, write_snapshot
from tests.runtime.quorum.metadata_nodes import Node, formatted

PATIENCE_SECONDS = 30


class Gate:
    """A slow disk: a write waits until the gate is opened. `reached` is set when the thread waits at it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()

    def write(self, directory: Path, snapshot: SnapshotId, batches: Iterable[bytes]) -> int:
        self.reached.set()
        assert self._open.wait(PATIENCE_SECONDS)
        return write_snapshot(directory, snapshot, batches)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(snapshot_keeper, "write_snapshot", gate.write)
    yield gate
    gate.open()


def create(node: Node, name: str) -> None:
    answer = node.send(CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)]))
    assert [each.error_code for each in answer.topics] == [ErrorCode.NONE]


def test_commits_continue_while_a_snapshot_is_written(tmp_path: Path, gate: Gate) -> None:
    formatted(tmp_path)
    with Node(tmp_path) as node:
        node.join()
        create(node, "before")
        at_begin, end_offset = node.controller.image.state(), node.log.log_end_offset
        writing = node.loop.create_task(node.quorum.keeper.write())
        create(node, "during")
        assert gate.reached.wait(PATIENCE_SECONDS)
        create(node, "later")
        assert not writing.done()
        assert node.quorum.snapshots.ids == (SnapshotId(0, 0),), "none is listed before it is durable"
        assert node.metadata.unsnapshot_bytes > 0, "what came meanwhile is behind it"
        gate.open()
        node.run(writing)
        snapshot = node.quorum.snapshots.latest()
        assert snapshot == (end_offset, 1)
        assert node.quorum.snapshots.content(snapshot).image(*snapshot).state() == at_begin


def test_a_snapshot_that_cannot_be_written_stops_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(directory: Path, snapshot: SnapshotId, batches: Iterable[bytes]) -> int:
        raise OSError(errno.ENOSPC, f"{directory / snapshot.file_name}: no space left")

    monkeypatch.setattr(snapshot_keeper, "write_snapshot", full)
    formatted(tmp_path)
    with Node(tmp_path, snapshot_bytes=1, snapshot_interval_ms=1) as node:
        with pytest.raises(OSError, match="no space left"):
            node.wait(lambda: False)
        assert len(node.failures) == 1


def test_a_node_that_closes_waits_for_the_snapshot_that_is_written(tmp_path: Path, gate: Gate) -> None:
    formatted(tmp_path)
    with Node(tmp_path, snapshot_bytes=1, snapshot_interval_ms=1) as node:
        node.wait(gate.reached.is_set)
        end_offset = node.controller.image.offset + 1
        closing = node.loop.create_task(node.quorum.close())
        assert node.quorum.metadata.commit_latencies_ms, "of what it committed as the leader"
        node.run(node.quorum.driver.resign(PATIENCE_SECONDS))
        assert not node.quorum.metadata.commit_latencies_ms, "they are of a past leadership"
        assert not closing.done()
        assert not node.log.closed, "the directory stays locked"
        gate.open()
        node.run(closing)
        assert node.failures == []
    assert list_snapshots(tmp_path / DIRECTORY_NAME)[-1].end_offset == end_offset
    assert not list((tmp_path / DIRECTORY_NAME).glob("*.part*"))
    with Node(tmp_path) as node:
        assert node.quorum.snapshots.ids[-1].end_offset == end_offset
