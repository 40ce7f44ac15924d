"""Walking batches in memory that may be damaged. All nogil; bounds are [position, end) of `data`."""

from libc.stdint cimport int64_t, uint8_t

from kraft_native.batch cimport BatchHeader
from kraft_native.errors cimport Fault


# Checks whole batches (structure, CRC, rising offsets) from `position` on, until one starts at or after `stop`, or one
# is not sound. `next_offset`: in, the smallest base offset allowed; out, the offset after the last sound batch. No
# offset reaches `offset_end`. Returns the position after the last sound batch; `fault.code` is 0 when it was not
# stopped by damage.
cdef int64_t scan_sound(const uint8_t* data, int64_t position, int64_t stop, int64_t end, int64_t offset_end,
                        int64_t* next_offset, Fault* fault) noexcept nogil

# Where the next sound batch starts, at `position` or later, whose offsets lie in [offset_min, offset_end); -1: nowhere.
cdef int64_t scan_resync(const uint8_t* data, int64_t position, int64_t end, int64_t offset_min, int64_t offset_end,
                         BatchHeader* h) noexcept nogil

# The same behind the damage that starts at `position`. This is how reading goes on: no length field in damaged bytes is
# believed unless what it leads to confirms it. Without gaps (`gapless`) the offsets of the batch found must also lead
# on to those of the batch behind it, or at the end of the data to `exact_end` (-1: not known).
cdef int64_t scan_behind(const uint8_t* data, int64_t position, int64_t end, int64_t offset_min, int64_t offset_end,
                         bint gapless, int64_t exact_end, BatchHeader* h) noexcept nogil
