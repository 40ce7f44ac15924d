"""Permissions of clients, as far as they were decided before: so a request that was allowed once runs no Python.

The authorizer decides (`kraft.security.authorizer`). A decision is kept for each principal, host and name, until the
entries change from which decisions about the principal follow. Changes of other principals' entries are noticed by one
comparison of each principal.

Clients choose the names that they request, so only a number of them is kept.
"""

from weakref import WeakValueDictionary

from libc.stdint cimport int64_t

cimport cython

cdef enum:
    NAMES_KEPT = 10_000

cdef bytes CLUSTER_NAME = b"kafka-cluster"


@cython.final
cdef class Permissions:
    """Permissions of one client. Connections get them from a `PermissionCache`."""

    cdef int renew(self) except -1:
        cdef tuple basis = self.cache.basis_of(self.principal)
        cdef Py_ssize_t place
        cdef bint is_same = self.basis is not None and len(basis) == len(self.basis)
        for place in range(len(basis)):
            is_same = is_same and basis[place] is self.basis[place]
        if not is_same:
            self.topics = {}
            self.transactional_ids = {}
            self.groups = {}
            self.cluster = -1
            self.basis = basis
        self.version = self.cache.version
        return 0

    cdef int64_t decide(self, dict known, int resource_type, bytes name) except -1:
        cdef int64_t bits = self.cache.decided_by(
            self.principal, self.host, resource_type, name.decode(errors="replace"))
        self.cache.decisions += 1
        if known is not None:
            if len(known) >= NAMES_KEPT:
                known.clear()
            known[name] = bits
        return bits

    cdef int64_t on_topic(self, bytes name) except -1:
        cdef object bits
        if self.version != self.cache.version:
            self.renew()
        bits = self.topics.get(name)
        return self.decide(self.topics, RESOURCE_TOPIC, name) if bits is None else <int64_t>bits

    cdef int64_t on_transactional_id(self, bytes name) except -1:
        cdef object bits
        if self.version != self.cache.version:
            self.renew()
        bits = self.transactional_ids.get(name)
        if bits is None:
            return self.decide(self.transactional_ids, RESOURCE_TRANSACTIONAL_ID, name)
        return <int64_t>bits

    cdef int64_t on_group(self, bytes name) except -1:
        cdef object bits
        if self.version != self.cache.version:
            self.renew()
        bits = self.groups.get(name)
        return self.decide(self.groups, RESOURCE_GROUP, name) if bits is None else <int64_t>bits

    cdef int64_t on_cluster(self) except -1:
        if self.version != self.cache.version:
            self.renew()
        if self.cluster < 0:
            self.cluster = self.decide(None, RESOURCE_CLUSTER, CLUSTER_NAME)
        return self.cluster

    cdef int report(self, object reply, int resource_type, int operation, bytes name, bint by_id) except -1:
        if self.cache.on_refused is not None:
            self.cache.on_refused(reply, resource_type, operation, name, by_id)
        return 0

    def may(self, int operation, bytes topic not None) -> bool:
        """Return whether the operation of that code is allowed on a topic, by its name in UTF-8."""
        return self.on_topic(topic) >> operation & 1

    def may_use(self, int operation, bytes transactional_id not None) -> bool:
        """Return the same for a transactional id."""
        return self.on_transactional_id(transactional_id) >> operation & 1

    def may_on_cluster(self, int operation) -> bool:
        """Return the same for the cluster."""
        return self.on_cluster() >> operation & 1


@cython.final
cdef class PermissionCache:
    """Cache of one node's decisions.

    `decided_by(principal, host, resource type, name)` returns the bits of the allowed operations, each at its code.
    `basis_of(principal)` returns the objects from which decisions about a principal follow: they are the same objects
    as long as the decisions are the same. `on_refused`: see the field; None where nobody wants to know.
    """

    def __init__(self, decided_by not None: Callable[[Any, str, int, str], int],
                 basis_of not None: Callable[[Any], tuple[object, ...]]):
        self.decided_by = decided_by
        self.basis_of = basis_of
        self.known = WeakValueDictionary()

    def changed(self) -> None:
        """Compare, before the next decision about each principal, what it follows from."""
        self.version += 1

    def find(self, principal: object, str host not None) -> Permissions:
        """Return the permissions of a principal from a host."""
        cdef Permissions found = self.known.get((principal, host))
        if found is None:
            found = Permissions.__new__(Permissions)
            found.principal = principal
            found.host = host
            found.cache = self
            found.version = self.version - 1
            found.cluster = -1
            self.known[principal, host] = found
        return found

    cdef Permissions of(self, object sink):
        return self.find(sink.principal, getattr(sink, "peer_host", ""))
