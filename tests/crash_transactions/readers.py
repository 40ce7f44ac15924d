"""Readers of a run: of records with both isolation levels, of a group's offsets, and of last stable offsets."""

import math
import time
from collections.abc import Callable
from typing import Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kraft.client import Cluster
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.list_offsets_response import ListOffsetsResponse, ListOffsetsTopicResponse
from kraft.testing.transactions.history import NO_OFFSET, OffsetRead, OpenSpan, View
from kraft_native.base.errors import KraftError
from tests.crash_cluster.clients import PATIENCE, Client
from tests.crash_transactions.record import Record, code_in
from tests.integration.clients import Reachable, librdkafka_consumer

POLL_RECORDS: Final = 2_000
POLL_SECONDS: Final = 0.05
LOOK_SECONDS: Final = 0.5
REQUEST_SECONDS: Final = 5.0
LATEST: Final = -1


class Watcher(Client):
    """Reads all partitions from their first record on."""

    def __init__(self, name: str, cluster: Reachable, record: Record, *, committed: bool = True) -> None:
        super().__init__(name)
        self.views = [View(name, partition, committed) for partition in range(len(record.places))]
        self._record = record
        self._consumer = librdkafka_consumer(
            cluster, "none", isolation_level="read_committed" if committed else "read_uncommitted",
            enable_partition_eof=True, auto_offset_reset="error", check_crcs=True, error_cb=lambda _: None, **PATIENCE)
        self._consumer.assign([TopicPartition(topic, index, 0) for topic, index in record.places])

    def work(self) -> None:
        while not self._end.is_set():
            messages = self._consumer.consume(POLL_RECORDS, POLL_SECONDS)
            now = time.monotonic()
            for message in messages:
                self._see(message, now)
        self._consumer.close()

    def _see(self, message: confluent_kafka.Message, now: float) -> None:
        error, topic, index, offset = message.error(), message.topic(), message.partition(), message.offset()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise AssertionError(f"{self.name}: {error}")
            return
        assert topic is not None
        assert index is not None
        assert offset is not None
        partition = self._record.numbers[topic, index]
        if error is None:
            self.views[partition].see(offset, code_in(message, partition), now)
        else:
            self.views[partition].reach(offset)

    def is_at(self, ends: list[int]) -> bool:
        return all(view.end >= end for view, end in zip(self.views, ends, strict=True))


class StableOffsets(Client):
    """Requests the last stable offset and the end of every partition, and records how long a transaction holds one.

    `excused` returns the seconds of faults, during which nothing could be ended, since the first ever."""

    def __init__(self, cluster: Reachable, record: Record, excused: Callable[[], float]) -> None:
        super().__init__("stable offsets")
        self.ends = [-1] * len(record.places)
        self.stable_ends = [-1] * len(record.places)
        self.refusals: dict[int, str] = {}
        """Name of the last error by partition, for a report."""
        self._read = [-math.inf] * len(record.places)
        """Time at which the request for the current offsets was sent."""
        self._highest = [-1] * len(record.places)
        self._record = record
        self._excused = excused
        self._spans: dict[tuple[int, int], OpenSpan] = {}
        self._excused_before: dict[tuple[int, int], float] = {}
        self._cluster = Cluster(cluster.address, timeout=REQUEST_SECONDS)

    def work(self) -> None:
        with self._cluster:
            while not self._end.wait(LOOK_SECONDS):
                self.look()

    def look(self) -> None:
        """Read all offsets once; those that are not answered remain."""
        sent = time.monotonic()
        stable = self._offsets(committed=True)
        ends = self._offsets(committed=False)
        now = time.monotonic()
        for partition, offset in stable.items():
            if partition in ends:
                self.stable_ends[partition], self.ends[partition] = offset, ends[partition]
                self._read[partition] = sent
                self.note(partition, offset, sent, now, is_open=offset < ends[partition])

    @property
    def spans(self) -> list[OpenSpan]:
        """Time for which each last stable offset was seen below the end of its partition."""
        return list(self._spans.values())

    def note(self, partition: int, offset: int, sent: float, answered: float, *, is_open: bool) -> None:
        """Note a last stable offset that was requested at a time, and answered. One below a higher one has no open
        transaction: after a kill of all nodes offsets begin again at an old high watermark."""
        place = partition, offset
        if offset < self._highest[partition]:
            return
        self._highest[partition] = offset
        if not is_open:
            return
        if place not in self._spans:
            self._spans[place] = OpenSpan(partition, offset, answered, answered, self._record.timeout_seconds)
            self._excused_before[place] = self._excused()
        span = self._spans[place]
        self._spans[place] = span._replace(until=max(sent, span.since),
                                           excused=self._excused() - self._excused_before[place])

    def _offsets(self, *, committed: bool) -> dict[int, int]:
        """Return the end of each partition whose leader answers, as a reader with that isolation level sees it."""
        found: dict[int, int] = {}
        try:
            topics = self._cluster.metadata(list(self._record.topics)).topics
        except KraftError:              # from brokers that are offline
            self._cluster.close()
            return found
        by_leader: dict[int, list[tuple[str, int]]] = {}
        for topic in topics:
            for each in topic.partitions:
                by_leader.setdefault(each.leader_id, []).append((topic.name or "", each.partition_index))
        for leader, places in by_leader.items():
            request = ListOffsetsRequest(replica_id=-1, isolation_level=int(committed), topics=[
                ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=index, timestamp=LATEST)])
                for topic, index in places])
            answers: list[ListOffsetsTopicResponse] = []
            try:
                answers = self._cluster.node(leader).send(request, ListOffsetsResponse).topics
            except KraftError as error:       # the leader is offline
                self.refusals.update(dict.fromkeys((self._record.numbers[place] for place in places), str(error)))
                self._cluster.close()
            for answer in answers:
                for one in answer.partitions:
                    partition = self._record.numbers[answer.name, one.partition_index]
                    if one.error_code == ErrorCode.NONE:
                        found[partition] = one.offset
                        self.refusals.pop(partition, None)
                    else:
                        self.refusals[partition] = name_of(one.error_code)
        return found

    def is_current(self, since: float) -> bool:
        """Return whether all offsets were requested after a time."""
        return min(self._read) > since

    def is_settled(self, since: float) -> bool:
        """Return whether no transaction was open any more at some time after `since`."""
        return self.is_current(since) and self.ends == self.stable_ends


class GroupOffsets(Client):
    """Reads the stable offsets of a group again and again."""

    def __init__(self, cluster: Reachable, record: Record, group: str, topic: str) -> None:
        super().__init__("group offsets")
        self._record = record
        self._group = group
        self._places = [TopicPartition(*record.places[number]) for number in record.of_topic(topic)]
        self._consumer = librdkafka_consumer(cluster, group, isolation_level="read_committed",
                                             error_cb=lambda _: None, **PATIENCE)

    def work(self) -> None:
        while not self._end.wait(LOOK_SECONDS):
            self.look()
        while not self.look():
            self._end.wait(LOOK_SECONDS)
        self._consumer.close()

    def look(self) -> bool:
        """Read the offsets once; return whether they were answered."""
        sent = time.monotonic()
        try:
            found = self._consumer.committed(self._places, REQUEST_SECONDS)
        except KafkaException:
            return False
        answered = time.monotonic()
        if any(each.error is not None for each in found):
            return False
        for each in found:
            self._record.history.offset_reads.append(OffsetRead(
                self._group, self._record.numbers[each.topic, each.partition],
                each.offset if each.offset >= 0 else NO_OFFSET, sent, answered))
        return True
