"""Compression codecs of record batches: they write what Kafka's Java client writes, and accept no more than it reads.

The libraries do the work (zlib; cramjam for snappy and for reading lz4 blocks; lz4; xxhash; zstandard). The framing
around their blocks is parsed here. So they write straight into the scratch space, and no announced size is trusted
before it is checked. Levels follow Kafka: lz4's default, 9, means the fast compressor; every other lz4 level is the
high-compression one (Kafka's Lz4BlockOutputStream does the same).

Any thread that holds the GIL may call; compressor contexts come from a pool and are never shared.
"""

import zlib

from libc.string cimport memcmp, memcpy
from libc.stdint cimport int32_t, uint32_t

from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory

import cramjam
import lz4.frame
import xxhash
import zstandard

from kraft_native.base.bytes_be cimport load_i32, store_i32
from kraft_native.base.limits cimport CODEC_GZIP, CODEC_LZ4, CODEC_NONE, CODEC_SNAPPY, CODEC_ZSTD, INT32_MAX_VALUE

from kraft_native.base.errors import CorruptRecordError, InvalidArgumentError, MessageTooLargeError

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Kafka's CompressionType: lowest, highest and default level; None where a codec has no levels.
LEVELS: tuple[tuple[int, int, int] | None, ...] = (None, (1, 9, -1), None, (1, 17, 9), (-131072, 22, 3))

cdef enum:
    RATIO_FREE_BYTES = 1024 * 1024     # output up to here is never refused for its ratio
    GROWTH_BYTES_MIN = 64 * 1024
    PIECE_BYTES_MAX = 4 * 1024 * 1024      # of decompressed bytes at a time
    IDLE_CONTEXTS_MAX = 4

cdef object inflater = zlib.decompressobj
cdef object deflate = zlib.compress
cdef object zlib_error = zlib.error
cdef object snappy_inflate = cramjam.snappy.decompress_raw_into
cdef object snappy_deflate = cramjam.snappy.compress_raw_into
cdef object lz4_inflate = cramjam.lz4.decompress_block_into
cdef object lz4_deflate = lz4.frame.compress
cdef object xxh32 = xxhash.xxh32_intdigest
cdef object LZ4_BLOCK_64_KIB = lz4.frame.BLOCKSIZE_MAX64KB
cdef object zstd_error = zstandard.ZstdError
cdef object inflate_error = cramjam.DecompressionError

# Stands for a null pointer.
cdef uint8_t no_bytes = 0
# Idle contexts. A call removes one and puts it back, so that threads never share one.
cdef list zstd_decompressors = []
cdef dict zstd_compressors = {}
# The scratch that `compress` and `decompress` use when called from Python.
cdef list idle_scratches = [Scratch()]


cdef inline object view_read(const uint8_t* data, Py_ssize_t size):
    return PyMemoryView_FromMemory(<char*>data, size, PyBUF_READ)


cdef inline object view_write(uint8_t* data, Py_ssize_t size):
    return PyMemoryView_FromMemory(<char*>data, size, PyBUF_WRITE)


cdef inline uint32_t load_le32(const uint8_t* p) noexcept nogil:
    cdef uint32_t v
    memcpy(&v, p, 4)
    return v


cdef int corrupt(str what) except -1:
    raise CorruptRecordError(what)


cdef int too_large(Py_ssize_t size, Py_ssize_t room) except -1:
    raise MessageTooLargeError(f"{size} compressed bytes decompress to more than {room}, the most allowed here")


cdef Py_ssize_t output_room(Py_ssize_t size, const DecompressLimits* limits) noexcept nogil:
    """Largest decompressed size of `size` compressed bytes."""
    cdef int64_t room = limits.bytes_max
    if limits.ratio_max < INT32_MAX_VALUE:
        room = min(room, max(<int64_t>RATIO_FREE_BYTES, size * limits.ratio_max))
    return <Py_ssize_t>min(room, <int64_t>INT32_MAX_VALUE)


cdef int decompress_into(int codec, const uint8_t* data, Py_ssize_t size, const DecompressLimits* limits,
                         Scratch out) except -1:
    cdef Py_ssize_t room = output_room(size, limits)
    out.size = 0
    # The libraries must never see a null pointer, not even for no bytes: cramjam's snappy reads it.
    out.reserve(1)
    if data == NULL:
        data = &no_bytes
    if codec == CODEC_NONE:
        if size > room:
            return too_large(size, room)
        return out.put(data, size)
    if codec == CODEC_GZIP:
        return gzip_decompress(data, size, room, out)
    if codec == CODEC_SNAPPY:
        return snappy_decompress(data, size, room, out)
    if codec == CODEC_LZ4:
        return lz4_decompress(data, size, True, room, out)
    if codec == CODEC_ZSTD:
        return zstd_decompress(data, size, room, out)
    return corrupt(f"codec {codec}: no such codec")


cdef int decompress_lz4_v0_into(const uint8_t* data, Py_ssize_t size, const DecompressLimits* limits,
                                Scratch out) except -1:
    out.size = 0
    out.reserve(1)
    return lz4_decompress(data, size, False, output_room(size, limits), out)


cdef int compress_into(int codec, int level, const uint8_t* data, Py_ssize_t size, Scratch out) except -1:
    if data == NULL:
        data = &no_bytes
    if codec == CODEC_NONE:
        return out.put(data, size)
    if codec == CODEC_SNAPPY:
        return snappy_compress(data, size, out)
    level = codec_level(codec, None if level == CODEC_LEVEL_DEFAULT else level)
    if codec == CODEC_GZIP:
        return put_bytes(out, deflate(view_read(data, size), level, 31))
    if codec == CODEC_LZ4:
        return lz4_compress(level, data, size, out)
    return zstd_compress(level, data, size, out)


cdef int put_bytes(Scratch out, bytes data) except -1:
    return out.put(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


# --- gzip (RFC 1952)


cdef int gzip_decompress(const uint8_t* data, Py_ssize_t size, Py_ssize_t room, Scratch out) except -1:
    """Decompress members one after the other. Bytes after a member that are no gzip header are ignored, as in Java."""
    cdef Py_ssize_t at = 0
    while True:
        at += gzip_member(data + at, size - at, size if at == 0 else 4096, room, out)
        if size - at < 18 or memcmp(data + at, b"\x1f\x8b\x08", 3) != 0:
            return 0


cdef Py_ssize_t gzip_member(const uint8_t* data, Py_ssize_t size, Py_ssize_t piece, Py_ssize_t room,
                            Scratch out) except -1:
    """Append one member; return its length. Feeds `piece` bytes first, then twice as many each time. The library copies
    the bytes that a member leaves over, and must not copy all the rest for each of many small members."""
    cdef object member = inflater(31)
    cdef Py_ssize_t fed = 0
    cdef Py_ssize_t before = out.size
    cdef object source
    cdef bytes plain
    try:
        while not member.eof:
            source = member.unconsumed_tail
            if not source:
                piece = min(piece, size - fed)
                if piece == 0:
                    corrupt("gzip: cut off")
                source = view_read(data + fed, piece)
                fed += piece
                piece *= 2
            # One byte more than allowed is enough to detect it. The first guess is 8:1, then the output doubles, up to
            # pieces for which the library's copy does not matter.
            plain = member.decompress(source, min(
                room - out.size + 1, <Py_ssize_t>PIECE_BYTES_MAX,
                max(8 * size, 2 * (out.size - before), <Py_ssize_t>GROWTH_BYTES_MIN)))
            put_bytes(out, plain)
            if out.size > room:
                too_large(size, room)
    except zlib_error as error:
        raise CorruptRecordError(f"gzip: {error}") from None
    return fed - PyBytes_GET_SIZE(member.unused_data)


# --- snappy, bare or in xerial's framing


cdef int snappy_decompress(const uint8_t* data, Py_ssize_t size, Py_ssize_t room, Scratch out) except -1:
    cdef Py_ssize_t plain_bytes = snappy_walk(data, size, room, NULL)
    out.reserve(plain_bytes)
    snappy_walk(data, size, plain_bytes, out.data)
    out.size = plain_bytes
    return 0


cdef bytes snappy_plain(const uint8_t* data, Py_ssize_t size, Py_ssize_t room):
    """Run `snappy_decompress` straight into the result: a copy would cost a tenth of the time."""
    cdef Py_ssize_t plain_bytes = snappy_walk(data, size, room, NULL)
    cdef bytes plain = PyBytes_FromStringAndSize(NULL, plain_bytes)
    # The room is now exact, so that bytes which another thread changes meanwhile do no harm.
    snappy_walk(data, size, plain_bytes, <uint8_t*>PyBytes_AS_STRING(plain))
    return plain


cdef Py_ssize_t snappy_walk(const uint8_t* data, Py_ssize_t size, Py_ssize_t room, uint8_t* out) except -1:
    """Walk from block to block; return their decompressed size. Decodes them into `out` unless that is NULL."""
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t plain_bytes = 0
    cdef int32_t length
    if size >= 10 and memcmp(data, b"\xff\x06\x00\x00sNaPpY", 10) == 0:
        return corrupt("snappy: Google's framing format, which Kafka does not read")
    if size < 8 or memcmp(data, b"\x82SNAPPY\x00", 8) != 0:
        return snappy_block(data, size, room, 0, out)
    while at < size:
        # Streams may follow each other, each with its header.
        if size - at >= 8 and memcmp(data + at, b"\x82SNAPPY\x00", 8) == 0:
            if size - at < 16:
                return corrupt("snappy: header cut off")
            if load_i32(data + at + 12) < 1:
                return corrupt(f"snappy: stream compatible with version {load_i32(data + at + 12)}, known is 1")
            at += 16
            continue
        if size - at < 4:
            return corrupt("snappy: block length cut off")
        length = load_i32(data + at)
        at += 4
        if length <= 0 or length > size - at:
            return corrupt(f"snappy: block of {length} bytes with {size - at} left")
        plain_bytes += snappy_block(data + at, length, room, plain_bytes, out)
        at += length
    return plain_bytes


cdef Py_ssize_t snappy_block(const uint8_t* data, Py_ssize_t size, Py_ssize_t room, Py_ssize_t used,
                             uint8_t* out) except -1:
    """Return the block's decompressed size, after the `used` bytes of `out`; decode it unless `out` is NULL."""
    cdef Py_ssize_t at = 0
    cdef int64_t plain_bytes = 0
    while at < 5:
        if at >= size:
            return corrupt("snappy: block without a length")
        plain_bytes |= <int64_t>(data[at] & 0x7F) << (7 * at)
        at += 1
        if data[at - 1] < 0x80:
            break
    # A copy of three bytes yields at most 64: a larger claim is not worth allocating for.
    if plain_bytes > 64 * <int64_t>size:
        return corrupt(f"snappy: {size} bytes cannot become {plain_bytes}")
    if plain_bytes > room - used:
        return too_large(size, room)
    if out != NULL:
        try:
            snappy_inflate(view_read(data, size), view_write(out + used, plain_bytes))
        except inflate_error as error:
            raise CorruptRecordError(f"snappy: {error}") from None
    return plain_bytes


cdef int snappy_compress(const uint8_t* data, Py_ssize_t size, Scratch out) except -1:
    """Compress in xerial's framing with its default blocks of 32 KiB, as snappy-java writes it."""
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t plain_bytes
    cdef Py_ssize_t bound
    cdef Py_ssize_t block_bytes
    out.put(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01", 16)
    while at < size:
        plain_bytes = min(size - at, <Py_ssize_t>32 * 1024)
        bound = 32 + plain_bytes + plain_bytes // 6
        out.reserve(out.size + 4 + bound)
        block_bytes = snappy_deflate(view_read(data + at, plain_bytes), view_write(out.data + out.size + 4, bound))
        store_i32(out.data + out.size, <int32_t>block_bytes)
        out.size += 4 + block_bytes
        at += plain_bytes
    return 0


# --- lz4 frame


cdef Py_ssize_t lz4_header(const uint8_t* data, Py_ssize_t size, bint checked) except -1:
    """Check the frame descriptor like Kafka's Lz4BlockInputStream; return the start of the first block."""
    cdef uint8_t flags
    cdef Py_ssize_t end
    if size < 7 or load_le32(data) != <uint32_t>0x184D2204:
        return corrupt("lz4: no frame")
    flags = data[4]
    if flags >> 6 != 1 or (flags & 0x03) != 0:
        return corrupt(f"lz4: frame flags {flags:#04x}")
    if (flags & 0x20) == 0:
        return corrupt("lz4: blocks that need earlier ones, which Kafka does not read")
    if (data[5] & 0x8F) != 0 or data[5] >> 4 < 4:
        return corrupt(f"lz4: block descriptor {data[5]:#04x}")
    end = 14 if flags & 0x08 else 6
    if size <= end:
        return corrupt("lz4: frame descriptor cut off")
    if checked and data[end] != ((<uint32_t>xxh32(view_read(data + 4, end - 4)) >> 8) & 0xFF):
        return corrupt("lz4: frame descriptor checksum")
    return end + 1


cdef int lz4_decompress(const uint8_t* data, Py_ssize_t size, bint checked, Py_ssize_t room,
                        Scratch out) except -1:
    cdef Py_ssize_t at = lz4_header(data, size, checked)
    cdef bint block_checksum = (data[4] & 0x10) != 0
    cdef Py_ssize_t block_bytes_max = <Py_ssize_t>1 << (8 + 2 * (data[5] >> 4))
    cdef uint32_t mark
    cdef Py_ssize_t block_bytes
    while True:
        if size - at < 4:
            return corrupt("lz4: cut off")
        mark = load_le32(data + at)
        block_bytes = mark & <uint32_t>0x7FFFFFFF
        at += 4
        if block_bytes == 0:
            break
        if block_bytes > block_bytes_max or block_bytes > size - at - (4 if block_checksum else 0):
            return corrupt(f"lz4: block of {block_bytes} bytes with {size - at} left")
        if block_checksum and <uint32_t>xxh32(view_read(data + at, block_bytes)) != load_le32(data + at + block_bytes):
            return corrupt("lz4: block checksum")
        if mark & <uint32_t>0x80000000:
            if block_bytes > room - out.size:
                return too_large(size, room)
            out.put(data + at, block_bytes)
        else:
            lz4_block(data + at, block_bytes, block_bytes_max, room, out)
        at += block_bytes + (4 if block_checksum else 0)
    # The content checksum is skipped, and bytes after the frame are ignored, as in Kafka: the batch has its own.
    if data[4] & 0x04 and size - at < 4:
        return corrupt("lz4: cut off")
    return 0


cdef int lz4_block(const uint8_t* data, Py_ssize_t size, Py_ssize_t block_bytes_max, Py_ssize_t room,
                   Scratch out) except -1:
    # One byte of a block yields at most 255.
    cdef Py_ssize_t space = min(block_bytes_max, 255 * size)
    cdef bint limited = space > room - out.size
    cdef Py_ssize_t plain_bytes
    if limited:
        space = room - out.size
        if space == 0:
            return too_large(size, room)
    out.reserve(out.size + space)
    try:
        plain_bytes = lz4_inflate(view_read(data, size), view_write(out.data + out.size, space), space)
    except inflate_error:
        if limited:
            return too_large(size, room)
        return corrupt("lz4: damaged block")
    out.size += plain_bytes
    return 0


cdef int lz4_compress(int level, const uint8_t* data, Py_ssize_t size, Scratch out) except -1:
    """Write Kafka's frame: independent blocks of 64 KiB, no checksums, no size. The library's levels 3 to 12 are the
    high ones (it treats more as 12); Kafka's two below them become the lowest of those."""
    return put_bytes(out, lz4_deflate(view_read(data, size), compression_level=0 if level == 9 else max(level, 3),
                                      block_size=LZ4_BLOCK_64_KIB, block_linked=False, store_size=False))


# --- zstd


cdef int64_t zstd_frame(const uint8_t* data, Py_ssize_t size, Py_ssize_t* frame_bytes, bint* sized) noexcept nogil:
    """Measure one frame (RFC 8878, 3.1) without decoding it: -1 when it is malformed or cut off, else its largest
    decoded size. The library does not distinguish a cut-off frame from an empty one, and trusts announced sizes."""
    cdef int64_t bound = 0
    cdef Py_ssize_t at
    cdef uint32_t block
    cdef uint8_t flags
    sized[0] = False
    if size < 8:
        return -1
    if (load_le32(data) & <uint32_t>0xFFFFFFF0) == <uint32_t>0x184D2A50:
        frame_bytes[0] = 8 + <Py_ssize_t>load_le32(data + 4)
        return 0 if frame_bytes[0] <= size else -1
    if load_le32(data) != <uint32_t>0xFD2FB528:
        return -1
    flags = data[4]
    sized[0] = (flags & 0xE0) != 0
    at = 5 + (0 if flags & 0x20 else 1) + (4 if flags & 3 == 3 else flags & 3)
    if flags >> 6:
        at += 1 << (flags >> 6)
    elif flags & 0x20:
        at += 1
    while True:
        if size - at < 3:
            return -1
        block = data[at] | (<uint32_t>data[at + 1] << 8) | (<uint32_t>data[at + 2] << 16)
        at += 3
        # Bits 1-2: 0 raw, 1 one byte repeated, 2 compressed (at most 128 KiB), 3 reserved.
        bound += 128 * 1024 if (block >> 1) & 3 == 2 else block >> 3
        at += 1 if (block >> 1) & 3 == 1 else block >> 3
        if at > size or (block >> 1) & 3 == 3:
            return -1
        if block & 1:
            break
    if flags & 4:
        at += 4
    frame_bytes[0] = at
    return bound if at <= size else -1


cdef int zstd_decompress(const uint8_t* data, Py_ssize_t size, Py_ssize_t room, Scratch out) except -1:
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t frame_bytes = 0
    cdef int64_t bound = 0
    cdef int64_t frame_bound
    cdef bint sized = False
    cdef object context
    if size == 0:
        return corrupt("zstd: no frame")
    while at < size:
        frame_bound = zstd_frame(data + at, size - at, &frame_bytes, &sized)
        if frame_bound < 0:
            return corrupt(f"zstd: frame at byte {at} of {size} is malformed or cut off")
        bound += frame_bound
        at += frame_bytes
    context = zstd_decompressors.pop() if zstd_decompressors else zstandard.ZstdDecompressor()
    try:
        if size <= 4096 and frame_bytes == size and not sized and zstd_small(context, data, size, bound, room, out):
            return 0
        zstd_stream(context, data, size, bound, room, out)
    except zstd_error as error:
        raise CorruptRecordError(f"zstd: {error}") from None
    finally:
        if len(zstd_decompressors) < IDLE_CONTEXTS_MAX:
            zstd_decompressors.append(context)
    return 0


cdef int zstd_small(object context, const uint8_t* data, Py_ssize_t size, int64_t bound, Py_ssize_t room,
                    Scratch out) except -1:
    """Decompress in one call: a stream costs twice as much where the output is small. 0: use the stream."""
    cdef bytes plain
    try:
        plain = context.decompress(view_read(data, size), min(bound, 8 * size, room))
    except zstd_error:
        return 0
    put_bytes(out, plain)
    return 1


cdef int zstd_stream(object context, const uint8_t* data, Py_ssize_t size, int64_t bound, Py_ssize_t room,
                     Scratch out) except -1:
    # One byte more than allowed is enough to detect it.
    cdef int64_t space_max = min(bound, <int64_t>room + 1)
    cdef int64_t space = min(space_max, max(<int64_t>8 * size, <int64_t>out.capacity, <int64_t>GROWTH_BYTES_MIN))
    cdef object stream = context.stream_reader(view_read(data, size), read_across_frames=True, closefd=False)
    cdef Py_ssize_t got
    while True:
        out.reserve(space)
        while out.size < space:
            got = stream.readinto(view_write(out.data + out.size, space - out.size))
            if got == 0:
                return 0
            out.size += got
        if out.size > room:
            return too_large(size, room)
        if space == space_max:
            break
        space = min(space_max, 2 * space)
    # As full as the frames can fill it; a checksum may still be unread.
    cdef uint8_t spare
    if stream.readinto(view_write(&spare, 1)) != 0:
        return corrupt("zstd: more bytes than its blocks can hold")
    return 0


cdef int zstd_compress(int level, const uint8_t* data, Py_ssize_t size, Scratch out) except -1:
    cdef list idle = zstd_compressors.get(level)
    cdef object context
    if idle is None:
        if len(zstd_compressors) >= 8:
            zstd_compressors.clear()
        idle = zstd_compressors[level] = []
    context = idle.pop() if idle else zstandard.ZstdCompressor(level=level, write_content_size=False)
    try:
        return put_bytes(out, context.compress(view_read(data, size)))
    finally:
        if len(idle) < IDLE_CONTEXTS_MAX:
            idle.append(context)


# --- names, levels, Python


cdef int codec_id(object codec) except -1:
    if isinstance(codec, str):
        if codec in CODECS:
            return CODECS.index(codec)
    elif isinstance(codec, int) and 0 <= codec < 5:
        return codec
    raise InvalidArgumentError(f"codec {codec!r}: one of {', '.join(CODECS)}")


cdef int codec_level(int codec, object level) except? -1:
    if level is None:
        return CODEC_LEVEL_DEFAULT if LEVELS[codec] is None else LEVELS[codec][2]
    if LEVELS[codec] is None:
        raise InvalidArgumentError(f"level {level!r}: {CODECS[codec]} has no levels")
    lowest, highest, default = LEVELS[codec]
    if not isinstance(level, int) or not (lowest <= level <= highest or level == default):
        raise InvalidArgumentError(f"level {level!r}: {CODECS[codec]} takes {lowest} to {highest}"
                                   f"{'' if lowest <= default else f', or {default}'}")
    return level


cdef Scratch scratch_take():
    return idle_scratches.pop() if idle_scratches else Scratch()


cdef int scratch_give(Scratch scratch) except -1:
    if not idle_scratches:
        idle_scratches.append(scratch if scratch.capacity <= 4 * 1024 * 1024 else Scratch())
    return 0


def compress(codec: str | int, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data`, any contiguous buffer, as Kafka's Java producer compresses a batch's records.

    `codec` is none, gzip, snappy, lz4 or zstd; `level` None means Kafka's default. InvalidArgumentError for others.
    """
    cdef Scratch out
    cdef Py_buffer view
    cdef int number = codec_id(codec)
    cdef int checked = codec_level(number, level)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    out = scratch_take()
    out.size = 0
    try:
        compress_into(number, checked, <const uint8_t*>view.buf, view.len, out)
        return bytes(out)
    finally:
        scratch_give(out)
        PyBuffer_Release(&view)


def decompress(codec: str | int, data: Buffer, *, max_bytes: int = DECOMPRESS_BYTES_MAX_DEFAULT,
               max_ratio: int = DECOMPRESS_RATIO_MAX_DEFAULT) -> bytes:
    """The input of `compress`, from its result `data`, any contiguous buffer. Accepts what Kafka's Java consumer
    accepts.

    CorruptRecordError when it cannot be decoded. MessageTooLargeError when it would become more than `max_bytes`, or
    more than 1 MiB and `max_ratio` times its size; never more than `max_bytes` is allocated to detect that.
    """
    cdef Scratch out
    cdef DecompressLimits limits
    cdef Py_buffer view
    cdef int number = codec_id(codec)
    if max_bytes < 0 or max_ratio < 1:
        raise InvalidArgumentError(f"max_bytes {max_bytes}: 0 or more; max_ratio {max_ratio}: 1 or more")
    limits.bytes_max = max_bytes
    limits.ratio_max = max_ratio
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    out = scratch_take()
    try:
        if number == CODEC_SNAPPY:
            return snappy_plain(<const uint8_t*>view.buf if view.buf != NULL else &no_bytes, view.len,
                                output_room(view.len, &limits))
        decompress_into(number, <const uint8_t*>view.buf, view.len, &limits, out)
        return bytes(out)
    finally:
        scratch_give(out)
        PyBuffer_Release(&view)
