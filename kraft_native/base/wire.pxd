"""The primitives of Kafka's messages, in both encodings (KIP-482)."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from kraft_native.base.span cimport Span


cdef class WireReader:
    cdef Span span
    cdef const uint8_t* start
    # Keeps the bytes alive: the root reader holds the view, readers of tagged values hold the root.
    cdef Py_buffer view
    cdef bint has_view
    cdef WireReader root
    # Array elements and tags that this message may still have; counted in the root.
    cdef Py_ssize_t elements_left
    cdef readonly bint flexible

    # The next `size` bytes.
    cdef const uint8_t* take(self, Py_ssize_t size) except NULL
    cdef uint32_t next_uvarint(self) except? 0
    # Length of a string or a blob, or count of an array, as this encoding writes it; -1 stands for null.
    cdef Py_ssize_t next_string_bytes(self) except -2
    cdef Py_ssize_t next_length(self) except -2
    cdef Py_ssize_t next_count(self) except -2
    cdef int charge(self, Py_ssize_t elements) except -1
    cdef list next_tags(self)


cdef class CommonStructs(list):
    cdef bytes encoded             # its elements as they were written last, and in which form
    cdef int encoded_version
    cdef bint encoded_flexible


cdef class WireWriter:
    cdef uint8_t* buffer
    cdef Py_ssize_t used
    cdef Py_ssize_t capacity
    cdef readonly bint flexible
    cdef list later                # None: everything is written at once

    # Room for `size` more bytes, which the caller fills; they count as written.
    cdef uint8_t* reserve(self, Py_ssize_t size) except NULL
    cdef int put_uvarint(self, uint32_t value) except -1
    cdef int put_length(self, Py_ssize_t length) except -1
    cdef int put_text(self, str value) except -1
    cdef int put_bytes(self, const uint8_t* data, Py_ssize_t size) except -1
    cdef int put_common(self, CommonStructs values, int version) except -1
