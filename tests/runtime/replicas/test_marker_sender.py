"""Markers of transactions on their way to brokers: this one, others, and those that cannot be reached."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.broker.transactions.markers import RETRY_MS, Decision, MarkerQueue, Marking
from kraft.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from kraft.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.replicas import marker_sender
from kraft.runtime.replicas.marker_sender import MarkerSender
from kraft.steps import finish

Scenario = Callable[["World"], Coroutine[Any, Any, None]]


def answer_to(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(markers=[
        WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[
            WritableTxnMarkerTopicResult(name=topic.name, partitions=[
                WritableTxnMarkerPartitionResult(partition_index=index) for index in topic.partition_indexes])
            for topic in marker.topics])
        for marker in request.markers])


class World:
    """Broker 1 with its queue of markers. Each partition of "t" is led by the broker of its number."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.done = 0
        self.answered = 0
        self.third = asyncio.Event()
        self.failures: list[BaseException] = []
        self.held: list[Callable[[], None]] = []
        self.holds = False
        self.brokers: dict[int, Any] = {}
        self.queue = MarkerQueue(SimpleNamespace(leader_of=lambda _topic, partition: partition, is_current=True))
        self.broker: Any = SimpleNamespace(node_id=1, image=SimpleNamespace(brokers=self.brokers),
                                           config=SimpleNamespace(inter_broker_listener="PLAINTEXT"))
        coordinator: Any = SimpleNamespace(markers=self.queue)
        self.sender = MarkerSender(self.broker, coordinator, Dialer(), lambda: self.now_ms, finish, self._answered,
                                   self.failures.append)

    def _answered(self) -> None:
        self.answered += 1
        if self.answered == 3:
            self.third.set()

    def handle(self, _broker: Any, request: WriteTxnMarkersRequest, _context: Any,
               answer: Callable[[Any], None]) -> Generator[None, None, None]:
        """This broker's own handler, in steps."""
        yield
        if self.holds:
            self.held.append(lambda: answer(answer_to(request)))
        else:
            answer(answer_to(request))

    def add(self, *partitions: int) -> None:
        def done() -> None:
            self.done += 1
        self.queue.add(Marking(Decision(7, 1, True, 2), [("t", each) for each in partitions], lambda: 3, done),
                       self.now_ms)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[Scenario], None]:
    def run_in_a_world(scenario: Scenario) -> None:
        async def work() -> None:
            world = World()
            monkeypatch.setattr(marker_sender, "handler_of", lambda _key: world.handle)
            try:
                await scenario(world)
            finally:
                world.sender.close()
            assert world.failures == []
        asyncio.run(work())
    return run_in_a_world


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_own_partitions_need_no_connection(run: Callable[[Scenario], None]) -> None:
    async def scenario(world: World) -> None:
        world.add(1)
        assert world.done == 0              # not while a decision is made
        await settle()
        assert (world.done, world.answered) == (1, 1)
        world.add(1)
        await settle()
        assert world.done == 2
    run(scenario)


def test_markers_that_come_meanwhile_are_sent_next(run: Callable[[Scenario], None]) -> None:
    async def scenario(world: World) -> None:
        world.holds = True
        world.add(1)
        await settle()
        world.add(1)
        await settle()
        assert len(world.held) == 1
        world.held.pop()()
        await settle()
        assert (world.done, len(world.held)) == (1, 1)
        world.held.pop()()
        await settle()
        assert world.done == 2
    run(scenario)


def test_a_broker_that_is_unknown_or_unreachable_gets_them_later(run: Callable[[Scenario], None]) -> None:
    async def scenario(world: World) -> None:
        world.add(1, 2)
        await settle()
        assert (world.done, world.answered) == (0, 2)
        assert world.queue.deadline_ms == RETRY_MS
        endpoint = SimpleNamespace(name="PLAINTEXT", host="127.0.0.1", port=1)
        world.brokers[2] = SimpleNamespace(endpoints=[endpoint])
        world.now_ms = RETRY_MS
        world.queue.tick(world.now_ms, 10)
        async with asyncio.timeout(10):
            await world.third.wait()
        assert world.queue.deadline_ms == 2 * RETRY_MS
    run(scenario)


def test_a_fault_of_ours_is_reported(run: Callable[[Scenario], None]) -> None:
    async def scenario(world: World) -> None:
        fault = RuntimeError("broken")

        def broken(*_: Any) -> None:
            raise fault
        world.handle = broken               # type: ignore[method-assign, assignment]
        world.add(1)
        await settle()
        assert world.failures == [fault]
        world.failures.clear()
    run(scenario)
