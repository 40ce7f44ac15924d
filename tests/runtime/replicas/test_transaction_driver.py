"""Commits of a replicated partition for the transaction coordinator, also while the coordinator appends to it."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kraft.broker.coordinator.shard import StoredRecord
from kraft.broker.coordinator.shards import Phase
from kraft.broker.internal_topics import TRANSACTION_TOPIC
from kraft.broker.transactions.config import TransactionCoordinatorConfig
from kraft.broker.transactions.coordinator import TransactionCoordinator
from kraft.broker.transactions.records import decode
from kraft.broker.transactions.state import Identity, Status
from kraft.protocol.error_codes import ErrorCode
from kraft.runtime.replicas.coordinator_driver import CoordinatorAppends, CoordinatorDriver
from kraft_native.batch.batch import walk
from kraft_native.batch.records import records
from kraft_native.facade.log import Log
from kraft_native.partition.cold_read import ColdReader
from kraft_native.partition.partition import Partition
from kraft_native.partition.purgatory import Purgatory
from kraft_native.partition.table import PartitionTable
from kraft_native.segment.config import LogConfig
from tests.broker.node import START_MS
from tests.broker.transactions.txn_node import Cluster, Ids, TxnNode, end_pending, init
from tests.runtime.replicas.test_coordinator_driver import until_true

NAMES = [f"id-{number}" for number in range(3)]

Scenario = Callable[[Log], Coroutine[Any, Any, None]]


class Broker(TxnNode):
    """Broker 1, which leads the only partition of `__transaction_state` and has a follower."""

    def __init__(self, log: Log) -> None:
        self.now_ms = START_MS
        self.log = log
        table = PartitionTable(Purgatory(asyncio.get_running_loop().call_soon))
        self.partition = Partition(log, TRANSACTION_TOPIC, bytes(16), 0)
        table.add(self.partition)
        self.appends = CoordinatorAppends(TRANSACTION_TOPIC, table, lambda: self.now_ms)
        self.coordinator = self.appends.coordinator = TransactionCoordinator(
            TransactionCoordinatorConfig(), self.appends, Cluster(), Ids())
        self.coordinator.partition_count = 1
        self.failures: list[BaseException] = []
        self.cold_reader = ColdReader()
        self.driver = CoordinatorDriver(self.coordinator, self.appends, lambda: self.now_ms, self.failures.append,
                                        self.cold_reader)

    async def lead(self, epoch: int, *isr: int) -> None:
        self.partition.become_leader(epoch, node_id=1, replicas=(1, 2), isr=isr)
        self.driver.lead(self.partition)
        await until_true(lambda: self.coordinator.shards.phase(0) is Phase.ACTIVE)

    def settle(self) -> None:
        """Do nothing: what is committed comes from the partition."""

    def close(self) -> None:
        self.driver.close()
        self.cold_reader.close()
        assert self.failures == []

    def statuses(self) -> list[tuple[str, Status]]:
        """Return the transactional id and the status in each record of the log."""
        found = []
        for batch in walk(bytes(self.log.read(0, 1 << 20, "log_end"))):
            for record in records(batch):
                assert record.key is not None
                replayed = decode(StoredRecord(record.offset, record.key, record.value))
                assert replayed is not None and replayed.transaction is not None
                found.append((replayed.transaction.transactional_id, replayed.transaction.status))
        return found


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Scenario], None]:
    """Return a function that runs a coroutine on a log."""
    def run_on_a_log(scenario: Scenario) -> None:
        log = Log(tmp_path / f"{TRANSACTION_TOPIC}-0", LogConfig(high_watermark="manual"))
        try:
            asyncio.run(scenario(log))
        finally:
            log.close()

    return run_on_a_log


def producers(broker: Broker) -> dict[str, Identity]:
    """Have a producer id for each name. This leader is alone in sync: it commits and answers at once."""
    found = {}
    for name in NAMES:
        response = init(broker, name=name).response
        assert response.error_code == ErrorCode.NONE
        found[name] = Identity(response.producer_id, response.producer_epoch)
    return found


def test_what_waits_for_one_commit_is_written_in_turn_when_the_last_follower_leaves(
        run: Callable[[Scenario], None]) -> None:
    """The high watermark moves to the end of each append within it. Aborts that wait continue after the append."""
    async def scenario(log: Log) -> None:
        broker = Broker(log)
        await broker.lead(1, 1)
        identities = producers(broker)
        broker.partition.set_isr((1, 2))
        pending = [end_pending(broker, identity, False, name=name) for name, identity in identities.items()]
        await asyncio.sleep(0)
        assert not any(each.answered for each in pending)
        broker.partition.set_isr((1,))
        await until_true(lambda: all(each.answered for each in pending))
        assert [each.response.error_code for each in pending] == [ErrorCode.NONE] * len(NAMES)
        assert [broker.status(name) for name in NAMES] == [Status.COMPLETE_ABORT] * len(NAMES)
        assert broker.statuses() == [
            (name, status) for status in (Status.EMPTY, Status.PREPARE_ABORT, Status.COMPLETE_ABORT) for name in NAMES]
        assert broker.partition.high_watermark == log.log_end_offset == 3 * len(NAMES)
        _, state = broker.coordinator.shards.for_key(NAMES[0], broker.now_ms)
        assert (state.shard.end_offset, state.shard.committed_offset) == (log.log_end_offset, log.log_end_offset)
        broker.close()

    run(scenario)


def test_an_abort_at_a_leader_that_is_alone_in_sync_is_written_wholly_in_one_request(
        run: Callable[[Scenario], None]) -> None:
    """Its decision is committed within the append, and its end begins after it: the next coordinator finds both."""
    async def scenario(log: Log) -> None:
        broker = Broker(log)
        await broker.lead(1, 1)
        name, identity = next(iter(producers(broker).items()))
        before = log.log_end_offset
        pending = end_pending(broker, identity, False, name=name)
        assert pending.response.error_code == ErrorCode.NONE
        assert broker.statuses()[before:] == [(name, Status.PREPARE_ABORT), (name, Status.COMPLETE_ABORT)]
        broker.close()
        following = Broker(log)
        await following.lead(2, 1)
        assert following.status(name) == Status.COMPLETE_ABORT
        assert following.transaction(name).producer_epoch == pending.response.producer_epoch
        following.close()

    run(scenario)
