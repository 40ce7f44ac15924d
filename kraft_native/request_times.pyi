"""How long requests take, stage by stage (Kafka's RequestMetrics)."""

from typing import Final, final

NAMES: Final[tuple[str, ...]]
"""Kafka's names of the stages."""
BUCKET_ENDS_NS: Final[tuple[int, ...]]
"""Where the buckets of every histogram end, inclusive; one more has no end."""

@final
class RequestTimes:
    """Of one channel. Loop thread only."""

    def histograms(self) -> dict[int, list[tuple[list[int], int]]]:
        """By api key, in the order of `NAMES`: how many fell into each bucket, and the sum in nanoseconds. A request is
        counted when its reply was written; one without a reply (acks=0) when it was worked off."""
