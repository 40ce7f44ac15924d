"""Leader-epoch cache: which epoch began at which offset (KIP-101, KIP-279), kept in `leader-epoch-checkpoint`."""

from libc.stdint cimport int32_t, int64_t, uint32_t


cdef class LeaderEpochCache:
    cdef readonly object path  # type: str
    cdef list epochs               # parallel, both strictly increasing
    cdef list starts
    cdef int32_t last_epoch        # the last entry again, for the check on every append; -1 when empty
    cdef int64_t last_start
    cdef readonly bint dirty       # the file has older entries below the log start (see `truncate_from_start`)
    cdef readonly bint pending     # the latest epoch is not in the file yet (see `begin`)

    cdef readonly bint trusted     # this engine wrote the cache, or it follows from the batches
    cdef bint apart                # the file is not ours and is not written
    cdef readonly uint32_t stored_crc  # of the entries that the file holds

    cdef inline int32_t latest(self) noexcept nogil:
        """The latest epoch, -1 without any."""
        return self.last_epoch

    # Records that `epoch` starts at `start_offset`; entries that it contradicts are dropped first; writes the file if
    # changed. Returns 1 when something changed. Free of cost when `epoch` is the latest one and starts no earlier.
    cpdef int assign(self, int32_t epoch, int64_t start_offset) except -1
    # `assign` without its write: the caller has `flush` called before a batch of the epoch is written.
    cpdef int begin(self, int32_t epoch, int64_t start_offset) except -1
    cpdef int truncate_from_end(self, int64_t end_offset) except -1      # drops entries starting at >= end_offset
    cpdef int forget_from_end(self, int64_t end_offset) except -1        # the same; the file lags
    cpdef int truncate_from_start(self, int64_t start_offset) except -1  # keeps the epoch in force at start_offset
    # end_offset_for(epoch, log_end) -> (epoch, end offset) as OffsetForLeaderEpoch answers, (-1, -1) when undefined
    cpdef tuple end_offset_for(self, int32_t epoch, int64_t log_end)
    cpdef int32_t epoch_at(self, int64_t offset) except? -2             # -1 when none
    # Replaces all entries, given as (epoch, start offset) pairs in log order, and writes the file.
    cpdef int rebuild(self, object entries) except -1
    # Writes the file when it lags; a clean stop calls this.
    cpdef int flush(self) except -1
    # end_offset_for, which sets `end` and returns the epoch; -1 and -1 when undefined
    cdef int32_t end_of(self, int32_t epoch, int64_t log_end, int64_t* end) except? -2
    # epoch_at, and the start of the next epoch.
    cdef int32_t epoch_from(self, int64_t offset, int64_t* end) except? -2
    cdef uint32_t crc(self) except? 0
    cdef int note(self, int32_t epoch, int64_t start_offset) except -1
    cdef int keep(self, Py_ssize_t first, Py_ssize_t end) except -1
    cdef int write(self) except -1
