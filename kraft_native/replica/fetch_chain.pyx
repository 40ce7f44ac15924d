"""A follower's handling of answers that its core learns of later."""

from libc.stdint cimport int64_t

cimport cython


@cython.final
cdef class FetchChain:
    """See the stub."""

    def __init__(self, log, append, on_accepted) -> None:
        self.log = log
        self.append = append
        self.on_accepted = on_accepted

    def begin(self) -> None:
        self.is_open = True
        self.is_known = self.has_left = False
        self.more = None

    def end(self) -> tuple:
        self.is_open = False
        more, self.more = self.more, None
        return self.is_sent(), more

    cdef bint is_sent(self) except -1:
        if not self.is_known:
            self.is_known = True
            self.has_left = self.log.take_back()
        return self.has_left

    cpdef bint take(self, sender, like, int64_t high_watermark, records) except -1:
        cdef int64_t end_offset
        if not self.is_open or not self.is_sent():
            return False
        end_offset = self.append(records)
        if end_offset < 0:
            return False
        self.more = like, high_watermark, records
        self.is_known = False
        fd, frame = sender.next_fetch(end_offset, min(high_watermark, end_offset))
        self.on_accepted(self.log.send_when_durable(end_offset, fd, frame))
        return True
