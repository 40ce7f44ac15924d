from typing import Final, final

NAMES: Final[tuple[str, ...]]
"""Kafka's names of the stages."""
BUCKET_ENDS_NS: Final[tuple[int, ...]]
"""Inclusive ends of every histogram's buckets; one more bucket has no end."""

@final
class RequestTimes:
    """Histograms of one channel. Loop thread only."""

    def histograms(self) -> dict[int, list[tuple[list[int], int]]]:
        """Histograms by api key, in the order of `NAMES`: the count of each bucket, and the sum in nanoseconds. A
        request is counted when its reply was written; one without a reply (acks=0) when it was processed."""
