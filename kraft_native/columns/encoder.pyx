"""Columns to record batches, without an object per record.

Forms of a column of keys or values:

- anything with `__arrow_c_array__` of type binary, large_binary, string, large_string, fixed_size_binary or null;
- a numpy array of dtype S (zeros at the end are padding) or V, or a two-dimensional uint8 array;
- a pair (offsets, data) of an int32 or int64 array and bytes, optionally with a third member, a bool array that is
  False for nulls (the form of `Columns.numpy`).

Timestamps: an Arrow timestamp or int64 array, a numpy datetime64 or int64 array (int64 is ms), one int for all, or None
for now. Headers: an Arrow list, large_list or map of (key, value) structs.

All columns are checked before the first batch is built: offsets that do not rise, nulls where none may be, lengths that
differ. So no batch comes from columns that are wrong further on.
"""


from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

cimport cython

from kraft_native.base.clock cimport clock_ms
from kraft_native.base.limits cimport ATTR_TRANSACTIONAL, BATCH_HEADER_BYTES, INT32_MAX_VALUE
from kraft_native.base.varint cimport put_varlong, varlong_bytes
from kraft_native.batch.batch cimport HeldBuffer
from kraft_native.batch.codecs cimport codec_id, codec_level
from kraft_native.columns.arrow cimport ArrowArray, ImportedArray, import_array
from kraft_native.file.buffer cimport Scratch

from kraft_native.base.errors import InvalidArgumentError
from kraft_native.base.extras import extra_module

cdef enum:
    # Varints around key, value and headers, at their longest, and room that short copies may write past their end.
    RECORD_ROOM_BYTES = 128
    RECORD_BODY_BYTES_MAX = INT32_MAX_VALUE - 1024


cdef enum EncodeStep:
    ENCODE_FULL = 0                # the batch is done
    ENCODE_ROOM = 1                # record_bytes more must fit
    ENCODE_TOO_LARGE = 2           # row `row` cannot be a record


# --- reading columns

cdef inline bint is_null(const BytesSource* s, int64_t i) noexcept nogil:
    cdef int64_t bit
    if s.validity == NULL:
        return s.kind == BYTES_NULL
    bit = s.validity_start + i
    return (s.validity[bit >> 3] >> (bit & 7)) & 1 == 0


cdef inline int64_t value_at(const BytesSource* s, int64_t i, const uint8_t** p) noexcept nogil:
    """Value i: its bytes and their count, -1 for null."""
    cdef int64_t count
    if is_null(s, i):
        return -1
    if s.kind == BYTES_STARTS_32:
        p[0] = s.data + s.starts_32[i]
        return s.starts_32[i + 1] - s.starts_32[i]
    if s.kind == BYTES_STARTS_64:
        p[0] = s.data + s.starts_64[i]
        return s.starts_64[i + 1] - s.starts_64[i]
    p[0] = s.data + i * s.width
    count = s.width
    if s.kind == BYTES_PADDED:
        while count > 0 and p[0][count - 1] == 0:
            count -= 1
    return count


cdef inline int64_t start_at(const BytesSource* s, int64_t i) noexcept nogil:
    return s.starts_32[i] if s.kind == BYTES_STARTS_32 else s.starts_64[i]


cdef int64_t first_fall(const BytesSource* s, int64_t size) noexcept nogil:
    """The first index at which the offsets fall, or leave [0, size]; -1 when they are sound. Null values count too."""
    cdef int64_t i
    cdef int64_t before = 0
    cdef int64_t start
    if s.kind != BYTES_STARTS_32 and s.kind != BYTES_STARTS_64:
        return -1
    for i in range(s.length + 1):
        start = start_at(s, i)
        if start < before or start > size:
            return i
        before = start
    return -1


cdef inline int64_t timestamp_at(const EncodeState* st, int64_t i) noexcept nogil:
    cdef int64_t ticks
    if st.timestamps == NULL:
        return st.timestamp
    ticks = st.timestamps[i]
    if st.ticks_per_ms == 1:
        return ticks
    return ticks * 1000 if st.ticks_per_ms == 0 else ticks // st.ticks_per_ms


cdef inline int64_t timestamp_of(const EncodeState* st, int64_t i) noexcept nogil:
    """The timestamp of row i in its own unit."""
    return st.timestamp if st.timestamps == NULL else st.timestamps[i]


cdef int64_t first_bad_time(const EncodeState* st) noexcept nogil:
    """The first row whose time cannot be a record's; -1 when all can."""
    cdef int64_t i
    cdef int64_t low = -1 if st.ticks_per_ms == 1 else 0
    cdef int64_t high = INT64_MAX if st.ticks_per_ms != 0 else INT64_MAX // 1000
    for i in range(min(st.length, <int64_t>1) if st.timestamps == NULL else st.length):
        if not low <= timestamp_of(st, i) <= high:
            return i
    return -1


# --- writing records

cdef inline uint8_t* put_value(uint8_t* p, const uint8_t* data, int64_t count) noexcept nogil:
    p = put_varlong(p, count)
    if count > 0:
        memcpy(p, data, <size_t>count)
        p += count
    return p


cdef inline int64_t value_size(int64_t count) noexcept nogil:
    return varlong_bytes(count) + (count if count > 0 else 0)


cdef int64_t headers_size(const EncodeState* st, int64_t row) noexcept nogil:
    """Byte count of the record's headers, their count included."""
    cdef int64_t i
    cdef int64_t first = start_at(&st.header_starts, row)
    cdef int64_t end = start_at(&st.header_starts, row + 1)
    cdef const uint8_t* p = NULL
    cdef int64_t size
    if is_null(&st.header_starts, row):
        return 1
    size = varlong_bytes(end - first)
    for i in range(first, end):
        size += value_size(value_at(&st.header_key, i, &p))
        size += value_size(value_at(&st.header_value, i, &p))
        if size > INT32_MAX_VALUE:
            break
    return size


cdef uint8_t* put_headers(uint8_t* p, const EncodeState* st, int64_t row) noexcept nogil:
    cdef int64_t i
    cdef int64_t first = start_at(&st.header_starts, row)
    cdef int64_t end = start_at(&st.header_starts, row + 1)
    cdef const uint8_t* data = NULL
    cdef int64_t count
    if is_null(&st.header_starts, row):
        end = first
    p = put_varlong(p, end - first)
    for i in range(first, end):
        count = value_at(&st.header_key, i, &data)
        p = put_value(p, data, count)
        count = value_at(&st.header_value, i, &data)
        p = put_value(p, data, count)
    return p


cdef EncodeStep encode_rows(EncodeState* st, uint8_t* start, Py_ssize_t* size, Py_ssize_t capacity) noexcept nogil:
    """Append records at start + size until the batch is full; counts and times go to `st`."""
    cdef uint8_t* p = start + size[0]
    cdef const uint8_t* key = NULL
    cdef const uint8_t* value = NULL
    cdef int64_t key_bytes
    cdef int64_t value_bytes
    cdef int64_t header_bytes
    cdef int64_t timestamp
    cdef int64_t delta
    cdef int64_t body
    while st.row < st.length and st.count < st.batch_records_max:
        key_bytes = value_at(&st.key, st.row, &key)
        value_bytes = value_at(&st.value, st.row, &value)
        header_bytes = headers_size(st, st.row) if st.has_headers else 1
        timestamp = timestamp_at(st, st.row)
        delta = timestamp - st.base_timestamp if st.count > 0 else 0
        if key_bytes > INT32_MAX_VALUE or value_bytes > INT32_MAX_VALUE:
            return ENCODE_TOO_LARGE
        body = (1 + varlong_bytes(delta) + varlong_bytes(st.count) + value_size(key_bytes) + value_size(value_bytes)
                + header_bytes)
        if body > RECORD_BODY_BYTES_MAX:
            return ENCODE_TOO_LARGE
        if st.count > 0 and BATCH_HEADER_BYTES + (p - start) + body + varlong_bytes(body) > st.batch_bytes_max:
            return ENCODE_FULL
        if (p - start) + body + RECORD_ROOM_BYTES > capacity:
            st.record_bytes = <Py_ssize_t>(body + RECORD_ROOM_BYTES)
            return ENCODE_ROOM
        p = put_varlong(p, body)
        p[0] = 0
        p = put_varlong(p + 1, delta)
        p = put_varlong(p, st.count)
        p = put_value(p, key, key_bytes)
        p = put_value(p, value, value_bytes)
        if st.has_headers:
            p = put_headers(p, st, st.row)
        else:
            p[0] = 0
            p += 1
        if st.count == 0:
            st.base_timestamp = timestamp
            st.max_timestamp = timestamp
        elif timestamp > st.max_timestamp:
            st.max_timestamp = timestamp
        st.count += 1
        st.row += 1
        size[0] = p - start
    return ENCODE_FULL


@cython.final
cdef class ColumnEncoder:
    """Iterator over the batches built from columns, as bytes that `Log.append` or a Produce request accepts.

    Created by `encode_columns`. The columns must not change until the last batch was read. One thread at a time.
    """

    def __init__(self):
        raise TypeError("encoders come from encode_columns()")

    def __iter__(self) -> ColumnEncoder:
        return self

    def __next__(self) -> bytes:
        cdef bytes batch = self.next_batch()
        if batch is None:
            raise StopIteration
        return batch

    def __len__(self) -> int:
        """Records not yet in a batch."""
        return self.state.length - self.state.row

    cdef bytes next_batch(self):
        """Build the next batch; None when no row is left."""
        cdef EncodeState* st = &self.state
        cdef BatchBuilder builder = self.builder
        cdef bytes batch
        cdef Scratch records = builder.records
        cdef EncodeStep step
        if st.row == st.length:
            return None
        builder.start(self.codec, self.level, self.attributes)
        records.reserve(<Py_ssize_t>min(st.batch_bytes_max, <int64_t>(1 << 20)) + RECORD_ROOM_BYTES)
        st.count = 0
        while True:
            with nogil:
                step = encode_rows(st, records.data, &records.size, records.capacity)
            if step == ENCODE_FULL:
                break
            if step == ENCODE_TOO_LARGE:
                raise InvalidArgumentError(f"row {st.row}: key, value and headers must stay below "
                                           f"{RECORD_BODY_BYTES_MAX} bytes together")
            records.reserve(records.size + st.record_bytes)
        builder.base_timestamp = st.base_timestamp
        builder.max_timestamp = st.max_timestamp
        builder.record_count = st.count
        builder.last_offset_delta = st.count - 1
        batch = builder.finish(self.next_offset if self.counts_on else 0, -1, -1, -1, -1)
        self.next_offset += st.count
        return batch

    # --- importing columns

    cdef int take_bytes(self, object source, BytesSource* out, str what) except -1:
        """Import any form of a column of byte strings, checked."""
        if hasattr(source, "__arrow_c_array__"):
            self.take_arrow(source, out, what)
        elif isinstance(source, tuple):
            self.take_pair(source, out, what)
        elif hasattr(source, "dtype"):
            self.take_numpy(source, out, what)
        else:
            raise InvalidArgumentError(f"{what}: an Arrow array, a numpy array of dtype S or V or of bytes in two "
                                       f"dimensions, or (offsets, data) expected, got {type(source).__name__}")
        return 0

    cdef int take_arrow(self, object source, BytesSource* out, str what) except -1:
        cdef ImportedArray imported = import_array(source, what)
        self.owners.append(imported)
        if imported.schema.dictionary != NULL:
            raise InvalidArgumentError(f"{what}: dictionary-encoded columns must be decoded first")
        return arrow_bytes(&imported.array, imported.schema.format, out, what)

    cdef int take_numpy(self, object source, BytesSource* out, str what) except -1:
        cdef HeldBuffer held
        kind = source.dtype.kind
        if not source.flags.c_contiguous:
            raise InvalidArgumentError(f"{what}: the array must be contiguous (numpy.ascontiguousarray)")
        if source.ndim == 2 and source.dtype == "uint8":
            out.kind = BYTES_FIXED
            out.width = source.shape[1]
        elif source.ndim == 1 and kind in "SV" and source.dtype.names is None:
            out.kind = BYTES_PADDED if kind == "S" else BYTES_FIXED
            out.width = source.dtype.itemsize
        else:
            raise InvalidArgumentError(f"{what}: dtype S or V in one dimension or uint8 in two expected, got "
                                       f"{source.dtype} in {source.ndim}")
        held = HeldBuffer(source)
        self.owners.append(held)
        out.length = source.shape[0]
        out.data = held.data
        return 0

    cdef int take_pair(self, object source, BytesSource* out, str what) except -1:
        cdef HeldBuffer starts
        cdef HeldBuffer data
        cdef HeldBuffer validity
        cdef int64_t fall
        cdef object numpy = extra_module("numpy", "arrow")
        if not 2 <= len(source) <= 3:
            raise InvalidArgumentError(f"{what}: (offsets, data) or (offsets, data, valid) expected, got {len(source)} "
                                       "members")
        offsets = numpy.ascontiguousarray(source[0])
        if offsets.ndim != 1 or offsets.dtype not in ("int32", "int64") or len(offsets) < 1:
            raise InvalidArgumentError(f"{what}: offsets must be int32 or int64, one more than there are values")
        starts = HeldBuffer(offsets)
        data = HeldBuffer(source[1])
        self.owners += [starts, data]
        out.kind = BYTES_STARTS_32 if offsets.dtype == "int32" else BYTES_STARTS_64
        out.starts_32 = <const int32_t*>starts.data
        out.starts_64 = <const int64_t*>starts.data
        out.length = len(offsets) - 1
        out.data = data.data
        fall = first_fall(out, data.size)
        if fall >= 0:
            raise InvalidArgumentError(f"{what}: offset {offsets[fall]} at index {fall} is below the one before it or "
                                       f"outside the {data.size} bytes of data")
        if len(source) == 3 and source[2] is not None:
            valid = numpy.ascontiguousarray(source[2])
            if valid.dtype != bool or valid.shape != (out.length,):
                raise InvalidArgumentError(f"{what}: valid must be a bool array of {out.length} values")
            validity = HeldBuffer(numpy.packbits(valid, bitorder="little"))
            self.owners.append(validity)
            out.validity = validity.data
        return 0

    cdef int take_timestamps(self, object source) except -1:
        cdef EncodeState* st = &self.state
        cdef ImportedArray imported
        cdef HeldBuffer held
        cdef int64_t i
        st.ticks_per_ms = 1
        if source is None:
            st.timestamp = clock_ms()
        elif isinstance(source, int):
            st.timestamp = source
        elif hasattr(source, "__arrow_c_array__"):
            imported = import_array(source, "timestamps")
            self.owners.append(imported)
            st.ticks_per_ms = arrow_ticks(imported.schema.format)
            require_length("timestamps", imported.array.length, st.length)
            require_no_nulls(&imported.array, "timestamps")
            if st.length > 0:
                st.timestamps = <const int64_t*>imported.array.buffers[1] + imported.array.offset
        elif hasattr(source, "dtype"):
            numpy = extra_module("numpy", "arrow")
            st.ticks_per_ms = numpy_ticks(source.dtype)
            require_length("timestamps", source.size if source.ndim == 1 else -1, st.length)
            held = HeldBuffer(numpy.ascontiguousarray(source).view("int64"))
            self.owners.append(held)
            st.timestamps = <const int64_t*>held.data
        else:
            raise InvalidArgumentError(f"timestamps: an Arrow or numpy array, an int or None expected, got "
                                       f"{type(source).__name__}")
        i = first_bad_time(st)
        if i >= 0:
            raise InvalidArgumentError(f"timestamps: {timestamp_of(st, i)} at row {i}; 0 or more that fits 64 bits of "
                                       "ms, or -1 ms for no time")
        return 0

    cdef int take_headers(self, object source) except -1:
        cdef ImportedArray imported = import_array(source, "headers")
        cdef ArrowArray* pairs
        cdef BytesSource* starts = &self.state.header_starts
        cdef bytes form = imported.schema.format
        cdef int64_t fall
        self.owners.append(imported)
        if form not in (b"+l", b"+L", b"+m") or imported.schema.children[0].n_children != 2:
            raise InvalidArgumentError("headers: a list or map of (key, value) expected, got Arrow type "
                                       f"{form.decode()}")
        if imported.schema.children[0].format[0] != b"+" or imported.schema.children[0].format[1] != b"s":
            raise InvalidArgumentError("headers: the members of the list must be structs of key and value")
        require_length("headers", imported.array.length, self.state.length)
        pairs = imported.array.children[0]
        require_no_nulls(pairs, "headers")
        arrow_starts(&imported.array, form == b"+L", starts)
        fall = first_fall(starts, pairs.length)
        if fall >= 0:
            raise InvalidArgumentError(f"headers: the list offset at index {fall} is wrong")
        arrow_child(imported, 0, &self.state.header_key, "header keys")
        arrow_child(imported, 1, &self.state.header_value, "header values")
        require_no_nulls(pairs.children[0], "header keys")
        self.state.has_headers = self.state.length > 0
        return 0


# --- Arrow types

cdef int require_length(str what, int64_t length, int64_t expected) except -1:
    if length != expected:
        raise InvalidArgumentError(f"{what}: {length} rows, but there are {expected} values")
    return 0


cdef int require_no_nulls(const ArrowArray* array, str what) except -1:
    cdef const uint8_t* validity = <const uint8_t*>array.buffers[0] if array.n_buffers > 0 else NULL
    cdef int64_t i
    if array.null_count == 0 or validity == NULL:
        return 0
    for i in range(array.offset, array.offset + array.length):
        if (validity[i >> 3] >> (i & 7)) & 1 == 0:
            raise InvalidArgumentError(f"{what}: null at index {i - array.offset}")
    return 0


cdef void arrow_starts(const ArrowArray* array, bint wide, BytesSource* out) noexcept:
    """Set offsets and validity of a binary or list array."""
    out.kind = BYTES_STARTS_64 if wide else BYTES_STARTS_32
    out.length = array.length
    if array.buffers[0] != NULL and array.null_count != 0:
        out.validity = <const uint8_t*>array.buffers[0]
        out.validity_start = array.offset
    if array.length == 0:
        # The offsets may be missing; no value is ever read.
        out.kind = BYTES_NULL
    elif wide:
        out.starts_64 = <const int64_t*>array.buffers[1] + array.offset
    else:
        out.starts_32 = <const int32_t*>array.buffers[1] + array.offset


cdef int arrow_bytes(const ArrowArray* array, const char* format, BytesSource* out, str what) except -1:
    """Import any Arrow type of byte strings, checked."""
    cdef bytes form = format
    cdef int64_t fall
    if form in (b"z", b"u", b"Z", b"U"):
        arrow_starts(array, form in (b"Z", b"U"), out)
        out.data = <const uint8_t*>array.buffers[2]
        fall = first_fall(out, INT64_MAX)
        if fall >= 0:
            raise InvalidArgumentError(f"{what}: the Arrow offset at index {fall} is below the one before it")
    elif form.startswith(b"w:"):
        out.kind = BYTES_FIXED
        out.width = int(form[2:])
        out.length = array.length
        out.data = <const uint8_t*>array.buffers[1] + array.offset * out.width
        if array.buffers[0] != NULL and array.null_count != 0:
            out.validity = <const uint8_t*>array.buffers[0]
            out.validity_start = array.offset
    elif form == b"n":
        out.kind = BYTES_NULL
        out.length = array.length
    else:
        raise InvalidArgumentError(f"{what}: binary, large_binary, string, large_string, fixed_size_binary or null "
                                   f"expected, got Arrow type {form.decode()}")
    return 0


cdef int arrow_child(ImportedArray imported, Py_ssize_t index, BytesSource* out, str what) except -1:
    """Import a member of the structs in a list. A struct's own offset counts for its members too."""
    cdef ArrowArray* pairs = imported.array.children[0]
    cdef ArrowArray moved = pairs.children[index][0]
    if imported.schema.children[0].children[index].dictionary != NULL:
        raise InvalidArgumentError(f"{what}: dictionary-encoded columns must be decoded first")
    if moved.length < pairs.offset + pairs.length:
        raise InvalidArgumentError(f"{what}: {moved.length} values for {pairs.length} structs")
    moved.offset += pairs.offset
    moved.length = pairs.length
    return arrow_bytes(&moved, imported.schema.children[0].children[index].format, out, what)


cdef int64_t arrow_ticks(const char* format) except -1:
    """Ticks per ms of an Arrow time type; 0 for seconds."""
    cdef bytes form = format
    ticks = {b"l": 1, b"tsm": 1, b"tss": 0, b"tsu": 1000, b"tsn": 1_000_000}.get(form.split(b":")[0])
    if ticks is None:
        raise InvalidArgumentError(f"timestamps: timestamp or int64 expected, got Arrow type {form.decode()}")
    return ticks


cdef int64_t numpy_ticks(object dtype) except -1:
    ticks = {"int64": 1, "datetime64[ms]": 1, "datetime64[s]": 0, "datetime64[us]": 1000,
             "datetime64[ns]": 1_000_000}.get(dtype.name)
    if ticks is None:
        raise InvalidArgumentError(f"timestamps: int64 or datetime64 of s, ms, us or ns expected, got {dtype.name}")
    return ticks


def encode_columns(values: Any, *, keys: Any = None, timestamps: Any = None, headers: Any = None,
                   codec: str | int = "none", level: int | None = None, batch_bytes_max: int = 1_048_576,
                   batch_records_max: int = 2**31 - 1, base_offset: int | None = None,
                   transactional: bool = False) -> ColumnEncoder:
    """Build batches of the records in these columns, in order; the head of this module lists the forms of a column.

    A batch is closed before it would exceed `batch_bytes_max` uncompressed bytes, header included, or
    `batch_records_max` records; a larger record gets a batch of its own. Every batch counts from 0, as a producer sends
    it; with `base_offset` they are numbered on from there. Null values are tombstones. InvalidArgumentError: a column
    is of the wrong kind or length, or inconsistent.
    """
    cdef ColumnEncoder encoder = ColumnEncoder.__new__(ColumnEncoder)
    cdef EncodeState* st = &encoder.state
    encoder.owners = []
    encoder.codec = codec_id(codec)
    encoder.level = codec_level(encoder.codec, level)
    encoder.attributes = ATTR_TRANSACTIONAL if transactional else 0
    encoder.builder = BatchBuilder()
    if batch_bytes_max < BATCH_HEADER_BYTES or batch_bytes_max > INT32_MAX_VALUE:
        raise InvalidArgumentError(f"batch_bytes_max {batch_bytes_max}: {BATCH_HEADER_BYTES} to {INT32_MAX_VALUE}")
    if batch_records_max < 1 or batch_records_max > INT32_MAX_VALUE:
        raise InvalidArgumentError(f"batch_records_max {batch_records_max}: 1 to {INT32_MAX_VALUE}")
    if base_offset is not None and base_offset < 0:
        raise InvalidArgumentError(f"base_offset {base_offset}: 0 or more")
    st.batch_bytes_max = batch_bytes_max
    st.batch_records_max = batch_records_max
    encoder.counts_on = base_offset is not None
    encoder.next_offset = base_offset or 0
    encoder.take_bytes(values, &st.value, "values")
    st.length = st.value.length
    if keys is not None:
        encoder.take_bytes(keys, &st.key, "keys")
        require_length("keys", st.key.length, st.length)
    encoder.take_timestamps(timestamps)
    if headers is not None:
        encoder.take_headers(headers)
    return encoder
