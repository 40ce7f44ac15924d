"""Share sessions (KIP-932; Kafka's ShareSessionCache).

A member of a share group has one session with each broker that it fetches from. The session has the partitions that the
member named, and counts its requests: epoch 0 begins one, -1 ends it, any other must be the next number.

A session ends with the connection of its last request, too. Then `left` is called for the connection.
"""

from libc.stdint cimport int64_t

cimport cython

from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    SESSIONS_MAX_DEFAULT = 2000


@cython.final
cdef class ShareEntry:
    pass


@cython.final
cdef class ShareSession:
    """One member's session."""

    def __len__(self) -> int:
        return len(self.entries)


@cython.final
cdef class ShareSessions:
    """All share sessions of a node. group.share.max.share.sessions is `sessions_max`. `on_connection(connection)` is
    called when a connection gets its first session: `left` has to be called when it closes."""

    def __init__(self, int64_t sessions_max=SESSIONS_MAX_DEFAULT, *,
                 on_connection: Callable[[ReplySink], object] | None = None):
        if sessions_max < 1:
            raise InvalidArgumentError(f"sessions_max: {sessions_max} is below 1")
        self.sessions_max = sessions_max
        self.on_connection = on_connection
        self.sessions = {}
        self.by_sink = {}
        self.counts = {}

    def __len__(self) -> int:
        return len(self.sessions)

    def limit(self, int64_t sessions_max) -> None:
        """Set how many sessions may exist. Those that exist stay."""
        self.sessions_max = sessions_max

    def get(self, bytes group not None, bytes member not None) -> ShareSession | None:
        """Return a member's session."""
        return self.find(group, member)

    cdef ShareSession find(self, bytes group, bytes member):
        return self.sessions.get((group, member))

    cdef ShareSession open(self, bytes group, bytes member, ReplySink sink):
        cdef ShareSession session
        if len(self.sessions) >= self.sessions_max:
            return None
        session = ShareSession.__new__(ShareSession)
        session.group = group
        session.member = member
        session.epoch = 1
        session.entries = {}
        self.sessions[group, member] = session
        self.counts[group] = self.counts.get(group, 0) + 1
        self.move(session, sink)
        return session

    cdef int move(self, ShareSession session, ReplySink sink) except -1:
        cdef dict beside
        if session.sink is sink:
            return 0
        self.leave_sink(session)
        session.sink = sink
        if sink is not None:
            beside = self.by_sink.get(sink)
            if beside is None:
                beside = self.by_sink[sink] = {}
                if self.on_connection is not None:
                    self.on_connection(sink)
            beside[session] = None
        return 0

    cdef int leave_sink(self, ShareSession session) except -1:
        cdef dict beside = None if session.sink is None else self.by_sink.get(session.sink)
        if beside is not None:
            beside.pop(session, None)
        session.sink = None
        return 0

    cdef int close(self, ShareSession session) except -1:
        if self.sessions.get((session.group, session.member)) is session:
            del self.sessions[session.group, session.member]
            if self.counts[session.group] > 1:
                self.counts[session.group] -= 1
            else:
                del self.counts[session.group]
        return self.leave_sink(session)

    cdef bint has_group(self, bytes group):
        return group in self.counts

    def left(self, ReplySink connection not None) -> list[ShareSession]:
        """Remove the sessions of a connection that has closed, and return them."""
        cdef ShareSession session
        cdef list ended = list(self.by_sink.pop(connection, ()))
        for session in ended:
            session.sink = None
            self.close(session)
        return ended
