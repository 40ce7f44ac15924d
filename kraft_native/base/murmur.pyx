"""MurmurHash2 (32 bits, seed 0x9747b28c) as Kafka's default partitioner has it, for whole columns of keys."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    ROTATION = 24

cdef uint32_t SEED = 0x9747B28C
cdef uint32_t MIXER = 0x5BD1E995


cdef uint32_t murmur2(const uint8_t* p, int64_t size) noexcept nogil:
    cdef uint32_t h = SEED ^ <uint32_t>size
    cdef uint32_t k
    cdef int64_t left = size
    while left >= 4:
        memcpy(&k, p, 4)               # little-endian machines only, which the build enforces
        k = k * MIXER
        k ^= k >> ROTATION
        h = (h * MIXER) ^ (k * MIXER)
        p += 4
        left -= 4
    if left >= 3:
        h ^= <uint32_t>p[2] << 16
    if left >= 2:
        h ^= <uint32_t>p[1] << 8
    if left >= 1:
        h = (h ^ p[0]) * MIXER
    h ^= h >> 13
    h = h * MIXER
    return h ^ (h >> 15)


def murmur2_partitions(const int32_t[::1] offsets not None, const uint8_t[::1] data not None, int32_t partitions,
                       int32_t[::1] out not None) -> None:
    """Write to `out` the partition of each key: key i is data[offsets[i]:offsets[i + 1]], of `partitions` partitions.

    InvalidArgumentError when the lengths do not fit, offsets do not rise within `data`, or `partitions` is below 1.
    """
    cdef int64_t i, rows = out.shape[0]
    cdef const uint8_t* start = &data[0] if data.shape[0] > 0 else NULL
    cdef bint sound = True
    cdef uint8_t nothing = 0
    if partitions < 1 or offsets.shape[0] != rows + 1:
        raise InvalidArgumentError(f"{offsets.shape[0]} offsets for {rows} keys, and {partitions} partitions")
    if start == NULL:
        start = &nothing
    with nogil:
        for i in range(rows):
            if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > data.shape[0]:
                sound = False
                break
            out[i] = <int32_t>((murmur2(start + offsets[i], offsets[i + 1] - offsets[i]) & 0x7FFFFFFF)
                               % <uint32_t>partitions)
    if not sound:
        raise InvalidArgumentError("offsets: they do not rise within the data")
