"""Moves between log directories: where two logs diverge, a target that fails, and a log that is written all the time.
The rest is tested on processes (tests/integration)."""

import errno
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kraft.client import Cluster
from kraft.client.log_dirs import move_replicas
from kraft.client.topics import create_topic
from kraft.log import Log
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from kraft.runtime.replicas import moves
from kraft.runtime.replicas.moves import Entries, common_end
from kraft.runtime.server_node import ServerNode
from kraft_native.batch.records import BatchBuilder
from kraft_native.file import faults
from tests.integration.admin import wait_until
from tests.runtime.nodes import config, with_node
from tests.runtime.test_server_node import fetch, produce


@pytest.mark.parametrize(("one", "one_end", "other", "other_end", "expected"), [
    ([], 0, [(0, 0)], 10, -1),
    ([(0, 0)], 5, [(0, 0)], 10, 5),
    ([(0, 0)], 10, [(0, 0)], 5, 5),
    ([(0, 0), (2, 7)], 9, [(0, 0), (3, 6)], 20, 6),
    ([(0, 0), (3, 8)], 9, [(0, 0), (2, 5), (3, 8)], 20, 9),
    ([(0, 0), (1, 4)], 9, [(1, 4), (2, 8)], 20, 8),
    ([(0, 0)], 9, [(4, 9)], 20, -1),
])
def test_the_common_prefix_of_two_logs(one: Entries, one_end: int, other: Entries, other_end: int,
                                      expected: int) -> None:
    assert common_end(one, one_end, other, other_end) == expected


SECONDS = 60.0
VALUES = [b"%d" % number for number in range(20)]


def two_directories(tmp_path: Path) -> Any:
    """Return the settings of a node with both directories. A new replica lies in the first, with the metadata log."""
    return config(tmp_path / "first", log_dirs=f"{tmp_path / 'first'},{tmp_path / 'second'}")


def replicas(cluster: Cluster) -> dict[str, tuple[int, list[bool]]]:
    """Return for each directory its error, and for each replica in it whether it is a future replica."""
    found = cluster.send(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse).results
    return {Path(each.log_dir).name: (each.error_code, [partition.is_future_key for topic in each.topics
                                                        for partition in topic.partitions]) for each in found}


def move(cluster: Cluster, target: Path) -> int:
    return move_replicas(cluster, 1, str(target), [("t", 0)])["t", 0]


def knows_where_it_stays(node: ServerNode) -> bool:
    """Return whether the metadata has the replica in the first directory, leading, and the second one offline. In
    between it may have had the replica in the second one, without a leader."""
    first, second = node.parts.storage.logs.directory_ids
    registration = node.parts.core.broker.image.partition("t", 0)
    assert registration is not None
    return (not node.parts.core.broker.image.brokers[1].has_online_dir(second) and registration.leader == 1
            and registration.directory_of(1) == first)


@pytest.mark.parametrize(("kind", "suffix", "begins", "stays"), [
    ("mkdir", "-future", False, True),
    ("write", ".log", True, True),
    ("datasync", ".log", True, True),
    ("rename", "/t-0", True, False),
])
def test_a_target_that_fails_goes_offline_and_the_replica_stays(
        tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, suffix: str, begins: bool, stays: bool) -> None:
    """The target fails while its directory is created, while records are copied, or when the copy is made durable. A
    copy that cannot get its name after the old replica is removed is found by the next start."""
    target = tmp_path / "second"
    more = [b"more"] if stays else []

    def first(cluster: Cluster, node: ServerNode) -> None:
        create_topic(cluster, "t", 1)
        produce(cluster, "t", *VALUES)
        with faults.fail_at(1, error=errno.EIO, kinds={kind}, under=target, suffix=suffix, persistent=True) as plan:
            assert move(cluster, target) == (ErrorCode.NONE if begins else ErrorCode.KAFKA_STORAGE_ERROR)
            wait_until(lambda: replicas(cluster)["second"][0] != 0, "the target is offline", SECONDS)
        assert plan.fired
        assert move(cluster, target) == ErrorCode.KAFKA_STORAGE_ERROR
        assert replicas(cluster) == {"first": (0, [False] if stays else []),
                                     "second": (ErrorCode.KAFKA_STORAGE_ERROR, [])}
        if stays:
            wait_until(lambda: knows_where_it_stays(node), "the metadata has it where it stays", SECONDS)
            create_topic(cluster, "t", 1)      # waits until its leader serves
            assert produce(cluster, "t", *more).error_code == ErrorCode.NONE
            assert fetch(cluster, "t") == [*VALUES, *more]
        assert node.failure is None

    def second(cluster: Cluster, _node: ServerNode) -> None:
        create_topic(cluster, "t", 1)
        assert fetch(cluster, "t") == [*VALUES, *more]

    with_node(two_directories(tmp_path), first)
    caplog.clear()                     # the logged records hold the frames of the failure
    with_node(two_directories(tmp_path), second)


@contextmanager
def written_all_the_time(node: ServerNode, counts: Iterator[int]) -> Iterator[None]:
    """Append so many more records each time after the thread of moves has done something."""
    partition = node.parts.path.table.get("t", 0)
    assert partition is not None
    original = node.parts.core.replicas.moves._in_thread

    async def in_thread(work: Any, *arguments: Any) -> Any:
        found = await original(work, *arguments)
        for _ in range(next(counts)):
            builder = BatchBuilder()
            builder.append(bytes(300))
            partition.append(builder.build())
        return found

    node.parts.core.replicas.moves._in_thread = in_thread  # type: ignore[method-assign]
    yield
    node.parts.core.replicas.moves._in_thread = original  # type: ignore[method-assign]


def moved(tmp_path: Path, counts: Iterator[int]) -> int:
    """Move a replica that is written meanwhile; return the number of its records."""
    def work(cluster: Cluster, node: ServerNode) -> int:
        create_topic(cluster, "t", 1)
        produce(cluster, "t", *VALUES)
        with written_all_the_time(node, counts):
            assert move(cluster, tmp_path / "second") == ErrorCode.NONE
            wait_until(lambda: replicas(cluster) == {"first": (0, []), "second": (0, [False])}, "it has moved",
                       SECONDS)
        partition = node.parts.path.table.get("t", 0)
        assert partition is not None
        return partition.log.log_end_offset

    return int(with_node(two_directories(tmp_path), work))


def test_a_log_that_never_rests_moves(tmp_path: Path) -> None:
    """Whenever the thread has appended the missing records, others are missing."""
    assert moved(tmp_path, itertools.repeat(1)) > len(VALUES)


def test_much_that_comes_in_the_end_is_left_to_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop appends no more than it may, however many records arrive while a copy is closed."""
    monkeypatch.setattr(moves, "SWAP_BYTES", 500)
    monkeypatch.setattr(moves, "SWAP_BYTES_MAX", 4_000)
    appended: list[int] = []
    finish = moves._Copy.finish

    def noted(copy: Any, records: Any, *arguments: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        appended.append(len(records))
        finish(copy, records, *arguments)

    monkeypatch.setattr(moves._Copy, "finish", noted)
    assert moved(tmp_path, itertools.chain(itertools.repeat(10, 30), itertools.repeat(3))) > len(VALUES) + 300
    assert len(appended) == 1 and 0 < appended[0] <= 4_000


def test_a_move_that_is_given_up_while_its_copy_opens_leaves_no_directory(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread opens the copy after the loop has renamed its directory."""
    begun, renamed = threading.Event(), threading.Event()
    opened = Log

    def open_late(path: Path, *arguments: Any, **options: Any) -> Any:
        begun.set()
        assert renamed.wait(SECONDS)
        return opened(path, *arguments, **options)

    monkeypatch.setattr(moves, "Log", open_late)

    def work(cluster: Cluster, _node: ServerNode) -> None:
        create_topic(cluster, "t", 1)
        produce(cluster, "t", *VALUES)
        assert move(cluster, tmp_path / "second") == ErrorCode.NONE
        assert begun.wait(SECONDS)
        assert move(cluster, tmp_path / "first") == ErrorCode.NONE
        renamed.set()
        assert move(cluster, tmp_path / "second") == ErrorCode.NONE
        wait_until(lambda: replicas(cluster) == {"first": (0, []), "second": (0, [False])}, "it has moved", SECONDS)
        assert [path.name for path in (tmp_path / "second").iterdir() if path.name.endswith("-future")] == []
        assert fetch(cluster, "t") == VALUES

    with_node(two_directories(tmp_path), work)
