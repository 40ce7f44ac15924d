"""Known bugs of compiled code, one of which may be planted at a time (docs/internals/simulator.md).

Only a build in place has them (`KRAFT_MUTANTS`, see setup.py). In any other build `mutant` is a constant, and the
compiler drops the bug together with its condition.
"""

cdef extern from *:
    """
    #ifndef KRAFT_MUTANTS
    #define KRAFT_MUTANTS 0
    #endif
    """
    enum:
        KRAFT_MUTANTS


cdef enum Mutant:
    NO_MUTANT
    BATCH_THAT_HOLDS_THE_OFFSET_IS_LEFT_OUT
    BROKER_EPOCH_OF_A_FETCH_IS_IGNORED
    CONSUMERS_SEE_THE_LOG_END
    DIVERGING_BELOW_THE_LOG_START
    DIVERGING_FETCH_COUNTS
    EPOCHS_STAY_AFTER_TRUNCATION
    EPOCH_ZERO_IS_NONE
    FENCED_PRODUCER_EPOCH_IS_ACCEPTED
    FETCH_OF_AN_EARLIER_EPOCH_COUNTS
    FOLLOWER_JOINS_BELOW_THE_EPOCH_START
    FOLLOWERS_DO_NOT_KNOW_PRODUCERS
    GAPS_ARE_ACCEPTED
    HIGH_WATERMARK_BEFORE_TRUNCATION
    HIGH_WATERMARK_STAYS_AFTER_FULL_TRUNCATION
    HIGH_WATERMARK_STAYS_AFTER_ISR_SHRINK
    LAST_COMMITTED_BATCH_IS_HELD_BACK
    MARKER_LEAVES_THE_VERIFICATION
    PRODUCERS_SURVIVE_TRUNCATION
    READ_BEGINS_AT_THE_INDEX_ENTRY
    REMOVED_PARTITION_CRASHES_THE_FETCHER
    SEQUENCES_SURVIVE_AN_EPOCH_BUMP
    TRUNCATED_BY_A_FETCHER_OF_BEFORE
    TRUNCATES_TO_THE_HIGH_WATERMARK


cdef Mutant planted


# Whether that bug is planted.
cdef inline bint mutant(Mutant which) noexcept nogil:
    return KRAFT_MUTANTS != 0 and planted == which
