"""Long messages read and written in steps, so that a loop can serve others between them.

A step is a few dozen elements of an array, some 50 microseconds. All functions are generators that yield after each
step. The readers return the results of `WireReader`'s methods of the same names. A writer leaves the elements of long
arrays for later, and `write_steps` inserts them at their places.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from libc.stdint cimport int8_t, uint8_t
from libc.string cimport memcpy, memmove

from kraft_native.base.wire cimport WireReader, WireWriter

from kraft_native.base.errors import MalformedMessageError

cdef enum:
    STEP_STRUCTS = 64              # a power of two
    STEP_VALUES = 512
    STEP_BYTES = 8 * 1024
    PART_BYTES = 512 * 1024


cdef dict FIELDS = {}              # by class of structs, see `fields_of`


def nullable_array_steps(WireReader r not None, read: Callable[[], _T]) -> Generator[None, None, list[_T] | None]:
    """Run `WireReader.nullable_array` in steps."""
    cdef Py_ssize_t count = r.next_count()
    cdef Py_ssize_t step
    cdef list values
    if count == -1:
        return None
    values = []
    while count > 0:
        step = min(count, STEP_VALUES)
        count -= step
        while step > 0:
            values.append(read())
            step -= 1
        yield
    return values


def array_steps(WireReader r not None, read: Callable[[], _T]) -> Generator[None, None, list[_T]]:
    """Run `WireReader.array` in steps."""
    return present(r, (yield from nullable_array_steps(r, read)))


def nullable_structs_steps(WireReader r not None, read: Callable[[WireReader, int], _T],
                           version: int) -> Generator[None, None, list[_T] | None]:
    """Run `WireReader.nullable_structs` in steps."""
    cdef Py_ssize_t count = r.next_count()
    cdef Py_ssize_t step
    cdef list values
    if count == -1:
        return None
    values = []
    while count > 0:
        step = min(count, STEP_STRUCTS)
        count -= step
        while step > 0:
            values.append(read(r, version))
            step -= 1
        yield
    return values


def structs_steps(WireReader r not None, read: Callable[[WireReader, int], _T],
                  version: int) -> Generator[None, None, list[_T]]:
    """Run `WireReader.structs` in steps."""
    return present(r, (yield from nullable_structs_steps(r, read, version)))


def nullable_nested_steps(WireReader r not None, read_steps: Callable[[WireReader, int], Generator[None, None, _T]],
                          version: int) -> Generator[None, None, list[_T] | None]:
    """Run `WireReader.nullable_structs` in steps, for structs that are read in steps themselves: by a generator."""
    cdef Py_ssize_t count = r.next_count()
    cdef list values
    if count == -1:
        return None
    values = []
    while count > 0:
        values.append((yield from read_steps(r, version)))
        count -= 1
        if count & (STEP_STRUCTS - 1) == 0:
            yield
    return values


def nested_steps(WireReader r not None, read_steps: Callable[[WireReader, int], Generator[None, None, _T]],
                 version: int) -> Generator[None, None, list[_T]]:
    """Run `WireReader.structs` in steps, for structs that are read in steps themselves."""
    return present(r, (yield from nullable_nested_steps(r, read_steps, version)))


def nullable_struct_steps(WireReader r not None, read_steps: Callable[[WireReader, int], Generator[None, None, _T]],
                          version: int) -> Generator[None, None, _T | None]:
    """Run `WireReader.nullable_struct` in steps, for a struct that is read in steps itself."""
    if <int8_t>r.take(1)[0] < 0:
        return None
    return (yield from read_steps(r, version))


def tagged_struct_steps(WireReader r not None, read_steps: Callable[[WireReader, int], Generator[None, None, _T]],
                        version: int) -> Generator[None, None, _T | None]:
    """Run `WireReader.tagged_struct` in steps, for a struct that is read in steps itself."""
    if r.next_uvarint() == 0:
        return None
    return (yield from read_steps(r, version))


cdef object present(WireReader r, object values):
    if values is None:
        raise MalformedMessageError(f"null before byte {r.position}, where an array must be")
    return values


def write_steps(WireWriter w not None, list parts not None: list[bytes | bytearray], values: Iterable[Writable],
                version: int) -> Generator[None]:
    """Write `values`, structs of that version, to the end of `parts`. The writer is empty and has a list `later`."""
    cdef Py_ssize_t left = STEP_STRUCTS
    for value in values:
        value.write(w, version)
        if len(w.later) > 0:
            yield from write_later(w, parts, version)
        left -= 1
        if left == 0 or w.used >= STEP_BYTES:
            left = STEP_STRUCTS
            add_part(parts, w.buffer, w.used)
            w.used = 0
            yield
    add_part(parts, w.buffer, w.used)
    w.used = 0


def write_later(WireWriter w, list parts: list[bytes | bytearray], version: int) -> Generator[None]:
    """Write each array that was left for later at its place."""
    cdef list later = w.later
    cdef Py_ssize_t begin = 0
    cdef Py_ssize_t position
    cdef WireWriter inner = WireWriter.__new__(WireWriter, w.flexible, [])
    w.later = []
    for position, values in later:
        add_part(parts, w.buffer + begin, position - begin)
        begin = position
        yield from write_steps(inner, parts, values, version)
    w.used -= begin
    memmove(w.buffer, w.buffer + begin, <size_t>w.used)


cdef int add_part(list parts, const uint8_t* data, Py_ssize_t size) except -1:
    """Append bytes to the last part, or as a new one when that has its size."""
    cdef bytearray last = parts[len(parts) - 1] if len(parts) > 0 else None
    cdef Py_ssize_t before
    if size == 0 and last is not None:
        return 0
    if last is None or len(last) + size > PART_BYTES:
        parts.append(PyByteArray_FromStringAndSize(<const char*>data, size))
        return 0
    before = len(last)
    PyByteArray_Resize(last, before + size)
    memcpy(PyByteArray_AS_STRING(last) + before, data, <size_t>size)
    return 0


def short_codes(struct not None: object, Py_ssize_t elements_max) -> list[int] | None:
    """Return the error codes other than 0 in a message and in the structs inside it. Return None for a message with
    more than `elements_max` array elements: to encode it may take long."""
    cdef list codes = []
    return None if collect_codes(struct, codes, elements_max) < 0 else codes


cdef Py_ssize_t collect_codes(object struct, list codes, Py_ssize_t left) except -2:
    """Append the codes, and return the number of further elements that are allowed; -1 below 0."""
    cdef tuple fields = FIELDS.get(type(struct)) or fields_of(type(struct))
    cdef list values
    for name in <tuple>fields[0]:
        code = getattr(struct, name)
        if code != 0:
            codes.append(code)
    for name in <tuple>fields[1]:
        value = getattr(struct, name)
        if type(value) is list:
            values = value
            left -= len(values)
            if left < 0:
                return -1
            if len(values) > 0 and is_struct(values[0]):
                for value in values:
                    left = collect_codes(value, codes, left)
                    if left < 0:
                        return -1
        elif is_struct(value):
            left = collect_codes(value, codes, left)
            if left < 0:
                return -1
    return left


cdef bint is_struct(object value) except -1:
    kind = type(value)
    if kind is str or kind is int or kind is bool or kind is tuple or value is None:
        return False                   # most fields: to miss an attribute takes ten times as long
    return hasattr(kind, "read_steps")


cdef tuple fields_of(object kind):
    """Return the names of the fields of a class with error codes, and of the others."""
    cdef list codes = [], others = []
    for name in kind.__slots__:
        (codes if name.endswith("error_code") else others).append(name)
    fields = (tuple(codes), tuple(others))
    FIELDS[kind] = fields
    return fields
