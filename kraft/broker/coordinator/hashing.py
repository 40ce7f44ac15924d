"""Choice of the partition of an internal topic that serves a key."""

from __future__ import annotations

import functools
from typing import Final

KEYS_KEPT: Final = 4096
KEY_CHARACTERS_MAX: Final = 256
"""Length up to which a key is kept."""


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: over UTF-16 units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8) + units[index + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_of(key: str, partition_count: int) -> int:
    """Return the partition that serves `key` (Utils.abs of the hash, which maps the smallest number to 0).

    The partitions of some keys are kept. Clients choose the keys, so their number and their length are bounded.
    """
    return _kept(key, partition_count) if len(key) <= KEY_CHARACTERS_MAX else _computed(key, partition_count)


def _computed(key: str, partition_count: int) -> int:
    value = java_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


_kept: Final = functools.lru_cache(maxsize=KEYS_KEPT)(_computed)
