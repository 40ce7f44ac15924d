"""Replicas whose log cannot be opened: the node reports them to the controller, and those that lacked room come back by
themselves."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from kraft.broker.replica_roles import ReplicaRoles
from kraft.client import Cluster
from kraft.log_dir import TopicPartition
from kraft.metadata.image import LOST_DIRECTORY, NO_LEADER, PartitionRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse
from kraft.runtime.base import descriptors
from kraft.runtime.replicas import retries
from kraft.runtime.replicas.manager import ReplicaManager
from kraft.runtime.server_node import ServerNode
from kraft.runtime.storage.log_manager import LogManager
from kraft.runtime.upkeep import housekeeping
from kraft_native.base.errors import StorageError
from kraft_native.file import faults
from kraft_native.log.flusher import Flusher
from kraft_native.segment.checkpoints import write_partition_metadata
from tests.integration.admin import wait_until
from tests.runtime.nodes import config, with_node
from tests.runtime.quorum.metadata_nodes import CLUSTER
from tests.runtime.test_server_node import fetch, produce
from tests.runtime.upkeep.test_housekeeping import create, on_loop

SECONDS = 20.0


def registered(node: ServerNode) -> PartitionRegistration:
    found = node.parts.core.broker.image.partition("t", 0)
    assert found is not None
    return found


def is_lost(node: ServerNode) -> bool:
    return (registered(node).leader, registered(node).directory_of(1)) == (NO_LEADER, LOST_DIRECTORY)


async def reported(node: ServerNode) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return the replicas that failed, and those of them that are tried again."""
    return list(node.parts.core.replicas.failed), node.parts.core.replicas.without_resources()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
def test_a_log_that_cannot_be_made_is_lost_until_there_is_room(
        tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: int,
) -> None:
    monkeypatch.setattr(housekeeping, "REOPENING_PERIOD_SECONDS", 0.02)

    def first(cluster: Cluster, node: ServerNode) -> None:
        with faults.fail_at(1, error=error, kinds={"mkdir"}, under=tmp_path, suffix="t-0", persistent=True) as plan:
            create(cluster, "t")
            wait_until(lambda: is_lost(node), "the controller knows", SECONDS)
            assert on_loop(node, reported(node)) == ([("t", 0)], [("t", 0)])
        assert plan.fired
        wait_until(lambda: registered(node).leader == 1, "it leads", SECONDS)
        assert not node.parts.core.replicas.failed
        serves(cluster, node)
        assert node.failure is None

    def second(cluster: Cluster, node: ServerNode) -> None:
        wait_until(lambda: registered(node).leader == 1, "it leads", SECONDS)
        serves(cluster, node)

    def serves(cluster: Cluster, node: ServerNode) -> None:
        wait_until(lambda: produce(cluster, "t", b"value").error_code == ErrorCode.NONE, "it is served", SECONDS)
        assert fetch(cluster, "t")[-1] == b"value"
        assert registered(node).directory_of(1) == node.parts.storage.logs.directory_ids[0]

    with_node(config(tmp_path), first)
    caplog.clear()                     # the logged records hold the frames of the failure
    with_node(config(tmp_path), second)


def test_logs_leave_descriptors_for_connections(tmp_path: Path, caplog: pytest.LogCaptureFixture,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """A node near its limit refuses the next log, not the next client. It logs how many descriptors are in use and why
    it refuses."""
    monkeypatch.setattr(housekeeping, "REOPENING_PERIOD_SECONDS", 0.02)

    def body(cluster: Cluster, node: ServerNode) -> None:
        create(cluster, "kept")
        wait_until(lambda: produce(cluster, "kept", b"value").error_code == ErrorCode.NONE, "it is served", SECONDS)
        with monkeypatch.context() as few:
            few.setattr(descriptors, "logs_max", lambda soft: 3)
            create(cluster, "t")
            wait_until(lambda: is_lost(node), "the controller knows", SECONDS)
            assert on_loop(node, reported(node)) == ([("t", 0)], [("t", 0)])
            assert "opening a log with" in caplog.text and "kept for connections" in caplog.text
            with Cluster(f"127.0.0.1:{node.listeners['PLAINTEXT'].port}") as another:
                assert produce(another, "kept", b"value").error_code == ErrorCode.NONE
        wait_until(lambda: registered(node).leader == 1, "it leads", SECONDS)
        assert not node.parts.core.replicas.failed

    with_node(config(tmp_path), body)
    caplog.clear()


@pytest.mark.parametrize("moment", ["opening the log", "taking the role"])
def test_a_replica_that_met_an_unexpected_error_is_tried_again(
        tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """The replica comes back without a restart and without a change of the metadata. Its records are still present."""
    monkeypatch.setattr(housekeeping, "REOPENING_PERIOD_SECONDS", 0.02)
    monkeypatch.setattr(retries, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(retries, "PAUSE_SECONDS_MAX", 0.04)
    failures = 0

    def failing(whole: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, topic: Any, *arguments: Any) -> Any:
            nonlocal failures
            if "t" in (topic, getattr(topic, "topic", "")) and failures < 3:
                failures += 1
                raise ValueError("a fault of ours")
            return whole(self, topic, *arguments)

        return call

    def break_it() -> None:
        owner, name = (LogManager, "open") if moment == "opening the log" else (ReplicaRoles, "lead")
        monkeypatch.setattr(owner, name, failing(getattr(owner, name)))

    def first(cluster: Cluster, node: ServerNode) -> None:
        create(cluster, "t")
        wait_until(lambda: produce(cluster, "t", b"value").error_code == ErrorCode.NONE, "it is served", SECONDS)

    def second(cluster: Cluster, node: ServerNode) -> None:
        failed = node.parts.core.replicas.failed
        wait_until(lambda: failures == 3 and registered(node).leader == 1 and not failed, "it leads", SECONDS)
        wait_until(lambda: produce(cluster, "t", b"more").error_code == ErrorCode.NONE, "it is served", SECONDS)
        assert fetch(cluster, "t")[0] == b"value"
        assert registered(node).directory_of(1) == node.parts.storage.logs.directory_ids[0]
        assert node.failure is None

    with_node(config(tmp_path), first)
    break_it()
    with_node(config(tmp_path), second)
    assert "t-0 cannot be served" in caplog.text
    caplog.clear()


def test_a_topic_that_is_deleted_is_not_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def work(cluster: Cluster, node: ServerNode) -> None:
        with faults.fail_at(1, error=errno.ENOSPC, kinds={"mkdir"}, under=tmp_path, suffix="t-0", persistent=True):
            create(cluster, "t")
            wait_until(lambda: is_lost(node), "the controller knows", SECONDS)
            cluster.controller().send(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), DeleteTopicsResponse,
                                      version=5)
            wait_until(lambda: not node.parts.core.replicas.failed, "nobody misses it", SECONDS)
        assert node.parts.core.replicas.open_again("t", 0), "it was removed between the look and the turn"

    with_node(config(tmp_path), work)
    caplog.clear()


def test_a_directory_that_is_full_stays_offline(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = tmp_path / "first", tmp_path / "second"

    def work(cluster: Cluster, node: ServerNode) -> None:
        create(cluster, "other")
        create(cluster, "t")
        wait_until((second / "t-0").is_dir, "it lies in the second one", SECONDS)
        with faults.fail_at(1, error=errno.ENOSPC, kinds={"write"}, under=second, suffix=".log", persistent=True):
            assert produce(cluster, "t", b"value").error_code
            wait_until(lambda: bool(node.parts.core.replicas.failed), "the directory is offline", SECONDS)
        for _ in range(2):
            assert on_loop(node, reported(node)) == ([("t", 0)],
                                                     []), "there is room again, but what was it that failed?"
            on_loop(node, node.parts.housekeeping._open_again())

    with_node(config(tmp_path, log_dirs=f"{first},{second}"), work)
    caplog.clear()


@pytest.mark.parametrize("named", ["first", "second"])
def test_of_a_log_in_two_directories_the_one_that_the_metadata_names_stays(
        tmp_path: Path, caplog: pytest.LogCaptureFixture, named: str) -> None:
    """One directory was offline, and the replica was meanwhile created again in the other one."""
    paths = {"first": tmp_path / "first", "second": tmp_path / "second"}
    settings = config(tmp_path, log_dirs=f"{paths['first']},{paths['second']}")

    def create_and_fill(cluster: Cluster, node: ServerNode) -> None:
        names = ("other", "t") if named == "second" else ("t", "other")
        for name in names:
            create(cluster, name)
            wait_until(lambda name=name: produce(cluster, name, b"value").error_code == ErrorCode.NONE,
                       "it is served", SECONDS)
        logs = node.parts.storage.logs
        wait_until(lambda: registered(node).directory_of(1) == logs.home("t", 0), "the metadata names it", SECONDS)

    def look(cluster: Cluster, node: ServerNode) -> None:
        assert fetch(cluster, "t")[-1] == b"value"
        assert node.parts.storage.logs.home("t", 0) == registered(node).directory_of(1)
        assert [path for path in paths.values() if (path / "t-0").is_dir()] == [paths[named]]

    with_node(settings, create_and_fill)
    away = next(path for name, path in paths.items() if name != named)
    shutil.copytree(paths[named] / "t-0", away / "t-0")
    (away / "t-0" / f"{0:020}.log").write_bytes(b"")
    caplog.clear()
    with_node(settings, look)
    assert f"t-0: in several log directories; the one in {paths[named]} stays" in caplog.text
    caplog.clear()


def test_without_a_word_of_the_metadata_the_log_of_the_topic_and_of_a_clean_stop_stays(
        tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    name, topic_id, unknown = TopicPartition("t", 0), UUID(int=7000), UUID(int=9000)
    paths = [tmp_path / each for each in ("a", "b", "c")]

    def manager() -> LogManager:
        return LogManager(tuple(paths), node_id=1, cluster_id=CLUSTER, flusher=flusher)

    flusher = Flusher()
    manager().close()
    for path, topic in zip(paths, (UUID(int=7001), topic_id, topic_id), strict=True):
        (path / "t-0").mkdir()
        write_partition_metadata(path / "t-0", topic)
    (paths[1] / ".kafka_cleanshutdown").unlink()
    logs = manager()
    logs.settle(name, topic_id, unknown)
    assert logs.directory_of(*name).path == paths[2]  # type: ignore[union-attr]
    assert [(path / "t-0").is_dir() for path in paths] == [False, False, True]
    logs.close()
    flusher.close()
    caplog.clear()


def test_replicas_of_a_failed_directory_are_given_up_one_by_one() -> None:
    names = [("t", index) for index in range(5)]
    given_up: list[str] = []
    table = SimpleNamespace(get=lambda *name: None if name == names[0] else str(name))
    replicas = SimpleNamespace(broker=SimpleNamespace(table=table), failed={}, _give_up=given_up.append)
    cause = StorageError("t-0", errno.EIO, "no disk")
    seen = [len(given_up) for _ in ReplicaManager._lose(replicas, names, cause)]  # type: ignore[arg-type]
    assert seen == [1, 2, 3, 4] and list(replicas.failed) == names[1:]
