"""Lines of JSON objects: strict checks (RFC 8259), and the positions of some fields' values, for blocks of lines.

Nothing is converted: a number keeps its digits, a line its bytes. Only text that is extracted from a line loses its
escapes (`gather`). Half of a surrogate pair becomes the three bytes that its number has in UTF-8.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy

from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    DEPTH_MAX = 256
    NAMES_MAX = 8
    SOUND = 0
    WANTS_OBJECT = 1
    WANTS_VALUE = 2
    BAD_NUMBER = 3
    OPEN_STRING = 4
    BAD_CHARACTER = 5
    BAD_ESCAPE = 6
    BAD_UTF8 = 7
    WANTS_NAME = 8
    WANTS_COLON = 9
    WANTS_COMMA = 10
    TOO_DEEP = 11
    EXCESS = 12
    # Kinds of a field.
    ABSENT = 0
    PLAIN = 1
    ESCAPED = 2
    OTHER = 3

REASONS = (
    "", "a JSON object is expected", "a value is expected", "not a number of JSON", "a text without an end",
    "a control character in a text", "not an escape of JSON", "not UTF-8", "the name of a field is expected",
    "':' is expected", "',' or the end of the object or list is expected", "more than 256 levels",
    "text after the object",
)
FIELD_ABSENT, FIELD_TEXT, FIELD_ESCAPED_TEXT, FIELD_OTHER = ABSENT, PLAIN, ESCAPED, OTHER


cdef struct Cursor:
    const uint8_t* data
    int64_t at
    int64_t end
    int32_t fault


cdef inline void skip_blanks(Cursor* c) noexcept nogil:
    cdef uint8_t byte
    while c.at < c.end:
        byte = c.data[c.at]
        if byte != b" " and byte != b"\t" and byte != b"\r" and byte != b"\n":
            return
        c.at += 1


cdef inline bint fail(Cursor* c, int32_t reason) noexcept nogil:
    c.fault = reason
    return False


cdef inline int32_t hex_digit(uint8_t byte) noexcept nogil:
    if b"0" <= byte <= b"9":
        return byte - <int32_t>b"0"
    byte |= 0x20
    if b"a" <= byte <= b"f":
        return byte - <int32_t>b"a" + 10
    return -1


cdef int32_t utf8_size(const uint8_t* p, int64_t left) noexcept nogil:
    """Bytes of the character at `p`, whose first byte is 0x80 or above; 0 if it is none."""
    cdef uint8_t first = p[0]
    cdef uint8_t low = 0x80
    cdef uint8_t high = 0xBF
    cdef int32_t i, size
    if 0xC2 <= first <= 0xDF:
        size = 2
    elif 0xE0 <= first <= 0xEF:
        size = 3
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F
    elif 0xF0 <= first <= 0xF4:
        size = 4
        if first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
    else:
        return 0
    if left < size or not low <= p[1] <= high:
        return 0
    for i in range(2, size):
        if not 0x80 <= p[i] <= 0xBF:
            return 0
    return size


cdef bint pass_text(Cursor* c, bint* escaped) noexcept nogil:
    """Pass a text, from its opening quote to the byte after its closing one."""
    cdef uint8_t byte
    cdef int32_t i, size
    escaped[0] = False
    c.at += 1
    while c.at < c.end:
        byte = c.data[c.at]
        if byte == b'"':
            c.at += 1
            return True
        if byte < 0x20:
            return fail(c, BAD_CHARACTER)
        if byte >= 0x80:
            size = utf8_size(c.data + c.at, c.end - c.at)
            if not size:
                return fail(c, BAD_UTF8)
            c.at += size
            continue
        c.at += 1
        if byte != b"\\":
            continue
        escaped[0] = True
        if c.at >= c.end:
            break
        byte = c.data[c.at]
        if byte == b"u":
            for i in range(1, 5):
                if c.at + i >= c.end or hex_digit(c.data[c.at + i]) < 0:
                    return fail(c, BAD_ESCAPE)
            c.at += 5
        elif byte and memchr(b'"\\/bfnrt', byte, 8) != NULL:
            c.at += 1
        else:
            return fail(c, BAD_ESCAPE)
    return fail(c, OPEN_STRING)


cdef inline bint pass_digits(Cursor* c) noexcept nogil:
    cdef int64_t start = c.at
    while c.at < c.end and b"0" <= c.data[c.at] <= b"9":
        c.at += 1
    return c.at > start


cdef bint pass_number(Cursor* c) noexcept nogil:
    if c.data[c.at] == b"-":
        c.at += 1
    if c.at < c.end and c.data[c.at] == b"0":
        c.at += 1
    elif not pass_digits(c):
        return fail(c, BAD_NUMBER)
    if c.at < c.end and c.data[c.at] == b".":
        c.at += 1
        if not pass_digits(c):
            return fail(c, BAD_NUMBER)
    if c.at < c.end and (c.data[c.at] | 0x20) == b"e":
        c.at += 1
        if c.at < c.end and (c.data[c.at] == b"+" or c.data[c.at] == b"-"):
            c.at += 1
        if not pass_digits(c):
            return fail(c, BAD_NUMBER)
    return True


cdef inline bint pass_word(Cursor* c, const char* word, int64_t size) noexcept nogil:
    if c.end - c.at < size or memcmp(c.data + c.at, word, size) != 0:
        return fail(c, WANTS_VALUE)
    c.at += size
    return True


cdef bint pass_scalar(Cursor* c) noexcept nogil:
    cdef bint escaped
    cdef uint8_t byte = c.data[c.at]
    if byte == b'"':
        return pass_text(c, &escaped)
    if byte == b"-" or b"0" <= byte <= b"9":
        return pass_number(c)
    if byte == b"t":
        return pass_word(c, b"true", 4)
    if byte == b"f":
        return pass_word(c, b"false", 5)
    return pass_word(c, b"null", 4)


cdef bint pass_name(Cursor* c, int64_t* start, int64_t* end, bint* escaped) noexcept nogil:
    """Pass the name of a field and its colon; set the name's range, without quotes."""
    skip_blanks(c)
    if c.at >= c.end or c.data[c.at] != b'"':
        return fail(c, WANTS_NAME)
    start[0] = c.at + 1
    if not pass_text(c, escaped):
        return False
    end[0] = c.at - 1
    skip_blanks(c)
    if c.at >= c.end or c.data[c.at] != b":":
        return fail(c, WANTS_COLON)
    c.at += 1
    return True


cdef bint pass_value(Cursor* c) noexcept nogil:
    """Pass a value of any kind. Open brackets are recorded by their closing byte."""
    cdef uint8_t[DEPTH_MAX] closing
    cdef int32_t depth = 0
    cdef int64_t start, end
    cdef bint escaped, complete
    cdef uint8_t byte
    while True:
        skip_blanks(c)
        if c.at >= c.end:
            return fail(c, WANTS_VALUE)
        byte = c.data[c.at]
        complete = True
        if byte == b"{" or byte == b"[":
            if depth == DEPTH_MAX:
                return fail(c, TOO_DEEP)
            closing[depth] = byte + 2       # '}' is '{' + 2, ']' is '[' + 2
            c.at += 1
            skip_blanks(c)
            if c.at < c.end and c.data[c.at] == closing[depth]:
                c.at += 1
            else:
                depth += 1
                complete = False
                if byte == b"{" and not pass_name(c, &start, &end, &escaped):
                    return False
        elif not pass_scalar(c):
            return False
        while complete:
            if depth == 0:
                return True
            skip_blanks(c)
            if c.at >= c.end:
                return fail(c, WANTS_COMMA)
            if c.data[c.at] == closing[depth - 1]:
                depth -= 1
                c.at += 1
                continue
            if c.data[c.at] != b",":
                return fail(c, WANTS_COMMA)
            c.at += 1
            complete = False
            if closing[depth - 1] == b"}" and not pass_name(c, &start, &end, &escaped):
                return False


cdef int64_t put_character(uint8_t* out, uint32_t code) noexcept nogil:
    if code < 0x80:
        out[0] = <uint8_t>code
        return 1
    if code < 0x800:
        out[0] = <uint8_t>(0xC0 | code >> 6)
        out[1] = <uint8_t>(0x80 | code & 0x3F)
        return 2
    if code < 0x10000:
        out[0] = <uint8_t>(0xE0 | code >> 12)
        out[1] = <uint8_t>(0x80 | code >> 6 & 0x3F)
        out[2] = <uint8_t>(0x80 | code & 0x3F)
        return 3
    out[0] = <uint8_t>(0xF0 | code >> 18)
    out[1] = <uint8_t>(0x80 | code >> 12 & 0x3F)
    out[2] = <uint8_t>(0x80 | code >> 6 & 0x3F)
    out[3] = <uint8_t>(0x80 | code & 0x3F)
    return 4


cdef inline uint32_t escaped_code(const uint8_t* p) noexcept nogil:
    return <uint32_t>(hex_digit(p[0]) << 12 | hex_digit(p[1]) << 8 | hex_digit(p[2]) << 4 | hex_digit(p[3]))


cdef int64_t unescape(const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
    """Write the checked text without its escapes, which shortens it. Return its byte count."""
    cdef int64_t i = 0, written = 0
    cdef uint8_t byte
    cdef uint32_t code, low
    while i < size:
        byte = p[i]
        if byte != b"\\":
            out[written] = byte
            written += 1
            i += 1
            continue
        byte = p[i + 1]
        i += 2
        if byte == b"u":
            code = escaped_code(p + i)
            i += 4
            if 0xD800 <= code < 0xDC00 and i + 6 <= size and p[i] == b"\\" and p[i + 1] == b"u":
                low = escaped_code(p + i + 2)
                if 0xDC00 <= low < 0xE000:
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                    i += 6
            written += put_character(out + written, code)
            continue
        if byte == b"b":
            byte = 8
        elif byte == b"f":
            byte = 12
        elif byte == b"n":
            byte = 10
        elif byte == b"r":
            byte = 13
        elif byte == b"t":
            byte = 9
        out[written] = byte
        written += 1
    return written


cdef struct Names:
    int32_t count
    (const uint8_t*)[NAMES_MAX] data
    int64_t[NAMES_MAX] size


cdef int32_t named(const Names* names, const uint8_t* p, int64_t size, bint escaped) noexcept nogil:
    """Index of this name; -1 if it is none of the names."""
    cdef uint8_t[1024] plain
    cdef int32_t i
    if escaped:
        if size > 1024:
            return -1
        size = unescape(p, size, plain)
        p = plain
    for i in range(names.count):
        if names.size[i] == size and memcmp(names.data[i], p, size) == 0:
            return i
    return -1


cdef bint pass_object(Cursor* c, const Names* names, int64_t[:, ::1] fields) noexcept nogil:
    """Pass the object of a line, to the line's end. The last of several fields of one name counts."""
    cdef int64_t start = 0, end = 0
    cdef int32_t which
    cdef bint escaped = False
    skip_blanks(c)
    if c.at >= c.end or c.data[c.at] != b"{":
        return fail(c, WANTS_OBJECT)
    c.at += 1
    skip_blanks(c)
    if c.at < c.end and c.data[c.at] == b"}":
        c.at += 1
    else:
        while True:
            if not pass_name(c, &start, &end, &escaped):
                return False
            which = named(names, c.data + start, end - start, escaped)
            skip_blanks(c)
            start = c.at
            if c.at < c.end and c.data[c.at] == b'"':
                if not pass_text(c, &escaped):
                    return False
                if which >= 0:
                    fields[which, 0] = start + 1
                    fields[which, 1] = c.at - 1
                    fields[which, 2] = ESCAPED if escaped else PLAIN
            else:
                if not pass_value(c):
                    return False
                if which >= 0:
                    fields[which, 0] = start
                    fields[which, 1] = c.at
                    fields[which, 2] = ABSENT if c.data[start] == b"n" else OTHER
            skip_blanks(c)
            if c.at < c.end and c.data[c.at] == b",":
                c.at += 1
                continue
            if c.at >= c.end or c.data[c.at] != b"}":
                return fail(c, WANTS_COMMA)
            c.at += 1
            break
    skip_blanks(c)
    return True if c.at == c.end else fail(c, EXCESS)


def scan_lines(const uint8_t[::1] data not None, names: tuple[bytes, ...], int64_t[:, ::1] lines not None,
               int64_t[:, :, ::1] fields not None) -> tuple[int, int]:
    """Check each line of `data`: return the count of lines that are not blank, and that of all lines.

    Each line that is not blank is described in `lines`:

    - its start, and its end (without line feed, and without a carriage return before it);
    - its number in `data` from 0;
    - an index of `REASONS` (0: sound), and the position of the fault.

    `fields` gets start, end and kind of each of `names`; a null is `FIELD_ABSENT`, too. `InvalidArgumentError` when the
    arrays are too small.
    """
    cdef Names wanted
    cdef Cursor c
    cdef int64_t at = 0, number = 0, count = 0, end, size = data.shape[0]
    cdef const uint8_t* start = &data[0] if size else NULL
    cdef const uint8_t* found
    cdef int32_t i
    cdef bytes name
    if len(names) > NAMES_MAX or lines.shape[1] != 5 or fields.shape[1] != len(names) or fields.shape[2] != 3:
        raise InvalidArgumentError(f"lines of {lines.shape[1]} numbers, {fields.shape[1]} fields, {len(names)} names")
    wanted.count = <int32_t>len(names)
    for i in range(wanted.count):
        name = names[i]
        wanted.data[i] = <const uint8_t*><const char*>name
        wanted.size[i] = len(name)
    while at < size:
        found = <const uint8_t*>memchr(start + at, c"\n", size - at)
        end = size if found == NULL else found - start
        if count == lines.shape[0] or count == fields.shape[0]:
            raise InvalidArgumentError(f"room for {count} lines, and there are more")
        with nogil:
            c.data = start
            c.at = at
            c.end = end - 1 if end > at and start[end - 1] == b"\r" else end
            c.fault = SOUND
            skip_blanks(&c)
            if c.at < c.end:
                c.at = at
                lines[count, 0] = at
                lines[count, 1] = c.end
                lines[count, 2] = number
                fields[count, :, 2] = ABSENT
                pass_object(&c, &wanted, fields[count])
                lines[count, 3] = c.fault
                lines[count, 4] = c.at
                count += 1
        number += 1
        at = end + 1
    return count, number


def gather(const uint8_t[::1] data not None, const int64_t[:] starts not None, const int64_t[:] ends not None,
           const int64_t[:] kinds not None, int32_t[::1] offsets not None) -> bytearray:
    """Join the pieces [start, end) of `data`; the start of each goes to `offsets`, which has one more.

    A piece whose kind is `FIELD_ESCAPED_TEXT`, as found by `scan_lines`, loses its escapes; one that is `FIELD_ABSENT`
    is empty. `InvalidArgumentError` for a range outside of `data`, and above 2 GiB.
    """
    cdef int64_t i, total = 0, written = 0, count = starts.shape[0]
    if ends.shape[0] != count or kinds.shape[0] != count or offsets.shape[0] != count + 1:
        raise InvalidArgumentError(f"{count} starts, {ends.shape[0]} ends, {offsets.shape[0]} offsets")
    for i in range(count):
        if kinds[i] != ABSENT:
            if not 0 <= starts[i] <= ends[i] <= data.shape[0]:
                raise InvalidArgumentError(f"piece {starts[i]} to {ends[i]} of {data.shape[0]} bytes")
            total += ends[i] - starts[i]
    if total > 0x7FFFFFFF:
        raise InvalidArgumentError(f"{total} bytes in one array")
    result = bytearray(total + 1)
    cdef uint8_t[::1] out = result
    with nogil:
        for i in range(count):
            offsets[i] = <int32_t>written
            if kinds[i] == ESCAPED:
                written += unescape(&data[starts[i]], ends[i] - starts[i], &out[written])
            elif kinds[i] != ABSENT and ends[i] > starts[i]:
                memcpy(&out[written], &data[starts[i]], ends[i] - starts[i])
                written += ends[i] - starts[i]
        offsets[count] = <int32_t>written
    del out
    del result[written:]
    return result
