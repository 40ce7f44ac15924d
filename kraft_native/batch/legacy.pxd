"""Message sets of formats v0 and v1: one message, and the content of a compressed one."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t

from kraft_native.batch.codecs cimport DecompressLimits
from kraft_native.file.buffer cimport Scratch


cdef enum:
    LEGACY_CRC = 12
    LEGACY_MAGIC = 16                  # where v2 has it, too
    LEGACY_ATTRIBUTES = 17
    LEGACY_MESSAGE_BYTES_MIN = 26      # of format v0, with a null key and a null value


# One message's fields, pointing into the bytes it was read from.
cdef struct LegacyMessage:
    int64_t offset                     # of a compressed message: that of the last message inside
    int64_t timestamp                  # -1 in format v0
    const uint8_t* key
    const uint8_t* value
    int32_t key_bytes                  # -1: null
    int32_t value_bytes                # -1: null
    int32_t length                     # bytes after the length field
    uint32_t crc
    int8_t magic
    int8_t attributes                  # codec and timestamp type, at the bits that v2 has them at


# Reads the message at p[0:left]: 1 when it is whole and its lengths fit; -1 when it is malformed. 0 when the bytes end
# inside it; then those fields are set that need no more than the first 26 bytes, if so many are present.
cdef int legacy_message(const uint8_t* p, Py_ssize_t left, LegacyMessage* m) noexcept nogil

# The CRC-32 of a whole message, to be compared with its `crc`.
cdef uint32_t legacy_crc(const uint8_t* p, int32_t length) noexcept nogil


# Offsets and count of the messages in a message.
cdef struct LegacySet:
    int64_t first_offset
    int64_t first_timestamp
    int32_t count


# Finds the content of a whole message with a right CRC: itself, or the messages compressed in it, for which the
# interpreter lock is acquired. An unreadable set (undecodable, over the default limits, no memory) counts as one record
# at the message's offset; reading the records then raises the cause.
cdef void legacy_survey(const LegacyMessage* m, LegacySet* found) noexcept nogil

# Writes the records of a whole message in the form of v2's records, for a batch with these base values. Raises
# CorruptRecordError or MessageTooLargeError.
cdef int legacy_records(const uint8_t* p, int64_t base_offset, int64_t base_timestamp, const DecompressLimits* limits,
                        Scratch out) except -1
