"""Messages that differ only in some numbers, written and read without encoding or decoding the rest."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from kraft_native.base.bytes_be cimport load_i32, load_i64, store_i32, store_i64
from kraft_native.base.span cimport Span, span_of, span_uvarint
from kraft_native.batch.batch cimport HeldBuffer

from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    NUMBERS_MAX = 8


cdef struct Place:
    Py_ssize_t at
    Py_ssize_t size                # 4 or 8
    Py_ssize_t behind              # bytes up to the next place


@cython.final
cdef class Template:
    """A message `blank` with big-endian numbers at `places`: the position of each and its byte count, 4 or 8; in order,
    and at most eight. `InvalidArgumentError` for anything else."""

    cdef bytes blank
    cdef Place places[NUMBERS_MAX]
    cdef int count
    cdef Py_ssize_t first          # place of the first number

    def __init__(self, bytes blank not None, places: Iterable[tuple[int, int]]):
        cdef Py_ssize_t at, size, end = 0
        cdef int number
        self.blank = blank
        self.count = 0
        for at, size in places:
            if self.count == NUMBERS_MAX:
                raise InvalidArgumentError(f"places: more than {NUMBERS_MAX}")
            if size not in (4, 8) or at < end or at + size > len(blank):
                raise InvalidArgumentError(f"places: {size} bytes at {at} are no number in order in {len(blank)} bytes")
            self.places[self.count] = Place(at, size, 0)
            self.count += 1
            end = at + size
        self.first = self.places[0].at if self.count else <Py_ssize_t>len(blank)
        for number in range(self.count):
            end = self.places[number + 1].at if number + 1 < self.count else <Py_ssize_t>len(blank)
            self.places[number].behind = end - self.places[number].at - self.places[number].size

    def __len__(self) -> int:
        return PyBytes_GET_SIZE(self.blank)

    def write(self, *numbers: int) -> bytes:
        """The bytes with these numbers. `OverflowError` for one that does not fit its place."""
        cdef bytes made
        cdef uint8_t* start
        cdef int number
        if len(numbers) != self.count:
            raise InvalidArgumentError(f"{len(numbers)} numbers for {self.count} places")
        made = PyBytes_FromStringAndSize(PyBytes_AS_STRING(self.blank), PyBytes_GET_SIZE(self.blank))
        start = <uint8_t*>PyBytes_AS_STRING(made)
        for number in range(self.count):
            if self.places[number].size == 4:
                store_i32(start + self.places[number].at, <int32_t>numbers[number])
            else:
                store_i64(start + self.places[number].at, <int64_t>numbers[number])
        return made

    def read(self, data not None: Buffer) -> tuple[int, ...] | None:
        """The numbers in data that begins with these bytes; None when anything but the numbers differs."""
        cdef HeldBuffer held = HeldBuffer(data)
        return self.numbers_in(held.data, held.size)

    def read_bytes(self, data not None: Buffer, bytes tail not None) -> tuple[tuple[int, ...], int, int] | None:
        """The numbers in data that begins with these bytes, and the range of bytes that follow in Kafka's compact form.
        None when anything else differs, when those bytes are null, or when anything but `tail` follows them."""
        cdef HeldBuffer held = HeldBuffer(data)
        cdef Py_ssize_t tail_bytes = PyBytes_GET_SIZE(tail)
        cdef tuple numbers = self.numbers_in(held.data, held.size)
        cdef Span rest
        cdef uint32_t size_and_one = 0
        cdef Py_ssize_t start, end
        if numbers is None:
            return None
        rest = span_of(held.data, held.size)
        rest.p += PyBytes_GET_SIZE(self.blank)
        if span_uvarint(&rest, &size_and_one) < 0 or size_and_one == 0:
            return None
        start = rest.p - held.data
        end = start + <Py_ssize_t>size_and_one - 1
        if end + tail_bytes != held.size or memcmp(held.data + end, PyBytes_AS_STRING(tail), <size_t>tail_bytes) != 0:
            return None
        return numbers, start, end

    cdef tuple numbers_in(self, const uint8_t* start, Py_ssize_t size):
        cdef const uint8_t* blank = <const uint8_t*>PyBytes_AS_STRING(self.blank)
        cdef Place* place
        cdef Py_ssize_t at
        cdef int number
        cdef list found
        if size < PyBytes_GET_SIZE(self.blank) or memcmp(start, blank, <size_t>self.first) != 0:
            return None
        for number in range(self.count):
            at = self.places[number].at + self.places[number].size
            if memcmp(start + at, blank + at, <size_t>self.places[number].behind) != 0:
                return None
        found = []
        for number in range(self.count):
            place = &self.places[number]
            found.append(load_i32(start + place.at) if place.size == 4 else load_i64(start + place.at))
        return tuple(found)
