"""The primitives of Kafka's messages, in both encodings (KIP-482, `docs/internals/wire.md`).

A reader or writer serves one message at one version and knows whether that version is `flexible`. The same call then
reads or writes the old or the compact form. The generated code of `kraft.protocol.messages` is the caller.

Reading trusts nothing: a length or count is compared with the bytes that are left before it is used. An element of an
array has at least one byte (the generator refuses schemas where it would not). So a count above the bytes that are left
is refused at once, and lists grow only as elements are really read. An object of a few bytes on the wire needs about a
hundred in memory, so the elements of one message have a limit of their own.

Every refusal of a reader is `MalformedMessageError`, every refusal of a writer `InvalidArgumentError`.
Any thread, one at a time.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cimport cython

from kraft_native.base cimport varint
from kraft_native.base.bytes_be cimport load_i16, load_i32, load_i64, load_u16, load_u32, load_u64, store_i16, store_i32
from kraft_native.base.bytes_be cimport store_i64, store_u16, store_u32, store_u64
from kraft_native.base.span cimport span_bytes, span_left, span_of, span_uvarint

from uuid import UUID, SafeUUID

from kraft_native.base.errors import InvalidArgumentError, MalformedMessageError

cdef extern from "Python.h":
    int PyObject_GenericSetAttr(object instance, object name, object value) except -1
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum:
    STRING_BYTES_MAX = 0x7FFF
    LENGTH_MAX = 0x7FFFFFFF - 1
    CAPACITY_FIRST = 256
    STRUCTS_AT_ONCE = 16           # of an array, where the rest may be left for later
    TAGS_MAX = 1024                # of one struct; Kafka's own structs have fewer than ten

# Enough for the metadata of half a million partitions with three replicas each; about 400 MB when all of them are read.
ELEMENTS_MAX = 4_000_000

cdef object ZERO_UUID = UUID(int=0)
cdef object UNKNOWN_SAFETY = SafeUUID.unknown


cdef object new_uuid(uint64_t high, uint64_t low):
    """Create `UUID(int=...)` without its slow checks of arguments: the two attributes that it sets."""
    value = UUID.__new__(UUID)
    PyObject_GenericSetAttr(value, "int", (<object>high << 64) | low)
    PyObject_GenericSetAttr(value, "is_safe", UNKNOWN_SAFETY)
    return value


@cython.final
cdef class WireReader:
    """Reader of one message from `data`, which must not change meanwhile. The message ends at the end of `data` or
    before; the caller handles the rest (`finish`, `rest`). A message with more than `elements_max` array elements and
    tags, at all levels together, is refused.
    """

    def __cinit__(self, data: bytes | bytearray | memoryview | None = None, bint flexible=False,
                  Py_ssize_t elements_max=ELEMENTS_MAX):
        self.has_view = False
        self.flexible = flexible
        self.elements_left = elements_max
        if data is not None:
            PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
            self.has_view = True
            self.start = <const uint8_t*>self.view.buf
            self.span = span_of(self.start, self.view.len)

    def __dealloc__(self):
        if self.has_view:
            PyBuffer_Release(&self.view)

    @property
    def position(self) -> int:
        """Bytes read so far."""
        return self.span.p - self.start

    @property
    def remaining(self) -> int:
        """Bytes that are left."""
        return span_left(&self.span)

    cdef const uint8_t* take(self, Py_ssize_t size) except NULL:
        cdef const uint8_t* p = NULL
        if span_bytes(&self.span, size, &p) < 0:
            raise MalformedMessageError(
                f"{size} bytes are expected at byte {self.position}, {self.remaining} are left")
        return p

    cdef uint32_t next_uvarint(self) except? 0:
        cdef uint32_t value = 0
        if span_uvarint(&self.span, &value) < 0:
            raise MalformedMessageError(f"cut off or oversized varint at byte {self.position}")
        return value

    cdef Py_ssize_t next_length(self) except -2:
        cdef Py_ssize_t length
        if self.flexible:
            length = <Py_ssize_t>self.next_uvarint() - 1
        else:
            length = load_i32(self.take(4))
        if length < -1 or length > span_left(&self.span):
            raise MalformedMessageError(
                f"a length of {length} before byte {self.position}, {self.remaining} bytes are left")
        return length

    cdef Py_ssize_t next_string_bytes(self) except -2:
        cdef Py_ssize_t length
        if self.flexible:
            length = <Py_ssize_t>self.next_uvarint() - 1
        else:
            length = load_i16(self.take(2))
        if length < -1 or length > span_left(&self.span) or length > STRING_BYTES_MAX:
            raise MalformedMessageError(
                f"a string of {length} bytes before byte {self.position}, {self.remaining} bytes are left")
        return length

    cdef Py_ssize_t next_count(self) except -2:
        """Read a count like a length: an element has at least one byte."""
        cdef Py_ssize_t count = self.next_length()
        if count > 0:
            self.charge(count)
        return count

    cdef int charge(self, Py_ssize_t elements) except -1:
        cdef WireReader root = self if self.root is None else self.root
        if elements > root.elements_left:
            raise MalformedMessageError(f"more array elements and tags than one message may have: {elements} more at "
                                        f"byte {self.position}, {root.elements_left} are allowed")
        root.elements_left -= elements
        return 0

    def int8(self) -> int:
        return <int8_t>self.take(1)[0]

    def int16(self) -> int:
        return load_i16(self.take(2))

    def uint16(self) -> int:
        return load_u16(self.take(2))

    def int32(self) -> int:
        return load_i32(self.take(4))

    def uint32(self) -> int:
        return load_u32(self.take(4))

    def int64(self) -> int:
        return load_i64(self.take(8))

    def float64(self) -> float:
        cdef uint64_t bits = load_u64(self.take(8))
        cdef double value
        memcpy(&value, &bits, 8)
        return value

    def boolean(self) -> bool:
        """One byte; as in Kafka everything but 0 is true."""
        return self.take(1)[0] != 0

    def uvarint(self) -> int:
        """An unsigned varint of at most 32 bits."""
        return self.next_uvarint()

    def uuid(self) -> UUID:
        cdef const uint8_t* p = self.take(16)
        if load_u64(p) == 0 and load_u64(p + 8) == 0:
            return ZERO_UUID
        return new_uuid(load_u64(p), load_u64(p + 8))

    def nullable_string(self) -> str | None:
        cdef Py_ssize_t size = self.next_string_bytes()
        cdef const uint8_t* p
        if size == -1:
            return None
        if size == 0:
            return ""
        p = self.take(size)
        try:
            return PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
        except UnicodeDecodeError as error:
            raise MalformedMessageError(f"the string before byte {self.position} is not UTF-8: {error}") from None

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise MalformedMessageError(f"null before byte {self.position}, where a string must be")
        return text

    def legacy_nullable_string(self) -> str | None:
        """A string in the old encoding, whatever the version's: the client id of a request header."""
        cdef bint flexible = self.flexible
        self.flexible = False
        try:
            return self.nullable_string()
        finally:
            self.flexible = flexible

    def nullable_blob(self) -> bytes | None:
        """A copy of the bytes of a field of type bytes or records."""
        cdef Py_ssize_t size = self.next_length()
        if size == -1:
            return None
        if size == 0:
            return b""
        return PyBytes_FromStringAndSize(<const char*>self.take(size), size)

    def blob(self) -> bytes:
        data = self.nullable_blob()
        if data is None:
            raise MalformedMessageError(f"null before byte {self.position}, where bytes must be")
        return data

    def nullable_array(self, read: Callable[[], _T]) -> list[_T] | None:
        """A list of the results of `read`, a bound method of this reader, per element."""
        cdef Py_ssize_t count = self.next_count()
        cdef list values
        if count == -1:
            return None
        values = []
        while count > 0:
            values.append(read())
            count -= 1
        return values

    def array(self, read: Callable[[], _T]) -> list[_T]:
        values = self.nullable_array(read)
        if values is None:
            raise MalformedMessageError(f"null before byte {self.position}, where an array must be")
        return values

    def nullable_structs(self, read: Callable[[WireReader, int], _T], version: int) -> list[_T] | None:
        """A list of the results of `read(self, version)`, a struct's class method, per element."""
        cdef Py_ssize_t count = self.next_count()
        cdef list values
        if count == -1:
            return None
        values = []
        while count > 0:
            values.append(read(self, version))
            count -= 1
        return values

    def structs(self, read: Callable[[WireReader, int], _T], version: int) -> list[_T]:
        values = self.nullable_structs(read, version)
        if values is None:
            raise MalformedMessageError(f"null before byte {self.position}, where an array must be")
        return values

    def nullable_struct(self, read: Callable[[WireReader, int], _T], version: int) -> _T | None:
        """One byte, negative for null, then the result of `read(self, version)`."""
        if <int8_t>self.take(1)[0] < 0:
            return None
        return read(self, version)

    def tagged_struct(self, read: Callable[[WireReader, int], _T], version: int) -> _T | None:
        """A nullable struct as the value of a tag: one uvarint, 0 for null, then the result of `read(self,
        version)`."""
        if self.next_uvarint() == 0:
            return None
        return read(self, version)

    cdef list next_tags(self):
        cdef list tags = []
        cdef set seen = set()
        cdef WireReader value
        cdef uint32_t count, tag, size
        cdef const uint8_t* p
        if not self.flexible:
            return tags
        count = self.next_uvarint()
        if count > TAGS_MAX:
            raise MalformedMessageError(f"{count} tags before byte {self.position}, {TAGS_MAX} are allowed")
        self.charge(count)
        while count > 0:
            tag = self.next_uvarint()
            if tag in seen:
                raise MalformedMessageError(f"tag {tag} stands twice before byte {self.position}")
            seen.add(tag)
            size = self.next_uvarint()
            value = WireReader.__new__(WireReader, None, True)
            value.root = self if self.root is None else self.root
            value.start = self.start
            if size > 0:
                p = self.take(size)
                value.span = span_of(p, size)
            else:
                value.span = span_of(self.span.p, 0)
            tags.append((tag, value))
            count -= 1
        return tags

    def tags(self) -> list[tuple[int, WireReader]]:
        """The tag section that ends a struct: (tag, reader of its value) in the order of the wire, no tag twice. Empty
        in a version that is not flexible.
        """
        return self.next_tags()

    def unknown_tags(self) -> tuple[tuple[int, bytes], ...]:
        """The tag section of a struct that knows no tag: (tag, bytes of its value) in the order of the wire."""
        if self.flexible and self.span.p < self.span.end and self.span.p[0] == 0:
            self.span.p += 1
            return ()
        return tuple([(tag, value.rest()) for tag, value in self.next_tags()])

    def rest(self) -> bytes:
        """Everything that is left."""
        cdef Py_ssize_t size = span_left(&self.span)
        if size == 0:
            return b""
        return PyBytes_FromStringAndSize(<const char*>self.take(size), size)

    def finish(self) -> None:
        """Refuse bytes that are left over."""
        if self.remaining:
            raise MalformedMessageError(f"{self.remaining} bytes are left over after byte {self.position}")


@cython.final
cdef class CommonStructs(list):
    """Array of a few structs without error codes that messages have in common. Neither it nor its structs change.

    A writer copies the bytes of the last time that it was written, when the form is the same.
    """


@cython.final
cdef class WireWriter:
    """Writer of one message. After a refusal the writer is of no further use.

    With a list `later` the elements of long arrays of structs are put there, each with its position, and not written:
    see `wire_steps`.
    """

    def __cinit__(self, bint flexible=False, list later: list[tuple[int, Collection[Writable]]] | None = None):
        self.buffer = NULL
        self.used = 0
        self.capacity = 0
        self.flexible = flexible
        self.later = later

    def __dealloc__(self):
        free(self.buffer)

    def __len__(self) -> int:
        return self.used

    cdef uint8_t* reserve(self, Py_ssize_t size) except NULL:
        cdef Py_ssize_t needed = self.used + size
        cdef Py_ssize_t capacity
        cdef uint8_t* grown
        if needed > self.capacity:
            capacity = max(CAPACITY_FIRST, self.capacity * 2, needed)
            grown = <uint8_t*>realloc(self.buffer, capacity)
            if grown == NULL:
                raise MemoryError()
            self.buffer = grown
            self.capacity = capacity
        grown = self.buffer + self.used
        self.used = needed
        return grown

    cdef int put_uvarint(self, uint32_t value) except -1:
        varint.put_uvarint(self.reserve(varint.uvarint_bytes(value)), value)
        return 0

    cdef int put_length(self, Py_ssize_t length) except -1:
        """The length of a blob or the count of an array; -1 for null."""
        if length > LENGTH_MAX:
            raise InvalidArgumentError(f"a length must be at most {LENGTH_MAX}, not {length}")
        if self.flexible:
            self.put_uvarint(<uint32_t>(length + 1))
        else:
            store_i32(self.reserve(4), <int32_t>length)
        return 0

    cdef int put_bytes(self, const uint8_t* data, Py_ssize_t size) except -1:
        if size > 0:
            memcpy(self.reserve(size), data, size)
        return 0

    cdef int put_text(self, str value) except -1:
        cdef Py_ssize_t size = 0
        cdef const char* text
        try:
            text = PyUnicode_AsUTF8AndSize(value, &size)
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(f"a string must be encodable as UTF-8: {error}") from None
        if size > STRING_BYTES_MAX:
            raise InvalidArgumentError(f"a string must have at most {STRING_BYTES_MAX} bytes, not {size}")
        if self.flexible:
            self.put_uvarint(<uint32_t>(size + 1))
        else:
            store_i16(self.reserve(2), <int16_t>size)
        return self.put_bytes(<const uint8_t*>text, size)

    def int8(self, int8_t value) -> None:
        self.reserve(1)[0] = <uint8_t>value

    def int16(self, int16_t value) -> None:
        store_i16(self.reserve(2), value)

    def uint16(self, uint16_t value) -> None:
        store_u16(self.reserve(2), value)

    def int32(self, int32_t value) -> None:
        store_i32(self.reserve(4), value)

    def uint32(self, uint32_t value) -> None:
        store_u32(self.reserve(4), value)

    def int64(self, int64_t value) -> None:
        store_i64(self.reserve(8), value)

    def float64(self, double value) -> None:
        cdef uint64_t bits
        memcpy(&bits, &value, 8)
        store_u64(self.reserve(8), bits)

    def boolean(self, bint value) -> None:
        self.reserve(1)[0] = value

    def uvarint(self, uint32_t value) -> None:
        self.put_uvarint(value)

    def uuid(self, value: UUID) -> None:
        cdef bytes data
        cdef uint8_t* p
        if value is ZERO_UUID:
            p = self.reserve(16)
            store_u64(p, 0)
            store_u64(p + 8, 0)
            return
        data = value.bytes
        if PyBytes_GET_SIZE(data) != 16:
            raise InvalidArgumentError(f"a uuid has 16 bytes, not {PyBytes_GET_SIZE(data)}")
        memcpy(self.reserve(16), PyBytes_AS_STRING(data), 16)

    def nullable_string(self, str value: str | None) -> None:
        if value is not None:
            self.put_text(value)
        elif self.flexible:
            self.put_uvarint(0)
        else:
            store_i16(self.reserve(2), -1)

    def string(self, str value: str | None) -> None:
        if value is None:
            raise InvalidArgumentError("a string must not be null in this version")
        self.put_text(value)

    def legacy_nullable_string(self, str value: str | None) -> None:
        """A string in the old encoding, whatever the version's."""
        cdef bint flexible = self.flexible
        self.flexible = False
        try:
            self.nullable_string(value)
        finally:
            self.flexible = flexible

    def nullable_blob(self, value: bytes | bytearray | memoryview | None) -> None:
        cdef const uint8_t[::1] data
        if value is None:
            self.put_length(-1)
            return
        if type(value) is bytes:
            self.put_length(PyBytes_GET_SIZE(value))
            self.put_bytes(<const uint8_t*>PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
            return
        data = value
        self.put_length(data.shape[0])
        if data.shape[0] > 0:
            self.put_bytes(&data[0], data.shape[0])

    def blob(self, value: bytes | bytearray | memoryview | None) -> None:
        if value is None:
            raise InvalidArgumentError("bytes must not be null in this version")
        self.nullable_blob(value)

    def nullable_array(self, write: Callable[[_T], None], values: Collection[_T] | None) -> None:
        """Write an array: `write`, a bound method of this writer, is called once per element."""
        if values is None:
            self.put_length(-1)
            return
        self.put_length(len(values))
        for value in values:
            write(value)

    def array(self, write: Callable[[_T], None], values: Collection[_T] | None) -> None:
        if values is None:
            raise InvalidArgumentError("an array must not be null in this version")
        self.nullable_array(write, values)

    def nullable_structs(self, values: Collection[Writable] | None, version: int) -> None:
        """Write an array: call `write(self, version)` of each element."""
        if values is None:
            self.put_length(-1)
            return
        self.put_length(len(values))
        if type(values) is CommonStructs:
            self.put_common(values, version)
            return
        if self.later is not None and len(values) > STRUCTS_AT_ONCE:
            self.later.append((self.used, values))
            return
        for value in values:
            value.write(self, version)

    cdef int put_common(self, CommonStructs values, int version) except -1:
        """Write the elements of an array that messages have in common."""
        cdef Py_ssize_t begin = self.used
        cdef list later = self.later
        if values.encoded is None or values.encoded_version != version or values.encoded_flexible != self.flexible:
            self.later = None          # arrays inside the elements are part of the bytes
            for value in values:
                value.write(self, version)
            self.later = later
            values.encoded = PyBytes_FromStringAndSize(<const char*>self.buffer + begin, self.used - begin)
            values.encoded_version, values.encoded_flexible = version, self.flexible
            return 0
        return self.put_bytes(<const uint8_t*>PyBytes_AS_STRING(values.encoded), PyBytes_GET_SIZE(values.encoded))

    def structs(self, values: Collection[Writable] | None, version: int) -> None:
        if values is None:
            raise InvalidArgumentError("an array must not be null in this version")
        self.nullable_structs(values, version)

    def nullable_struct(self, value: Writable | None, version: int) -> None:
        if value is None:
            self.reserve(1)[0] = 0xFF
        else:
            self.reserve(1)[0] = 1
            value.write(self, version)

    def tagged_struct(self, value: Writable | None, version: int) -> None:
        """A nullable struct as the value of a tag."""
        if value is None:
            self.put_uvarint(0)
        else:
            self.put_uvarint(1)
            value.write(self, version)

    def tags(self, tags: Collection[tuple[int, bytes]]) -> None:
        """The tag section that ends a struct: (tag, bytes of its value), in any order. A version that is not flexible
        has none, so no tag may be set there.
        """
        cdef uint32_t tag
        cdef int64_t before = -1
        cdef bytes value
        if not self.flexible:
            if tags:
                raise InvalidArgumentError("tagged fields are set, and this version has none")
            return
        if not tags:
            self.reserve(1)[0] = 0
            return
        self.put_uvarint(<uint32_t>len(tags))
        for tag, value in sorted(tags):
            if tag == before:
                raise InvalidArgumentError(f"tag {tag} is given twice")
            before = tag
            self.put_uvarint(tag)
            self.put_uvarint(<uint32_t>PyBytes_GET_SIZE(value))
            self.put_bytes(<const uint8_t*>PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))

    def raw(self, data: bytes | bytearray | memoryview) -> None:
        """Bytes as they are, without a length."""
        cdef const uint8_t[::1] view = data
        if view.shape[0] > 0:
            self.put_bytes(&view[0], view.shape[0])

    def finish(self) -> bytes:
        """Everything written."""
        if self.used == 0:
            return b""
        return PyBytes_FromStringAndSize(<const char*>self.buffer, self.used)
