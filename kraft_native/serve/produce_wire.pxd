"""A Produce request, decoded, and its outcome."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kraft_native.base.span cimport Span
from kraft_native.file.buffer cimport Scratch
from kraft_native.partition.table cimport PartitionTable
from kraft_native.request.permissions cimport Permissions
from kraft_native.request.reply cimport Reply, RequestHandler

cdef enum:
    PRODUCE_VERSION_MIN = 3
    PRODUCE_VERSION_MAX = 13
    PRODUCE_LEADERS_FROM = 10      # the reply names leaders
    PRODUCE_BY_ID_FROM = 13

    # What a step of the decoding returns.
    DECODE_REFUSED = -1            # the body is no such request
    DECODE_MORE = 0                # another step follows
    DECODE_DONE = 1


cdef struct TopicData:
    const uint8_t* key             # name or id, as the request names the topic; inside the request's body
    Py_ssize_t key_bytes
    Py_ssize_t first               # of its partitions in `parts`
    Py_ssize_t count


# One partition of a request: the input, then the outcome.
cdef struct PartitionData:
    const uint8_t* records
    Py_ssize_t records_bytes       # -1: null
    int64_t base_offset
    int64_t log_append_time_ms
    int64_t log_start_offset
    int64_t end_offset             # of the append
    Py_ssize_t position            # of the error code in the reply
    int32_t index
    int32_t leader_id              # reported when this node is not the leader
    int32_t leader_epoch
    int16_t error
    int16_t verdict                # of the transaction's verification: Kafka's error, 0 when none is known
    int16_t outdated               # verifications that a marker made worthless
    bint pending                   # waits for a flush or for replicas


cdef class ProduceData:
    """One request's partitions, each with its input and its outcome. The pointers refer to the request's body."""
    cdef TopicData* topics
    cdef PartitionData* parts
    cdef Py_ssize_t topic_count, topic_capacity, part_count, part_capacity
    cdef int32_t topics_left, parts_left       # to decode; partitions of the last topic in `topics`
    cdef const uint8_t* transactional_id
    cdef Py_ssize_t transactional_id_bytes     # -1: null
    cdef int16_t acks
    cdef int32_t timeout_ms
    cdef Py_ssize_t transactional_place        # of the first transactional batch; -1: none
    cdef int16_t identity_error    # of transactional batches that do not belong together; 0: they do

    cdef dict refusals             # place in `parts` -> (message, record errors), where more than a code is returned
    cdef Py_ssize_t named_total    # records in `refusals`
    cdef list waiting              # Partition of each pending place, in order
    cdef dict verified             # place -> Verification; None: no place was verified

    cdef bint in_use               # by a request that was not concluded yet
    cdef Permissions permissions   # of the client; None: everything is allowed

    cdef Py_ssize_t encoded_topics, encoded_parts      # that the reply has by now
    cdef set leaders               # those that the encoded reply names; None: it names none
    cdef Py_ssize_t tags_at        # where its own tagged fields begin

    cdef int reserve(self, Py_ssize_t topic_count, Py_ssize_t part_count) except -1
    # Decodes all before the topics. False when the body is no such request.
    cdef bint begin(self, Span* body, int version) except -1
    # Decodes topics, and partitions below the place `end`. Returns DECODE_REFUSED, DECODE_MORE or DECODE_DONE.
    cdef int decode_some(self, Span* body, int version, Py_ssize_t end) except -2
    cdef bint decode_topic(self, Span* body, int version) except -1
    cdef bint decode_parts(self, Span* body, bint flexible, Py_ssize_t end) except -1
    # The body, which was at `body`, is at `moved_to` now.
    cdef int move(self, const uint8_t* body, const uint8_t* moved_to) except -1
    # Drops the outcome; for the next request.
    cdef int clear(self) except -1
    # Encodes the whole reply, header included, as the content of `out`. `counter` counts the errors.
    cdef int encode(self, Reply reply, PartitionTable table, RequestHandler counter, Scratch out) except -1
    # The same in steps: `encode_some` encodes some partitions and returns whether that were the last ones.
    cdef int begin_reply(self, Reply reply, Scratch out) except -1
    cdef bint encode_some(self, Reply reply, PartitionTable table, RequestHandler counter, Scratch out) except -1
    cdef int end_reply(self, Reply reply, PartitionTable table, Scratch out) except -1
    cdef int name_leader(self, int32_t leader_id) except -1
    cdef int encode_topic(self, TopicData* topic, int version, PartitionTable table, RequestHandler counter,
                          Scratch out, Py_ssize_t end) except -1
