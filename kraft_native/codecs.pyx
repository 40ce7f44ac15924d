"""Compression codecs of record batches."""

from kraft_native.errors import UnsupportedCompressionTypeError


cdef int decompress(int codec, const uint8_t* data, Py_ssize_t size, const DecompressLimits* limits, Scratch out) except -1:
    if codec != 0:
        raise UnsupportedCompressionTypeError(f"codec {codec}")
    out.size = 0
    out.put(data, size)
    return 0


cdef int compress(int codec, int level, const uint8_t* data, Py_ssize_t size, Scratch out) except -1:
    if codec != 0:
        raise UnsupportedCompressionTypeError(f"codec {codec}")
    return out.put(data, size)


cdef int codec_id(object codec) except -1:
    return ("none", "gzip", "snappy", "lz4", "zstd").index(codec)


cdef int codec_level(int codec, object level) except? -1:
    return CODEC_LEVEL_DEFAULT
