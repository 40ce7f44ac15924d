"""A group coordinator with its logs and its clock in memory, for tests.

Every response goes through its wire form in the version of its request. So a field that the version cannot carry, or a
type that does not fit, fails the test that meets it.
"""

import dataclasses
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from kraft.broker.coordinator.answer import RequestContext
from kraft.broker.coordinator.shard import Producer, Record, StateMachine, StoredRecord
from kraft.broker.groups.config import GroupCoordinatorConfig
from kraft.broker.groups.consumer.hashing import topic_hash
from kraft.broker.groups.coordinator import GroupCoordinator
from kraft.broker.groups.ports import SharePort, Transaction
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
        self.producers: list[dict[int, Producer]] = [{} for _ in range(partition_count)]            # by offset
        self.markers: list[dict[int, tuple[int, bool]]] = [{} for _ in range(partition_count)]      # by offset
        self.committed = [0] * partition_count
        self.error: ErrorCode | None = None     # the error of the next appends
        self.reached: Callable[[int, int], object] = lambda _partition, _end_offset: None
        """Called with each end that is appended or watched, before the call returns: to commit it at once."""

    def append(self, partition: int, records: Sequence[Record], producer: Producer | None = None) -> int:
        if self.error is not None:
            raise AppendFailed(self.error)
        assert records
        base_offset = len(self.records[partition])
        self.records[partition] += records
        self.batches[partition].append(len(self.records[partition]))
        if producer is not None:
            self.producers[partition].update(dict.fromkeys(range(base_offset, self.batches[partition][-1]), producer))
        self.reached(partition, self.batches[partition][-1])
        return base_offset

    def append_marker(self, partition: int, producer_id: int, committed: bool) -> int:
        """Append the marker that ends a transaction; return the end of the log."""
        offset = self.append(partition, [Record(b"marker", None, 0)])
        self.markers[partition][offset] = producer_id, committed
        return offset + 1

    def watch(self, partition: int, end_offset: int) -> None:
        assert end_offset <= len(self.records[partition])
        self.reached(partition, end_offset)

    def truncate(self, partition: int, end_offset: int) -> None:
        assert end_offset >= self.committed[partition]
        del self.records[partition][end_offset:]
        self.batches[partition] = [end for end in self.batches[partition] if end <= end_offset]
        for by_offset in (self.producers[partition], self.markers[partition]):
            for offset in [offset for offset in by_offset if offset >= end_offset]:
                del by_offset[offset]

    def stored(self, partition: int) -> list[StoredRecord]:
        """Return the data records."""
        producers = self.producers[partition]
        return [StoredRecord(offset, record.key, record.value,
                             producers[offset].producer_id if offset in producers else -1)
                for offset, record in enumerate(self.records[partition]) if offset not in self.markers[partition]]

    def replay(self, partition: int, state: StateMachine, dropped: Collection[int] = ()) -> None:
        """Replay the log, without the `dropped` offsets, into a state."""
        steps: list[tuple[int, Callable[[], None]]] = [
            (record.offset, partial(state.replay, record)) for record in self.stored(partition)]
        steps += [(offset, partial(state.replay_marker, *marker)) for offset, marker in self.markers[partition].items()]
        for offset, step in sorted(steps, key=lambda each: each[0]):
            if offset not in dropped:
                step()


class Verifications:
    """Transaction coordinators of the cluster. `held`: verifications wait for `finish`."""

    def __init__(self) -> None:
        self.error = ErrorCode.NONE         # of the next verifications
        self.held = False
        self.requested: list[tuple[int, Transaction, bool, bool]] = []
        self.open: list[Callable[[ErrorCode, int], None]] = []

    def verify(self, partition: int, transaction: Transaction, *, adds: bool, knows_abortable: bool,
               done: Callable[[ErrorCode, int], None]) -> None:
        self.requested.append((partition, transaction, adds, knows_abortable))
        if self.held:
            self.open.append(done)
        else:
            done(self.error, START_MS)

    def finish(self, error: ErrorCode = ErrorCode.NONE, now_ms: int = START_MS) -> None:
        """End the verifications that are held."""
        finished, self.open = self.open, []
        for done in finished:
            done(error, now_ms)


class Topics:
    """The topics of the cluster: name -> (id, number of partitions)."""

    def __init__(self, topics: dict[str, tuple[UUID, int]]) -> None:
        self.topics = topics
        self.configs: dict[str, dict[str, str]] = {}
        self.known = object()

    def topic_id(self, name: str) -> UUID | None:
        return self.topics[name][0] if name in self.topics else None

    def topic_name(self, topic_id: UUID) -> str | None:
        return next((name for name, (known, _) in self.topics.items() if known == topic_id), None)

    def topic_hash(self, topic: str) -> int | None:
        if topic not in self.topics:
            return None
        topic_id, count = self.topics[topic]
        return topic_hash(topic_id, topic, [()] * count)

    def topic_names(self) -> Collection[str]:
        return self.topics.keys()

    def partition_count(self, topic: str) -> int | None:
        return self.topics[topic][1] if topic in self.topics else None

    @property
    def version(self) -> object:
        return self.known

    @property
    def names_version(self) -> object:
        return self.known

    @property
    def offset(self) -> int:
        return 7

    def group_config(self, group_id: str) -> Mapping[str, str]:
        return self.configs.get(group_id, {})

    def change(self, name: str, topic_id: UUID | None, partition_count: int = 0) -> None:
        """Create a topic, or add partitions to it, or delete it."""
        self.known = object()
        if topic_id is None:
            del self.topics[name]
        else:
            self.topics[name] = topic_id, partition_count

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
        self.verifications = Verifications()
        self.lag = lag
        self.epoch = 0
        self._uuids = itertools.count(1)
        self.new_uuid: Callable[[], UUID] = lambda: UUID(int=next(self._uuids))
        self.coordinator = self._new_coordinator()
        if load:
            self.load()

    def _new_coordinator(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(self.config, self.logs, self.topics, lambda: self.new_uuid(),
                                       self.verifications, self._share_port())
        coordinator.partition_count = len(self.logs.records)
        return coordinator

    def _share_port(self) -> SharePort | None:
        """Return the way to the share coordinators: none, but for tests of share groups."""
        return None

    def load(self) -> None:
        """Become leader of every partition that it does not lead, and load it."""
        self.epoch += 1
        for partition in range(len(self.logs.records)):
            if self.coordinator.shards.start_load(partition, self.epoch):
                self.logs.replay(partition, self.coordinator.shards._loading(partition).state)
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

    def end_transaction(self, group_id: str, producer_id: int, committed: bool) -> None:
        """Append the marker of a transaction to the partition that serves a group."""
        partition = self.coordinator.shards.partition_for(group_id)
        end_offset = self.logs.append_marker(partition, producer_id, committed)
        self.coordinator.marker_appended(partition, producer_id, committed, end_offset, self.now_ms)
        self._settle()

    def send(self, request: Message, version: int | None = None, client_id: str = "client") -> Pending:
        """Send `request`, once through its wire form."""
        version = type(request).VERSIONS[-1] if version is None else version
        pending = Pending(type(request).decode(request.encode(version), version), version)

        def respond(response: Message) -> None:
            assert pending.response is None, f"{request} was answered twice"
            pending.response = type(response).decode(response.encode(version), version, exact=True)

        context = RequestContext(version, client_id, "/127.0.0.1")
        self._handle(pending.request, context, respond)
        self._settle()
        return pending

    def _handle(self, request: Message, context: RequestContext, respond: Callable[[Message], None]) -> None:
        self.coordinator.handle(request, context, respond, self.now_ms)

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
