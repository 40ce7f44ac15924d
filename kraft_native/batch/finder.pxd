"""Single records of batches, found by their offsets, with the places of those batches that were used last."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from kraft_native.batch.batch cimport BatchHeader
from kraft_native.batch.codecs cimport DecompressLimits
from kraft_native.batch.records cimport Record
from kraft_native.file.buffer cimport Scratch


# Where every STRIDE-th record of a batch begins, from the first record on.
cdef struct Mark:
    int64_t position
    int32_t offset_delta


cdef class KnownBatch:
    """One batch that was read before, by what distinguishes it from another one at the same offset. It holds nothing of
    the log: the bytes come with each search."""
    cdef int64_t base_offset
    cdef int32_t batch_length
    cdef uint32_t crc
    cdef Scratch marks
    cdef Scratch records           # uncompressed records; None: those of the batch itself

    cdef bint is_of(self, const BatchHeader* h) noexcept
    cdef Py_ssize_t bytes_used(self) noexcept
    cdef const Mark* mark(self, int32_t offset_delta) noexcept


cdef class RecordFinder:
    cdef dict known                # by base offset, those used last at the end
    cdef KnownBatch last
    cdef Py_ssize_t bytes_max
    cdef Py_ssize_t bytes_held
    cdef DecompressLimits limits

    cdef Record find_in(self, const uint8_t* batch, const BatchHeader* h, int32_t offset_delta)
    cdef KnownBatch known_of(self, const uint8_t* batch, const BatchHeader* h)
    cdef int keep(self, KnownBatch found) except -1
