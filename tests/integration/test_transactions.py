"""Transactions of librdkafka on one node and on three: commits, aborts, fenced clients, time-outs, and fail-over. Other
clients commit and abort."""

import asyncio
import threading
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.broker.coordinator.hashing import partition_of
from tests.integration.admin import create, metadata, wait_until
from tests.integration.clients import Reachable, librdkafka_consumer, librdkafka_producer, take
from tests.integration.process import NodeProcess
from tests.integration.quorum import SECONDS, MakeQuorum, Quorum

TRANSACTION_TOPIC = "__transaction_state"


def transactional(node: Reachable, name: str, **settings: Any) -> confluent_kafka.Producer:
    """Create a client of that transactional id, which fences its predecessors."""
    producer = librdkafka_producer(node, transactional_id=name, **{"linger_ms": 0, **settings})
    producer.init_transactions(SECONDS)
    return producer


def send(producer: confluent_kafka.Producer, topic: str, *values: str, partition: int = 0) -> None:
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(SECONDS) == 0


def committed(node: Reachable, topic: str, count: int, partition: int = 0) -> list[str]:
    """Values of the first `count` committed records. More would be read with the last one."""
    consumer = librdkafka_consumer(node, isolation_level="read_committed")
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        return [each.value().decode() for each in take(consumer, count)]
    finally:
        consumer.close()


def stable_offset(node: Reachable, topic: str) -> int:
    consumer = librdkafka_consumer(node, isolation_level="read_committed")
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), SECONDS)[1])
    finally:
        consumer.close()


def test_committed_records_are_read_and_aborted_ones_are_not(node: NodeProcess, name: str) -> None:
    create(node, name, 2)
    producer = transactional(node, name)
    for number, ends in enumerate([producer.commit_transaction, producer.abort_transaction] * 3):
        producer.begin_transaction()
        send(producer, name, f"{number}-a", f"{number}-b")
        send(producer, name, f"{number}-c", partition=1)
        ends(SECONDS)
    assert committed(node, name, 6) == ["0-a", "0-b", "2-a", "2-b", "4-a", "4-b"]
    assert committed(node, name, 3, 1) == ["0-c", "2-c", "4-c"]
    wait_until(lambda: stable_offset(node, name) == 18, "six transactions of two records and a marker have ended")


def test_a_new_client_fences_the_previous_one(node: NodeProcess, name: str) -> None:
    create(node, name)
    first = transactional(node, name)
    first.begin_transaction()
    send(first, name, "lost")
    second = transactional(node, name)
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(SECONDS)
    assert fenced.value.args[0].fatal()
    second.begin_transaction()
    send(second, name, "kept")
    second.commit_transaction(SECONDS)
    assert committed(node, name, 1) == ["kept"]


def test_a_transaction_ends_by_its_time_also_after_a_kill(new_node: Any, name: str) -> None:
    node = new_node()
    create(node, name)
    transactional(node, "other")
    idle = transactional(node, name, transaction_timeout_ms=1_500)
    idle.begin_transaction()
    send(idle, name, "lost")
    assert stable_offset(node, name) == 0
    node.kill_and_start()
    wait_until(lambda: stable_offset(node, name) == 2, "the transaction is aborted", SECONDS)
    following = transactional(node, name)
    following.begin_transaction()
    send(following, name, "kept")
    following.commit_transaction(SECONDS)
    assert committed(node, name, 1) == ["kept"]


class Worker(threading.Thread):
    """Client that commits a record in each of two partitions per transaction, and aborts every third one."""

    def __init__(self, cluster: Reachable, topic: str) -> None:
        super().__init__()
        self.topic = topic
        self.committed: list[str] = []
        self.failure: BaseException | None = None
        self._ended = threading.Event()
        self._producer = transactional(cluster, topic, transaction_timeout_ms=60_000)

    def run(self) -> None:
        try:
            number = 0
            while not self._ended.is_set():
                number += 1
                self._producer.begin_transaction()
                for partition in (0, 1):
                    self._producer.produce(self.topic, str(number), partition=partition)
                if number % 3 == 0:
                    # Else librdkafka may end a transaction at the next coordinator before it repeats the request that
                    # adds its partitions, which the killed one has not answered: INVALID_TXN_STATE, with Kafka too.
                    self._producer.flush(SECONDS)
                    self._producer.abort_transaction()
                else:
                    self._commit()
                    self.committed.append(str(number))
        except BaseException as error:  # noqa: BLE001 - reported by the test
            self.failure = error

    def _commit(self) -> None:
        while True:
            try:
                self._producer.commit_transaction()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return

    def end(self) -> None:
        self._ended.set()


def coordinator_of(quorum: Quorum, admin: AdminClient, name: str) -> int:
    partitions = metadata(admin, TRANSACTION_TOPIC).topics[TRANSACTION_TOPIC].partitions
    return int(partitions[partition_of(name, len(partitions))].leader)


def test_a_client_outlives_its_coordinator(new_quorum: MakeQuorum, name: str) -> None:
    quorum = new_quorum(3, is_broker=True, session_ms=2_000)
    quorum.start()
    admin = AdminClient({"bootstrap.servers": quorum.address, "log_level": 2})
    admin.create_topics([NewTopic(name, 2, 3, config={"min.insync.replicas": "2"})])[name].result(SECONDS)
    worker = Worker(quorum, name)
    worker.start()

    def await_commits() -> None:
        count = len(worker.committed)
        wait_until(lambda: len(worker.committed) > count + 2 or worker.failure is not None, "transactions commit",
                   3 * SECONDS)
        assert worker.failure is None, worker.failure

    def in_sync() -> bool:
        topics = metadata(admin).topics
        return all(len(part.isrs) == 3 for topic in (name, TRANSACTION_TOPIC)
                   for part in topics[topic].partitions.values())

    try:
        for _ in range(2):
            await_commits()
            wait_until(in_sync, "all replicas are in sync", 3 * SECONDS)
            killed = coordinator_of(quorum, admin, name)
            quorum.nodes[killed].kill()
            await_commits()
            assert coordinator_of(quorum, admin, name) != killed
            quorum.nodes[killed].start()
    finally:
        worker.end()
        worker.join()
    assert worker.failure is None
    for partition in (0, 1):
        assert committed(quorum, name, len(worker.committed), partition) == worker.committed


def test_transactions_of_aiokafka(node: NodeProcess, name: str) -> None:
    create(node, name)

    async def run() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=node.address, transactional_id=name) as producer:
            for number in range(4):
                await producer.begin_transaction()
                await producer.send_and_wait(name, str(number).encode())
                if number % 2:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()

    asyncio.run(run())
    assert committed(node, name, 2) == ["0", "2"]


def test_transactions_of_kafka_python(node: NodeProcess, name: str) -> None:
    create(node, name)
    producer = kafka.KafkaProducer(bootstrap_servers=node.address, transactional_id=name)
    try:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            producer.send(name, str(number).encode()).get(SECONDS)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    finally:
        producer.close()
    assert committed(node, name, 2) == ["0", "2"]
