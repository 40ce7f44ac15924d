"""Refusal of a topic to a client."""

from libc.stdint cimport int16_t

from kraft_native.partition.table cimport PartitionTable
from kraft_native.request.permissions cimport Permissions

# TOPIC_AUTHORIZATION_FAILED, or 0 when the operation is allowed. `name` is that of a topic with a partition here; else
# it is None, and `key` is the topic's name or id as the request has it.
cdef int16_t topic_error(PartitionTable table, Permissions permissions, int operation, bytes name, bytes key,
                         bint by_id) except -1
