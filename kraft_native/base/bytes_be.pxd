"""Big-endian loads and stores. Callers prove the bounds first; `span.pxd` does so for parsers."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    static inline uint16_t kn_swap16(uint16_t v) { return __builtin_bswap16(v); }
    static inline uint32_t kn_swap32(uint32_t v) { return __builtin_bswap32(v); }
    static inline uint64_t kn_swap64(uint64_t v) { return __builtin_bswap64(v); }

    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "kraft_native supports little-endian machines only"
    #endif
    """
    uint16_t kn_swap16(uint16_t v) noexcept nogil
    uint32_t kn_swap32(uint32_t v) noexcept nogil
    uint64_t kn_swap64(uint64_t v) noexcept nogil


cdef inline uint16_t load_u16(const uint8_t* p) noexcept nogil:
    cdef uint16_t v
    memcpy(&v, p, 2)
    return kn_swap16(v)


cdef inline uint32_t load_u32(const uint8_t* p) noexcept nogil:
    cdef uint32_t v
    memcpy(&v, p, 4)
    return kn_swap32(v)


cdef inline uint64_t load_u64(const uint8_t* p) noexcept nogil:
    cdef uint64_t v
    memcpy(&v, p, 8)
    return kn_swap64(v)


cdef inline int16_t load_i16(const uint8_t* p) noexcept nogil:
    return <int16_t>load_u16(p)


cdef inline int32_t load_i32(const uint8_t* p) noexcept nogil:
    return <int32_t>load_u32(p)


cdef inline int64_t load_i64(const uint8_t* p) noexcept nogil:
    return <int64_t>load_u64(p)


cdef inline void store_u16(uint8_t* p, uint16_t v) noexcept nogil:
    v = kn_swap16(v)
    memcpy(p, &v, 2)


cdef inline void store_u32(uint8_t* p, uint32_t v) noexcept nogil:
    v = kn_swap32(v)
    memcpy(p, &v, 4)


cdef inline void store_u64(uint8_t* p, uint64_t v) noexcept nogil:
    v = kn_swap64(v)
    memcpy(p, &v, 8)


cdef inline void store_i16(uint8_t* p, int16_t v) noexcept nogil:
    store_u16(p, <uint16_t>v)


cdef inline void store_i32(uint8_t* p, int32_t v) noexcept nogil:
    store_u32(p, <uint32_t>v)


cdef inline void store_i64(uint8_t* p, int64_t v) noexcept nogil:
    store_u64(p, <uint64_t>v)
