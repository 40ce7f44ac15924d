"""Writing the varints that `span.pxd` reads: unsigned ones, and zig-zag ones.

The caller has reserved the room; ten bytes suffice for every value. Each function returns the place after its bytes.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef inline uint8_t* put_uvarint(uint8_t* p, uint64_t value) noexcept nogil:
    while value >= 0x80:
        p[0] = <uint8_t>(value | 0x80)
        p += 1
        value >>= 7
    p[0] = <uint8_t>value
    return p + 1


cdef inline Py_ssize_t uvarint_bytes(uint64_t value) noexcept nogil:
    """Byte count that `put_uvarint` writes."""
    cdef Py_ssize_t count = 1
    while value >= 0x80:
        count += 1
        value >>= 7
    return count


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline uint8_t* put_varlong(uint8_t* p, int64_t value) noexcept nogil:
    return put_uvarint(p, zigzag(value))


cdef inline Py_ssize_t varlong_bytes(int64_t value) noexcept nogil:
    """Byte count that `put_varlong` writes."""
    return uvarint_bytes(zigzag(value))
