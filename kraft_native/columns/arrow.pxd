"""The Arrow C data interface: columns that we own and export, and arrays that others export."""

from libc.stdint cimport int64_t, uint8_t

from kraft_native.file.buffer cimport Scratch


# The two structures of the interface, as its specification lays them out. `release` is NULL once released or moved.
cdef struct ArrowSchema:
    const char* format
    const char* name
    const char* metadata
    int64_t flags
    int64_t n_children
    ArrowSchema** children
    ArrowSchema* dictionary
    void (*release)(ArrowSchema*) noexcept nogil
    void* private_data


cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept nogil
    void* private_data


cdef enum:
    ARROW_FLAG_NULLABLE = 2


cdef class ArrowColumn:
    """One column and its memory. Built once, then never changed; every export keeps it alive."""
    cdef readonly str name
    cdef bytes format              # the interface's type string, as "l" or "z"
    cdef bint nullable
    cdef int64_t length
    cdef int64_t null_count
    cdef Scratch validity          # one bit per value, 1 = there; None while nothing is null
    cdef Scratch offsets           # int32, length + 1; None where the type has none
    cdef Scratch data              # None for lists and structs
    cdef tuple children            # of ArrowColumn

cdef ArrowColumn new_column(str name, bytes format, bint nullable, bint offsets, bint data)
# New capsules, as __arrow_c_schema__ and __arrow_c_array__ return them.
cdef object schema_capsule(ArrowColumn column)
cdef object array_capsule(ArrowColumn column)


cdef class ScratchView:
    """Finished scratch memory as read-only bytes."""
    cdef Scratch scratch


cdef class ImportedArray:
    """An imported Arrow array, held for the life of this object."""
    cdef ArrowSchema schema
    cdef ArrowArray array

# Imports the result of `source.__arrow_c_array__()`. InvalidArgumentError, naming `what`, when that is no Arrow array.
cdef ImportedArray import_array(object source, str what)
