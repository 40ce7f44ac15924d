"""State that follows from a batch in the log: epochs, producers, transactions. Used by append and replay."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.batch.batch cimport BatchHeader
from kraft_native.segment.producers cimport ProducerStates
from kraft_native.segment.segment cimport Segment


# The key and value of a control batch's first record; -1 in both when it has none (compaction leaves such batches).
cdef struct ControlMark:
    int32_t kind
    int32_t coordinator_epoch

# Reads it from a whole batch in memory. CorruptRecordError when the record is malformed.
cdef int read_control(const uint8_t* batch, const BatchHeader* h, ControlMark* mark) except -1

# Applies a written batch to the producers' state; an abort also goes to the transaction index of `segment`, unless that
# is None.
cdef int apply_batch(ProducerStates producers, Segment segment, const BatchHeader* h, const ControlMark* mark) except -1

# Walks the sound batches of `segment` whose last offset is >= `from_offset`, and applies each to the producers. Returns
# the offset after the last one (at least `from_offset`). The transaction index is left as it is.
cdef int64_t replay_segment(Segment segment, int64_t from_offset, ProducerStates producers) except? -1
