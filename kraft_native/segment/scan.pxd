"""Walking batches in memory that may be damaged. All nogil; bounds are [position, end) of `data`."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.base.fault cimport Fault
from kraft_native.batch.batch cimport BatchHeader


# Known limits of the offsets in the data.
cdef struct ScanBounds:
    int64_t offset_end                 # none reaches it
    int64_t exact_end                  # their end if nothing is lost; -1: not known
    int64_t gaps_end                   # no batch at or past it has a gap before it; INT64_MAX: any may have

# Checks whole batches (structure, CRC, offsets) from `position` on, until one starts at or after `stop`, or one is not
# sound. `next_offset`: in, the smallest base offset allowed; out, the offset after the last sound batch. Returns the
# position after the last sound batch; `fault.code` is 0 when no damage stopped it.
cdef int64_t scan_sound(const uint8_t* data, int64_t position, int64_t stop, int64_t end, const ScanBounds* bounds,
                        int64_t* next_offset, Fault* fault) noexcept nogil

# Skips sound batches that have `epoch` and end below `offset_end`; returns the position of the first other one, or
# `end`, a batch boundary.
cdef int64_t scan_epoch(const uint8_t* data, int64_t position, int64_t end, int64_t offset_end,
                        int32_t epoch) noexcept nogil

# Position of the next sound batch, at `position` or later, whose offsets lie in [offset_min, offset_end); -1: none.
cdef int64_t scan_resync(const uint8_t* data, int64_t position, int64_t end, int64_t offset_min, int64_t offset_end,
                         BatchHeader* h) noexcept nogil

# The same after the damage that starts at `position`. This is how reading continues. No length field in damaged bytes
# is trusted unless the bytes that it leads to confirm it. Where no gaps may be, the offsets of the batch found must
# continue the sequence, too.
cdef int64_t scan_behind(const uint8_t* data, int64_t position, int64_t end, int64_t offset_min,
                         const ScanBounds* bounds, BatchHeader* h) noexcept nogil
