"""Markers of transactions on their way to brokers: this one, others, and those that cannot be reached."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from kraft.broker.transactions.markers import LANES, RETRY_MS, Decision, MarkerQueue, Marking
from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.client.transactional_producer import TransactionalProducer
from kraft.protocol.error_codes import ErrorCode
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.replicas.marker_sender import OWN_MARKERS_PER_ITERATION, MarkerSender
from kraft.runtime.server_node import ServerNode
from kraft_native.partition.partition import Partition
from tests.runtime.nodes import config

Scenario = Callable[["World"], Coroutine[Any, Any, None]]


class FakePartition:
    """A partition of this broker; with `holds` nothing is committed before `release`."""

    def __init__(self) -> None:
        self.markers: list[tuple[Any, ...]] = []
        self.held: list[Callable[[int], None]] = []
        self.holds = False

    def append_marker(self, *marker: Any, **_: Any) -> SimpleNamespace:
        self.markers.append(marker)
        return SimpleNamespace(last_offset=len(self.markers) - 1)

    def call_when_committed(self, _end_offset: int, callback: Callable[[int], None], **_: Any) -> None:
        if self.holds:
            self.held.append(callback)
        else:
            callback(ErrorCode.NONE)

    def release(self, code: int = ErrorCode.NONE) -> None:
        held, self.held = self.held, []
        for callback in held:
            callback(code)


class World:
    """Broker `node_id` with its queue of markers. `leader_of` is by default the number of the partition."""

    def __init__(self, node_id: int = 1) -> None:
        self.now_ms = 0
        self.done: list[int] = []
        self.answered = 0
        self.progress = asyncio.Event()
        self.failures: list[BaseException] = []
        self.brokers: dict[int, Any] = {}
        self.partitions: dict[int, FakePartition] = {}
        self.leader_of: Callable[[int], int] = lambda partition: partition
        self.queue = MarkerQueue(SimpleNamespace(
            leader_of=lambda _topic, partition: self.leader_of(partition), is_current=True))
        broker: Any = SimpleNamespace(
            node_id=node_id, image=SimpleNamespace(brokers=self.brokers), integer=lambda _name: 30_000,
            partition=lambda _topic, index: self.partitions.setdefault(index, FakePartition()),
            config=SimpleNamespace(inter_broker_listener="PLAINTEXT"))
        coordinator: Any = SimpleNamespace(markers=self.queue)
        self.sender = MarkerSender(broker, coordinator, Dialer(), lambda: self.now_ms, self._answered,
                                   self.failures.append)

    def _answered(self) -> None:
        self.answered += 1
        self.progress.set()

    def add(self, *partitions: int, producer_id: int = 7) -> Marking:
        marking = Marking(Decision(producer_id, 1, True, 2), [("t", each) for each in partitions], lambda: 3,
                          lambda: self.done.append(producer_id))
        self.queue.add(marking, self.now_ms)
        return marking

    def back_off(self) -> None:
        """Pass the time before another attempt."""
        self.now_ms += RETRY_MS
        self.queue.tick(self.now_ms, 1000)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                self.progress.clear()
                await self.progress.wait()


@pytest.fixture
def run() -> Callable[[Scenario], None]:
    def run_in_a_world(scenario: Scenario) -> None:
        async def work() -> None:
            world = World()
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


# -------------------------------------------------------------------- partitions of this broker

def test_own_partitions_need_no_connection(run: Callable[[Scenario], None]) -> None:
    async def scenario(world: World) -> None:
        world.add(1)
        assert world.done == []             # not while a decision is made
        await settle()
        assert (world.done, world.answered) == ([7], 1)
        world.add(1, producer_id=8)
        await settle()
        assert world.done == [7, 8]
        assert world.partitions[1].markers == [(7, 1, 3, True), (8, 1, 3, True)]
    run(scenario)


def test_own_partitions_do_not_wait_for_each_other(run: Callable[[Scenario], None]) -> None:
    async def scenario(world: World) -> None:
        world.leader_of = lambda _: 1
        world.partitions[0] = stuck = FakePartition()
        stuck.holds = True
        for producer_id in range(LANES + 10):
            world.add(0, producer_id=producer_id)
        await settle()
        world.add(1, producer_id=100)
        await settle()
        assert world.done == [100]
        stuck.release()
        assert len(world.done) == LANES + 11
    run(scenario)


def test_a_marker_whose_commit_fails_goes_to_the_next_leader(run: Callable[[Scenario], None]) -> None:
    async def scenario(world: World) -> None:
        world.partitions[1] = lost = FakePartition()
        lost.holds = True
        world.add(1)
        await settle()
        lost.release(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        lost.holds = False
        world.back_off()
        await settle()
        assert len(lost.markers) == 2
        assert world.done == [7]
    run(scenario)


def test_many_own_markers_are_appended_in_parts(run: Callable[[Scenario], None]) -> None:
    async def scenario(world: World) -> None:
        world.leader_of = lambda _: 1
        world.add(*range(3 * OWN_MARKERS_PER_ITERATION + 1))
        await asyncio.sleep(0)
        assert len(world.partitions) == OWN_MARKERS_PER_ITERATION
        await settle()
        assert world.done == [7]
    run(scenario)


def test_own_markers_behind_those_of_a_lost_coordinator_are_appended(run: Callable[[Scenario], None]) -> None:
    async def scenario(world: World) -> None:
        world.leader_of = lambda _: 1
        world.add(*range(OWN_MARKERS_PER_ITERATION)).cancel()
        world.add(OWN_MARKERS_PER_ITERATION, producer_id=8)
        await settle()
        assert world.done == [8]
        assert list(world.partitions) == [OWN_MARKERS_PER_ITERATION]
    run(scenario)


# -------------------------------------------------------------------- other brokers

def test_a_broker_that_is_unknown_or_unreachable_gets_them_later(run: Callable[[Scenario], None]) -> None:
    async def scenario(world: World) -> None:
        world.add(1, 2)
        await settle()
        assert (world.done, world.answered) == ([], 2)
        assert world.queue.deadline_ms == RETRY_MS
        endpoint = SimpleNamespace(name="PLAINTEXT", host="127.0.0.1", port=1)
        world.brokers[2] = SimpleNamespace(endpoints=[endpoint])
        world.back_off()
        await world.until(lambda: world.answered == 3)
        assert world.queue.deadline_ms == 2 * RETRY_MS
    run(scenario)


def test_a_fault_of_ours_is_reported(run: Callable[[Scenario], None]) -> None:
    async def scenario(world: World) -> None:
        fault = RuntimeError("broken")

        def broken(*_: Any, **_named: Any) -> None:
            raise fault
        world.partitions[1] = FakePartition()
        world.partitions[1].append_marker = broken              # type: ignore[method-assign, assignment]
        world.add(1)
        await settle()
        assert world.failures == [fault]
        world.failures.clear()
    run(scenario)


# -------------------------------------------------------------------- real nodes

NODE = {"transaction_state_log_num_partitions": "1", "transaction_state_log_replication_factor": "1",
        "transaction_state_log_min_isr": "1"}
PARTITIONS = LANES + 2


def open_transactions(cluster: Cluster) -> list[TransactionalProducer]:
    """Create topic "t", with an open transaction in each partition."""
    create_topic(cluster, "t", PARTITIONS)
    producers = [TransactionalProducer(cluster, f"x-{index}") for index in range(PARTITIONS)]
    for index, producer in enumerate(producers):
        producer.send("t", index, [(None, b"one")])
    return producers


async def committed(partition: Partition) -> None:
    """Wait for the marker of the transaction."""
    done = asyncio.Event()
    partition.call_when_committed(2, lambda _code: done.set(), timeout_ms=20_000)
    await done.wait()
    assert partition.high_watermark >= 2


def test_stuck_partitions_delay_no_other_transaction(tmp_path: Path) -> None:
    """All partitions but one wait for a follower, in more requests than there are lanes. Markers of the healthy one are
    written nevertheless: from this node's coordinator, and from another one over sockets."""
    async def main() -> None:
        node = ServerNode(config(tmp_path, node_id="1", **NODE))
        await node.start()
        port = node.listeners["PLAINTEXT"].port
        world = World(node_id=7)
        world.leader_of = lambda _: 1
        world.brokers[1] = SimpleNamespace(endpoints=[SimpleNamespace(name="PLAINTEXT", host="127.0.0.1", port=port)])
        cluster = Cluster(f"127.0.0.1:{port}", timeout=10)
        try:
            producers = await asyncio.to_thread(open_transactions, cluster)
            healthy, *stuck = (node.parts.path.table.get("t", index) for index in range(PARTITIONS))
            for partition in stuck:
                partition.log.reconfigure(partition.log.config.replace(high_watermark="manual"))
                partition.become_leader(partition.leader_epoch + 1, node_id=1, replicas=[1, 9], isr=[1, 9])
            await asyncio.to_thread(lambda: [producer.commit() for producer in reversed(producers)])
            await committed(healthy)

            for index in reversed(range(PARTITIONS)):
                world.add(index, producer_id=1_000 + index)
                await settle()                              # each in a request of its own
            await world.until(lambda: bool(world.done))
            assert world.done == [1_000]
            await world.until(lambda: world.queue.slow_count == len(stuck))

            assert all(partition.high_watermark < 2 for partition in stuck)
            for partition in stuck:
                partition.set_isr([1])
                await committed(partition)
            await world.until(lambda: world.back_off() or len(world.done) == PARTITIONS)
        finally:
            world.sender.close()
            await asyncio.to_thread(cluster.close)
            node.stop()
            await node.run()
        assert world.failures == []

    uvloop.run(main())
