"""Comparison of batches' leader epochs with the log's epoch cache."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.base.fault cimport Fault
from kraft_native.segment.epochs cimport LeaderEpochCache

# Position of the first of the sound batches in [position, end) of `data` whose leader epoch is wrong, with `fault` set;
# `end` when all are right. `size`: the end of the data. `epoch_before`: of the batch before, -1 when that is not known;
# out: of the last one that is right.
cdef int64_t check_epochs(LeaderEpochCache epochs, const uint8_t* data, int64_t position, int64_t end, int64_t size,
                          int32_t* epoch_before, Fault* fault) except -1
