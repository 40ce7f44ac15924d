"""The first leader creates the cluster's id. A node writes it down once it is committed, whenever it crashes."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.protocol.ids import id_of
from kraft.raft.types import Endpoint, ReplicaKey
from kraft.raft.voters import Assignment, Voter, VoterSet
from kraft.runtime.quorum.cluster_id import ClusterId, ForeignClusterError, StoppedAtStartError
from kraft.runtime.storage.formatting import formatted_identity, write_cluster_id
from kraft_native.base.errors import InvalidArgumentError, StorageError
from kraft_native.segment.checkpoints import MetaProperties, read_meta_properties, write_meta_properties
from tests.runtime.quorum.metadata_nodes import CLUSTER, Node, formatted

VOTER = Voter(ReplicaKey(1, UUID(int=1 << 100)), (Endpoint("CONTROLLER", "127.0.0.1", 9093),))


def nameless(top: Path, **fields: Any) -> Path:
    """Return a directory for a first voter that knows no cluster id."""
    return formatted(top, cluster_id="", standalone=False, initial_voters=(VOTER,), **fields)


def id_in(directory: Path) -> str | None:
    found = read_meta_properties(directory)
    return None if found is None else found.cluster_id


class Writer:
    """Writes the id to a directory; the first `failures` calls crash before they write."""

    def __init__(self, directory: Path, failures: int) -> None:
        self._directory = directory
        self._failures = failures

    def __call__(self, cluster_id: str) -> None:
        if self._failures:
            self._failures -= 1
            raise StorageError(str(self._directory), 5, "the process ends here")
        write_cluster_id((self._directory,), cluster_id)


def test_the_id_is_written_when_it_is_committed_and_survives_a_crash_before_that(tmp_path: Path) -> None:
    nameless(tmp_path)
    assert id_in(tmp_path) == ""
    made: list[str | None] = []
    for failures in (1, 0):
        with Node(tmp_path, leads=False) as node:
            node.quorum.cluster_id.write = Writer(tmp_path, failures)
            try:
                node.wait(lambda: bool(node.quorum.cluster_id.value))
            except StorageError:
                assert id_in(tmp_path) == "", "not written: the next start finds it in the log"
                assert node.quorum.cluster_id.value == ""
            made.append(node.quorum.raft.replica.history.latest.voters.cluster_id)
    assert made[0] == made[1] == id_in(tmp_path), "one id, however often it starts"
    assert id_of(made[0] or "").int
    with Node(tmp_path) as node:
        assert node.quorum.cluster_id.value == node.quorum.raft.replica.config.cluster_id == made[0]
        node.join()
        node.snapshot()
    write_meta_properties(tmp_path, MetaProperties(1, "", VOTER.key.directory_id))
    with Node(tmp_path, leads=False) as node:
        assert node.quorum.cluster_id.value == made[0], "a snapshot has it too"


def test_a_broker_registers_with_the_id_that_was_made(tmp_path: Path) -> None:
    nameless(tmp_path)
    with Node(tmp_path) as node:
        assert node.controller.settings.cluster_id == node.quorum.cluster_id.value != ""
        node.join(cluster_id=node.quorum.cluster_id.value)


def test_the_log_of_another_cluster_is_refused(tmp_path: Path) -> None:
    nameless(tmp_path)
    with Node(tmp_path) as node:
        made = node.quorum.cluster_id.value
    write_meta_properties(tmp_path, MetaProperties(1, CLUSTER, VOTER.key.directory_id))
    complaint = f"cluster.id is {CLUSTER}, but the metadata log is of cluster {made}"
    with Node(tmp_path, leads=False) as node, pytest.raises(ForeignClusterError, match=complaint):
        node.wait(lambda: node.controller.active)


def test_no_id_can_come_where_the_log_has_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"meta.properties: cluster.id is empty, and with controller.quorum"):
        ClusterId("", tmp_path, is_static=True)
    found = ClusterId("", tmp_path, is_static=False)
    found.committed(Assignment(-1, 1, VoterSet.of(VOTER)))
    assert found.value == "", "these are the voters of the format: no leader has written anything"
    with pytest.raises(ForeignClusterError, match="the metadata log has no id either"):
        found.committed(Assignment(3, 1, VoterSet.of(VOTER)))


def test_a_node_that_is_stopped_waits_no_longer(tmp_path: Path) -> None:
    async def wait() -> None:
        ended = asyncio.Event()
        ended.set()
        await ClusterId("", tmp_path, is_static=False).known(ended)

    with pytest.raises(StoppedAtStartError, match="before its cluster had an id"):
        asyncio.run(wait())


def test_a_crash_between_two_directories_is_completed(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    nameless(paths[0], directories=tuple(paths))
    assert formatted_identity(1, paths)[0] == ""
    write_cluster_id(paths[1:2], CLUSTER)
    assert [id_in(path) for path in paths] == ["", CLUSTER, ""]
    assert formatted_identity(1, paths) == (CLUSTER, VOTER.key.directory_id)
    assert [id_in(path) for path in paths] == [CLUSTER] * 3
    found = read_meta_properties(paths[2])
    assert found is not None
    write_meta_properties(paths[2], MetaProperties(7, "", found.directory_id))
    with pytest.raises(InvalidArgumentError, match=r"formatted for node 7 of cluster \(its first leader"):
        formatted_identity(1, paths)
    assert id_in(paths[2]) == "", "nothing is written to another node's directory"
