"""The two rules for a high watermark, by their definitions."""

from collections.abc import Iterable, Sequence


def in_sync_end(own_end: int, in_sync_ends: Iterable[int]) -> int:
    """Return the largest offset that the leader and every in-sync follower reach (KIP-101, KIP-497)."""
    return min([own_end, *in_sync_ends])


def majority_end(ends: Sequence[int]) -> int:
    """Return the largest of `ends` that more than half of the voters reach (KIP-595)."""
    return max(end for end in ends if sum(other >= end for other in ends) > len(ends) // 2)
