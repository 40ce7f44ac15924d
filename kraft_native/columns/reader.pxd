"""Record batches as columns: Arrow buffers and numpy arrays, without an object per record."""

from libc.stdint cimport int64_t, uint8_t

from kraft_native.batch.codecs cimport DecompressLimits
from kraft_native.columns.arrow cimport ArrowColumn
from kraft_native.columns.fill cimport BytesSink, Sinks
from kraft_native.file.buffer cimport Scratch


cdef class Columns:
    cdef readonly int64_t next_offset          # where to continue; the start offset when nothing was read
    cdef readonly Py_ssize_t next_position     # byte position in the source of the batch to continue with
    cdef ArrowColumn root                      # a struct of the wanted columns
    cdef ArrowColumn offset
    cdef ArrowColumn timestamp
    cdef ArrowColumn timestamp_type
    cdef ArrowColumn leader_epoch
    cdef ArrowColumn key
    cdef ArrowColumn value
    cdef ArrowColumn headers
    cdef ArrowColumn header_pair
    cdef ArrowColumn header_key
    cdef ArrowColumn header_value
    cdef Sinks sinks

    cdef int reserve(self, int64_t rows, int64_t bytes_more) except -1
    cdef int reserve_bytes(self, ArrowColumn column, BytesSink* sink, int64_t rows, int64_t size) except -1
    cdef int finish(self) except -1
    cdef int finish_bytes(self, ArrowColumn column, BytesSink* sink, int64_t rows) except -1


cdef class ColumnReader:
    cdef readonly tuple columns  # type: tuple[str, ...]
    cdef bint control
    cdef bint check_crc
    cdef DecompressLimits limits
    cdef Scratch scratch

    # Reads the batches in data[position:size]. `aborted`: tuples (producer id, first offset[, last offset]), or None.
    cdef Columns read_memory(self, const uint8_t* data, Py_ssize_t size, Py_ssize_t position, int64_t start_offset,
                             int64_t end_offset, int64_t rows_max, object aborted)
