"""The bug that is planted in the compiled code of this process: for the simulator, which must find each of them.

`mutants.pxd` numbers the bugs.
"""

from kraft_native.base.errors import InvalidArgumentError, OperationError

planted = NO_MUTANT

cdef dict BY_NAME = {
    "batch-that-holds-the-offset-is-left-out": BATCH_THAT_HOLDS_THE_OFFSET_IS_LEFT_OUT,
    "broker-epoch-of-a-fetch-is-ignored": BROKER_EPOCH_OF_A_FETCH_IS_IGNORED,
    "consumers-see-the-log-end": CONSUMERS_SEE_THE_LOG_END,
    "diverging-below-the-log-start": DIVERGING_BELOW_THE_LOG_START,
    "diverging-fetch-counts": DIVERGING_FETCH_COUNTS,
    "epochs-stay-after-truncation": EPOCHS_STAY_AFTER_TRUNCATION,
    "epoch-zero-is-none": EPOCH_ZERO_IS_NONE,
    "fenced-producer-epoch-is-accepted": FENCED_PRODUCER_EPOCH_IS_ACCEPTED,
    "fetch-of-an-earlier-epoch-counts": FETCH_OF_AN_EARLIER_EPOCH_COUNTS,
    "follower-joins-below-the-epoch-start": FOLLOWER_JOINS_BELOW_THE_EPOCH_START,
    "followers-do-not-know-producers": FOLLOWERS_DO_NOT_KNOW_PRODUCERS,
    "gaps-are-accepted": GAPS_ARE_ACCEPTED,
    "high-watermark-before-truncation": HIGH_WATERMARK_BEFORE_TRUNCATION,
    "high-watermark-stays-after-full-truncation": HIGH_WATERMARK_STAYS_AFTER_FULL_TRUNCATION,
    "high-watermark-stays-after-isr-shrink": HIGH_WATERMARK_STAYS_AFTER_ISR_SHRINK,
    "last-committed-batch-is-held-back": LAST_COMMITTED_BATCH_IS_HELD_BACK,
    "marker-leaves-the-verification": MARKER_LEAVES_THE_VERIFICATION,
    "producers-survive-truncation": PRODUCERS_SURVIVE_TRUNCATION,
    "read-begins-at-the-index-entry": READ_BEGINS_AT_THE_INDEX_ENTRY,
    "removed-partition-crashes-the-fetcher": REMOVED_PARTITION_CRASHES_THE_FETCHER,
    "sequences-survive-an-epoch-bump": SEQUENCES_SURVIVE_AN_EPOCH_BUMP,
    "truncated-by-a-fetcher-of-before": TRUNCATED_BY_A_FETCHER_OF_BEFORE,
    "truncates-to-the-high-watermark": TRUNCATES_TO_THE_HIGH_WATERMARK,
}


def plant(str name: str | None) -> None:
    """Plant that bug instead of the current one; None: none.

    `InvalidArgumentError` for an unknown name, `OperationError` when the modules were built without the bugs.
    """
    global planted
    if name is None:
        planted = NO_MUTANT
        return
    if name not in BY_NAME:
        raise InvalidArgumentError(f"name: {name!r} is not one of {', '.join(BY_NAME)}")
    if not KRAFT_MUTANTS:
        raise OperationError(f"{name} cannot be planted: only modules that were built in place have the known bugs")
    planted = BY_NAME[name]


def names() -> list[str]:
    """Return the names of all bugs."""
    return list(BY_NAME)
