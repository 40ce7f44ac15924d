"""CRC-32C for compiled callers. A `seed` is the checksum of the bytes before, 0 at the start."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef extern from "base/crc32c.h" nogil:
    ctypedef uint32_t (*crc32c_fn)(uint32_t seed, const uint8_t* data, size_t size) noexcept nogil

# The fastest kernel of this machine, bound when `crc` is imported.
cdef crc32c_fn crc32c_chosen


# The checksum of `size` bytes, continuing from `seed`. Bounds are the caller's duty. Inline, so that a caller in
# another module pays one indirect call, not two.
cdef inline uint32_t crc32c(uint32_t seed, const uint8_t* data, size_t size) noexcept nogil:
    return crc32c_chosen(seed, data, size)


# The checksum of A followed by B, from both checksums and the length of B: some 20 ns where there is carry-less
# multiplication. For a header that changes before a body that does not.
cdef uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b) noexcept nogil
