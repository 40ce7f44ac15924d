"""Refusal of a topic to a client.

A topic that a request names by its name is refused before it is searched. One that it names by its id is refused
once the id is known. So a client learns nothing about topics that it may not use, but whether an id exists.
"""

from libc.stdint cimport int16_t

from kraft_native.base.fault cimport ERROR_NONE, ERROR_TOPIC_AUTHORIZATION_FAILED
from kraft_native.partition.table cimport AbsentTopic


cdef int16_t topic_error(PartitionTable table, Permissions permissions, int operation, bytes name, bytes key,
                         bint by_id) except -1:
    cdef AbsentTopic absent
    if name is None and by_id:
        absent = table.absent(key, True)
        if not absent.name:
            return ERROR_NONE                  # UNKNOWN_TOPIC_ID follows
        name = absent.name.encode()
    elif name is None:
        name = key
    return ERROR_NONE if permissions.on_topic(name) >> operation & 1 else ERROR_TOPIC_AUTHORIZATION_FAILED
