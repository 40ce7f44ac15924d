"""Shares of the loop's time: work longer than a slice is resumed in a later iteration, in a fair queue."""

from libc.stdint cimport int64_t

from kraft_native.request.endpoint cimport Endpoint
from kraft_native.request.reply cimport Reply


cdef class Steps:
    """One request's work as a generator."""
    cdef Reply reply
    cdef object work
    cdef int slices                # number of slices used up
    cdef bint outlives             # its work is finished even if the connection of `reply` is closed
    cdef bint is_large             # its request is: it is long from the first slice that it used up
    cdef bint is_long              # one of the `LONG_MAX`
    cdef bint is_freeing           # its work is to free objects; never one of the `LONG_MAX`
    cdef list held                 # containers that only its work owned when its slice began


cdef class SliceQueue:
    """Work of one loop that is resumed in slices. Loop thread only."""
    cdef object call_soon
    cdef object on_failure
    cdef object fresh              # deque: endpoints without a slice since they were read from, only requests with one
    cdef object waiting            # deque: endpoints and Steps that used up a slice

    cdef object crowd              # deque: long Steps beyond `LONG_MAX`, until others are done
    cdef Steps current             # the work in progress; None: none
    cdef readonly int64_t long_count   # Steps that are long, and not in `crowd`
    cdef readonly int64_t turn_ns      # the slice that an endpoint has now
    cdef bint due                  # `run` will be called
    cdef int64_t ahead_ns          # how much more time the fresh ones had while both waited
    cdef readonly int64_t slice_ns
    cdef readonly int64_t iteration_ns
    cdef readonly int64_t spent_ns     # outside of `run` since it ran last
    cdef readonly int64_t iterations
    cdef readonly int64_t deferred     # endpoints that used up a slice
    cdef readonly dict used_up  # type: dict[int, int]  # api key -> requests that used up a slice
    # type: dict[int, int]
    cdef readonly dict longest_ns      # api key -> the longest step; -1: the longest slice of an endpoint

    # Whether an endpoint that was read from must wait for `run`: others used up the iteration.
    cdef bint is_spent(self) noexcept
    # Has the endpoint's `take_slice` called in one of the next iterations.
    cdef int add(self, Endpoint endpoint, bint fresh) except -1
    # Keeps what the work owns by now, so that its last step does not free it; frees what it does not own any more.
    cdef int look(self, Steps steps) except -1
    # Has what ended work owned freed in later iterations.
    cdef int release(self, Steps steps) except -1
    # Has `work`, a generator, done from a later iteration on.
    cdef int later(self, Reply reply, object work, bint outlives) except -1
    # Queues it again: there is more to do after a slice.
    cdef int keep(self, Steps steps) except -1
    # Counts work that has ended.
    cdef int end(self, Steps steps) except -1
    # Whether it is the only request of its connection, and has used up one slice.
    cdef bint is_only_request(self, Steps steps) except -1
    # Gives an endpoint its slice.
    cdef int give_slice(self, Endpoint endpoint) except -1
    # Slice of a fresh endpoint: after a long wait all of its kind share the iteration.
    cdef int64_t fresh_turn_ns(self) noexcept
    # Counts time that an endpoint worked outside of `run`.
    cdef int spend(self, int64_t time_ns) except -1
    # Counts a long step. If the thread's clock was read before it, time that the machine gave to others does not count.
    cdef int note(self, int key, int64_t time_ns, int64_t thread_began_ns) except -1
    # Works until `until_ns`; returns whether more is to be done.
    cdef bint advance(self, Steps steps, int64_t until_ns) except -1
    cdef int schedule(self) except -1
