"""Events of a replicated partition for its coordinator: loads while leaderships change, and what is committed."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.broker.coordinator import loading
from kraft.broker.coordinator.shard import Record, StoredRecord
from kraft.broker.coordinator.shards import Phase
from kraft.broker.groups.config import GroupCoordinatorConfig
from kraft.broker.groups.coordinator import GroupCoordinator
from kraft.broker.internal_topics import OFFSETS_TOPIC
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kraft.runtime.base import time_slices
from kraft.runtime.replicas import coordinator_driver
from kraft.runtime.replicas.coordinator_driver import CoordinatorAppends, CoordinatorDriver
from kraft_native.base.errors import NotEnoughReplicasError
from kraft_native.facade.log import Log
from kraft_native.partition.cold_read import ColdReader
from kraft_native.partition.partition import Partition
from kraft_native.partition.purgatory import Purgatory, now_ms
from kraft_native.partition.table import PartitionTable
from kraft_native.segment.config import LogConfig
from tests.broker.groups.group_client import commit, errors_of
from tests.broker.node import START_MS, TOPICS, Node, Pending, Topics

FAR_MS = 10**9

Scenario = Callable[[Log], Coroutine[Any, Any, None]]
Run = Callable[[Scenario], None]


class Broker(Node):
    """Broker 1, which leads the only partition of `__consumer_offsets` and has a follower."""

    def __init__(self, log: Log) -> None:
        self.now_ms = START_MS
        self.lag = True              # the partition reports what is committed
        self.purgatory = Purgatory(asyncio.get_running_loop().call_soon)
        table = PartitionTable(self.purgatory)
        self.partition = Partition(log, OFFSETS_TOPIC, bytes(16), 0)
        table.add(self.partition)
        self.appends = CoordinatorAppends(OFFSETS_TOPIC, table, lambda: self.now_ms, 0)
        self.coordinator = self.appends.coordinator = GroupCoordinator(
            GroupCoordinatorConfig(), self.appends, Topics(dict(TOPICS)), lambda: UUID(int=1))
        self.coordinator.partition_count = 1
        self.failures: list[BaseException] = []
        self.cold_reader = ColdReader()
        self.driver = CoordinatorDriver(self.coordinator, self.appends, lambda: self.now_ms, self.failures.append,
                                        self.cold_reader, load_bytes=1)

    def lead(self, epoch: int, *isr: int) -> None:
        self.partition.become_leader(epoch, node_id=1, replicas=(1, 2), isr=isr or (1, 2))
        self.driver.lead(self.partition)

    def follow(self, epoch: int) -> None:
        self.partition.become_follower(epoch, 2)
        self.driver.resign(0, epoch)

    @property
    def phase(self) -> Phase | None:
        return self.coordinator.shards.phase(0)

    def close(self) -> None:
        self.driver.close()
        self.cold_reader.close()
        assert self.failures == []

    async def serving(self) -> None:
        await until_true(lambda: self.phase is Phase.ACTIVE)


async def until_true(until: Callable[[], bool]) -> None:
    """Run a few iterations of the loop."""
    for _ in range(200):
        if until():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a coroutine on a log. Loading goes batch by batch; nothing waits for the clock."""
    monkeypatch.setattr(coordinator_driver, "WAIT_AGAIN_SECONDS", 0)

    def run_on_a_log(scenario: Scenario) -> None:
        log = Log(tmp_path / f"{OFFSETS_TOPIC}-0", LogConfig(high_watermark="manual"))
        try:
            asyncio.run(scenario(log))
        finally:
            log.close()

    return run_on_a_log


async def filled(log: Log, count: int = 5, partitions: int = 1) -> None:
    """Run the previous coordinator: `count` commits of the group "g" in `count` batches, none of them committed."""
    broker = Broker(log)
    broker.lead(1)
    await broker.serving()
    pending = [commit(broker, {("orders", 1 + index): number for index in range(partitions)})
               for number in range(count)]
    assert not any(each.answered for each in pending)
    broker.follow(2)
    assert [errors_of(each) for each in pending] == [[ErrorCode.NOT_COORDINATOR] * partitions] * count
    broker.close()


def joined(broker: Broker) -> Pending:
    """Request what the group has committed."""
    return broker.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]))


def offset_of(pending: Pending) -> int:
    group, = pending.response.groups
    assert group.error_code == ErrorCode.NONE
    return group.topics[0].partitions[0].committed_offset


def test_records_of_the_previous_leader_are_applied_once_committed(run: Run) -> None:
    async def scenario(log: Log) -> None:
        await filled(log)
        broker = Broker(log)
        broker.lead(3)
        await broker.serving()
        question = joined(broker)
        await asyncio.sleep(0)
        assert not question.answered
        broker.partition.set_isr((1,))
        await until_true(lambda: question.answered)
        assert offset_of(question) == 4
        broker.close()
    run(scenario)


def test_nothing_is_appended_without_the_minimum_of_replicas(run: Run) -> None:
    """The record would take effect when the replica returns, after its client was refused."""
    async def scenario(log: Log) -> None:
        broker = Broker(log)
        broker.partition.set_min_insync_replicas(2)
        broker.lead(1, 1)
        with pytest.raises(NotEnoughReplicasError):
            broker.appends.append(0, [Record(b"key", b"value", START_MS)])
        assert log.log_end_offset == 0
        broker.partition.set_isr((1, 2))
        assert broker.appends.append(0, [Record(b"key", b"value", START_MS)]) == 0

    run(scenario)


def test_a_newer_epoch_of_the_same_leader_does_not_stop_its_loading(run: Run) -> None:
    async def scenario(log: Log) -> None:
        await filled(log)
        broker = Broker(log)
        broker.lead(3, 1)
        await asyncio.sleep(0)
        assert broker.phase is Phase.LOADING
        broker.lead(4, 1)
        await broker.serving()
        assert offset_of(joined(broker)) == 4
        broker.close()
    run(scenario)


def test_one_batch_with_many_offsets_is_loaded_in_slices(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "RECORDS_PER_STEP", 2)
    monkeypatch.setattr(time_slices, "SLICE_SECONDS", 0)

    async def scenario(log: Log) -> None:
        await filled(log, 1, partitions=7)
        assert log.log_end_offset == 7
        broker = Broker(log)
        loaded: list[int] = []
        load = broker.coordinator.shards.load

        def noted(partition: int, records: Sequence[StoredRecord]) -> None:
            loaded.append(len(records))
            load(partition, records)

        monkeypatch.setattr(broker.coordinator.shards, "load", noted)
        broker.lead(3, 1)
        for count in range(4):
            await until_true(lambda count=count: len(loaded) == count)  # type: ignore[misc]
            assert broker.phase is Phase.LOADING
        await broker.serving()
        assert loaded == [2, 2, 2, 1]
        broker.follow(4)
        broker.lead(5, 1)
        await until_true(lambda: len(loaded) == 6)
        broker.follow(6)
        for _ in range(5):
            await asyncio.sleep(0)
        assert (len(loaded), broker.phase) == (6, None)
        broker.close()
    run(scenario)


class Cold:
    """A reader with nothing in memory: notes what is to be read, and reports it as read on the test's request."""

    def __init__(self) -> None:
        self.joined: list[int] = []
        self.done: Callable[[], object] = lambda: None

    def warm_read(self, _log: Log, offset: int, _bytes_max: int, done: Callable[[], object]) -> bool:
        self.joined.append(offset)
        self.done = done
        return True


def test_cold_batches_are_awaited_one_by_one(run: Run) -> None:
    async def scenario(log: Log) -> None:
        await filled(log, 3)
        broker, cold = Broker(log), Cold()
        broker.driver.cold_reader = cold  # type: ignore[assignment]
        broker.lead(3, 1)
        for count in range(1, log.log_end_offset + 2):
            await until_true(lambda count=count: len(cold.joined) == count)  # type: ignore[misc]
            await asyncio.sleep(0)
            assert broker.phase is Phase.LOADING
            cold.done()
        await broker.serving()
        assert cold.joined == list(range(log.log_end_offset + 1))
        assert offset_of(joined(broker)) == 2
        broker.close()
    run(scenario)


def test_a_leadership_that_ends_while_it_reads_loads_nothing(run: Run) -> None:
    async def scenario(log: Log) -> None:
        await filled(log)
        broker, cold = Broker(log), Cold()
        broker.driver.cold_reader = cold  # type: ignore[assignment]
        broker.lead(3, 1)
        await until_true(lambda: cold.joined == [0])
        broker.follow(4)
        cold.done()
        await asyncio.sleep(0)
        assert (cold.joined, broker.phase) == ([0], None)
        broker.close()
    run(scenario)


def test_a_leadership_that_ends_while_it_loads_leaves_the_next_one_alone(run: Run) -> None:
    async def scenario(log: Log) -> None:
        await filled(log)
        broker = Broker(log)
        for epoch in (3, 5, 7):
            broker.lead(epoch, 1)
            broker.follow(epoch + 1)
            assert broker.phase is None
        broker.lead(9, 1)
        await asyncio.sleep(0)
        broker.follow(10)
        broker.lead(11, 1)
        await broker.serving()
        assert offset_of(joined(broker)) == 4
        await asyncio.sleep(0)
        broker.close()
    run(scenario)


def test_an_answer_outlives_a_newer_epoch_and_a_long_wait(run: Run) -> None:
    async def scenario(log: Log) -> None:
        broker = Broker(log)
        broker.lead(1)
        await broker.serving()
        done = commit(broker, {("orders", 1): 7})
        broker.lead(2)
        await asyncio.sleep(0)
        assert broker.purgatory.expire(now_ms() + FAR_MS) < 0
        await until_true(lambda: broker.purgatory.parked_count == 1)
        assert not done.answered
        broker.partition.set_isr((1,))
        await until_true(lambda: done.answered)
        assert errors_of(done) == [0]
        broker.close()
    run(scenario)
