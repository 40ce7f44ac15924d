"""Record batches as columns: Arrow buffers and numpy arrays, without an object per record.

A read walks the batches once. Before each batch it gives every column room for all that the batch could hold: its
decompressed size bounds keys, values and headers; its count bounds rows. So the loop over records checks nothing but
the records themselves. The GIL is held only to decompress and to grow.

Column           Arrow type                                    null
offset           int64                                         never
timestamp        timestamp[ms, UTC]; -1 where there is none    never
timestamp_type   int8: 0 CreateTime, 1 LogAppendTime, -1 none  never
leader_epoch     int32                                         never
key, value       binary                                        as in the record
headers          list<struct<key: utf8, value: binary>>        the value only

Offsets of binary columns are 32 bits: a read ends before a batch that could take a column past 2 GiB. Header keys that
are not UTF-8 get U+FFFD in place of each invalid byte (Kafka's Java client shows them so), since Arrow promises UTF-8.
"""

from libc.stdint cimport INT64_MAX, int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memset

cimport cython

from kraft_native.base.fault cimport raise_fault
from kraft_native.base.span cimport span_left
from kraft_native.batch.batch cimport HeldBuffer
from kraft_native.batch.codecs cimport decompress_limits_default
from kraft_native.batch.records cimport records_of
from kraft_native.columns.arrow cimport ScratchView, array_capsule, new_column, schema_capsule
from kraft_native.columns.fill cimport (
    COPY_SLACK_BYTES, STEP_COMPRESSED, STEP_END, STEP_FAULT, UTF8_GROWTH_MAX, AbortedRange, ReadState, ReadStep, run,
    survey,
)

from typing import NamedTuple

from kraft_native.base.errors import InvalidArgumentError
from kraft_native.base.extras import extra_module

COLUMNS = ("offset", "timestamp", "timestamp_type", "leader_epoch", "key", "value", "headers")
DEFAULT_COLUMNS = ("offset", "timestamp", "key", "value", "headers")

class BinaryColumn(NamedTuple):
    """A binary column as numpy arrays: value i is data[offsets[i]:offsets[i + 1]], null where `valid` is False (None:
    nothing is null)."""

    offsets: object
    data: object
    valid: object


class HeadersColumn(NamedTuple):
    """Headers as numpy arrays: those of record i are keys and values starts[i] to starts[i + 1]."""

    starts: object
    keys: BinaryColumn
    values: BinaryColumn


# --- the result

@cython.final
cdef class Columns:
    """The columns of some records, as many rows in each.

    Any Arrow library accepts them without copying (`pyarrow.record_batch(columns)`); `numpy(name)` returns arrays. The
    memory lives as long as anything derived from it. The next read starts at `next_offset` and `next_position`. Any
    thread.
    """

    def __init__(self):
        raise TypeError("columns come from read_columns() or a ColumnReader")

    def __len__(self) -> int:
        return self.root.length

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple((<ArrowColumn>column).name for column in self.root.children)

    def __repr__(self) -> str:
        return f"Columns({', '.join(self.names)}; {self.root.length} rows, next offset {self.next_offset})"

    def __arrow_c_schema__(self) -> object:
        """The schema capsule: a struct with a field per column."""
        return schema_capsule(self.root)

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """(schema capsule, array capsule). A requested schema is ignored: the consumer casts."""
        return schema_capsule(self.root), array_capsule(self.root)

    def numpy(self, str name not None) -> NDArray[Any] | BinaryColumn | HeadersColumn:
        """A column as read-only numpy arrays over the same memory.

        Fixed width: one array (timestamps as datetime64[ms]). key and value: BinaryColumn. headers: HeadersColumn.
        InvalidArgumentError when the column was not requested.
        """
        cdef ArrowColumn column
        for column in self.root.children:
            if column.name == name:
                break
        else:
            raise InvalidArgumentError(f"column {name!r} is not among {', '.join(self.names)}")
        if name == "headers":
            return HeadersColumn(array_of(column.offsets, "int32"), binary_of(self.header_key),
                                 binary_of(self.header_value))
        if column.offsets is not None:
            return binary_of(column)
        return array_of(column.data, NUMPY_TYPES[name])

    cdef int reserve(self, int64_t rows, int64_t bytes_more) except -1:
        """Make room for that many more rows, holding that many more bytes in each of keys, values and headers."""
        cdef Sinks* s = &self.sinks
        cdef int64_t capacity = max(s.rows + rows, s.row_capacity + (s.row_capacity >> 1), <int64_t>64)
        if s.row_capacity > 0 and s.rows + rows <= s.row_capacity:
            capacity = s.row_capacity
        if self.offset is not None:
            s.offset = <int64_t*>fixed_room(self.offset, capacity * 8)
        if self.timestamp is not None:
            s.timestamp = <int64_t*>fixed_room(self.timestamp, capacity * 8)
        if self.timestamp_type is not None:
            s.timestamp_type = <int8_t*>fixed_room(self.timestamp_type, capacity)
        if self.leader_epoch is not None:
            s.leader_epoch = <int32_t*>fixed_room(self.leader_epoch, capacity * 4)
        if self.key is not None:
            self.reserve_bytes(self.key, &s.key, capacity, bytes_more)
        if self.value is not None:
            self.reserve_bytes(self.value, &s.value, capacity, bytes_more)
        s.row_capacity = capacity
        if self.headers is None:
            return 0
        self.headers.offsets.reserve(<Py_ssize_t>(capacity + 1) * 4)
        s.header_starts = <int32_t*>self.headers.offsets.data
        s.header_starts[0] = 0
        # A header takes at least two bytes.
        capacity = max(s.header_rows + (bytes_more >> 1) + 1, s.header_capacity)
        self.reserve_bytes(self.header_key, &s.header_key, capacity, UTF8_GROWTH_MAX * bytes_more)
        self.reserve_bytes(self.header_value, &s.header_value, capacity, bytes_more)
        s.header_capacity = capacity
        return 0

    cdef int reserve_bytes(self, ArrowColumn column, BytesSink* sink, int64_t rows, int64_t size) except -1:
        cdef Py_ssize_t validity_bytes = <Py_ssize_t>((rows + 7) >> 3)
        cdef Py_ssize_t validity_before = column.validity.size
        column.offsets.reserve(<Py_ssize_t>(rows + 1) * 4)
        column.data.reserve(<Py_ssize_t>(sink.size + size))
        column.validity.reserve(validity_bytes)
        sink.offsets = <int32_t*>column.offsets.data
        sink.data = column.data.data
        sink.validity = column.validity.data
        sink.capacity = column.data.capacity
        sink.offsets[0] = 0
        if sink.null_count > 0 and validity_bytes > validity_before:
            memset(sink.validity + validity_before, 0xFF, <size_t>(validity_bytes - validity_before))
        column.validity.size = validity_bytes
        return 0

    cdef int finish(self) except -1:
        """Set the lengths and return the room that was not needed."""
        cdef Sinks* s = &self.sinks
        cdef ArrowColumn column
        self.reserve(0, 0)
        for column, width in ((self.offset, 8), (self.timestamp, 8), (self.timestamp_type, 1), (self.leader_epoch, 4)):
            if column is not None:
                column.length = s.rows
                column.data.trim(<Py_ssize_t>(s.rows * <int64_t>width))
        if self.key is not None:
            self.finish_bytes(self.key, &s.key, s.rows)
        if self.value is not None:
            self.finish_bytes(self.value, &s.value, s.rows)
        if self.headers is not None:
            self.headers.length = s.rows
            self.headers.offsets.trim(<Py_ssize_t>(s.rows + 1) * 4)
            self.header_pair.length = s.header_rows
            self.finish_bytes(self.header_key, &s.header_key, s.header_rows)
            self.finish_bytes(self.header_value, &s.header_value, s.header_rows)
        self.root.length = s.rows
        return 0

    cdef int finish_bytes(self, ArrowColumn column, BytesSink* sink, int64_t rows) except -1:
        column.length = rows
        column.null_count = sink.null_count
        column.offsets.trim(<Py_ssize_t>(rows + 1) * 4)
        column.data.trim(<Py_ssize_t>sink.size)
        if sink.null_count > 0:
            column.validity.trim(<Py_ssize_t>((rows + 7) >> 3))
        else:
            column.validity = None
        return 0


cdef dict NUMPY_TYPES = {
    "offset": "int64", "timestamp": "datetime64[ms]", "timestamp_type": "int8", "leader_epoch": "int32",
}


cdef uint8_t* fixed_room(ArrowColumn column, int64_t size) except NULL:
    column.data.reserve(<Py_ssize_t>size)
    return column.data.data


cdef object array_of(Scratch scratch, str dtype):
    # Imported at the first request: readers of Arrow columns never need it.
    cdef object numpy = extra_module("numpy", "arrow")
    cdef ScratchView view = ScratchView.__new__(ScratchView)
    view.scratch = scratch
    return numpy.frombuffer(view, dtype=dtype)


cdef object binary_of(ArrowColumn column):
    cdef object numpy = extra_module("numpy", "arrow")
    valid = None
    if column.null_count > 0:
        bits = array_of(column.validity, "uint8")
        valid = numpy.unpackbits(bits, count=column.length, bitorder="little").view(bool)
    return BinaryColumn(array_of(column.offsets, "int32"), array_of(column.data, "uint8"), valid)


cdef Columns new_columns(tuple names):
    cdef Columns out = Columns.__new__(Columns)
    cdef list found = []
    cdef ArrowColumn column
    if "offset" in names:
        out.offset = new_column("offset", b"l", False, False, True)
    if "timestamp" in names:
        out.timestamp = new_column("timestamp", b"tsm:UTC", False, False, True)
    if "timestamp_type" in names:
        out.timestamp_type = new_column("timestamp_type", b"c", False, False, True)
    if "leader_epoch" in names:
        out.leader_epoch = new_column("leader_epoch", b"i", False, False, True)
    if "key" in names:
        out.key = binary_column("key", b"z", True)
    if "value" in names:
        out.value = binary_column("value", b"z", True)
    if "headers" in names:
        out.header_key = binary_column("key", b"u", False)
        out.header_value = binary_column("value", b"z", True)
        out.header_pair = new_column("item", b"+s", False, False, False)
        out.header_pair.children = (out.header_key, out.header_value)
        out.headers = new_column("headers", b"+l", False, True, False)
        out.headers.children = (out.header_pair,)
    by_name = {column.name: column for column in (out.offset, out.timestamp, out.timestamp_type, out.leader_epoch,
                                                  out.key, out.value, out.headers) if column is not None}
    for name in names:
        found.append(by_name[name])
    out.root = new_column("", b"+s", False, False, False)
    out.root.children = tuple(found)
    return out


cdef ArrowColumn binary_column(str name, bytes format, bint nullable):
    cdef ArrowColumn column = new_column(name, format, nullable, True, True)
    column.validity = Scratch()
    return column


# --- reading

@cython.final
cdef class ColumnReader:
    """Converter of batches into columns; keep one to reuse its settings and its decompression memory. One thread at a
    time.

    `columns` names what to read, in the order of the result. With `control`, records of control batches are read too.
    `check_crc=False` is for bytes that were checked before. `max_bytes` and `max_ratio` limit what one batch may
    decompress to.
    """

    def __cinit__(self, columns: Sequence[str] = DEFAULT_COLUMNS, *, bint control=False, bint check_crc=True,
                  max_bytes: int | None = None, max_ratio: int | None = None) -> ColumnReader:
        self.columns = tuple(columns)
        unknown = [name for name in self.columns if name not in COLUMNS]
        if unknown or not self.columns or len(set(self.columns)) != len(self.columns):
            raise InvalidArgumentError(f"columns {self.columns!r}: some of {', '.join(COLUMNS)}, each at most once")
        self.control = control
        self.check_crc = check_crc
        self.limits = decompress_limits_default()
        if max_bytes is not None:
            self.limits.bytes_max = max_bytes
        if max_ratio is not None:
            self.limits.ratio_max = max_ratio
        self.scratch = Scratch()

    def read(self, source: Buffer, *, Py_ssize_t position=0, int64_t start_offset=0, end_offset: int | None = None,
             max_records: int | None = None, aborted: Iterable[tuple[int, ...]] = ()) -> Columns:
        """Read the records in `source[position:]`, any buffer of whole batches, as columns.

        `start_offset` (inclusive) and `end_offset` (exclusive) bound the records' offsets; at most `max_records` are
        read. `aborted` lists aborted transactions whose records are left out, in any order, as (producer id, first
        offset) as in a Fetch reply, or with the marker's offset as third. A pair holds until the producer's next marker
        is met. A caller that continues after such a marker must leave the pair out.

        The read ends before a batch that is cut off, as the last one of a Fetch reply may be. It also ends at damage.
        This is raised as CorruptRecordError (MessageTooLargeError: past a limit) only when no record precedes it. So
        each read returns what is readable, and the next one raises the reason for the end.
        """
        cdef HeldBuffer held = HeldBuffer(source)
        if position < 0 or position > held.size:
            raise InvalidArgumentError(f"position {position}: 0 to {held.size}")
        if max_records is not None and max_records < 1:
            raise InvalidArgumentError(f"max_records {max_records}: at least 1, or None")
        return self.read_memory(held.data, held.size, position, start_offset,
                                INT64_MAX if end_offset is None else end_offset,
                                INT64_MAX if max_records is None else max_records, aborted)

    cdef Columns read_memory(self, const uint8_t* data, Py_ssize_t size, Py_ssize_t position, int64_t start_offset,
                             int64_t end_offset, int64_t rows_max, object aborted):
        cdef Columns out = new_columns(self.columns)
        cdef Scratch ranges = Scratch()
        cdef ReadState st
        cdef ReadStep step
        cdef int64_t rows
        cdef int64_t room
        memset(&st, 0, sizeof(ReadState))
        st.data = data
        st.size = size
        st.at = position
        st.start_offset = start_offset
        st.end_offset = end_offset
        st.rows_max = rows_max
        st.next_offset = start_offset
        st.check_crc = self.check_crc
        st.control = self.control
        st.aborted_count = load_aborted(aborted, ranges)
        st.aborted = <AbortedRange*>ranges.data
        with nogil:
            survey(&st, &rows, &room)
        out.reserve(rows, 4096)
        if out.value is not None:
            out.reserve_bytes(out.value, &out.sinks.value, out.sinks.row_capacity, room + COPY_SLACK_BYTES)
        while True:
            with nogil:
                step = run(&st, &out.sinks)
            if step == STEP_END:
                break
            if step == STEP_FAULT:
                if out.sinks.rows > 0:
                    break
                raise_fault(&st.fault)
            if step == STEP_COMPRESSED:
                try:
                    st.span = records_of(data + st.at, &st.h, &self.limits, self.scratch)
                except Exception:
                    if out.sinks.rows > 0:
                        break
                    raise
                st.loaded = True
            else:
                out.reserve(st.h.record_count, span_left(&st.span) + COPY_SLACK_BYTES)
        out.finish()
        out.next_offset = st.next_offset
        out.next_position = st.at
        return out


cdef Py_ssize_t load_aborted(object aborted, Scratch ranges) except -1:
    """Load the aborted transactions by first offset, as an array in `ranges`. Return their count."""
    cdef AbortedRange txn
    cdef list found = []
    for entry in aborted or ():
        producer_id, first_offset = entry[0], entry[1]
        found.append((first_offset, producer_id, entry[2] if len(entry) > 2 else -1))
    found.sort()
    for first_offset, producer_id, last_offset in found:
        txn.producer_id = producer_id
        txn.first_offset = first_offset
        txn.last_offset = last_offset
        ranges.put(<const uint8_t*>&txn, sizeof(AbortedRange))
    return len(found)


def read_columns(source: Buffer, *, columns: Sequence[str] = DEFAULT_COLUMNS, start_offset: int = 0,
                 end_offset: int | None = None, max_records: int | None = None, aborted: Iterable[tuple[int, ...]] = (),
                 control: bool = False, check_crc: bool = True, max_bytes: int | None = None,
                 max_ratio: int | None = None) -> Columns:
    """Run `ColumnReader(columns, ...).read(source, ...)` for a single read."""
    reader = ColumnReader(columns, control=control, check_crc=check_crc, max_bytes=max_bytes, max_ratio=max_ratio)
    return reader.read(source, start_offset=start_offset, end_offset=end_offset, max_records=max_records,
                       aborted=aborted)
