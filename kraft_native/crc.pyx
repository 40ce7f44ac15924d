"""CRC-32C of bytes."""

cdef extern from "crc32c.h" nogil:
    uint32_t crc32c_table(uint32_t seed, const uint8_t* data, size_t size)


cdef uint32_t crc32c(uint32_t seed, const uint8_t* data, size_t size) noexcept nogil:
    return crc32c_table(seed, data, size)


def checksum(const uint8_t[::1] data not None, uint32_t seed=0) -> int:
    return crc32c(seed, &data[0] if data.shape[0] else NULL, <size_t>data.shape[0])
