"""The topics in a consumer's subscription, the metadata of the protocol type `consumer`.

| bytes | field |
|---|---|
| 2 | version, int16; every version begins with the fields of version 0 |
| 4 | number of topics, int32 |
| 2 + n, each | topic: int16 length, UTF-8 |
"""

from __future__ import annotations

import struct

from kraft_native.base.errors import ProtocolError

_COUNT = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> list[str]:
    """Return the topics that `metadata` names. Raises ProtocolError when it is not a subscription."""
    topics: list[str] = []
    try:
        version, count = _COUNT.unpack_from(metadata)
        position = _COUNT.size
        if version < 0 or not 0 <= count <= len(metadata):
            raise ProtocolError(f"subscription: version {version} with {count} topics")
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            if not 0 <= length <= len(metadata) - position:
                raise ProtocolError(f"subscription: a topic of {length} bytes, {len(metadata) - position} left")
            topics.append(metadata[position:position + length].decode("utf-8"))
            position += length
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"subscription: {error}") from error
    return topics
