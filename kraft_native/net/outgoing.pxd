"""Replies gathered for one write: small parts joined, large ones sent from where they are."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kraft_native.file.buffer cimport Scratch, Slice
from kraft_native.request.reply cimport Reply
from kraft_native.request.times cimport Moments

cdef enum:
    PIECES_MAX = 64
    MOMENTS_MAX = 256
    UNLOCK_BYTES_MIN = 64 * 1024   # from here on the interpreter lock is released while the kernel copies


cdef struct Piece:
    const uint8_t* data            # NULL: `count` bytes of the joined buffer, from `at`
    Py_ssize_t at                  # for a pinned piece: its index in `pinned`
    Py_ssize_t count
    int file                       # descriptor of the file whose pages are sent instead of `data`; -1: none
    int64_t position               # where `data` is in that file


cdef class Outgoing:
    """One write of a connection. Shared by all connections of a loop: it is filled, sent and emptied without anything
    else running between."""
    cdef Scratch joined
    cdef Piece pieces[64]
    cdef int piece_count
    cdef readonly Py_ssize_t total_bytes
    cdef list pinned               # keeps the large parts alive until they are sent
    cdef Moments[256] moments      # of the requests whose replies are in it, or that have none
    cdef Py_ssize_t moment_count

    # Records a request that leaves with this write. Not called when it is full.
    cdef void note(self, const Moments* moments) noexcept

    # Appends length and parts of an answered reply.
    cdef int put_reply(self, Reply reply) except -1
    # Appends a whole reply: length, correlation id, `body`. For response header version 0.
    cdef int put_body(self, int32_t correlation_id, bytes body) except -1
    # Appends a whole reply of `size` bytes, header included.
    cdef int put_copy(self, const uint8_t* data, Py_ssize_t size) except -1
    cdef bint is_full(self) noexcept
    # Sends to a non-blocking socket. Returns the byte count, or -errno.
    cdef Py_ssize_t send(self, int fd) noexcept
    # The rest after `sent` bytes, as objects that own or pin their bytes.
    cdef list rest(self, Py_ssize_t sent)
    # True when pages of files are in the rest after `sent` bytes.
    cdef bint has_pages(self, Py_ssize_t sent) noexcept
    # Continues with the result of `rest`. Nothing else is in it.
    cdef int put_back(self, list rest) except -1
    cdef int clear(self) except -1
    cdef int put_part(self, object part) except -1
    cdef int put_bytes(self, object part, Slice owner, const uint8_t* data, Py_ssize_t count) except -1
    cdef int join(self, const uint8_t* data, Py_ssize_t count) except -1


# Removes at most `bytes_max` bytes from the front of a result of `rest`.
cdef object take_front(list rest, Py_ssize_t bytes_max)
