"""CRC-32C (Castagnoli), the checksum of record batches.

Several kernels compute it (`_c/base/crc32c.h`); the fastest that this processor and operating system run is chosen when
the module is imported. All functions may be called from any thread. A `seed` is the checksum of the bytes before, so
that `checksum(b, checksum(a)) == checksum(a + b)`.
"""

from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strcmp

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE

from kraft_native.base.errors import InvalidArgumentError

cdef extern from "base/crc32c.h" nogil:
    ctypedef struct Kernel "crc32c_kernel":
        const char* name
        int (*runs_here)() noexcept nogil
        crc32c_fn checksum
    const Kernel* const kernel_table "crc32c_kernels"[]
    const int kernel_count "crc32c_kernel_count"
    void crc32c_setup()
    const Kernel* crc32c_choose()
    uint32_t combine_with "crc32c_combine"(const Kernel* kernel, uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b)

cdef enum:
    # From here on the work outweighs releasing the GIL and acquiring it again (a microsecond or more).
    GIL_FREE_BYTES_MIN = 64 * 1024
    # `self_test` tries every length up to this at every offset within a cache line.
    TEST_BYTES_MAX = 4096
    TEST_OFFSETS = 64

crc32c_setup()
cdef const Kernel* chosen = crc32c_choose()
crc32c_chosen = chosen.checksum


cdef uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b) noexcept nogil:
    return combine_with(chosen, crc_a, crc_b, bytes_b)


cdef uint32_t crc_argument(object value, str name) except? 0:
    try:
        return value
    except OverflowError:
        raise InvalidArgumentError(f"{name} is {value}, allowed is 0 to 4294967295") from None


cdef const Kernel* kernel_named(str name) except NULL:
    cdef bytes wanted = name.encode()
    cdef const Kernel* kernel
    cdef int i
    for i in range(kernel_count):
        kernel = kernel_table[i]
        if strcmp(kernel.name, wanted) == 0 and kernel.runs_here():
            return kernel
    raise InvalidArgumentError(f"kernel is {name!r}, allowed is one of {', '.join(kernels())}")


cdef uint32_t checksum_of(crc32c_fn function, object data, uint32_t seed) except? 0:
    cdef Py_buffer view
    cdef uint32_t crc
    if PyBytes_CheckExact(data) and PyBytes_GET_SIZE(data) < GIL_FREE_BYTES_MIN:
        return function(seed, <const uint8_t*>PyBytes_AS_STRING(data), <size_t>PyBytes_GET_SIZE(data))
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    if view.len < GIL_FREE_BYTES_MIN:
        crc = function(seed, <const uint8_t*>view.buf, <size_t>view.len)
    else:
        with nogil:
            crc = function(seed, <const uint8_t*>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return crc


def checksum(data: Buffer, seed: int = 0) -> int:
    """The CRC-32C of a contiguous buffer of bytes, continuing from `seed` (0 to 2^32 - 1).

    The buffer may be read-only. From 64 KiB on the GIL is released; no thread may change the buffer meanwhile. Raises
    `TypeError` for an object that is no buffer, `BufferError` for one that is not contiguous, `InvalidArgumentError`
    for a seed out of range.
    """
    return checksum_of(crc32c_chosen, data, crc_argument(seed, "seed"))


def combine(crc_a: int, crc_b: int, bytes_b: int) -> int:
    """The CRC-32C of A followed by B, from `checksum(A)`, `checksum(B)` and the length of B in bytes (below 2^64)."""
    cdef uint64_t length
    try:
        length = bytes_b
    except OverflowError:
        raise InvalidArgumentError(f"bytes_b is {bytes_b}, allowed is 0 to 2^64 - 1") from None
    return crc32c_combine(crc_argument(crc_a, "crc_a"), crc_argument(crc_b, "crc_b"), length)


def kernel_name() -> str:
    """The kernel that `checksum` and the engine use."""
    return chosen.name.decode()


def kernels() -> tuple[str, ...]:
    """The kernels that run on this machine, slowest first; the last one is `kernel_name()`."""
    return tuple([kernel_table[i].name.decode() for i in range(kernel_count) if kernel_table[i].runs_here()])


def checksum_with(str kernel not None, data: Buffer, seed: int = 0) -> int:
    """Compute `checksum` by the kernel of that name, to test and to compare them."""
    return checksum_of(kernel_named(kernel).checksum, data, crc_argument(seed, "seed"))


def self_test(str kernel not None) -> None:
    """Compare the kernel with the table kernel: every length from 0 to 4096 at every offset within a cache line.

    Raises `AssertionError` with the first length and offset that differ. Takes a fraction of a second.
    """
    cdef crc32c_fn function = kernel_named(kernel).checksum
    cdef uint32_t expected[TEST_BYTES_MAX + 1]
    cdef uint8_t source[TEST_BYTES_MAX]
    cdef uint32_t random = 1, seed = 0x5EED
    cdef int length, offset, wrong_length = -1, wrong_offset = -1
    cdef uint8_t* memory = <uint8_t*>malloc(TEST_BYTES_MAX + 2 * TEST_OFFSETS)
    cdef uint8_t* data
    if memory == NULL:
        raise MemoryError("buffer of the self test")
    with nogil:
        for length in range(TEST_BYTES_MAX):
            random = random * 1664525 + 1013904223
            source[length] = <uint8_t>(random >> 24)
            expected[length] = kernel_table[0].checksum(seed, source, <size_t>length)
        expected[TEST_BYTES_MAX] = kernel_table[0].checksum(seed, source, TEST_BYTES_MAX)
        for offset in range(TEST_OFFSETS):
            data = memory + (<size_t>-<Py_ssize_t>memory) % TEST_OFFSETS + offset
            memcpy(data, source, TEST_BYTES_MAX)
            for length in range(TEST_BYTES_MAX + 1):
                if function(seed, data, <size_t>length) != expected[length] and wrong_length < 0:
                    wrong_length = length
                    wrong_offset = offset
    free(memory)
    if wrong_length >= 0:
        raise AssertionError(f"kernel {kernel} is wrong for {wrong_length} bytes at offset {wrong_offset}")
