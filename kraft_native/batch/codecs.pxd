"""Compression codecs of record batches, over mapped or any other memory. Needs the GIL (the codecs are libraries)."""

from libc.stdint cimport int64_t, uint8_t

from kraft_native.file.buffer cimport Scratch


cdef struct DecompressLimits:
    int64_t bytes_max              # of one batch's records, decompressed
    int64_t ratio_max              # decompressed over compressed bytes (applied above 1 MiB of output only)

cdef enum:
    DECOMPRESS_BYTES_MAX_DEFAULT = 128 * 1024 * 1024
    DECOMPRESS_RATIO_MAX_DEFAULT = 32768       # zstd's largest ratio: by default only the size limits


cdef inline DecompressLimits decompress_limits_default() noexcept nogil:
    cdef DecompressLimits limits
    limits.bytes_max = DECOMPRESS_BYTES_MAX_DEFAULT
    limits.ratio_max = DECOMPRESS_RATIO_MAX_DEFAULT
    return limits

# Decompresses into out (out.size is set). Refuses what Kafka's Java client refuses (`wire.md` 2.3). CorruptRecordError:
# undecodable; MessageTooLargeError: past a limit, with at most bytes_max + 64 KiB ever allocated.
cdef int decompress_into(int codec, const uint8_t* data, Py_ssize_t size, const DecompressLimits* limits,
                         Scratch out) except -1

# The same for lz4 in a message of format v0, whose frame descriptor has a wrong checksum (KAFKA-3160): it is ignored.
cdef int decompress_lz4_v0_into(const uint8_t* data, Py_ssize_t size, const DecompressLimits* limits,
                                Scratch out) except -1

# Compresses in the form of Kafka's Java producer, appending to out (after out.size). level: the codec's own scale;
# CODEC_LEVEL_DEFAULT means Kafka's default.
cdef enum:
    CODEC_LEVEL_DEFAULT = -0x80000000
cdef int compress_into(int codec, int level, const uint8_t* data, Py_ssize_t size, Scratch out) except -1

# Number of a codec's name, or the number itself after a check; the level to use for `level` (None: Kafka's default),
# checked against Kafka's range. Both raise InvalidArgumentError.
cdef int codec_id(object codec) except -1
cdef int codec_level(int codec, object level) except? -1
