"""Walking batches in memory that may be damaged: what is sound, and where soundness begins again.

A batch is sound when its structure holds (`batch_look`), its CRC is right and its offsets do not go back. The last
rule catches a sound batch at a wrong place: a block that the disk wrote to the wrong position.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memchr

from kraft_native.batch cimport LOOK_OK, LOOK_PARTIAL, BatchHeader, batch_bytes, batch_last_offset, batch_look
from kraft_native.bytes_be cimport load_i32, load_i64
from kraft_native.errors cimport ERROR_CORRUPT_MESSAGE, Fault, fault_set
from kraft_native.limits cimport BATCH_HEADER_BYTES, BATCH_LENGTH, BATCH_MAGIC, LOG_OVERHEAD_BYTES, MAGIC_CURRENT


cdef int64_t scan_sound(const uint8_t* data, int64_t position, int64_t stop, int64_t end, int64_t* next_offset,
                        Fault* fault) noexcept nogil:
    cdef BatchHeader h
    fault.code = 0
    while position < stop:
        if batch_look(data + position, end - position, True, &h, fault) != LOOK_OK:
            return position
        if h.base_offset < next_offset[0]:
            fault_set(fault, ERROR_CORRUPT_MESSAGE, "base offset %lld where at least %lld was due",
                      h.base_offset, next_offset[0])
            return position
        next_offset[0] = batch_last_offset(&h) + 1
        position += batch_bytes(&h)
    fault.code = 0
    return position


cdef int64_t scan_resync(const uint8_t* data, int64_t position, int64_t end, int64_t offset_min, int64_t offset_end,
                         BatchHeader* h) noexcept nogil:
    cdef const uint8_t* found
    cdef int64_t base_offset, length
    while end - position >= BATCH_HEADER_BYTES:
        # The magic byte is the rarest thing to look for that needs no reading of fields.
        found = <const uint8_t*>memchr(data + position + BATCH_MAGIC, MAGIC_CURRENT,
                                       <size_t>(end - position - BATCH_MAGIC))
        if found == NULL:
            return -1
        position = found - data - BATCH_MAGIC
        if end - position < BATCH_HEADER_BYTES:
            return -1
        base_offset = load_i64(data + position)
        length = load_i32(data + position + BATCH_LENGTH)
        if (
            offset_min <= base_offset < offset_end
            and BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES <= length <= end - position - LOG_OVERHEAD_BYTES
            and batch_look(data + position, end - position, True, h, NULL) == LOOK_OK
            and batch_last_offset(h) < offset_end
        ):
            return position
        position += 1
    return -1
