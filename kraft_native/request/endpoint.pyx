"""A connection as other parts see it: the memory that it waits for, the channel that schedules it."""


cdef class Endpoint(ReplySink):
    """Abstract; the connection is the only subclass."""

    cdef int take_turn(self) except -1:
        raise AssertionError(f"{type(self).__name__} does not say what it does with its turn")

    cdef int take_slice(self) except -1:
        raise AssertionError(f"{type(self).__name__} does not say what it does with its slice")

    cdef bint has_one_request(self) except -1:
        raise AssertionError(f"{type(self).__name__} does not say how many requests it has read")

    cdef int memory_available(self) except -1:
        raise AssertionError(f"{type(self).__name__} does not say what it does with memory")

    cdef int sweep(self, int64_t now_ms) except -1:
        raise AssertionError(f"{type(self).__name__} does not say how it ages")

    cdef int abort(self, str reason) except -1:
        raise AssertionError(f"{type(self).__name__} does not say how it ends")

    cdef int drain(self) except -1:
        raise AssertionError(f"{type(self).__name__} does not say how it drains")
