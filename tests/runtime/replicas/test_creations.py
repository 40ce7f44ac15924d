"""Replicas that are created in steps: which come when, and that no request finds one missing."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import uvloop

from kraft.broker.internal_topics import OFFSETS_TOPIC
from kraft.broker.replica_plan import Action, Step
from kraft.log_dir import CLEAN_SHUTDOWN
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import MetadataImage
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.runtime.replicas import creations
from kraft.runtime.replicas.creations import APPLIED_MAX, CreationQueue
from kraft.runtime.replicas.manager import QUEUED_STEP, ReplicaManager
from kraft.runtime.server_node import ServerNode
from kraft.runtime.storage import log_manager
from kraft.steps import finish
from kraft_native.partition.purgatory import Purgatory
from kraft_native.partition.table import PartitionTable
from tests.runtime.nodes import config, with_node
from tests.runtime.test_server_node import create_many, fetch, produce


class Recorder:
    """The steps that a manager executed. Each looks its partition up in the table, as the real execution does."""

    def __init__(self) -> None:
        self.broker = SimpleNamespace(table=PartitionTable(Purgatory()))
        self.steps: list[tuple[Action, str, int]] = []
        self.failure: Exception | None = None

    def execute(self, step: Step) -> None:
        if self.failure is not None:
            raise self.failure
        self.broker.table.get(step.topic, step.number)
        self.steps.append((step.action, step.topic, step.number))


class Work(ReplicaManager):
    """A manager that executes into a `Recorder`."""

    def __init__(self, recorder: Recorder, on_failure: Callable[[BaseException], object]) -> None:
        self._recorder = recorder
        self._creations = CreationQueue(recorder.broker.table, self.execute, on_failure)

    def execute(self, step: Step) -> None:
        self._recorder.execute(step)

    def take(self, steps: list[Step]) -> None:
        finish(self.execute_steps(steps))

    def end(self) -> None:
        self._creations.close()


def lead(topic: str, *numbers: int) -> list[Step]:
    return [Step(Action.LEAD, topic, UUID(int=ord(topic[0])), number, None) for number in numbers]


def remove(topic: str) -> list[Step]:
    return [Step(Action.REMOVE, topic, UUID(int=ord(topic[0])), 0, None)]


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - one iteration of the loop
            await asyncio.sleep(0)


def names(recorder: Recorder) -> list[str]:
    return [f"{topic}-{number}" for _, topic, number in recorder.steps]


def test_requested_topics_come_first_and_the_others_follow() -> None:
    async def run() -> None:
        recorder = Recorder()
        work = Work(recorder, pytest.fail)
        work.take(lead("a", 0) + lead("b", 0, 1) + lead("c", 0) + lead("d", 0))
        assert not recorder.steps
        table = recorder.broker.table
        assert table.get("b", 7) is None
        assert names(recorder) == ["b-0", "b-1"]
        table.get_by_id(UUID(int=ord("d")).bytes, 0)
        assert names(recorder) == ["b-0", "b-1", "d-0"]
        table.get("nobody", 0)
        table.get_by_id(bytes(16), 0)
        await until(lambda: len(recorder.steps) == 5)
        assert names(recorder)[3:] == ["a-0", "c-0"]
    asyncio.run(run())


def test_a_creation_may_look_up_another_topic() -> None:
    async def run() -> None:
        recorder = Recorder()
        work = Work(recorder, pytest.fail)
        execute = work.execute

        def nosy(step: Step) -> None:
            recorder.broker.table.get("b", 0)
            execute(step)

        work._creations._create = nosy
        work.take(lead("a", 0, 1) + lead("b", 0))
        await until(lambda: len(recorder.steps) == 3)
        assert names(recorder) == ["b-0", "a-0", "a-1"]
    asyncio.run(run())


def test_a_lookup_creates_few_replicas_of_a_large_topic() -> None:
    async def run() -> None:
        recorder = Recorder()
        work = Work(recorder, pytest.fail)
        work.take(lead("a", *range(3 * APPLIED_MAX)) + lead("b", *range(APPLIED_MAX)))
        table = recorder.broker.table
        table.get("b", 0)
        assert names(recorder) == [f"b-{number}" for number in range(APPLIED_MAX)]
        table.get("a", 0)
        assert len(recorder.steps) == 2 * APPLIED_MAX
        assert table.settle()
        assert len(recorder.steps) == 3 * APPLIED_MAX
        assert not table.settle()
        assert len(recorder.steps) == 4 * APPLIED_MAX
    asyncio.run(run())


def test_topics_that_keep_coming_delay_the_work_but_not_indefinitely(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        recorder = Recorder()
        work = Work(recorder, pytest.fail)
        monkeypatch.setattr(creations, "QUIET_SECONDS", 3600)
        monkeypatch.setattr(creations, "LATE_SECONDS", 0)
        work.take(lead("a", 0))
        work.take(lead("b", 0))
        await until(lambda: names(recorder) == ["a-0", "b-0"])
        monkeypatch.setattr(creations, "LATE_SECONDS", 3600)
        work.take(lead("c", 0))
        monkeypatch.setattr(creations, "QUIET_SECONDS", 0)
        work.take(remove("d"))        # nothing new: the steps stay as they are
        await asyncio.sleep(0)
        assert names(recorder)[2:] == ["d-0"]
        work.take(lead("e", 0))
        await until(lambda: names(recorder)[3:] == ["c-0", "e-0"])
    asyncio.run(run())


def test_steps_of_a_topic_stay_in_their_order() -> None:
    async def run() -> None:
        recorder = Recorder()
        work = Work(recorder, pytest.fail)
        work.take(lead("a", 0))
        work.take(remove("a"))
        work.take(remove("b"))        # none of its steps is pending
        assert recorder.steps == [(Action.REMOVE, "b", 0)]
        recorder.broker.table.settle()
        assert recorder.steps[1:] == [(Action.LEAD, "a", 0), (Action.REMOVE, "a", 0)]
        work.take(lead(OFFSETS_TOPIC, 0))
        assert recorder.steps[3:] == [(Action.LEAD, OFFSETS_TOPIC, 0)]
    asyncio.run(run())


def test_a_slice_is_short() -> None:
    """Many replicas take many iterations of the loop, and others run in between."""
    async def run() -> None:
        recorder = Recorder()
        work = Work(recorder, pytest.fail)
        work.take([step for number in range(20_000) for step in lead(f"t{number}", 0)])
        seen = []
        while len(recorder.steps) < 20_000:
            await asyncio.sleep(0)
            if recorder.steps and recorder.steps[-1] not in seen:
                seen.append(recorder.steps[-1])
        assert len(seen) > 3
    asyncio.run(run())


def test_a_fault_is_reported_and_so_is_an_end() -> None:
    async def run() -> None:
        recorder, reported = Recorder(), list[BaseException]()
        work = Work(recorder, reported.append)
        recorder.failure = OSError("no room")
        work.take(lead("a", 0) + lead("b", 0))
        await until(lambda: reported)
        assert reported == [recorder.failure]
        recorder.failure = None
        work.end()
        work.take(lead("c", 0))
        recorder.broker.table.settle()
        recorder.broker.table.get("b", 0)
        assert not recorder.steps
    asyncio.run(run())


def test_a_topic_can_be_used_once_it_is_announced(tmp_path: Any) -> None:
    settings = config(tmp_path / "data")

    def first(cluster: Any, node: Any) -> None:
        create_many(cluster, [f"t{number}" for number in range(300)])
        assert produce(cluster, "t299", b"a").base_offset == 0
        assert fetch(cluster, "t298") == []

    def second(cluster: Any, node: Any) -> None:
        assert fetch(cluster, "t299") == [b"a"]
        deadline = time.monotonic() + 20
        while len(list((tmp_path / "data").glob("t*-0"))) < 300:
            assert time.monotonic() < deadline
            cluster.metadata([])

    with_node(settings, first)
    with_node(settings, second)


def test_a_start_does_not_wait_for_its_logs(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, mark = config(tmp_path / "data"), tmp_path / "data" / CLEAN_SHUTDOWN

    def opened(node: Any) -> list[str]:
        return [name.topic for name, _ in node.parts.storage.logs.directories[0].open_logs()]

    def first(cluster: Any, node: Any) -> None:
        create_many(cluster, ["a", "b", "c"])
        assert produce(cluster, "b", b"kept").base_offset == 0
        assert fetch(cluster, "a") == fetch(cluster, "c") == []       # otherwise their logs may not exist

    def second(cluster: Any, node: Any) -> None:
        assert [each.name for each in cluster.metadata().topics] == ["a", "b", "c"] and not opened(node)
        assert fetch(cluster, "b") == [b"kept"]
        assert opened(node) == ["b"]

    def late(cluster: Any, node: Any) -> None:
        assert opened(node) == ["b"]   # the only one that has as many bytes as are required

    def third(cluster: Any, node: Any) -> None:
        assert [fetch(cluster, name) for name in "abc"] == [[], [b"kept"], []]

    with_node(settings, first)
    mark.unlink()                      # as after a crash
    monkeypatch.setattr(creations, "QUIET_SECONDS", 3600)
    monkeypatch.setattr(creations, "LATE_SECONDS", 3600)
    with_node(settings, second)
    monkeypatch.setattr(log_manager, "SCAN_BYTES_SHORT", 0)
    with_node(settings, late)
    assert not mark.exists()           # two logs were not recovered
    monkeypatch.undo()
    with_node(settings, third)
    assert mark.exists()


def test_a_pause_comes_after_each_replica_that_changes() -> None:
    async def run() -> None:
        recorder = Recorder()
        work = Work(recorder, pytest.fail)
        seen = [len(recorder.steps) for _ in work.execute_steps(
            [step for number in range(5) for step in remove(f"{number}")] + lead("a", *range(3 * QUEUED_STEP)))]
        assert seen == [1, 2, 3, 4, 5, 5, 5, 5]
        assert recorder.broker.table.get("a", 0) is None       # the look-up creates the first of them
        assert names(recorder)[5] == "a-0"
        work.end()
    asyncio.run(run())


def test_a_look_up_between_two_steps_finds_what_is_queued() -> None:
    async def run() -> None:
        recorder = Recorder()
        work = Work(recorder, pytest.fail)
        steps = work.execute_steps(lead("a", *range(QUEUED_STEP)) + remove("b"))
        next(steps)
        recorder.broker.table.get("a", 0)
        assert names(recorder) == [f"a-{number}" for number in range(APPLIED_MAX)]
        next(steps)
        assert recorder.steps[-1] == (Action.REMOVE, "b", 0)
        work.end()
    asyncio.run(run())


def test_a_node_applies_a_change_replica_by_replica(tmp_path: Path) -> None:
    """The change counts as applied, for the heartbeats of the broker, after the last replica."""
    async def run() -> None:
        node = ServerNode(config(tmp_path))
        await node.start()
        try:
            received: list[tuple[MetadataDelta, MetadataImage]] = []
            node.parts.control.subscribe(lambda delta, image: received.append((delta, image)))
            answers: list[Any] = []
            node.parts.core.broker.submit(CreateTopicsRequest(topics=[
                CreatableTopic(name="many", num_partitions=300, replication_factor=1)]), 7, 0, answers.append)
            await until(lambda: answers and node.parts.path.table.get("many", 299) is not None)
            delta, image = next(each for each in received if each[0].topics.touched)
            assert node.parts.control.applied_image is node.parts.control.image
            carried, original = [0], node.parts.core.replicas.execute

            def execute(step: Step) -> None:
                carried[0] += 1
                original(step)

            node.parts.core.replicas.execute = execute  # type: ignore[method-assign]
            node.parts.control._applied = None
            work, most = node.parts.commits.apply(delta, image), 0
            for _ in work:
                assert node.parts.control._applied is None
                most, carried[0] = max(most, carried[0]), 0
            assert most == 1 and node.parts.control.applied_image is image
        finally:
            node.stop()
            await node.run()
    uvloop.run(run())
