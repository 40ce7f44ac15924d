"""The Arrow C data interface, without any Arrow library: https://arrow.apache.org/docs/format/CDataInterface.html

Export: an `ArrowColumn` owns its buffers as `Scratch` objects (so `buffer.counters()` shows what lives). Each exported
array holds a reference to its column, each child its own, because a consumer may move a child out and release the
parent first. Release callbacks may come from any thread; the one of an array acquires the GIL to drop the reference.

Import: the consumer moves the structures out of the capsules and releases them in its own time.
"""

from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF

cimport cython

from kraft_native.base.errors import InvalidArgumentError

cdef const char* SCHEMA_CAPSULE = "arrow_schema"
cdef const char* ARRAY_CAPSULE = "arrow_array"


@cython.final
cdef class ArrowColumn:
    pass


cdef ArrowColumn new_column(str name, bytes format, bint nullable, bint offsets, bint data):
    cdef ArrowColumn column = ArrowColumn.__new__(ArrowColumn)
    column.name = name
    column.format = format
    column.nullable = nullable
    column.offsets = Scratch() if offsets else None
    column.data = Scratch() if data else None
    column.children = ()
    return column


@cython.final
cdef class ScratchView:
    """Finished scratch memory as read-only bytes."""

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.scratch.data, self.scratch.size, True, flags)


# --- export

cdef void release_schema(ArrowSchema* schema) noexcept nogil:
    cdef int64_t i
    for i in range(schema.n_children):
        if schema.children[i] != NULL:
            if schema.children[i].release != NULL:
                schema.children[i].release(schema.children[i])
            free(schema.children[i])
    free(schema.children)
    free(<void*>schema.format)
    free(<void*>schema.name)
    schema.release = NULL


cdef void release_array(ArrowArray* array) noexcept nogil:
    cdef int64_t i
    for i in range(array.n_children):
        if array.children[i] != NULL:
            if array.children[i].release != NULL:
                array.children[i].release(array.children[i])
            free(array.children[i])
    free(array.children)
    free(array.buffers)
    if array.private_data != NULL:
        with gil:
            Py_DECREF(<object>array.private_data)
    array.release = NULL


cdef char* copy_text(bytes text) except NULL:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text) + 1
    cdef char* copy = <char*>malloc(<size_t>size)
    if copy == NULL:
        raise MemoryError("Arrow schema")
    memcpy(copy, PyBytes_AS_STRING(text), <size_t>size)
    return copy


cdef int fill_schema(ArrowColumn column, ArrowSchema* schema) except -1:
    """Fill a zeroed schema. After a failure its release frees the parts that were created."""
    cdef Py_ssize_t i
    cdef Py_ssize_t count = len(column.children)
    schema.release = release_schema
    schema.format = copy_text(column.format)
    schema.name = copy_text(column.name.encode())
    schema.flags = ARROW_FLAG_NULLABLE if column.nullable else 0
    if count > 0:
        schema.children = <ArrowSchema**>calloc(<size_t>count, sizeof(ArrowSchema*))
        if schema.children == NULL:
            raise MemoryError("Arrow schema")
        schema.n_children = count
        for i in range(count):
            schema.children[i] = <ArrowSchema*>calloc(1, sizeof(ArrowSchema))
            if schema.children[i] == NULL:
                raise MemoryError("Arrow schema")
            fill_schema(column.children[i], schema.children[i])
    return 0


cdef int fill_array(ArrowColumn column, ArrowArray* array) except -1:
    """Fill a zeroed array. After a failure its release frees the parts that were created."""
    cdef Py_ssize_t i
    cdef Py_ssize_t count = len(column.children)
    array.release = release_array
    array.length = column.length
    array.null_count = column.null_count
    array.buffers = <const void**>calloc(3, sizeof(void*))
    if array.buffers == NULL:
        raise MemoryError("Arrow array")
    array.n_buffers = 1
    if column.null_count > 0:
        array.buffers[0] = column.validity.data
    if column.offsets is not None:
        array.buffers[array.n_buffers] = column.offsets.data
        array.n_buffers += 1
    if column.data is not None:
        array.buffers[array.n_buffers] = column.data.data
        array.n_buffers += 1
    if count > 0:
        array.children = <ArrowArray**>calloc(<size_t>count, sizeof(ArrowArray*))
        if array.children == NULL:
            raise MemoryError("Arrow array")
        array.n_children = count
        for i in range(count):
            array.children[i] = <ArrowArray*>calloc(1, sizeof(ArrowArray))
            if array.children[i] == NULL:
                raise MemoryError("Arrow array")
            fill_array(column.children[i], array.children[i])
    Py_INCREF(column)
    array.private_data = <void*>column
    return 0


cdef void drop_schema_capsule(object capsule) noexcept:
    cdef ArrowSchema* schema = <ArrowSchema*>PyCapsule_GetPointer(capsule, SCHEMA_CAPSULE)
    if schema.release != NULL:
        schema.release(schema)
    free(schema)


cdef void drop_array_capsule(object capsule) noexcept:
    cdef ArrowArray* array = <ArrowArray*>PyCapsule_GetPointer(capsule, ARRAY_CAPSULE)
    if array.release != NULL:
        array.release(array)
    free(array)


cdef object schema_capsule(ArrowColumn column):
    cdef ArrowSchema* schema = <ArrowSchema*>calloc(1, sizeof(ArrowSchema))
    if schema == NULL:
        raise MemoryError("Arrow schema")
    try:
        fill_schema(column, schema)
        return PyCapsule_New(schema, SCHEMA_CAPSULE, <void (*)(object) noexcept>drop_schema_capsule)
    except BaseException:
        schema.release(schema)
        free(schema)
        raise


cdef object array_capsule(ArrowColumn column):
    cdef ArrowArray* array = <ArrowArray*>calloc(1, sizeof(ArrowArray))
    if array == NULL:
        raise MemoryError("Arrow array")
    try:
        fill_array(column, array)
        return PyCapsule_New(array, ARRAY_CAPSULE, <void (*)(object) noexcept>drop_array_capsule)
    except BaseException:
        array.release(array)
        free(array)
        raise


# --- import

@cython.final
cdef class ImportedArray:
    """An imported Arrow array, held for the life of this object."""

    def __cinit__(self):
        memset(&self.schema, 0, sizeof(ArrowSchema))
        memset(&self.array, 0, sizeof(ArrowArray))

    def __dealloc__(self):
        if self.array.release != NULL:
            self.array.release(&self.array)
        if self.schema.release != NULL:
            self.schema.release(&self.schema)


cdef ImportedArray import_array(object source, str what):
    cdef ImportedArray imported = ImportedArray()
    cdef ArrowSchema* schema
    cdef ArrowArray* array
    schema_part, array_part = source.__arrow_c_array__()
    if not PyCapsule_IsValid(schema_part, SCHEMA_CAPSULE) or not PyCapsule_IsValid(array_part, ARRAY_CAPSULE):
        raise InvalidArgumentError(f"{what}: {type(source).__name__}.__arrow_c_array__() gave no Arrow capsules")
    schema = <ArrowSchema*>PyCapsule_GetPointer(schema_part, SCHEMA_CAPSULE)
    array = <ArrowArray*>PyCapsule_GetPointer(array_part, ARRAY_CAPSULE)
    if schema.release == NULL or array.release == NULL:
        raise InvalidArgumentError(f"{what}: the Arrow array was released already")
    imported.schema = schema[0]
    imported.array = array[0]
    schema.release = NULL
    array.release = NULL
    return imported
