"""Large objects freed in steps, so that a loop can serve others between them."""


cdef class Freeing:
    """Iterator that frees what is in `held`, a step each time. Any thread, one at a time."""
    cdef list held


# Returns the large containers that only `work` owns, a suspended generator; `before` is an earlier result that is still
# referred to.
cpdef list containers_of(object work, list before=*)
