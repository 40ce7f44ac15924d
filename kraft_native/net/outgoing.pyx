"""Replies gathered for one write: small parts joined, large ones sent from where they are.

A reply on the wire is an int32 length and its parts. Parts below `JOIN_BYTES_MAX` are copied together, because a copy
costs less than one more piece of a gathered write; larger ones are sent from where they lie. From `PAGES_BYTES_MIN` on,
the settled part of a mapped file is sent as pages (sendfile), from the first whole page: no copy is needed on this
side.

Bytes that a peer has not accepted yet are memoryviews of the pinned objects and bytes of the joined buffer, for the
transport or for a later write. So their holder has references to everything that is still to be sent, and no memory is
reused before.
"""

from libc.errno cimport EINTR, EINVAL, EIO, errno
from libc.string cimport memset

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_GET_BUFFER

cimport cython

from kraft_native.base.bytes_be cimport store_i32
from kraft_native.file.buffer cimport Mapping, Slice, mapped_file

cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len

cdef extern from "<sys/socket.h>" nogil:
    cdef struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen
    Py_ssize_t sendmsg(int fd, const msghdr* message, int flags)
    enum:
        MSG_DONTWAIT
        MSG_MORE
        MSG_NOSIGNAL

cdef extern from "<sys/sendfile.h>" nogil:
    Py_ssize_t sendfile(int to, int file, int64_t* position, size_t count)

cdef enum:
    JOIN_BYTES_MAX = 16 * 1024
    PAGES_BYTES_MIN = 32 * 1024
    PAGE_BYTES = 4096
    JOINED_KEPT_MAX = 1024 * 1024          # a joined buffer that grew past this is not kept
    TOTAL_BYTES_FULL = 4 * 1024 * 1024     # enough for one write
    REPLY_BYTES_MAX = 0x7FFFFFFF


def plain_descriptor(transport: TransportInfo) -> int:
    """Return the descriptor of a connection, for bytes that do not pass its transport. -1 without a socket, and when
    the connection is encrypted: only the transport can write then."""
    socket = None if transport.get_extra_info("sslcontext") is not None else transport.get_extra_info("socket")
    return -1 if socket is None else socket.fileno()


@cython.final
cdef class Outgoing:
    """One write of a connection. Compiled code only."""

    def __cinit__(self):
        self.joined = Scratch()
        self.pinned = []
        self.piece_count = 0
        self.total_bytes = 0

    cdef bint is_full(self) noexcept:
        return (self.total_bytes >= TOTAL_BYTES_FULL or self.piece_count > PIECES_MAX // 2
                or self.moment_count == MOMENTS_MAX)

    cdef void note(self, const Moments* moments) noexcept:
        if self.moment_count < MOMENTS_MAX:
            self.moments[self.moment_count] = moments[0]
            self.moment_count += 1

    cdef int put_reply(self, Reply reply) except -1:
        cdef uint8_t[4] length = [0, 0, 0, 0]   # known when all parts are added
        cdef Py_ssize_t at = self.joined.size
        cdef Py_ssize_t before
        cdef Py_ssize_t size
        cdef object part
        self.join(length, 4)
        before = self.total_bytes
        for part in reply.parts:
            self.put_part(part)
        size = self.total_bytes - before
        if size > REPLY_BYTES_MAX:
            raise AssertionError(f"a reply of {size} bytes to api key {reply.api_key} does not fit a frame")
        store_i32(self.joined.data + at, <int32_t>size)
        return 0

    cdef int put_body(self, int32_t correlation_id, bytes body) except -1:
        cdef uint8_t head[8]
        store_i32(head, <int32_t>(4 + PyBytes_GET_SIZE(body)))
        store_i32(head + 4, correlation_id)
        self.join(head, 8)
        return self.join(<const uint8_t*>PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body))

    cdef int put_copy(self, const uint8_t* data, Py_ssize_t size) except -1:
        cdef uint8_t[4] length
        store_i32(length, <int32_t>size)
        self.join(length, 4)
        return self.join(data, size)

    cdef int put_back(self, list rest) except -1:
        cdef object part
        assert self.piece_count == 0, "others would leave before what is older"
        for part in rest:
            self.put_part(part)
        return 0

    cdef int put_part(self, object part) except -1:
        cdef Py_buffer* view
        if PyBytes_CheckExact(part):
            return self.put_bytes(part, None, <const uint8_t*>PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))
        if type(part) is Slice:
            return self.put_bytes(part, <Slice>part, (<Slice>part).data, (<Slice>part).size)
        # A memoryview keeps the address fixed while it is pinned.
        part = memoryview(part).cast("B")
        view = PyMemoryView_GET_BUFFER(part)
        return self.put_bytes(part, <Slice>part.obj if type(part.obj) is Slice else None, <const uint8_t*>view.buf,
                              view.len)

    cdef int put_bytes(self, object part, Slice owner, const uint8_t* data, Py_ssize_t count) except -1:
        cdef Piece* piece
        cdef int file = -1
        cdef int64_t position = 0
        cdef Py_ssize_t lead = 0
        # A reply of very many parts: the last piece takes all the rest. One part adds up to two pieces.
        if count <= JOIN_BYTES_MAX or self.piece_count >= PIECES_MAX - 2:
            return self.join(data, count)
        if count >= PAGES_BYTES_MIN and owner is not None and owner.settled and type(owner.owner) is Mapping:
            file = mapped_file(<Mapping>owner.owner)
            if file >= 0:
                position = data - (<Mapping>owner.owner).data
                lead = -position & (PAGE_BYTES - 1)
                if lead > 0:
                    # Pages that begin in the middle of a packet's last one make it, and all after it, smaller.
                    self.join(data, lead)
                    part = memoryview(part)[lead:]
        piece = &self.pieces[self.piece_count]
        piece.data = data + lead
        piece.at = len(self.pinned)
        piece.count = count - lead
        piece.file = file
        piece.position = position + lead
        self.pinned.append(part)
        self.piece_count += 1
        self.total_bytes += count - lead
        return 0

    cdef int join(self, const uint8_t* data, Py_ssize_t count) except -1:
        cdef Piece* piece
        if self.piece_count == 0 or self.pieces[self.piece_count - 1].data != NULL:
            piece = &self.pieces[self.piece_count]
            piece.data = NULL
            piece.at = self.joined.size
            piece.count = 0
            piece.file = -1
            self.piece_count += 1
        self.joined.put(data, count)
        self.pieces[self.piece_count - 1].count += count
        self.total_bytes += count
        return 0

    cdef Py_ssize_t send(self, int fd) noexcept:
        cdef Py_ssize_t sent
        if self.total_bytes < UNLOCK_BYTES_MIN:
            return send_pieces(fd, self.pieces, self.piece_count, self.joined.data)
        with nogil:
            sent = send_pieces(fd, self.pieces, self.piece_count, self.joined.data)
        return sent

    cdef bint has_pages(self, Py_ssize_t sent) noexcept:
        cdef int i
        for i in range(self.piece_count):
            sent -= self.pieces[i].count
            if sent < 0 and self.pieces[i].file >= 0:
                return True
        return False

    cdef list rest(self, Py_ssize_t sent):
        cdef list left = []
        cdef Piece* piece
        cdef int i
        for i in range(self.piece_count):
            piece = &self.pieces[i]
            if sent >= piece.count:
                sent -= piece.count
                continue
            if piece.data == NULL:
                left.append(PyBytes_FromStringAndSize(<char*>self.joined.data + piece.at + sent, piece.count - sent))
            else:
                left.append(memoryview(self.pinned[piece.at])[sent:])
            sent = 0
        return left

    cdef int clear(self) except -1:
        if self.joined.capacity > JOINED_KEPT_MAX:
            self.joined = Scratch()
        self.joined.size = 0
        self.piece_count = 0
        self.total_bytes = 0
        self.moment_count = 0
        if len(self.pinned) > 0:
            self.pinned.clear()
        return 0


cdef Py_ssize_t send_pieces(int fd, Piece* pieces, int count, const uint8_t* joined) noexcept nogil:
    """Send until all is sent or the socket accepts no more: the byte count, or -errno when nothing was sent."""
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t wanted = 0
    cdef Py_ssize_t sent
    cdef int first = 0
    cdef int end
    while first < count:
        end = first
        if pieces[first].file >= 0:
            wanted = pieces[first].count
            sent = send_pages(fd, &pieces[first])
            if sent == -EINVAL:                # not a file of this file system's: send from memory, then
                pieces[first].file = -1
                continue
            end += 1
        else:
            while end < count and pieces[end].file < 0:
                end += 1
            sent = send_memory(fd, &pieces[first], end - first, joined, MSG_MORE if end < count else 0, &wanted)
        if sent < 0:
            return total if total > 0 else sent
        total += sent
        if sent < wanted:
            break
        first = end
    return total


cdef Py_ssize_t send_memory(int fd, const Piece* pieces, int count, const uint8_t* joined, int flags,
                            Py_ssize_t* wanted) noexcept nogil:
    cdef iovec vector[PIECES_MAX]
    cdef msghdr message
    cdef Py_ssize_t sent
    cdef int i
    wanted[0] = 0
    memset(&message, 0, sizeof(msghdr))
    for i in range(count):
        vector[i].iov_base = <void*>(joined + pieces[i].at if pieces[i].data == NULL else pieces[i].data)
        vector[i].iov_len = <size_t>pieces[i].count
        wanted[0] += pieces[i].count
    message.msg_iov = vector
    message.msg_iovlen = <size_t>count
    while True:
        sent = sendmsg(fd, &message, flags | MSG_DONTWAIT | MSG_NOSIGNAL)
        if sent >= 0:
            return sent
        if errno != EINTR:
            return -errno


cdef Py_ssize_t send_pages(int fd, const Piece* piece) noexcept nogil:
    """Send as many pages as the socket accepts. This call may raise SIGPIPE, which the interpreter ignores."""
    cdef int64_t position = piece.position
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t sent
    while total < piece.count:
        sent = sendfile(fd, piece.file, &position, <size_t>(piece.count - total))
        if sent > 0:
            total += sent
        elif sent == 0:                        # shorter than what is mapped of it
            return total if total > 0 else -EIO
        elif errno != EINTR:
            return total if total > 0 else -errno
    return total


cdef object take_front(list rest, Py_ssize_t bytes_max):
    cdef object first = rest[0]
    if len(first) <= bytes_max:
        del rest[0]
        return first
    first = memoryview(first)
    rest[0] = first[bytes_max:]
    return first[:bytes_max]
