"""Reader of a log of HdrHistograms, from the description of the formats: the log 1.3 and the encoding V2.

A line is `[Tag=NAME,]START,LENGTH,MAX,BASE64`. The encoding has an int32 cookie 0x1c849304 | 0x10, an int32 length and
zlib data. That contains:

- int32 cookie 0x1c849303 | 0x10, int32 length of the counts, int32 offset of the normalized index,
- int32 significant digits, int64 lowest and int64 highest value, float64 ratio,
- the counts, ZigZag in LEB128 with at most 9 bytes. A negative one is a number of zeros. Count i belongs to the value
  that `value_of` returns.
"""

import base64
import math
import struct
import zlib
from dataclasses import dataclass

COMPRESSED_COOKIE = 0x1C849304
COOKIE = 0x1C849303
WORD = 0x10


@dataclass
class Line:
    """An interval. `counts` are (value, count): the lowest value of a bucket, and the highest is less than `bucket`
    above it."""

    tag: str
    start: float
    length: float
    most: float
    counts: list[tuple[int, int]]
    bucket_of: dict[int, int]


def read_log(text: str) -> tuple[list[str], list[Line]]:
    """Return the comments, and all intervals. Raises `ValueError` or `AssertionError` for anything unexpected."""
    comments, lines = [], []
    header = False
    for line in text.splitlines():
        if line.startswith("#"):
            comments.append(line)
        elif line.startswith('"'):
            assert line == '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'
            header = True
        else:
            assert header
            fields = line.split(",")
            tag = fields.pop(0).removeprefix("Tag=") if fields[0].startswith("Tag=") else ""
            start, length, most, encoded = fields
            counts, sizes = decode(encoded)
            lines.append(Line(tag, float(start), float(length), float(most), counts, sizes))
    return comments, lines


def decode(encoded: str) -> tuple[list[tuple[int, int]], dict[int, int]]:
    """Return (value, count) of each bucket that is not empty, and the width of those buckets by value."""
    data = base64.b64decode(encoded, validate=True)
    cookie, size = struct.unpack_from(">ii", data)
    assert cookie == COMPRESSED_COOKIE | WORD and size == len(data) - 8
    plain = zlib.decompress(data[8:])
    cookie, size, offset, digits, lowest, _highest, ratio = struct.unpack_from(">iiiiqqd", plain)
    assert (cookie, offset, lowest, ratio) == (COOKIE | WORD, 0, 1, 1.0)
    counts, widths = [], {}
    index = 0
    for number in varints(plain[40:40 + size]):
        if number < 0:
            index -= number
            continue
        if number:
            value, width = value_of(index, digits)
            counts.append((value, number))
            widths[value] = width
        index += 1
    return counts, widths


def varints(data: bytes) -> list[int]:
    found = []
    place = 0
    while place < len(data):
        value, shift = 0, 0
        while True:
            byte = data[place]
            place += 1
            if shift == 56:
                value |= byte << shift
                break
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        found.append(value >> 1 ^ -(value & 1))
    return found


def value_of(index: int, digits: int) -> tuple[int, int]:
    """Return lowest value and width of a bucket. The first 2 * 10**digits values, rounded up to a power of two, have
    buckets of their own; then each further half of that many buckets is twice as wide."""
    half = 2 ** math.ceil(math.log2(2 * 10**digits)) // 2
    octave, rest = index // half - 1, index % half + half
    if octave < 0:
        return index, 1
    return rest << octave, 1 << octave
