"""Throttled replicas of a topic on a broker (KIP-73)."""

from collections.abc import Container, Sequence
from typing import Final

EVERY: Final = range(1 << 31)
ALL_REPLICAS: Final = "*"


def throttled_partitions(texts: Sequence[str], broker_id: int) -> Container[int]:
    """Return the partitions that `{leader,follower}.replication.throttled.replicas` names for this broker: `*`, or
    pairs of partition and broker."""
    if ALL_REPLICAS in texts:
        return EVERY
    pairs = [text.split(":") for text in texts]
    return tuple(int(partition) for partition, broker in pairs if int(broker) == broker_id)
