"""Hash of the metadata of a group's topics, as Kafka computes it (KIP-1101, `Utils.computeTopicHash`): XXH3, 64 bits.

| bytes | of a topic |
|---|---|
| 1 | 0 |
| 16 | topic id, its halves little-endian |
| 2 n + 4 | name: UTF-16, then its length in units |
| 4 | number of partitions |
| each partition: 4 | index |
| its racks, sorted: 4 + 2 n + 4 each | length of the rack's name, the name as above |

The hash of a group is that of its topics' hashes, 8 bytes each, in the order of the names. All numbers are
little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from xxhash import xxh3_64_intdigest

_INT: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<Q")


def topic_hash(topic_id: UUID, name: str, racks: Sequence[Sequence[str]]) -> int:
    """Return the hash of a topic, unsigned. `racks` are those of each partition's replicas, sorted; there are as many
    as partitions."""
    parts = [b"\0", _LONG.pack(topic_id.int >> 64), _LONG.pack(topic_id.int & (1 << 64) - 1), _text(name),
             _INT.pack(len(racks))]
    for index, of_partition in enumerate(racks):
        parts.append(_INT.pack(index))
        for rack in of_partition:
            text = _text(rack)
            parts += (text[-_INT.size:], text)
    return xxh3_64_intdigest(b"".join(parts))


def group_hash(hashes: Sequence[int]) -> int:
    """Return the hash of a group, signed: of those of its topics in the order of their names. 0 without any."""
    if not hashes:
        return 0
    value = xxh3_64_intdigest(b"".join(map(_LONG.pack, hashes)))
    return value - (1 << 64) if value >> 63 else value


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _INT.pack(len(units) // 2)
