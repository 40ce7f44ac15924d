"""Choice of the partition of an internal topic that serves a key."""

from __future__ import annotations

import functools


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: over UTF-16 units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8) + units[index + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@functools.lru_cache(maxsize=65536)
def partition_of(key: str, partition_count: int) -> int:
    """Return the partition that serves `key` (Utils.abs of the hash, which maps the smallest number to 0)."""
    value = java_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
