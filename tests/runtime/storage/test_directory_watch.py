"""Directories that vanish under a running node, and operations on files that fail: the directory goes offline."""

import asyncio
import errno
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraft.client import Cluster
from kraft.client.configs import Change, Operation, alter_configs
from kraft.config.node_config import NodeConfig
from kraft.protocol.error_codes import ErrorCode
from kraft.runtime.controller_node import ControllerNode
from kraft.runtime.server_node import ServerNode
from kraft.runtime.storage import directory_watch
from kraft.runtime.storage.directory_watch import DirectoryWatch
from kraft.runtime.storage.formatting import META_PROPERTIES, FormatRequest, format_storage
from kraft_native.base.errors import StorageError
from kraft_native.file import faults
from tests.integration.admin import wait_until
from tests.runtime.nodes import config, with_node
from tests.runtime.quorum.metadata_nodes import CLUSTER, ENDPOINT, NOW_MS, ids
from tests.runtime.storage.test_removals import delete
from tests.runtime.test_server_node import fetch, produce
from tests.runtime.upkeep.test_housekeeping import create, fill, node_config, on_loop

SECONDS = 20.0


def remove(path: Path) -> None:
    shutil.rmtree(path)


def replace(path: Path) -> None:
    """Replace the directory as unmounting does: the path leads to another directory."""
    path.rename(path.with_name("unmounted"))
    path.mkdir()


def replace_by_another(path: Path) -> None:
    """Mount an older copy of the directory in its place."""
    replace(path)
    shutil.copy(path.with_name("unmounted") / META_PROPERTIES, path)


def strip(path: Path) -> None:
    for entry in path.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


async def ended_by_itself(node: ServerNode | ControllerNode, what: str) -> None:
    with pytest.raises(StorageError, match=what):
        await asyncio.wait_for(node.run(), SECONDS)


def lies_in_second(cluster: Cluster, second: Path) -> None:
    create(cluster, "other")
    create(cluster, "t", retention_bytes="0", file_delete_delay_ms="0")
    wait_until((second / "t-0").is_dir, "it lies in the second one", SECONDS)
    wait_until(lambda: produce(cluster, "t", b"value").error_code == ErrorCode.NONE, "it is served", SECONDS)


def offline(node: ServerNode) -> list[Path]:
    return [each.path for each in node.parts.storage.logs.offline]


@pytest.mark.parametrize("loss", [remove, replace, replace_by_another, strip])
def test_a_directory_that_vanishes_goes_offline(
        tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch,
        loss: Callable[[Path], object]) -> None:
    first, second = tmp_path / "first", tmp_path / "second"

    def work(cluster: Cluster, node: ServerNode) -> None:
        lies_in_second(cluster, second)
        leader = cluster.leader("t", 0)
        loss(second)
        assert node.watch is not None
        on_loop(node, node.watch.look())
        with monkeypatch.context() as known:       # a client that has not requested the metadata since
            known.setattr(cluster, "leader", lambda _topic, _partition: leader)
            assert produce(cluster, "t", b"value").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert produce(cluster, "other", b"value").error_code == ErrorCode.NONE
        assert offline(node) == [second]
        assert node.failure is None

    with_node(config(tmp_path, log_dirs=f"{first},{second}"), work)
    caplog.clear()


@pytest.mark.parametrize("what", ["last", "metadata"])
def test_without_its_last_directory_or_the_metadata_log_a_node_stops(
        tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str) -> None:
    """The watch runs by itself, once a second."""
    data = tmp_path / "data"
    settings = config(data, metadata_log_dir=str(tmp_path / "m"))
    lost = {"last": data, "metadata": tmp_path / "m"}[what]

    async def main() -> None:
        node = ServerNode(settings)
        await node.start()
        shutil.rmtree(lost)
        await ended_by_itself(node, lost.name)

    asyncio.run(main())
    caplog.clear()


def test_a_controller_without_its_directory_stops(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = NodeConfig({"node.id": "1", "process.roles": "controller", "controller.listener.names": "CONTROLLER",
                           "listeners": "CONTROLLER://127.0.0.1:0", "log.dirs": str(tmp_path / "data"),
                           "controller.quorum.bootstrap.servers": "127.0.0.1:9093"})
    format_storage(FormatRequest(1, CLUSTER, (tmp_path / "data",), (ENDPOINT,)), NOW_MS, ids(700))

    async def main() -> None:
        node = ControllerNode(settings)
        await node.start()
        leads = asyncio.Event()
        node.parts.quorum.metadata.subscribe(lambda _delta, _image: leads.set())
        await asyncio.wait_for(leads.wait(), SECONDS)      # from here on it creates no files
        shutil.rmtree(tmp_path / "data")
        await ended_by_itself(node, "data")

    asyncio.run(main())
    caplog.clear()


@pytest.mark.parametrize(("kind", "suffix", "operation"), [
    ("rename", ".deleted", "retention"), ("write", "-checkpoint.tmp", "marks"), ("mkdir", "new-0", "opening"),
    ("rename", "-delete", "removal"), ("write", ".log", "append"), ("write", ".cleaned", "compaction"),
    ("open", ".log", "fetch"), ("open", ".log", "look-up by time"),
])
def test_whatever_fails_on_a_file_takes_its_directory_offline(
        tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, suffix: str, operation: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    # The node writes marks by itself.
    marks_ms = "20" if operation == "marks" else "86400000"

    def work(cluster: Cluster, node: ServerNode) -> None:
        lies_in_second(cluster, second)
        create(cluster, "more")
        work: dict[str, Callable[[], Any]] = {
            "retention": lambda: on_loop(node, node.parts.housekeeping._retain()),
            "marks": lambda: None,
            "opening": lambda: create(cluster, "new"),
            "removal": lambda: delete(cluster, "t"),
            "append": lambda: produce(cluster, "t", b"value"),
            "compaction": lambda: on_loop(node, node.parts.housekeeping.cleaner.run()),
            "fetch": lambda: fetch_error(cluster),
            "look-up by time": lambda: on_loop(node, offset_for_time(node)),
        }
        if operation in ("retention", "compaction", "fetch", "look-up by time"):
            fill(cluster, "t")
        if operation == "compaction":
            alter_configs(cluster, "topic", "t", [Change("cleanup.policy", Operation.SET, "compact")])
        with faults.fail_at(1, error=errno.EIO, kinds={kind}, under=second, suffix=suffix, persistent=True) as plan:
            work[operation]()
            wait_until(lambda: offline(node) == [second], "it is offline", SECONDS)
        assert plan.fired
        assert node.failure is None

    with_node(node_config(tmp_path, log_dirs=f"{first},{second}", log_flush_offset_checkpoint_interval_ms=marks_ms),
              work)
    caplog.clear()


def test_files_that_cannot_be_deleted_take_their_directory_offline(
        tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"

    def fail(path: Path) -> None:
        raise OSError(errno.EIO, "broken", str(path))

    def work(cluster: Cluster, node: ServerNode) -> None:
        lies_in_second(cluster, second)
        with monkeypatch.context() as broken:
            broken.setattr(shutil, "rmtree", fail)
            delete(cluster, "t")
            wait_until(lambda: offline(node) == [second], "it is offline", SECONDS)

    with_node(config(tmp_path, log_dirs=f"{first},{second}"), work)
    caplog.clear()


def fetch_error(cluster: Cluster) -> None:
    with pytest.raises(AssertionError, match=str(int(ErrorCode.KAFKA_STORAGE_ERROR))):
        fetch(cluster, "t", offset=1)


async def offset_for_time(node: ServerNode) -> None:
    partition = node.parts.path.table.get("t", 0)
    assert partition is not None
    with pytest.raises(StorageError):
        partition.offset_for_time(1)


async def checkpoint(node: ServerNode) -> None:
    """Run the checkpoint as `_every` does."""
    try:
        await node.parts.housekeeping._checkpoint()
    except StorageError as error:
        node.parts.core.replicas.fence_failed(error)


def test_a_directory_that_is_still_there_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("")
    lost: list[Path] = []

    async def main() -> None:
        watch = DirectoryWatch([tmp_path], lambda path, _cause: lost.append(path))
        await watch.look()
        assert lost == []
        (tmp_path / "meta.properties").unlink()
        await watch.look()
        await watch.look()
        await watch.close()

    asyncio.run(main())
    assert lost == [tmp_path]


def test_a_directory_whose_device_gives_no_answer_is_lost(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A network file system whose server is down is such a device. The other directories are checked meanwhile, and
    nothing waits."""
    hung, sound = tmp_path / "hung", tmp_path / "sound"
    for path in (hung, sound):
        path.mkdir()
        (path / "meta.properties").write_text("")
    lost: list[tuple[Path, int]] = []
    released, ended = threading.Event(), threading.Event()
    identity = directory_watch.identity

    def answer(path: Path) -> directory_watch.Identity:
        if path == hung:
            released.wait()
            ended.set()
        return identity(path)

    async def main() -> None:
        watch = DirectoryWatch([hung, sound], lambda path, cause: lost.append((path, cause.errno)))
        monkeypatch.setattr(directory_watch, "identity", answer)
        with monkeypatch.context() as short:
            short.setattr(directory_watch, "DEADLINE_SECONDS", 0.05)
            await watch._check(hung)
        assert lost == [(hung, errno.ETIMEDOUT)]
        await watch.look()
        assert len(lost) == 1, "once"
        shutil.rmtree(sound)
        await watch.look()
        assert lost[1:] == [(sound, errno.ENOENT)]
        await watch.close()

    asyncio.run(main())
    assert not ended.is_set(), "nobody waited for it"
    released.set()
    assert ended.wait(SECONDS)
    assert "hung is lost" in caplog.text
    caplog.clear()


def test_a_watch_closes_while_a_check_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cancellation arrives in the same step of the loop as the result of the check."""
    (tmp_path / META_PROPERTIES).touch()
    monkeypatch.setattr(directory_watch, "PERIOD_SECONDS", 0)

    async def run() -> None:
        checks: list[asyncio.Future[StorageError | None]] = []

        def begin(*_arguments: object) -> asyncio.Future[StorageError | None]:
            checks.append(asyncio.get_running_loop().create_future())
            return checks[-1]

        watch = DirectoryWatch([tmp_path], pytest.fail)
        monkeypatch.setattr(watch, "_begin", begin)
        while not checks:  # noqa: ASYNC110 - one iteration of the loop
            await asyncio.sleep(0)
        checks[0].set_result(None)
        async with asyncio.timeout(SECONDS):
            await watch.close()
        assert len(checks) == 1

    asyncio.run(run())


def test_the_loop_does_not_wait_until_the_thread_of_a_check_runs(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Thread.start` waits for that. On busy processors it takes as long as a large request's slices."""
    (tmp_path / META_PROPERTIES).touch()
    monkeypatch.setattr(threading.Thread, "start", pytest.fail)

    async def run() -> None:
        watch = DirectoryWatch([tmp_path], pytest.fail)
        await watch.look()
        await watch.close()

    asyncio.run(run())
