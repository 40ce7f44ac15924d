"""Producer snapshot files, for compiled callers."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.segment.producer_entry cimport KeptBatch, ProducerEntry

# The whole file.
cdef bytes encode_snapshot(const ProducerEntry* entries, int32_t count)
# Count of entries in the file, after all checks of its frame. CorruptFileError; `path` is for the message.
cdef int32_t snapshot_count(object path, bytes data) except -1
# One entry of a file that `snapshot_count` has checked.
cdef void snapshot_entry(bytes data, int32_t index, ProducerEntry* e) noexcept
# Count of earlier batches (before the last one of their producer) in such a file of `count` entries.
cdef int32_t earlier_count(bytes data, int32_t count) noexcept
# One of them; returns its producer.
cdef int64_t earlier_batch(bytes data, int32_t count, int32_t index, KeptBatch* kept) noexcept
# Puts it before the last batch of its producer, whose earlier ones come in order. False: it does not fit there.
cdef bint put_earlier(ProducerEntry* e, const KeptBatch* kept) noexcept
# The entry as a ProducerState.
cdef object describe_entry(const ProducerEntry* e)
