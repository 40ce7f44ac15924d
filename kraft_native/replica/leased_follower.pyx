"""A follower of a quorum's leader while its core has given it a lease."""

from libc.stdint cimport int64_t

cimport cython

cdef enum:
    NONE_ACCEPTED = -1


@cython.final
cdef class LeasedFollower:
    """See the stub."""

    def __init__(self, log, append, on_accepted) -> None:
        self.log = log
        self.append = append
        self.on_accepted = on_accepted

    def begin(self, int64_t end_offset, fetch) -> bool:
        self.end_offset = end_offset
        self.high_watermark = NONE_ACCEPTED
        self.is_known = self.is_outstanding = fetch is None
        self.is_leased = fetch is None or self.log.send_when_durable(end_offset, *fetch)
        return self.is_leased

    def end(self) -> tuple:
        self.is_leased = False
        return self.end_offset, self.high_watermark, self.is_sent()

    cdef bint is_sent(self) except -1:
        if not self.is_known:
            self.is_known = True
            self.is_outstanding = self.log.take_back()
        return self.is_outstanding

    cpdef bint accept(self, sender, int64_t high_watermark, records) except -1:
        cdef int64_t end_offset
        if not self.is_leased or not self.is_sent():
            return False
        end_offset = self.append(records)
        if end_offset < 0:
            return False
        self.end_offset = end_offset
        self.high_watermark = high_watermark
        self.is_known = False
        fd, frame = sender.next_fetch(end_offset, min(high_watermark, end_offset))
        self.on_accepted(self.log.send_when_durable(end_offset, fd, frame))
        return True
