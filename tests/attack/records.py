"""Produce requests whose every record is refused, for every reason of refusal."""

from collections.abc import Callable
from functools import partial
from typing import Final

from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft_native.base.crc import checksum
from kraft_native.batch.batch import ATTRIBUTES_AT, CRC_AT, HEADER_BYTES, MAGIC_AT, RECORD_COUNT_AT
from kraft_native.batch.records import BatchBuilder
from tests.attack.requests import TOPIC, Hostile

COMPACTED: Final = "attacked-compacted"
"""A topic that refuses records without a key."""
TIMED: Final = "attacked-timed"
"""A topic that refuses records from the far future."""
SETTINGS: Final = {
    COMPACTED: {"cleanup.policy": "compact"}, TIMED: {"message.timestamp.after.max.ms": "3600000"}}
BATCH_BYTES: Final = 900_000
"""Size of a batch, below max.message.bytes so that its records are validated."""
RECORD_BYTES: Final = 7
FUTURE_MS: Final = 4_000_000_000_000


def batch(codec: str = "none", size: int = BATCH_BYTES, **settings: int) -> bytes:
    """Build a batch of the smallest possible records, without keys."""
    builder = BatchBuilder(codec, transactional="producer_id" in settings)
    for _ in range(size // RECORD_BYTES):
        builder.append(b"", None, FUTURE_MS)
    return builder.build(**settings)


def changed(found: bytes, at: int, value: bytes) -> bytes:
    """Return the batch with the bytes at `at` replaced and its checksum corrected."""
    made = bytearray(found)
    made[at:at + len(value)] = value
    made[CRC_AT:ATTRIBUTES_AT] = checksum(made[ATTRIBUTES_AT:]).to_bytes(4, "big")
    return bytes(made)


def produce(topic: str, records: Callable[[int], list[bytes]], acks: int, size: int) -> ProduceRequest:
    """Build one request of about `size` bytes, whose batches are all for the same partition."""
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[
        PartitionProduceData(index=0, records=each) for each in records(size)])])


def repeated(make: Callable[[], bytes], size: int) -> list[bytes]:
    """Repeat one batch until `size` bytes are reached."""
    one = make()
    return [one] * max(1, size // len(one))


def several(count: int, make: Callable[[], bytes], _size: int) -> list[bytes]:
    """Return `count` batches, independent of the size of the other requests."""
    return [make()] * count


WAYS: Final[tuple[tuple[str, str, int, Callable[[int], list[bytes]]], ...]] = (
    ("without keys", COMPACTED, 1, partial(repeated, batch)),
    ("without keys, lz4", COMPACTED, 1, partial(several, 8, partial(batch, "lz4", 8 * BATCH_BYTES))),
    ("without keys, gzip", COMPACTED, 1, partial(several, 8, partial(batch, "gzip", 8 * BATCH_BYTES))),
    ("without keys, zstd", COMPACTED, 1, partial(several, 8, partial(batch, "zstd", 8 * BATCH_BYTES))),
    ("without keys, small batches", COMPACTED, 1, partial(repeated, partial(batch, size=RECORD_BYTES))),
    ("from the future", TIMED, 1, partial(repeated, batch)),
    ("from the future, small batches", TIMED, 1, partial(repeated, partial(batch, size=RECORD_BYTES))),
    ("one large batch", TOPIC, 1, lambda size: [batch(size=size)]),
    ("wrong checksum", TOPIC, 1, partial(repeated, lambda: batch()[:-1] + b"\x01")),
    ("wrong count", TOPIC, 1, partial(repeated, lambda: changed(batch(), RECORD_COUNT_AT, b"\0\0\0\x01"))),
    ("wrong length of a record", TOPIC, 1, partial(repeated, lambda: changed(batch(), HEADER_BYTES, b"\x7e"))),
    ("unknown format", TOPIC, 1, partial(repeated, lambda: changed(batch(), MAGIC_AT, b"\x09"))),
    ("transactional", TOPIC, 1, partial(repeated, partial(batch, producer_id=1, producer_epoch=0, base_sequence=0))),
    ("unknown topic", "nowhere", 1, partial(repeated, batch)),
    ("unknown topic, small batches", "nowhere", 1, partial(repeated, partial(batch, size=RECORD_BYTES))),
    ("unknown acks", TOPIC, 7, partial(repeated, batch)),
    ("without keys, no acks", COMPACTED, 0, partial(repeated, batch)),
)


def refused(size: int, small: int) -> list[Hostile]:
    """Return one request per way of refusal: of about `size` bytes, or of about `small` small batches."""
    return [Hostile("Produce", f"refused, {what}", 12, partial(produce, topic, records, acks),
                    small * 60 if "small" in what else size)
            for what, topic, acks, records in WAYS]
