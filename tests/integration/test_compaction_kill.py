"""kill -9 while the cleaner works all the time: every key keeps its latest acknowledged value."""

import random
from collections.abc import Callable
from pathlib import Path

import confluent_kafka

from tests.integration.admin import create
from tests.integration.clients import librdkafka_consumer, librdkafka_producer
from tests.integration.process import NodeProcess

KEYS = 40
ROUNDS = 6
RECORDS_PER_ROUND = 2_000
TOPIC = "state"
SETTINGS = {"log.cleaner.backoff.ms": "1", "log.cleaner.threads": "2"}
COMPACTED = {"cleanup.policy": "compact", "internal.segment.bytes": "65536", "min.cleanable.dirty.ratio": "0.01"}


def produce_until_killed(node: NodeProcess, first: int, after: int) -> tuple[dict[bytes, int], int]:
    """Write numbers from `first` on under a few keys, and kill the node when `after` of them are acknowledged. Return
    the largest acknowledged number of each key, and the number after the last that was sent."""
    acknowledged: dict[bytes, int] = {}
    count = 0

    def delivered(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        nonlocal count
        if error is None:
            count += 1
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            assert isinstance(value, bytes)
            acknowledged[key] = max(acknowledged.get(key, -1), int(value.split()[0]))

    producer = librdkafka_producer(node, acks="all", linger_ms=1, message_timeout_ms=3_000,
                                   max_in_flight_requests_per_connection=1)
    number = first
    while count < after:
        producer.produce(TOPIC, b"%d %s" % (number, bytes(100)), b"key %d" % (number % KEYS), on_delivery=delivered)
        number += 1
        producer.poll(0.001 if number % 50 == 0 else 0)
    node.kill()
    producer.flush(4)
    return acknowledged, number


def latest(node: NodeProcess) -> tuple[dict[bytes, int], int]:
    """Return the last number of each key, and how many records there are."""
    consumer = librdkafka_consumer(node, enable_partition_eof=True)
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, confluent_kafka.OFFSET_BEGINNING)])
    found: dict[bytes, int] = {}
    count = 0
    while True:
        message = consumer.poll(10)
        assert message is not None, "the end of the topic does not come"
        error = message.error()
        if error is not None:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            break
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        assert isinstance(value, bytes)
        found[key] = int(value.split()[0])
        count += 1
    consumer.close()
    return found, count


def test_no_latest_value_is_lost(new_node: Callable[..., NodeProcess]) -> None:
    node = new_node(SETTINGS)
    create(node, TOPIC, 1, COMPACTED)
    chance = random.Random("compaction")
    kept: dict[bytes, int] = {}
    number = 0
    for _ in range(ROUNDS):
        acknowledged, number = produce_until_killed(node, number, chance.randrange(500, RECORDS_PER_ROUND))
        kept.update(acknowledged)
        node.start()
        found, count = latest(node)
        assert {key: value for key, value in kept.items() if found.get(key, -1) < value} == {}
    assert count < number / 2, "nothing was compacted"
    assert not node.alarms()
    assert list(Path(node.directory).glob(f"{TOPIC}-0/*.log"))
