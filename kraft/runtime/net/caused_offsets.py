"""Offsets of the metadata log's records that a forwarded request caused, as a tagged field of EnvelopeResponse.

    tag 10000: pairs of first and last offset, 8 bytes each, big-endian

Tags of Kafka's messages are small numbers. A receiver that does not know a tag skips it, Kafka's brokers do.
"""

import struct
from typing import Final

from kraft.protocol.message import Offsets, Tags

TAG: Final = 10_000
PAIRS_MAX: Final = 64
_PAIR: Final = struct.Struct(">qq")


def encode_offsets(offsets: Offsets) -> Tags:
    """Return the tagged field; none without offsets."""
    return ((TAG, b"".join(_PAIR.pack(*pair) for pair in offsets[:PAIRS_MAX])),) if offsets else ()


def decode_offsets(tags: Tags) -> Offsets:
    """Return the offsets in tagged fields; none where the field is missing or has another form."""
    data = next((data for tag, data in tags if tag == TAG), b"")
    if len(data) % _PAIR.size or len(data) > PAIRS_MAX * _PAIR.size:
        return ()
    return tuple((first, last) for first, last in _PAIR.iter_unpack(data) if 0 <= first <= last)
