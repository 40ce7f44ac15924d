"""Batches that the benchmarks write: records of 100 bytes with distinct contents."""

from __future__ import annotations

import functools
import random

from kraft_native.batch.records import BatchBuilder

START_MS = 1_700_000_000_000
VALUE_BYTES = 100


@functools.cache
def batch_of(size: int, codec: str = "none", value_bytes: int = VALUE_BYTES) -> bytes:
    """Return one batch of just under `size` bytes before compression."""
    source = random.Random(size)
    builder = BatchBuilder(codec)
    while builder.size_in_bytes + value_bytes + 16 < size:
        builder.append(source.randbytes(value_bytes), timestamp_ms=START_MS)
    return builder.build()
