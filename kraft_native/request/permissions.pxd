"""Permissions of clients, as far as they were decided before."""

from libc.stdint cimport int64_t, uint8_t

cdef enum:
    # Kafka's codes of operations; bits of rights are at these places.
    OPERATION_READ = 3
    OPERATION_WRITE = 4
    OPERATION_CLUSTER_ACTION = 9
    # Kafka's codes of resource types.
    RESOURCE_TOPIC = 2
    RESOURCE_GROUP = 3
    RESOURCE_CLUSTER = 4
    RESOURCE_TRANSACTIONAL_ID = 5


cdef class Permissions:
    """Decisions about one principal from one host. Its connections share it. Loop thread only."""
    cdef readonly object principal  # type: object
    cdef readonly str host
    cdef PermissionCache cache
    cdef int64_t version           # of the cache, when `basis` was compared the last time
    cdef tuple basis               # the objects that the decisions follow from
    cdef dict topics               # name in UTF-8 -> bits of the allowed operations
    cdef dict transactional_ids
    cdef dict groups
    cdef int64_t cluster           # the same for the cluster; -1: not decided
    cdef object __weakref__

    # Forgets the decisions, unless what they follow from is the same.
    cdef int renew(self) except -1
    cdef int64_t decide(self, dict known, int resource_type, bytes name) except -1
    # Bits of the operations that are allowed on a topic, by its name in UTF-8.
    cdef int64_t on_topic(self, bytes name) except -1
    cdef int64_t on_transactional_id(self, bytes name) except -1
    cdef int64_t on_group(self, bytes name) except -1
    cdef int64_t on_cluster(self) except -1
    # Reports that a request was refused for want of a permission. `name` is that of the resource; with `by_id` the id
    # of a topic, for the cluster it is empty. Only a refused request has the cost of this.
    cdef int report(self, object reply, int resource_type, int operation, bytes name, bint by_id) except -1


cdef class PermissionCache:
    """Decisions of the authorizer that compiled code needs, by principal and host. Loop thread only."""
    cdef object decided_by
    cdef object basis_of
    cdef int64_t version
    cdef object known              # (principal, host) -> Permissions, as long as a connection has it
    cdef readonly int64_t decisions
    # type: Callable[[Reply, int, int, bytes, bool], object] | None
    cdef public object on_refused  # gets the reply, resource type, operation, name, and whether it is a topic's id

    # Those of a connection's client.
    cdef Permissions of(self, object sink)
