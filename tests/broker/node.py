"""A group coordinator with its logs and its clock in memory, for tests.

Every response goes through its wire form in the version of its request. So a field that the version cannot carry, or a
type that does not fit, fails the test that meets it.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from kraft.broker.coordinator.answer import RequestContext
from kraft.broker.coordinator.shard import Record, StoredRecord
from kraft.broker.groups.config import GroupCoordinatorConfig
from kraft.broker.groups.coordinator import GroupCoordinator
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft_native.base.errors import OperationError

START_MS = 1_700_000_000_000
TOPICS = {"orders": (UUID(int=0xA1), 8), "clicks": (UUID(int=0xC2), 4)}


class AppendFailed(OperationError):
    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.code = int(error)


class Logs:
    """The logs of `__consumer_offsets`: the appended records, and the committed offset of each."""

    def __init__(self, partition_count: int) -> None:
        self.records: list[list[Record]] = [[] for _ in range(partition_count)]
        self.batches: list[list[int]] = [[] for _ in range(partition_count)]    # end offset of each batch
        self.committed = [0] * partition_count
        self.error: ErrorCode | None = None     # the error of the next appends

    def append(self, partition: int, records: Sequence[Record]) -> int:
        if self.error is not None:
            raise AppendFailed(self.error)
        assert records
        base_offset = len(self.records[partition])
        self.records[partition] += records
        self.batches[partition].append(len(self.records[partition]))
        return base_offset

    def truncate(self, partition: int, end_offset: int) -> None:
        assert end_offset >= self.committed[partition]
        del self.records[partition][end_offset:]
        self.batches[partition] = [end for end in self.batches[partition] if end <= end_offset]

    def stored(self, partition: int) -> list[StoredRecord]:
        return [StoredRecord(offset, record.key, record.value)
                for offset, record in enumerate(self.records[partition])]


class Topics:
    """The topics of the cluster: name -> (id, number of partitions)."""

    def __init__(self, topics: dict[str, tuple[UUID, int]]) -> None:
        self.topics = topics

    def topic_id(self, name: str) -> UUID | None:
        return self.topics[name][0] if name in self.topics else None

    def topic_name(self, topic_id: UUID) -> str | None:
        return next((name for name, (known, _) in self.topics.items() if known == topic_id), None)

    def has_partition(self, name: str, partition: int) -> bool:
        return name in self.topics and 0 <= partition < self.topics[name][1]


@dataclasses.dataclass
class Pending:
    """A pending request; `response` is its answer."""

    request: Message
    version: int
    response: Any = None

    @property
    def answered(self) -> bool:
        return self.response is not None


class Node:
    """One node that leads all partitions. `lag`: appends are committed only by `commit`."""

    def __init__(self, partition_count: int = 3, *, lag: bool = False, load: bool = True,
                 logs: Logs | None = None, **config: int) -> None:
        self.now_ms = START_MS
        self.config = GroupCoordinatorConfig(**{"group_initial_rebalance_delay_ms": 0, **config})
        self.logs = logs or Logs(partition_count)
        self.topics = Topics(dict(TOPICS))
        self.lag = lag
        self.epoch = 0
        self._uuids = itertools.count(1)
        self.new_uuid: Callable[[], UUID] = lambda: UUID(int=next(self._uuids))
        self.coordinator = self._new_coordinator()
        if load:
            self.load()

    def _new_coordinator(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(self.config, self.logs, self.topics, lambda: self.new_uuid())
        coordinator.partition_count = len(self.logs.records)
        return coordinator

    def load(self) -> None:
        """Become leader of every partition that it does not lead, and load it."""
        self.epoch += 1
        for partition in range(len(self.logs.records)):
            if self.coordinator.shards.start_load(partition, self.epoch):
                self.coordinator.shards.load(partition, self.logs.stored(partition))
                self.coordinator.shards.finish_load(partition, len(self.logs.records[partition]),
                                                    self.logs.committed[partition], self.now_ms)
        if not self.lag:
            self.commit()

    def kill(self) -> None:
        """Simulate kill -9: lose everything in memory, and every answer that has not left."""
        self.coordinator = self._new_coordinator()
        self.load()

    def commit(self, partition: int | None = None, end_offset: int | None = None) -> None:
        """Commit everything that was appended (up to `end_offset`)."""
        for index in range(len(self.logs.records)) if partition is None else [partition]:
            end = len(self.logs.records[index]) if end_offset is None else end_offset
            if end > self.logs.committed[index]:
                self.logs.committed[index] = end
            self.coordinator.committed(index, self.logs.committed[index], self.now_ms)

    def send(self, request: Message, version: int | None = None, client_id: str = "client") -> Pending:
        """Send `request`, once through its wire form."""
        version = type(request).VERSIONS[-1] if version is None else version
        pending = Pending(type(request).decode(request.encode(version), version), version)

        def respond(response: Message) -> None:
            assert pending.response is None, f"{request} was answered twice"
            pending.response = type(response).decode(response.encode(version), version, exact=True)

        context = RequestContext(version, client_id, "/127.0.0.1")
        self.coordinator.handle(pending.request, context, respond, self.now_ms)
        self._settle()
        return pending

    def call(self, request: Message, version: int | None = None, client_id: str = "client") -> Any:
        """Send a request that is answered at once."""
        pending = self.send(request, version, client_id)
        assert pending.answered, f"{request} was not answered"
        return pending.response

    def advance(self, delay_ms: int) -> None:
        """Advance the time, and tick whenever something is due."""
        until_ms = self.now_ms + delay_ms
        while (deadline_ms := self.coordinator.deadline_ms) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.coordinator.tick(self.now_ms)
            if not self.lag:
                self.commit()
        self.now_ms = until_ms

    def _settle(self) -> None:
        if not self.lag:
            self.commit()
            deadline_ms = self.coordinator.deadline_ms
            while deadline_ms is not None and deadline_ms <= self.now_ms:
                self.coordinator.tick(self.now_ms)
                self.commit()
                deadline_ms = self.coordinator.deadline_ms

    def group(self, group_id: str) -> Any:
        """Return the group in its shard, or None."""
        _, state = self.coordinator.shards.for_key(group_id, self.now_ms)
        return state.groups.get(group_id)

    def state_of(self, group_id: str) -> Any:
        """State of the shard that serves a group."""
        return self.coordinator.shards.for_key(group_id, self.now_ms)[1]
