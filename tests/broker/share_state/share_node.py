"""A share coordinator with its logs and its clock in memory, for tests.

Every response goes through its wire form in the version of its request.
"""

from typing import Any
from uuid import UUID

from kraft.broker.coordinator.answer import RequestContext
from kraft.broker.coordinator.shard import StoredRecord
from kraft.broker.share_state.config import ShareCoordinatorConfig
from kraft.broker.share_state.coordinator import ShareCoordinator
from kraft.broker.share_state.records import decode
from kraft.broker.share_state.shard import ShareStateShard
from kraft.broker.share_state.state import ShareKey, Snapshot, Update
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages import delete_share_group_state_request as deletes
from kraft.protocol.messages import initialize_share_group_state_request as initializes
from kraft.protocol.messages import read_share_group_state_request as reads
from kraft.protocol.messages import read_share_group_state_summary_request as summaries
from kraft.protocol.messages import write_share_group_state_request as writes
from tests.broker.node import START_MS, TOPICS, Logs, Pending, Topics

ORDERS, CLICKS = TOPICS["orders"][0], TOPICS["clicks"][0]
UNKNOWN_TOPIC = UUID(int=0xE5)
GROUP = "g"
KEY = ShareKey(GROUP, ORDERS, 0)
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4

Batch = tuple[int, int, int, int]
"""First and last offset, delivery state and count."""


class ShareTopics(Topics):
    """Topics of a cluster whose metadata this node has."""

    is_current = True


class ShareNode:
    """One node that leads all partitions of `__share_group_state`. `lag`: appends are committed only by `commit`."""

    def __init__(self, partitions: int = 1, *, lag: bool = False, logs: Logs | None = None, **config: Any) -> None:
        self.now_ms = START_MS
        self.logs = logs or Logs(partitions)
        self.topics = ShareTopics(dict(TOPICS))
        self.config = ShareCoordinatorConfig(**config)
        self.lag = lag
        self.epoch = 0
        self.pruned = [0] * len(self.logs.records)
        self.coordinator = self._new_coordinator()
        self.load()

    def _new_coordinator(self) -> ShareCoordinator:
        coordinator = ShareCoordinator(self.config, self.logs, self.topics, self._prune)
        coordinator.partition_count = len(self.logs.records)
        return coordinator

    def _prune(self, partition: int, before_offset: int) -> None:
        assert before_offset <= self.logs.committed[partition], "only what is committed may be removed"
        self.pruned[partition] = max(self.pruned[partition], before_offset)

    def stored(self, partition: int = 0) -> list[StoredRecord]:
        """Return the records that the log still has."""
        return self.logs.stored(partition)[self.pruned[partition]:]

    def load(self) -> None:
        self.epoch += 1
        shards = self.coordinator.shards
        for partition in range(len(self.logs.records)):
            if shards.start_load(partition, self.epoch):
                shards.load(partition, self.stored(partition))
                shards.finish_load(partition, len(self.logs.records[partition]), self.logs.committed[partition],
                                   self.now_ms)
        self.settle()

    def fail_over(self) -> None:
        """Lose everything in memory and load the logs again, as the next coordinator does."""
        self.coordinator = self._new_coordinator()
        self.load()

    def commit(self) -> None:
        for index in range(len(self.logs.records)):
            self.logs.committed[index] = len(self.logs.records[index])
            self.coordinator.committed(index, self.logs.committed[index], self.now_ms)

    def settle(self) -> None:
        """Commit, and run what is due, until nothing is left."""
        for _ in range(10_000):
            if not self.lag:
                self.commit()
            deadline_ms = self.coordinator.deadline_ms
            if deadline_ms is None or deadline_ms > self.now_ms:
                return
            self.coordinator.tick(self.now_ms)
        raise AssertionError("it does not settle")

    def advance(self, delay_ms: int) -> None:
        until_ms = self.now_ms + delay_ms
        while (deadline_ms := self.coordinator.deadline_ms) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.settle()
        self.now_ms = until_ms

    def send(self, request: Message, version: int | None = None) -> Pending:
        version = type(request).VERSIONS[-1] if version is None else version
        pending = Pending(type(request).decode(request.encode(version), version), version)

        def respond(response: Message) -> None:
            assert pending.response is None, f"{request} was answered twice"
            pending.response = type(response).decode(response.encode(version), version, exact=True)

        self.coordinator.handle(pending.request, RequestContext(version), respond, self.now_ms)
        self.settle()
        return pending

    def call(self, request: Message, version: int | None = None) -> Any:
        pending = self.send(request, version)
        assert pending.answered, f"{request} was not answered"
        return pending.response

    def shard(self, partition: int = 0) -> ShareStateShard:
        return self.coordinator.shards.serving(partition, self.now_ms)[1]

    def records(self, partition: int = 0) -> list[Snapshot | Update | None]:
        """Content of the data records of a log, with what was pruned; None for a tombstone."""
        found = []
        for record in self.logs.stored(partition):
            replayed = decode(record)
            assert replayed is not None
            found.append(replayed.content)
        return found


def code_of(response: Any) -> tuple[ErrorCode, str | None]:
    """Error and message of an answer about one partition."""
    [topic] = response.results
    [each] = topic.partitions
    return next(error for error in ErrorCode if error == each.error_code), each.error_message


def initialize(state_epoch: int = 1, start_offset: int = -1, key: ShareKey = KEY) -> Message:
    return initializes.InitializeShareGroupStateRequest(group_id=key.group_id, topics=[initializes.InitializeStateData(
        topic_id=key.topic_id, partitions=[initializes.PartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset)])])


def write(*batches: Batch, start_offset: int = 0, state_epoch: int = 1, leader_epoch: int = 0, count: int = -1,
          key: ShareKey = KEY) -> Message:
    return writes.WriteShareGroupStateRequest(group_id=key.group_id, topics=[writes.WriteStateData(
        topic_id=key.topic_id, partitions=[writes.PartitionData(
            partition=key.partition, state_epoch=state_epoch, leader_epoch=leader_epoch, start_offset=start_offset,
            delivery_complete_count=count, state_batches=[writes.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=deliveries)
                for first, last, state, deliveries in batches])])])


def read(leader_epoch: int = 0, key: ShareKey = KEY) -> Message:
    return reads.ReadShareGroupStateRequest(group_id=key.group_id, topics=[reads.ReadStateData(
        topic_id=key.topic_id, partitions=[reads.PartitionData(partition=key.partition, leader_epoch=leader_epoch)])])


def summarize(key: ShareKey = KEY) -> Message:
    return summaries.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=[summaries.ReadStateSummaryData(
        topic_id=key.topic_id, partitions=[summaries.PartitionData(partition=key.partition)])])


def delete(key: ShareKey = KEY) -> Message:
    return deletes.DeleteShareGroupStateRequest(group_id=key.group_id, topics=[deletes.DeleteStateData(
        topic_id=key.topic_id, partitions=[deletes.PartitionData(partition=key.partition)])])


def state_read(node: ShareNode, leader_epoch: int = 0, key: ShareKey = KEY) -> tuple[int, int, list[Batch]]:
    """State epoch, start offset and batches of a read that is not refused."""
    response = node.call(read(leader_epoch, key))
    assert code_of(response) == (ErrorCode.NONE, None)
    each = response.results[0].partitions[0]
    return each.state_epoch, each.start_offset, [
        (batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in each.state_batches]
