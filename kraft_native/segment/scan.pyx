"""Walking batches in memory that may be damaged: which are sound, and where sound ones begin again.

A batch is sound when its structure holds (`batch_look`), its CRC is right and its offsets fit those around it. The last
rule covers what the CRC does not: a changed base offset, and a sound batch that the disk wrote to the wrong place.
Offsets rise.

A batch may leave a gap before it. Where compaction may have made the gap, the batch is wrong in two cases. The next
sound batch begins before this one ends, or this one reaches past the end of the segment. The next batch may be the
wrong one: unless the offsets after it continue its own, neither is trusted. Where no gap may be, the batch is right
only if the following one confirms it.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.base.bytes_be cimport load_i32, load_i64
from kraft_native.base.fault cimport ERROR_CORRUPT_MESSAGE, Fault, fault_set
from kraft_native.base.limits cimport (
    BATCH_HEADER_BYTES, BATCH_LEADER_EPOCH, BATCH_LENGTH, BATCH_LENGTH_MIN_ANY_MAGIC, BATCH_MAGIC, LOG_OVERHEAD_BYTES,
    MAGIC_CURRENT,
)
from kraft_native.batch.batch cimport (
    LOOK_OK, BatchHeader, batch_bytes, batch_bytes_at, batch_crc, batch_end_at, batch_is_legacy, batch_last_offset,
    batch_look, batch_peek, batch_reload,
)
from kraft_native.batch.legacy cimport LEGACY_MESSAGE_BYTES_MIN


cdef int64_t scan_sound(const uint8_t* data, int64_t position, int64_t stop, int64_t end, const ScanBounds* bounds,
                        int64_t* next_offset, Fault* fault) noexcept nogil:
    cdef BatchHeader h
    fault.code = 0
    while position < stop:
        if batch_look(data + position, end - position, True, &h, fault) != LOOK_OK:
            return position
        if h.base_offset != next_offset[0] and (
            h.base_offset < next_offset[0]
            or misplaced(data, position + batch_bytes(&h), end, next_offset[0], bounds, &h)
        ):
            fault_set(fault, ERROR_CORRUPT_MESSAGE, "base offset %lld where %lld was due", h.base_offset,
                      next_offset[0])
            return position
        next_offset[0] = batch_last_offset(&h) + 1
        position += batch_bytes(&h)
    fault.code = 0
    return position


cdef int64_t scan_epoch(const uint8_t* data, int64_t position, int64_t end, int64_t offset_end,
                        int32_t epoch) noexcept nogil:
    cdef const uint8_t* p
    while position < end:
        p = data + position
        if (
            load_i32(p + BATCH_LEADER_EPOCH) != epoch or p[BATCH_MAGIC] != MAGIC_CURRENT
            or batch_end_at(p) >= offset_end
        ):
            break
        position += batch_bytes_at(p)
    return position


cdef bint misplaced(const uint8_t* data, int64_t following, int64_t end, int64_t expected, const ScanBounds* bounds,
                    const BatchHeader* before) noexcept nogil:
    """Return whether the batch `before` `following`, which leaves a gap before it, contradicts what comes after it."""
    cdef BatchHeader h
    cdef int64_t last_offset = batch_last_offset(before)
    if last_offset >= bounds.offset_end:
        return True
    if before.base_offset > bounds.gaps_end:
        if following == end:
            return bounds.exact_end >= 0 and last_offset + 1 != bounds.exact_end
        return (batch_look(data + following, end - following, True, &h, NULL) != LOOK_OK
                or h.base_offset != last_offset + 1)
    return (
        batch_look(data + following, end - following, False, &h, NULL) == LOOK_OK
        and expected <= h.base_offset <= last_offset
        and batch_crc(data + following, &h) == h.crc
    )


cdef inline int bytes_min(int magic) noexcept nogil:
    """Smallest size of a whole batch."""
    return LEGACY_MESSAGE_BYTES_MIN if 0 <= magic < MAGIC_CURRENT else BATCH_HEADER_BYTES


cdef int64_t confirmed_length(const uint8_t* data, int64_t position, int64_t end, int64_t offset_min,
                              int64_t offset_end, BatchHeader* h) noexcept nogil:
    """Position of the batch after the damaged one by its length field, if that can be trusted; else -1. `end` when it
    can be trusted and nothing follows. It can in two cases: the damaged batch's CRC is right, so that only its base
    offset is wrong; or the sound batch found there continues its offsets.

    Most damage leaves the length intact. Trusting it then avoids a search in payloads, which may themselves hold sound
    batches.
    """
    cdef BatchHeader bad
    cdef bint sound
    if end - position < BATCH_HEADER_BYTES:
        return -1
    batch_peek(data + position, &bad)
    if not bytes_min(bad.magic) <= batch_bytes(&bad) <= end - position:
        return -1
    sound = 0 <= bad.magic <= MAGIC_CURRENT and batch_crc(data + position, &bad) == bad.crc
    position += batch_bytes(&bad)
    if position == end:
        return end if sound else -1
    if (
        batch_look(data + position, end - position, True, h, NULL) == LOOK_OK
        and offset_min <= h.base_offset and batch_last_offset(h) < offset_end
        and (sound or (bad.last_offset_delta >= 0 and h.base_offset - bad.last_offset_delta - 1 == bad.base_offset))
    ):
        return position
    return -1


cdef int64_t scan_resync(const uint8_t* data, int64_t position, int64_t end, int64_t offset_min, int64_t offset_end,
                         BatchHeader* h) noexcept nogil:
    cdef int64_t length
    while end - position >= LEGACY_MESSAGE_BYTES_MIN:
        # Three values of the magic byte, then an offset that fits: both are rare, except for zeros.
        if data[position + BATCH_MAGIC] <= MAGIC_CURRENT:
            length = load_i32(data + position + BATCH_LENGTH)
            if length == 0:
                position = nonzero(data, position + LOG_OVERHEAD_BYTES, end) - LOG_OVERHEAD_BYTES
            elif (
                BATCH_LENGTH_MIN_ANY_MAGIC <= length <= end - position - LOG_OVERHEAD_BYTES
                and offset_min <= load_i64(data + position) < offset_end
                and batch_look(data + position, end - position, True, h, NULL) == LOOK_OK
                and offset_min <= h.base_offset and batch_last_offset(h) < offset_end
            ):
                return position
        position += 1
    return -1


cdef int64_t nonzero(const uint8_t* data, int64_t position, int64_t end) noexcept nogil:
    """Position of the first byte that is not zero, from `position` on: reserved space is long."""
    while end - position >= 8 and load_i64(data + position) == 0:
        position += 8
    while position < end and data[position] == 0:
        position += 1
    return position


cdef int64_t scan_behind(const uint8_t* data, int64_t position, int64_t end, int64_t offset_min,
                         const ScanBounds* bounds, BatchHeader* h) noexcept nogil:
    cdef int64_t found = confirmed_length(data, position, end, offset_min, bounds.offset_end, h)
    if found == end:
        return -1
    if found >= 0 and contradictory(data, position, found, end, offset_min, bounds, h):
        found = scan_resync(data, found + batch_bytes(h), end, offset_min, bounds.offset_end, h)
    if found < 0:
        found = scan_resync(data, position + 1, end, offset_min, bounds.offset_end, h)
    while (
        found >= 0
        and not leads_on(data, found + batch_bytes(h), end, bounds, batch_last_offset(h) + 1)
    ):
        # Its base offset was damaged too, by a run of bytes that ends there.
        found = scan_resync(data, found + batch_bytes(h), end, offset_min, bounds.offset_end, h)
    return found


cdef bint contradictory(const uint8_t* data, int64_t position, int64_t found, int64_t end, int64_t offset_min,
                        const ScanBounds* bounds, const BatchHeader* h) noexcept nogil:
    """Return whether the batches at `position` and at `found` are each sound by themselves, but cannot both be at their
    places. Then the base offset of one of them is wrong, and nothing shows which. If the second one's had decreased, a
    gap would follow it."""
    cdef BatchHeader first, behind
    cdef int64_t following = found + batch_bytes(h)
    batch_peek(data + position, &first)
    if batch_crc(data + position, &first) != first.crc:
        return False
    if batch_is_legacy(&first):
        batch_reload(data + position, &first)
    if (
        first.base_offset < offset_min
        or h.base_offset > batch_last_offset(&first)
        # The first one's had increased, if there is room for it before the second.
        or (h.base_offset < first.base_offset and first.last_offset_delta < h.base_offset - offset_min)
    ):
        return False
    if following == end:
        return bounds.exact_end != batch_last_offset(h) + 1
    return (batch_look(data + following, end - following, True, &behind, NULL) != LOOK_OK
            or behind.base_offset != batch_last_offset(h) + 1)


cdef bint leads_on(const uint8_t* data, int64_t position, int64_t end, const ScanBounds* bounds,
                   int64_t next_offset) noexcept nogil:
    """Return whether `next_offset` is what comes at `position`, or a gap may be there, as far as it is known."""
    cdef BatchHeader h
    cdef int64_t found
    if position == end:
        found = bounds.exact_end
    else:
        found = h.base_offset if batch_look(data + position, end - position, True, &h, NULL) == LOOK_OK else -1
    return found < 0 or found == next_offset or found <= bounds.gaps_end
