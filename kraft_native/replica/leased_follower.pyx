"""A follower of a quorum's leader while its core has given it a lease."""

from libc.stdint cimport int64_t

cimport cython

cdef enum:
    NONE_ACCEPTED = -1


@cython.final
cdef class LeasedFollower:
    """Follower of the leader from `begin` to `end`, the lease of its core. It appends the records of each answer, and
    the flusher's thread sends the next Fetch when they are durable. One thread.

    `append(records)` appends plain records and begins to flush them; it returns the log end, or -1 when it did nothing.
    `on_accepted(sends)` is called when an answer was accepted; `sends` is false when the log is durable already, and so
    the next Fetch is not sent.
    """

    def __init__(self, log: DurableLog, append: Callable[[object], int], on_accepted: Callable[[bool], object]) -> None:
        self.log = log
        self.append = append
        self.on_accepted = on_accepted

    def begin(self, int64_t end_offset, fetch: tuple[int, bytes] | None) -> bool:
        """Begin at the log end. `fetch`: descriptor and frame of the Fetch from there; None when it was sent. Return
        False, and do nothing, when it has to be sent now because the log is durable."""
        self.end_offset = end_offset
        self.high_watermark = NONE_ACCEPTED
        self.is_known = self.is_outstanding = fetch is None
        self.is_leased = fetch is None or self.log.send_when_durable(end_offset, *fetch)
        return self.is_leased

    def end(self) -> tuple[int, int, bool]:
        """Accept nothing until `begin`. Return the log end, the high watermark of the last accepted answer (-1 without
        one), and whether the Fetch from the log end was sent. If not, it will not be."""
        self.is_leased = False
        return self.end_offset, self.high_watermark, self.is_sent()

    cdef bint is_sent(self) except -1:
        if not self.is_known:
            self.is_known = True
            self.is_outstanding = self.log.take_back()
        return self.is_outstanding

    cpdef bint accept(self, sender, int64_t high_watermark, records) except -1:  # type: (Sender, int, object) -> bool
        """Process the answer to the Fetch from the log end. False: nothing was done with it."""
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
