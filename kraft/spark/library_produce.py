"""Send rows through the client library (librdkafka), with security that our own connections lack (`own_security`). It
creates an object per row, so it is several times slower."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kraft.client import ConnectionFailedError
from kraft.client.library_errors import library_error
from kraft.spark.client_options import library_settings
from kraft.spark.write_options import WriteOptions
from kraft_native.base.errors import InvalidArgumentError


def library_send(batches: Iterator[pa.RecordBatch], options: WriteOptions) -> None:
    """Send all rows and wait until they are acknowledged. Raise the first refusal."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    settings = library_settings(options.client, **{
        "compression.type": options.codec, "acks": options.acks, "partitioner": "murmur2_random",
        "enable.idempotence": options.acks == -1, "delivery.timeout.ms": options.timeout_ms})
    try:
        producer = Producer(settings)
        for batch in batches:
            for row in batch.to_pylist():
                _send(producer, row, options, delivered)
            if failures:
                break
        left = producer.flush(options.timeout_ms / 1000)
    except KafkaException as error:
        raise library_error(options.bootstrap, error.args[0]) from error
    if failures:
        raise library_error(options.bootstrap, failures[0])
    if left:
        raise ConnectionFailedError(f"{options.bootstrap}: {left} rows were not acknowledged in time")


def _send(producer: Producer, row: dict[str, object], options: WriteOptions, delivered: object) -> None:
    topic = options.topic or row.get("topic")
    if topic is None:
        raise InvalidArgumentError("column topic: a row has none; the option topic sets one for all rows")
    place = {} if row.get("partition") is None else {"partition": row["partition"]}
    headers = [(each["key"], each["value"]) for each in row.get("headers") or ()]  # type: ignore[attr-defined]
    send_record(producer, topic, row["value"], row.get("key"), on_delivery=delivered,
                headers=headers if options.include_headers else None, **place)


def send_record(producer: Producer, *record: Any, **more: Any) -> None:
    """Call `Producer.produce`; wait while the library has no room."""
    while True:
        try:
            producer.produce(*record, **more)
        except BufferError:
            producer.poll(1.0)
        else:
            producer.poll(0)
            return
