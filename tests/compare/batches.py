"""Produced batches, correct ones in several forms and incorrect ones; and fetched batches as values."""

import functools
from typing import Any, Final

from kraft_native.base.errors import KraftError
from kraft_native.batch.batch import walk
from kraft_native.batch.records import BatchBuilder, records

START_MS: Final = 1_700_000_000_000
RECENT_MS: Final = 1_750_000_000_000
"""Later times are those of the node's clock."""
PRODUCER: Final = 7_001


def batch(count: int, codec: str = "none", *, start_ms: int = START_MS, key: bytes | None = None,
          headers: tuple[tuple[str, bytes | None], ...] = (), **fields: int) -> bytes:
    """Build a batch; `fields` are those of `BatchBuilder.build`."""
    builder = BatchBuilder(codec)
    for number in range(count):
        builder.append(b"value %d" % number, key, start_ms + 100 * number, headers)
    return builder.build(**fields)


def sequenced(sequence: int, epoch: int = 0, count: int = 1) -> bytes:
    return batch(count, producer_id=PRODUCER, producer_epoch=epoch, base_sequence=sequence)


@functools.cache
def batches() -> tuple[bytes, ...]:
    """Correct batches, most of them plain ones."""
    plain = [batch(1), batch(3), batch(2, key=b"k"), batch(1, start_ms=START_MS + 5_000, headers=(("h", None),))]
    packed = [batch(5, codec, key=b"key") for codec in ("gzip", "snappy", "lz4", "zstd")]
    numbered = [sequenced(0), sequenced(1), sequenced(0, 1), sequenced(5), sequenced(1, 0, 3), sequenced(2)]
    return (*plain * 3, *packed, *numbered)


@functools.cache
def wrong_batches() -> tuple[bytes, ...]:
    """Incorrect batches, none of them truncated.

    Kafka refuses a truncated one before it looks for the partition, and with it all others of the request.
    """
    right = batch(2)
    return (b"", right + right, right[:20] + bytes([right[20] ^ 1]) + right[21:], batch(1, start_ms=-1), sequenced(-1),
            batch(1, start_ms=4_000_000_000_000), batch(1, base_offset=5), batch(1, leader_epoch=3))


def comparable(data: bytes | None) -> Any:
    """Whole batches as values; bytes after the last are omitted, as clients do."""
    found: list[Any] = []
    if data is None:
        return None
    try:
        for each in walk(data):
            found.append([each.base_offset, each.last_offset, each.leader_epoch, each.producer_id, each.base_sequence])
        for record in records(data):
            found.append([record.offset, min(record.timestamp_ms, RECENT_MS), record.key, record.value])
    except KraftError as error:
        found.append(type(error).__name__)
    return found
