"""Real clients that continue through every fault, one thread each, and record what they did and saw."""

import random
import struct
import threading
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kraft.testing.history import NO_RECORD, NOT_ACKNOWLEDGED, SOMEWHERE, Commit, Problem, Reads, Sends, code_of
from tests.integration.clients import Reachable, librdkafka_consumer, librdkafka_producer

VALUE: Final = struct.Struct(">iiq")
"""Producer, partition and sequence; padding follows."""
FILLER: Final = b"." * 400
BURST: Final = 3
"""Records sent to each partition at once."""
PAUSE_SECONDS: Final = 0.1
OUTSTANDING_MAX: Final = 1_000
"""Unanswered records per partition at which the producer pauses."""
FINISH_SECONDS: Final = 600.0
POLL_RECORDS: Final = 2_000
POLL_SECONDS: Final = 0.05
LEAVE_POLLS_MAX: Final = 200
"""Polls within which a member must give its partitions up, even if its coordinator is offline."""
PATIENCE: Final[dict[str, Any]] = {
    "reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 200, "metadata_recovery_strategy": "none",
    "topic_metadata_refresh_fast_interval_ms": 50}
POSITION_LOST: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE)
NO_POSITION: Final = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE)
"""The coordinator moved while committed offsets were requested. librdkafka reports the error and does not request the
offsets again until the partition is assigned again."""


def code_in(message: confluent_kafka.Message) -> int:
    """Return the record as one number, or `NO_RECORD` if it is not one of the campaign's records for this partition."""
    value = message.value() or b""
    if len(value) < VALUE.size:
        return NO_RECORD
    producer, partition, sequence = VALUE.unpack_from(value)
    return code_of(producer, sequence) if partition == message.partition() else NO_RECORD


class Client(threading.Thread):
    """Runs until `end` is called. `fault` holds what ended it earlier."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.fault: BaseException | None = None
        self._end = threading.Event()

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - reported to the thread that waits for this one
            self.fault = error

    @abstractmethod
    def work(self) -> None:
        """Do all the work of the client."""

    def end(self) -> None:
        """Request the client to end."""
        self._end.set()

    def await_end(self) -> None:
        self.end()
        self.join()
        if self.fault is not None:
            raise self.fault


class Producer(Client):
    """Idempotent producer with acks=all that retries as long as necessary. `floors` is shared by all producers of the
    topic: the highest acknowledged offset by partition.

    Where it may have several requests in flight, each partition has a client of its own. librdkafka answers an
    OUT_OF_ORDER_SEQUENCE_NUMBER of one partition with a new producer epoch. Under that epoch it sends again what it
    holds of all other partitions, including what may have been stored under the previous epoch. Then a record is stored
    twice without any server being able to notice (confluentinc/librdkafka#4953). With one request in flight that is
    rare but possible. A partition that moves to another leader may have the next batch sent there before the one in
    flight has ended. `logs.sent_again` finds these records.
    """

    def __init__(self, cluster: Reachable, topic: str, number: int, floors: list[int], codec: str,
                 in_flight_max: int) -> None:
        super().__init__(f"producer {number} of {topic}")
        self.topic, self.number = topic, number
        self.sends = [Sends(number) for _ in floors]
        self.outstanding = [0] * len(floors)
        self._floors = floors
        self._clients = [librdkafka_producer(
            cluster, enable_idempotence=True, acks="all", linger_ms=2, message_timeout_ms=0, retry_backoff_ms=20,
            max_in_flight=in_flight_max, compression_type=codec, **PATIENCE)
            for _ in range(len(floors) if in_flight_max > 1 else 1)]

    def work(self) -> None:
        while not self._end.is_set():
            for partition, sends in enumerate(self.sends):
                if self.outstanding[partition] < OUTSTANDING_MAX:
                    for _ in range(BURST):
                        self._send(partition, sends)
            for each in self._clients:
                each.poll(0)
            self._end.wait(PAUSE_SECONDS)
        left = sum(each.flush(FINISH_SECONDS) for each in self._clients)
        assert left == 0, f"{self.name}: {left} records are not answered"

    def _send(self, partition: int, sends: Sends) -> None:
        sequence = sends.send(self._floors[partition])
        self.outstanding[partition] += 1
        self._clients[partition % len(self._clients)].produce(
            self.topic, VALUE.pack(self.number, partition, sequence) + FILLER[:sequence * 7 % len(FILLER)],
            partition=partition, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, message: confluent_kafka.Message) -> None:
        _, partition, sequence = VALUE.unpack_from(message.value() or b"")
        self.outstanding[partition] -= 1
        offset = message.offset()
        if error is not None:
            self.sends[partition].failed[sequence] = str(error)
        elif offset is not None and offset >= 0:
            self.sends[partition].offsets[sequence] = offset
            self._floors[partition] = max(offset, self._floors[partition])
        else:
            self.sends[partition].offsets[sequence] = SOMEWHERE

    @property
    def sent(self) -> list[int]:
        return [len(each.offsets) for each in self.sends]

    def has_more_than(self, sent: Sequence[int]) -> bool:
        """Return whether each partition acknowledged a record that was sent after the given number of records."""
        return all(len(each.offsets) > count and each.offsets[count] != NOT_ACKNOWLEDGED
                   for each, count in zip(self.sends, sent, strict=True))


class Reader(Client):
    """Common part of readers: records what they see and at which poll they saw it."""

    def __init__(self, name: str, cluster: Reachable, topic: str, partitions: int, group: str, start: int,
                 **settings: Any) -> None:
        super().__init__(name)
        self.topic = topic
        self.reads = [Reads(name, start) for _ in range(partitions)]
        self.stalled = False
        self._polls = 0
        self._consumer = librdkafka_consumer(cluster, group, check_crcs=True, **PATIENCE, **settings)

    def poll(self) -> None:
        self._polls += 1
        for message in self._consumer.consume(POLL_RECORDS, POLL_SECONDS):
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is None:
                assert partition is not None
                assert offset is not None
                self.reads[partition].see(offset, code_in(message), self._polls)
            elif error.code() in POSITION_LOST:
                self.reads[partition or 0].problems.append(Problem("offset-reset", f"{self.name}: {error}"))
            elif error.code() in NO_POSITION:
                self.stalled = True

    @property
    def positions(self) -> list[int]:
        return [each.position for each in self.reads]

    @property
    def is_lost(self) -> bool:
        """True if it lost its position in a partition: it reads nothing there until it is given a new one."""
        return any(problem.kind == "offset-reset" for each in self.reads for problem in each.problems)

    def is_at(self, ends: Sequence[int]) -> bool:
        return self.positions == list(ends)


class Watcher(Reader):
    """Reads all partitions from offset 0 on."""

    def __init__(self, name: str, cluster: Reachable, topic: str, partitions: int) -> None:
        super().__init__(name, cluster, topic, partitions, "none", 0, auto_offset_reset="error")
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])

    def work(self) -> None:
        while not self._end.is_set():
            self.poll()
        self._consumer.close()


class Member(Reader):
    """Member of a group that commits what it saw of its partitions, again and again."""

    def __init__(self, name: str, cluster: Reachable, topic: str, partitions: int, group: str) -> None:
        super().__init__(name, cluster, topic, partitions, group, -1, auto_offset_reset="earliest",
                         session_timeout_ms=6_000, heartbeat_interval_ms=500)
        self.commits: list[Commit] = []
        self.rebalances = 0
        self._committed: dict[int, int] = {}
        self.assigned: list[int] = []
        self._subscribe()

    def _subscribe(self) -> None:
        self._consumer.subscribe([self.topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, _: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1
        self.assigned = [each.partition for each in partitions]
        for partition in self.assigned:
            self.reads[partition].begin()
            self._committed.pop(partition, None)

    def _on_revoke(self, _: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned = []

    def work(self) -> None:
        while not self._end.is_set():
            self.poll()
            if self.stalled:
                self.stalled = False
                self._consumer.unsubscribe()
                self._subscribe()
            self._commit()
        self._leave()

    def _leave(self) -> None:
        """Give the partitions up before closing. librdkafka 2.16.1 would otherwise use a thread of its own for that
        while it closes. If that thread no longer answers, closing waits indefinitely, and with it every thread of this
        process."""
        self._consumer.unsubscribe()
        for _ in range(LEAVE_POLLS_MAX):
            if not self.assigned:
                break
            self.poll()
        self._consumer.close()

    def _commit(self) -> None:
        positions = {partition: self.reads[partition].position for partition in self.assigned}
        new = {partition: position for partition, position in positions.items()
               if position > self._committed.get(partition, -1)}
        if not new:
            return
        sent = time.monotonic()
        try:
            found = self._consumer.commit(asynchronous=False, offsets=[
                TopicPartition(self.topic, partition, position) for partition, position in new.items()])
        except KafkaException:          # of a removed coordinator, or a rebalance: the next commit repeats all
            self.commits += [Commit(partition, position, sent, None) for partition, position in new.items()]
            return
        answered = time.monotonic()
        for each in found or ():
            taken = each.error is None
            self.commits.append(Commit(each.partition, each.offset, sent, answered if taken else None))
            if taken:
                self._committed[each.partition] = each.offset


class Group:
    """Members of one group that join and leave. `number` is that of the next member."""

    def __init__(self, cluster: Reachable, topic: str, partitions: int, group: str, members: int) -> None:
        self.name = group
        self._make = lambda: Member(f"member {len(self.all) + 1}", cluster, topic, partitions, group)
        self.all: list[Member] = []
        self.now: list[Member] = []
        for _ in range(members):
            self.join()

    def join(self) -> None:
        member = self._make()
        self.all.append(member)
        self.now.append(member)
        member.start()

    def replace_one(self, chance: random.Random) -> None:
        """Replace one member by a new one, without waiting for the old one to leave."""
        self.now.pop(chance.randrange(len(self.now))).end()
        self.join()

    @property
    def commits(self) -> list[Commit]:
        return [commit for member in self.all for commit in member.commits]

    @property
    def rebalances(self) -> int:
        return sum(each.rebalances for each in self.all)

    def committed(self) -> dict[int, int]:
        """Return the highest acknowledged offset by partition."""
        found: dict[int, int] = {}
        for member in self.all:
            for commit in list(member.commits):
                if commit.answered is not None:
                    found[commit.partition] = max(commit.offset, found.get(commit.partition, 0))
        return found

    @property
    def standing(self) -> dict[str, object]:
        """State of the current members, to explain why nothing is committed."""
        return {each.name: {"assigned": each.assigned, "positions": each.positions, "rebalances": each.rebalances,
                            "fault": each.fault} for each in self.now}

    def await_end(self) -> None:
        for member in self.all:
            member.end()
        for member in self.all:
            member.await_end()
