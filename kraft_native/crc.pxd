"""CRC-32C for compiled callers."""

from libc.stdint cimport uint8_t, uint32_t

# The checksum of `size` bytes, continuing from `seed` (0 at the start). Bounds are the caller's duty.
cdef uint32_t crc32c(uint32_t seed, const uint8_t* data, size_t size) noexcept nogil
