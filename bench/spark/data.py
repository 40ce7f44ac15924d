"""The topic that is read: records of random letters in batches of 16 KB, as a producer sends them; two partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.client import Cluster
from kraft.client.producer import Producer
from kraft_native.columns.encoder import encode_columns

TOPIC = "bench"
PARTITIONS = 2
KEY_BYTES = 16
# Approximate bytes of a record in a batch besides its key and value.
FRAME_BYTES = 10
CHUNK = 100_000
SECONDS = 60.0


class Shape(NamedTuple):
    """Number and size of the records."""

    records: int
    value_bytes: int

    @classmethod
    def of_size(cls, megabytes: int, value_bytes: int) -> Shape:
        return cls(megabytes * 1_000_000 // (value_bytes + KEY_BYTES + FRAME_BYTES), value_bytes)


def batches(shape: Shape) -> Iterator[bytes]:
    random = np.random.default_rng(1)
    for start in range(0, shape.records, CHUNK):
        count = min(CHUNK, shape.records - start)
        values = random.integers(97, 123, (count, shape.value_bytes), np.uint8)
        keys = random.integers(97, 123, (count, KEY_BYTES), np.uint8)
        yield from encode_columns(values, keys=keys, timestamps=1_700_000_000_000, batch_bytes_max=16_384)


def fill(bootstrap: str, shape: Shape) -> None:
    """Create the topic, without retention because its records are old, and produce them."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})]).values():
        made.result(SECONDS)
    with Cluster(bootstrap) as cluster:
        producer = Producer(cluster)
        producer.identify()
        for number, batch in enumerate(batches(shape)):
            producer.send({(TOPIC, number % PARTITIONS): batch})
