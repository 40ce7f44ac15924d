"""The three unmodified clients behind one interface: send these records to a partition, read that many back.

`librdkafka` is confluent-kafka; `aiokafka` and `kafka-python` are themselves. Each call has a client of its own.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import aiokafka
import confluent_kafka
import kafka
from aiokafka.structs import TopicPartition as AioPartition
from kafka.structs import TopicPartition as PythonPartition

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS: Final = 10.0
# Older records would be removed by retention.
START_MS: Final = time.time_ns() // 1_000_000

Headers = tuple[tuple[str, bytes | None], ...]


class Reachable(Protocol):
    """A node, or a cluster. One with a `login`, settings of librdkafka, is reached by that."""

    @property
    def address(self) -> str:
        """Address that clients bootstrap with."""
        ...


class Record(NamedTuple):
    """A record as it is sent, and as it comes back with its offset."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int = START_MS


class Read(NamedTuple):
    """A record as a consumer saw it."""

    offset: int
    record: Record


# --- librdkafka

def librdkafka_settings(node: Reachable, settings: dict[str, Any]) -> dict[str, Any]:
    """Build settings for librdkafka. `_` in names stands for `.`, callbacks (`_cb`) aside. Only critical errors are
    logged."""
    return {"bootstrap.servers": node.address, "log_level": 2, **getattr(node, "login", {}),
            **{name if name.endswith("_cb") else name.replace("_", "."): value for name, value in settings.items()}}


def librdkafka_producer(node: Reachable, **settings: Any) -> confluent_kafka.Producer:
    return confluent_kafka.Producer(librdkafka_settings(node, settings))


def librdkafka_consumer(node: Reachable, group: str = "unused", **settings: Any) -> confluent_kafka.Consumer:
    """Create a consumer that reads from the earliest offset and commits only on request, unless the settings say
    otherwise."""
    usual = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_wait_max_ms": 100}
    return confluent_kafka.Consumer(librdkafka_settings(node, {**usual, **settings}))


def librdkafka_produce(node: Reachable, topic: str, records: Sequence[Record], codec: str = "none", *,
                       partition: int = 0, idempotent: bool = False, linger_ms: int = 5, **settings: Any) -> list[int]:
    offsets: list[int] = []
    errors: list[object] = []
    producer = librdkafka_producer(node, compression_type=codec, enable_idempotence=idempotent, linger_ms=linger_ms,
                                   message_max_bytes=100_000_000, **settings)

    def delivered(error: object, message: confluent_kafka.Message) -> None:
        if error is None:
            offsets.append(message.offset())
        else:
            errors.append(error)

    for key, value, headers, timestamp in records:
        producer.produce(topic, value, key, partition, on_delivery=delivered, timestamp=timestamp,
                         headers=list(headers))
    left = producer.flush(SECONDS)
    assert not errors, errors[0]
    assert left == 0, f"{left} records were not delivered"
    return offsets


def librdkafka_read(node: Reachable, topic: str, count: int, *, partition: int = 0, offset: int = 0,
                    **settings: Any) -> list[Read]:
    consumer = librdkafka_consumer(node, check_crcs=True, **settings)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
        return [_librdkafka_record(each) for each in take(consumer, count)]
    finally:
        consumer.close()


def take(consumer: confluent_kafka.Consumer, count: int, seconds: float = SECONDS) -> list[confluent_kafka.Message]:
    """Return the next `count` messages; fail if they do not come or one is an error."""
    messages: list[confluent_kafka.Message] = []
    deadline = time.monotonic() + seconds
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} records came in {seconds} s"
        for message in consumer.consume(count - len(messages), 0.2):
            assert message.error() is None, message.error()
            messages.append(message)
    return messages


def _librdkafka_record(message: confluent_kafka.Message) -> Read:
    offset = message.offset()
    assert offset is not None
    headers: Any = tuple(message.headers() or ())
    return Read(offset, Record(message.key(), message.value(), headers, message.timestamp()[1]))


# --- aiokafka

def aiokafka_produce(node: Reachable, topic: str, records: Sequence[Record], codec: str = "none", *,
                     partition: int = 0, idempotent: bool = False) -> list[int]:
    async def run() -> list[int]:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=node.address, compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent, max_request_size=100_000_000, linger_ms=5)
        async with producer:
            sent = [await producer.send(topic, value, key, partition, timestamp, list(headers))
                    for key, value, headers, timestamp in records]
            return [(await each).offset for each in sent]

    return asyncio.run(asyncio.wait_for(run(), SECONDS))


def aiokafka_read(node: Reachable, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Read]:
    async def run() -> list[Read]:
        where = AioPartition(topic, partition)
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=node.address, fetch_max_wait_ms=100)
        async with consumer:
            consumer.assign([where])
            consumer.seek(where, offset)
            read = []
            while len(read) < count:
                message = await consumer.getone()
                read.append(Read(message.offset,
                                 Record(message.key, message.value, tuple(message.headers), message.timestamp)))
            return read

    return asyncio.run(asyncio.wait_for(run(), SECONDS))


# --- kafka-python

def kafka_python_produce(node: Reachable, topic: str, records: Sequence[Record], codec: str = "none", *,
                         partition: int = 0, idempotent: bool = False) -> list[int]:
    producer = kafka.KafkaProducer(
        bootstrap_servers=node.address, compression_type=None if codec == "none" else codec,
        enable_idempotence=idempotent, max_request_size=100_000_000, linger_ms=5,
        **({} if idempotent else {"acks": 1}))
    try:
        sent = [producer.send(topic, value, key, list(headers), partition, timestamp)
                for key, value, headers, timestamp in records]
        return [each.get(SECONDS).offset for each in sent]
    finally:
        producer.close(SECONDS)


def kafka_python_read(node: Reachable, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Read]:
    where = PythonPartition(topic, partition)
    consumer = kafka.KafkaConsumer(bootstrap_servers=node.address, consumer_timeout_ms=int(SECONDS * 1000),
                                   fetch_max_wait_ms=100)
    try:
        consumer.assign([where])
        consumer.seek(where, offset)
        read = []
        for message in consumer:
            read.append(Read(message.offset,
                             Record(message.key, message.value, tuple(message.headers), message.timestamp)))
            if len(read) == count:
                break
        assert len(read) == count, f"{len(read)} of {count} records came"
        return read
    finally:
        consumer.close()


class Client(NamedTuple):
    """A client's functions for sending and reading."""

    name: str
    produce: Callable[..., list[int]]
    read: Callable[..., list[Read]]

    def __str__(self) -> str:
        return self.name


CLIENTS: Final = (
    Client("librdkafka", librdkafka_produce, librdkafka_read),
    Client("aiokafka", aiokafka_produce, aiokafka_read),
    Client("kafka-python", kafka_python_produce, kafka_python_read),
)
