"""Groups on three nodes: coordinators move with the leadership of their partitions, and clients continue."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.admin import metadata, wait_until
from tests.integration.clients import Reachable, librdkafka_consumer
from tests.integration.load import PARTITIONS, Producer, Watcher, judge
from tests.integration.quorum import SECONDS, MakeQuorum, Quorum

TOPIC = "work"
GROUP = "workers"
OFFSETS_TOPIC = "__consumer_offsets"


class Member(threading.Thread):
    """A member that commits what it saw, again and again. It must never see again what was committed."""

    def __init__(self, cluster: Reachable) -> None:
        super().__init__(name=f"member of {GROUP}")
        self.seen: dict[int, int] = {}
        self.committed: dict[int, int] = {}
        self.commits = 0
        self.problems: list[str] = []
        self._end = threading.Event()
        self._consumer = librdkafka_consumer(
            cluster, GROUP, session_timeout_ms=6_000, heartbeat_interval_ms=100, reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=100, metadata_recovery_strategy="none", topic_metadata_refresh_fast_interval_ms=50)
        self._consumer.subscribe([TOPIC])

    def run(self) -> None:
        while not self._end.is_set():
            for message in self._consumer.consume(500, 0.05):
                if message.error() is None:
                    self._see(message.partition() or 0, message.offset() or 0)
            if self.seen != self.committed and self._commits():
                self.committed = dict(self.seen)
                self.commits += 1
        self._consumer.close()

    def _see(self, partition: int, offset: int) -> None:
        if offset < self.committed.get(partition, 0):
            self.problems.append(f"{partition}: {offset} again, {self.committed[partition]} was committed")
        elif offset > self.seen.get(partition, 0):
            self.problems.append(f"{partition}: {offset} after {self.seen.get(partition, 0)}")
        self.seen[partition] = offset + 1

    def _commits(self) -> bool:
        try:
            self._consumer.commit(asynchronous=False, offsets=[
                TopicPartition(TOPIC, partition, offset) for partition, offset in self.seen.items()])
        except KafkaException:
            return False               # of a removed coordinator, or a rebalance: the next commit repeats all
        return True

    def end(self) -> None:
        self._end.set()


class Load:
    """Idempotent producers, a reader and a member of a group on a cluster whose nodes come and go."""

    def __init__(self, quorum: Quorum) -> None:
        self.quorum = quorum
        self.admin = AdminClient({"bootstrap.servers": quorum.address, "log_level": 2})
        made = self.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})])
        made[TOPIC].result(SECONDS)
        self.producers = [Producer(quorum, TOPIC, partition, idempotent=True) for partition in range(PARTITIONS)]
        self.member = Member(quorum)
        self.watcher = Watcher(quorum, TOPIC)
        self.threads: tuple[Any, ...] = (*self.producers, self.member, self.watcher)
        for thread in self.threads:
            thread.start()

    def coordinator(self) -> int:
        group = self.admin.describe_consumer_groups([GROUP])[GROUP].result(SECONDS)
        return int(group.coordinator.id)

    def await_progress(self) -> None:
        """Wait until everything that is sent from now on is acknowledged, read and committed."""
        sent = [len(each.offsets) for each in self.producers]
        commits = self.member.commits

        def continues() -> bool:
            return self.member.commits > commits + 2 and all(
                len(each.offsets) > count and each.offsets[count] >= 0
                and self.member.committed.get(each.partition, 0) > each.offsets[count]
                for each, count in zip(self.producers, sent, strict=True))
        wait_until(continues, "records are acknowledged and committed", SECONDS)

    def await_in_sync(self) -> None:
        """Wait until all replicas of both topics are in sync: the next node may stop."""
        def in_sync() -> bool:
            topics = metadata(self.admin).topics
            return all(len(part.isrs) == 3 for name in (TOPIC, OFFSETS_TOPIC)
                       for part in topics[name].partitions.values())
        wait_until(in_sync, "all replicas are in sync", SECONDS)

    def check(self) -> None:
        """Check that nothing acknowledged is lost or stored twice, that the group has read all of it, and that its
        offsets are known."""
        for producer in self.producers:
            producer.end()
            producer.join()
        verdict = judge(self.quorum, TOPIC, self.producers, self.watcher)
        assert verdict.problems == [], str(verdict)
        assert (verdict.lost, verdict.reordered, verdict.duplicated, verdict.changed) == (0, 0, 0, 0), str(verdict)
        ends = {each.partition: len(each.offsets) for each in self.producers}
        wait_until(lambda: self.member.committed == ends, "all is read and committed", SECONDS)
        assert self.member.problems == []
        consumer = librdkafka_consumer(self.quorum, GROUP)
        found = consumer.committed([TopicPartition(TOPIC, partition) for partition in ends], SECONDS)
        consumer.close()
        assert {each.partition: each.offset for each in found} == ends

    def close(self) -> None:
        for thread in self.threads:
            thread.end()
        for thread in self.threads:
            thread.join()


@pytest.fixture
def loaded(new_quorum: MakeQuorum) -> Iterator[Load]:
    quorum = new_quorum(3, is_broker=True, session_ms=2_000)
    quorum.start()
    load = Load(quorum)
    try:
        load.await_progress()
        load.await_in_sync()
        yield load
    finally:
        load.close()


def test_a_group_outlives_its_coordinator(loaded: Load) -> None:
    partitions = metadata(loaded.admin, OFFSETS_TOPIC).topics[OFFSETS_TOPIC].partitions
    assert [sorted(part.replicas) for part in partitions.values()] == [[1, 2, 3]] * len(partitions)
    for _ in range(2):
        killed = loaded.coordinator()
        loaded.quorum.nodes[killed].kill()
        loaded.await_progress()
        assert loaded.coordinator() != killed
        loaded.quorum.nodes[killed].start()
        loaded.await_in_sync()
    loaded.check()


def test_a_group_outlives_a_rolling_restart(loaded: Load) -> None:
    for node in loaded.quorum.nodes.values():
        node.restart()
        loaded.await_in_sync()
        loaded.await_progress()
    loaded.check()
