"""Producers and a consumer that continue while their node is killed, and the checks of what they did."""

import random
import struct
import threading
import time
from array import array
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

import confluent_kafka
from confluent_kafka import TopicPartition

from tests.integration.admin import wait_until
from tests.integration.clients import Reachable, librdkafka_consumer, librdkafka_producer
from tests.integration.process import NodeProcess

PARTITIONS: Final = 2
# Records that one producer sends at once, and how long it then waits: a rate that a test can check in memory.
BURST: Final = 25
PAUSE_SECONDS: Final = 0.01
FINISH_SECONDS: Final = 60.0
NOT_ACKNOWLEDGED: Final = -1
UNKNOWN_OFFSET: Final = -2
"""Offset of a record whose response was lost. The producer knows that it is stored: a later sequence number was
accepted."""
VALUE: Final = struct.Struct(">iq")


class Verdict(NamedTuple):
    """Counts over all partitions; `problems` names the first ones."""

    acknowledged: int
    stored: int
    lost: int
    reordered: int
    duplicated: int
    changed: int
    problems: list[str]

    def __str__(self) -> str:
        return (f"{self.acknowledged} acknowledged, {self.stored} stored: {self.lost} lost, {self.reordered} "
                f"reordered, {self.duplicated} duplicated, {self.changed} changed after they were read")


class Producer(threading.Thread):
    """Sends its own number and 0, 1, 2, ... to one partition until `end` is called; then all must be acknowledged."""

    def __init__(self, node: Reachable, topic: str, partition: int, *, idempotent: bool) -> None:
        super().__init__(name=f"producer of {topic}-{partition}")
        self.topic, self.partition, self.idempotent = topic, partition, idempotent
        self.offsets = array("q")
        self.failures: list[str] = []
        self.unfinished = 0
        self._end = threading.Event()
        self._producer = librdkafka_producer(
            node, enable_idempotence=idempotent, acks="all", linger_ms=1, message_timeout_ms=0, retries=1_000_000,
            reconnect_backoff_ms=20, reconnect_backoff_max_ms=100, retry_backoff_ms=20,
            max_in_flight_requests_per_connection=5 if idempotent else 1, metadata_recovery_strategy="none",
            topic_metadata_refresh_fast_interval_ms=50)

    def run(self) -> None:
        while not self._end.is_set():
            for _ in range(BURST):
                self._send(len(self.offsets))
            self._producer.poll(0)
            self._end.wait(PAUSE_SECONDS)
        self.unfinished = self._producer.flush(FINISH_SECONDS)

    def _send(self, sequence: int) -> None:
        self.offsets.append(NOT_ACKNOWLEDGED)

        def delivered(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            if error is None:
                self.offsets[sequence] = acknowledged_offset(message)
            else:
                self.failures.append(f"{self.name}: {sequence}: {error}")

        self._producer.produce(self.topic, VALUE.pack(self.partition, sequence), partition=self.partition,
                               on_delivery=delivered)

    def end(self) -> None:
        """Send no more records."""
        self._end.set()


class Watcher(threading.Thread):
    """Reads along, and remembers what it saw at which offset: that must never change."""

    def __init__(self, node: Reachable, topic: str) -> None:
        super().__init__(name=f"watcher of {topic}")
        self.seen: dict[tuple[int, int], int] = {}
        self._end = threading.Event()
        self._consumer = librdkafka_consumer(node, topic, reconnect_backoff_ms=20, reconnect_backoff_max_ms=100,
                                             metadata_recovery_strategy="none")
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

    def run(self) -> None:
        while not self._end.is_set():
            for message in self._consumer.consume(1_000, 0.05):
                value = message.value()
                if message.error() is None and value is not None:
                    self.seen[message.partition() or 0, message.offset() or 0] = VALUE.unpack(value)[1]
        self._consumer.close()

    def end(self) -> None:
        """Read no more."""
        self._end.set()


def run_load(node: NodeProcess, topics: dict[str, bool], kills: int, seed: int) -> dict[str, Verdict]:
    """Load `topics` (name -> by idempotent producers?), kill the node `kills` times at random moments, and check."""
    source = random.Random(seed)
    producers = [Producer(node, topic, partition, idempotent=idempotent)
                 for topic, idempotent in topics.items() for partition in range(PARTITIONS)]
    watchers = {topic: Watcher(node, topic) for topic in topics}
    for thread in (*producers, *watchers.values()):
        thread.start()
    try:
        for _ in range(kills):
            time.sleep(source.uniform(0.05, 0.6))
            node.kill_and_start()
    finally:
        threads: list[Any] = [*producers, *watchers.values()]
        for thread in threads:
            thread.end()
            thread.join()
    return {topic: judge(node, topic, [each for each in producers if each.topic == topic], watchers[topic])
            for topic in topics}


def judge(node: Reachable, topic: str, producers: list[Producer], watcher: Watcher) -> Verdict:
    """Read everything back and compare it with what was acknowledged and what was seen."""
    problems = [failure for each in producers for failure in each.failures[:3]]
    problems += [f"{each.name}: {each.unfinished} records were never answered" for each in producers if each.unfinished]
    totals = dict.fromkeys(("acknowledged", "stored", "lost", "reordered", "duplicated", "changed"), 0)
    stored_in = read_all(node, [(topic, producer.partition) for producer in producers])
    for producer in producers:
        stored = stored_in[topic, producer.partition]
        acknowledged = [(sequence, offset) for sequence, offset in enumerate(producer.offsets)
                        if offset != NOT_ACKNOWLEDGED]
        lost = lost_of(acknowledged, stored)
        if not producer.idempotent:  # a repeated record counts where it was acknowledged or anywhere else
            kept = set(stored.values())
            lost = [each for each in acknowledged if each[0] not in kept]
        sequence = list(stored.values())
        first = list(dict.fromkeys(sequence))
        changed = [(offset, value) for (partition, offset), value in watcher.seen.items()
                   if partition == producer.partition and stored.get(offset) != value]
        totals["acknowledged"] += len(acknowledged)
        totals["stored"] += len(stored)
        totals["lost"] += len(lost)
        totals["reordered"] += sum(a > b for a, b in pairwise(first))
        totals["duplicated"] += len(sequence) - len(first)
        totals["changed"] += len(changed)
        problems += [f"{producer.name}: lost {each}" for each in lost[:3]]
        problems += [f"{producer.name}: changed {each}" for each in changed[:3]]
    return Verdict(**totals, problems=problems)


def acknowledged_offset(message: confluent_kafka.Message) -> int:
    offset = message.offset()
    return UNKNOWN_OFFSET if offset is None else offset


def lost_of(acknowledged: Iterable[tuple[int, int]], stored: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return those of the (sequence, offset) that are not stored at their offset, or anywhere if it is not known.
    `stored`: offset -> sequence."""
    kept = set(stored.values())
    return [(sequence, offset) for sequence, offset in acknowledged
            if (sequence not in kept if offset == UNKNOWN_OFFSET else stored.get(offset) != sequence)]


def readable_end(consumer: confluent_kafka.Consumer, partition: TopicPartition) -> int:
    """Return the end of what consumers see. Wait until the leader knows it."""
    found: list[int] = []

    def is_known() -> bool:
        try:
            found.append(consumer.get_watermark_offsets(partition, timeout=FINISH_SECONDS)[1])
        except confluent_kafka.KafkaException as error:
            if not error.args[0].retriable():
                raise
        return bool(found)

    wait_until(is_known, f"end of {partition.topic}-{partition.partition}", FINISH_SECONDS)
    return found[0]


def read_all(node: Reachable, partitions: Collection[tuple[str, int]]) -> dict[tuple[str, int], dict[int, int]]:
    """Read these partitions of topics with one consumer. Return offset -> sequence of each, in the order of the
    offsets.

    A partition is read up to the end that its leader gave before. The end of a Fetch is not enough: directly after an
    election it may be below what was acknowledged, until the followers have fetched (KIP-207).
    """
    consumer = librdkafka_consumer(node, "judge", check_crcs=True, enable_partition_eof=True)
    ends = {each: readable_end(consumer, TopicPartition(*each)) for each in partitions}
    consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in partitions])
    stored: dict[tuple[str, int], dict[int, int]] = {each: {} for each in partitions}
    unread = set(stored)
    deadline = time.monotonic() + FINISH_SECONDS
    while unread:
        messages = consumer.consume(10_000, 0.5)
        for message in messages:
            error, value = message.error(), message.value()
            where = message.topic() or "", message.partition() or 0
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                if (message.offset() or 0) >= ends[where]:
                    unread.discard(where)
                continue
            assert value is not None
            number, stored[where][message.offset() or 0] = VALUE.unpack(value)
            assert number == where[1]
        now = time.monotonic()
        deadline = now + FINISH_SECONDS if messages else deadline
        assert now < deadline, f"{len(unread)} partitions: nothing in {FINISH_SECONDS} s: {sorted(unread)[:3]}"
    consumer.close()
    return stored
