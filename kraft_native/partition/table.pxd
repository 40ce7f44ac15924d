"""The partitions of this node by topic name, topic id and index; and the addresses of the other nodes."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.partition.partition cimport Partition
from kraft_native.partition.purgatory cimport Purgatory


# The reason why a partition is missing here, and its leader, as far as it is known (-1).
cdef struct Absence:
    int error
    int32_t leader_id
    int32_t leader_epoch


cdef class AbsentTopic:
    """A topic of which a requested partition is not here. Valid for one round of look-ups."""
    cdef bytes key                         # name or id, as the request has it
    cdef bint by_id
    cdef int error                         # of a partition that the topic does not have
    cdef str name
    cdef object partitions                 # index -> object with `leader`, `leader_epoch`; None: the topic is unknown
    cdef object unserved                   # contains (name, index) of replicas here whose log failed
    cdef int32_t node_id

    cdef Absence at(self, int32_t index) except *


cdef class Topic:
    cdef readonly bytes name               # UTF-8
    cdef readonly bytes topic_id           # 16 bytes
    cdef list partitions                   # Partition or None, by index
    cdef Py_ssize_t hosted                 # number of entries that are not None

    # None when the topic has no such partition here.
    cdef Partition at(self, int32_t index)


cdef class PartitionTable:
    """Partitions as requests find them. Loop thread only."""
    cdef readonly Purgatory purgatory
    cdef dict by_name                      # bytes -> Topic
    cdef dict by_id                        # bytes of 16 -> Topic
    cdef Topic latest_by_name              # the last look-up's result: most requests name the same topic
    cdef Topic latest_by_id
    cdef dict endpoints                    # node id -> (host in UTF-8, port, rack in UTF-8 or None)
    cdef public bint reports_endpoints       # clients get them: all connect by the listener that these belong to

    cdef dict racks                        # rack in UTF-8 -> ids of its nodes, as `nodes_in` returns them
    cdef readonly Py_ssize_t partition_count
    # Totals of the removed partitions (see `Partition`).
    cdef readonly int64_t produced_bytes
    cdef readonly int64_t produced_records
    cdef readonly int64_t fetched_bytes
    cdef readonly int64_t refused_produces
    cdef readonly int64_t refused_fetches
    cdef object bring                      # see `expect`; None when all partitions are here
    cdef object absence                    # see `explain`
    cdef AbsentTopic latest_absent         # the last explanation of this round
    cdef dict refusing                     # see `hide`

    # `size` bytes of a name, or of an id when `by_id`; None when unknown.
    cdef Topic find(self, const uint8_t* key, Py_ssize_t size, bint by_id)
    cdef Topic lookup(self, bytes key, bint by_id)
    # For partitions that are not here. Nothing else runs within a round: the result of the last look-up holds until the
    # next `begin_round`.
    cdef int begin_round(self) noexcept
    cdef AbsentTopic absent(self, bytes key, bint by_id)
    # The leader as a reply names it: -1 when its process has ended, as far as is known here (see `hide`).
    cdef int32_t named(self, int32_t leader_id) except -2
    # The tagged fields of a reply that names leaders: the addresses of those nodes, as far as they are known.
    cdef bytes endpoint_tags(self, set node_ids)
    # The same as an array, empty where none is known.
    cdef bytes endpoint_array(self, set node_ids)
    # The ids of the nodes in a rack, an int32_t each.
    cdef bytes nodes_in(self, bytes rack)
