"""Fetch requests, versions 4 to 18 (Kafka's handleFetchRequest, ReplicaManager.fetchMessages and DelayedFetch).

All partitions are read, in order, while MaxBytes lasts. The first batch of the first partition that has any is sent
whole, whatever the limits, so that a batch larger than a limit blocks no client. Later partitions may get nothing.
Batches are never cut. The reply is encoded around pinned slices of the logs, which are not copied.

A fetch is answered at once when it has MinBytes, or an error, or a diverging epoch, or no time to wait. Otherwise it
waits in the purgatory. A waiting fetch adds up the bytes that its partitions report. Only when the sum could reach
MinBytes does it read again, which gives the exact number.

A request with very many partitions is decoded, read and answered in slices of the loop's time (`request/slices.pyx`).
Nothing further of its connection is processed until it is answered.

Another thread loads data that is not in memory; before that, the index that says where the data is. The fetch reads
again when all of it has arrived, a few times at most.

Sessions (V7): `fetch_session.pyx`. (0, 0) begins one, (id, n) continues it, (id, 0) replaces it with another, (id, -1)
ends it, (0, -1) is without. Errors: unknown id 70, wrong epoch 71, by name where it was by id or the reverse 106; their
replies have no partitions. A session's reply has the partitions with records, an error, a new high watermark or a new
log start; those with records move to the end of the session's order.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

cimport cython

from kraft_native.base.clock cimport monotonic_ms
from kraft_native.base.fault cimport (
    ERROR_FETCH_SESSION_ID_NOT_FOUND, ERROR_FETCH_SESSION_TOPIC_ID_ERROR, ERROR_INVALID_FETCH_SESSION_EPOCH, ERROR_NONE,
    ERROR_TOPIC_AUTHORIZATION_FAILED,
)
from kraft_native.log.core cimport ISOLATION_HIGH_WATERMARK, ISOLATION_LAST_STABLE, ISOLATION_LOG_END
from kraft_native.partition.purgatory cimport PARKED_FETCH
from kraft_native.request.permissions cimport OPERATION_CLUSTER_ACTION, RESOURCE_CLUSTER
from kraft_native.request.reply cimport permissions_of
from kraft_native.serve.fetch_entry cimport FetchEntry, ReadRules
from kraft_native.serve.fetch_wire cimport (
    FETCH_BY_ID_FROM, FETCH_DECODED, FETCH_DECODES, FETCH_PARTITIONS_MAX, FETCH_VERSION_MAX, FETCH_VERSION_MIN,
    FetchCursor, FetchEncoding, begin_encoding, decode_fetch, encode_fetch, encode_some, end_encoding, fetch_cursor,
    partition_bytes_min,
)

from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    BYTES_MAX_DEFAULT = 55 * 1024 * 1024               # fetch.max.bytes
    WAITING_ENTRIES_MAX_DEFAULT = 250_000
    # How often a fetch may warm data: two indexes of a segment and its data, and the next segment's if that has none.
    COLD_LOOKS_MAX = 6
    ENTRIES_AT_ONCE_MAX = 1024     # a fetch with more is read in slices
    BODY_AT_ONCE_MAX = 16 * 1024   # a larger body, which may name more, is decoded in slices
    STEP_ENTRIES = 128
    STEP_FREED = 1024
    ENTRY_BYTES = 256              # memory of requests charged for an entry of a long request
    ANY_REPLICA_FROM = 11          # from this version on a consumer may read from a follower (KIP-392)
    FULL_EPOCH = 0
    FINAL_EPOCH = -1


@cython.final
cdef class FetchHandler(RequestHandler):
    """Handler of Fetch from `table`. One per listener; `sessions` and `cold_reader` are the node's.

    `bytes_max` bounds a reply (fetch.max.bytes), except for one larger batch. Fetches with together more than
    `waiting_entries_max` partitions do not wait: further ones are answered with the available data.

    With `by_rack` a consumer that names its rack is sent to the replica there (KIP-392, Kafka's
    RackAwareReplicaSelector). Followers then learn of a new high watermark at once, because their consumers wait for
    it. They always learn of a new log start at once: DeleteRecords waits for it.

    `slices` shares the loop's time between long requests; without it each is read in one go.
    `on_follower(connection)` is called when a follower's session begins, for its connection.
    `permissions` has what clients may do, checked at each read; without them everything is allowed.
    """

    def __init__(self, PartitionTable table not None, SessionCache sessions not None, ColdReader cold_reader=None, *,
                 int64_t bytes_max=BYTES_MAX_DEFAULT, int64_t waiting_entries_max=WAITING_ENTRIES_MAX_DEFAULT,
                 bint by_rack=False, ClientQuotas quotas=None, SliceQueue slices=None,
                 on_follower: Callable[[ReplySink], object] | None = None):
        if not 0 <= bytes_max <= 0x7FFFFFFF:
            raise InvalidArgumentError(f"bytes_max: {bytes_max} is outside 0 to {0x7FFFFFFF}")
        self.table = table
        self.sessions = sessions
        self.cold_reader = cold_reader
        self.bytes_max = bytes_max
        self.waiting_entries_max = waiting_entries_max
        self.by_rack = by_rack
        self.quotas = quotas
        self.slices = slices
        self.on_follower = on_follower
        self.out = Scratch()

    cdef int handle(self, Reply reply, const uint8_t* body, Py_ssize_t body_bytes) except -1:
        cdef ParkedFetch fetch = ParkedFetch.__new__(ParkedFetch)
        cdef list forgotten = []
        cdef FetchCursor at
        cdef int error
        if not FETCH_VERSION_MIN <= reply.api_version <= FETCH_VERSION_MAX:
            return reply.refuse()
        fetch.kind = PARKED_FETCH
        fetch.handler = self
        fetch.reply = reply
        fetch.entries = []
        if self.slices is not None and body_bytes > BODY_AT_ONCE_MAX:
            return fetch.receive_in_steps(body, body_bytes)
        at = fetch_cursor(body, body_bytes)
        if decode_fetch(&at, reply.api_version, &fetch.params, fetch.entries, forgotten, 2 + body_bytes):
            return reply.refuse()
        self.limit(fetch)
        error = self.find_session(fetch)
        if error == ERROR_NONE and fetch.session is not None:
            error = self.continue_session(
                fetch, self.sessions.update(fetch.session, fetch.entries, forgotten, monotonic_ms()))
        return fetch.start() if error == ERROR_NONE else fetch.refuse_session(error)

    cdef int limit(self, ParkedFetch fetch) except -1:
        """Apply the limits of the node and of the client. The request's bytes are not needed after this."""
        fetch.learn_permissions()
        fetch.params.max_bytes = max(0, <int32_t>min(fetch.params.max_bytes, self.bytes_max))
        if self.quotas is not None and fetch.params.replica_id < 0:
            fetch.params.max_bytes = <int32_t>self.quotas.response_bytes_max(
                fetch.reply, fetch.params.max_bytes)
        fetch.params.min_bytes = min(fetch.params.min_bytes, fetch.params.max_bytes)
        if self.by_rack and fetch.params.rack_bytes > 0 and fetch.params.replica_id < 0:
            fetch.rack = PyBytes_FromStringAndSize(<const char*>fetch.params.rack, fetch.params.rack_bytes)
        fetch.params.rack = NULL
        return 0

    cdef int find_session(self, ParkedFetch fetch) except -1:
        cdef FetchParams* params = &fetch.params
        cdef FetchSession session
        cdef Parked waiting
        if params.session_epoch == FINAL_EPOCH or params.session_epoch == FULL_EPOCH:
            if params.session_id != 0:
                self.sessions.remove(params.session_id)
            fetch.begin_session = params.session_epoch == FULL_EPOCH and not fetch.rules.is_forbidden
            return ERROR_NONE
        session = self.sessions.get(params.session_id)
        if session is None:
            return ERROR_FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != params.session_epoch:
            return ERROR_INVALID_FETCH_SESSION_EPOCH
        if session.by_id != (fetch.reply.api_version >= FETCH_BY_ID_FROM):
            return ERROR_FETCH_SESSION_TOPIC_ID_ERROR
        waiting = session.waiting              # held: it releases the session
        if waiting is not None and session.of_follower:
            # A follower that sends another request has more partitions now: they need not wait for the previous
            # request.
            waiting.expire()
        fetch.session = session
        return ERROR_NONE

    cdef int continue_session(self, ParkedFetch fetch, bint updated) except -1:
        cdef FetchSession session = fetch.session
        if not updated:
            fetch.session = None
            # With nothing left to fetch the session ends without an error; without room for more the client must begin
            # again.
            return ERROR_NONE if not session.entries else ERROR_FETCH_SESSION_ID_NOT_FOUND
        fetch.session_epoch = session.epoch
        fetch.entries = (list(session.entries.values()) if fetch.rules.is_forbidden
                         else session.due(session.used_ms, self.sessions.upkeep_ms))
        return ERROR_NONE


@cython.final
cdef class ParkedFetch(Parked):

    cdef int receive_in_steps(self, const uint8_t* body, Py_ssize_t body_bytes) except -1:
        """Decode a large request in slices. Memory is charged for all partitions that it may name."""
        cdef Reply reply = self.reply
        self.body_owner = reply.sink.keep_body(&body, body_bytes)
        self.cursor = fetch_cursor(body, body_bytes)
        reply.alone = True
        reply.held_bytes = body_bytes + ENTRY_BYTES * min(
            body_bytes // partition_bytes_min(reply.api_version), <Py_ssize_t>FETCH_PARTITIONS_MAX)
        self.in_steps = True
        return self.handler.slices.later(reply, self.receiving_steps(), True)

    def receiving_steps(self) -> Generator[None]:
        """Decode the request and find its session, slice by slice. Loop's thread."""
        cdef list forgotten = [], decoded = self.entries
        cdef int found = FETCH_DECODES, error = ERROR_NONE
        while found == FETCH_DECODES and self.reply.sink is not None:
            found = decode_fetch(&self.cursor, self.reply.api_version, &self.params, decoded, forgotten, STEP_ENTRIES)
            yield
        if found == FETCH_DECODED:
            self.handler.limit(self)
            error = self.handler.find_session(self)
            if error == ERROR_NONE and self.session is not None:
                error = self.handler.continue_session(self, (yield from self.handler.sessions.update_steps(
                    self.session, decoded, forgotten, STEP_ENTRIES)))
        self.in_steps = False
        self.body_owner = None
        if self.reply.sink is None:        # the client has disconnected
            self.entries = []
            self.reply.skip()
        elif found != FETCH_DECODED:
            self.reply.refuse()
        elif error != ERROR_NONE:
            self.refuse_session(error)
        else:
            self.receiving = True
            self.start()
            self.receiving = False
            if self.in_steps:
                yield from self.steps()
        if self.entries is decoded:        # it waits
            decoded = []
        while decoded or forgotten:
            del decoded[max(0, len(decoded) - STEP_FREED):]
            del forgotten[max(0, len(forgotten) - STEP_FREED):]
            yield

    cdef int refuse_session(self, int error) except -1:
        self.handler.count_error(error)
        return self.reply.finish(encode_fetch(
            self.reply, self.handler.table, <int16_t>error, 0, [], self.handler.out))

    cdef int start(self) except -1:
        if not self.attempt(self.params.max_wait_ms <= 0 or (self.session is None and not self.entries)) \
                and not self.in_steps:
            self.park()
        return 0

    cdef int park(self) except -1:
        cdef FetchEntry entry
        cdef list watched
        if self.session is not None and self.session.unread is not None:
            watched = [self.session]
        else:
            watched = [entry.partition for entry in self.entries if entry.partition is not None]
        if self.handler.waiting_entries + len(self.entries) > self.handler.waiting_entries_max:
            self.handler.table.purgatory.make_room()
        if (
            self.handler.waiting_entries + len(self.entries) > self.handler.waiting_entries_max
            or not self.handler.table.purgatory.park(self, watched, monotonic_ms() + self.params.max_wait_ms)
        ):
            self.attempt(True)
            return 0
        self.entries_waiting = len(self.entries)
        self.handler.waiting_entries += self.entries_waiting
        self.reply.waiter = self
        if self.session is not None:
            self.session.waiting = self
        return 0

    cdef int wake(self, int64_t bytes_count) except -1:
        if self.in_steps:
            self.stirred_bytes += bytes_count
            return 0
        self.bytes_ready += bytes_count
        if self.bytes_ready >= self.params.min_bytes:
            self.attempt(False)
        return 0

    cdef int expire(self) except -1:
        self.attempt(True)
        return 0

    cdef int abandon(self) except -1:
        return self.leave()

    cdef bint abandoned(self) noexcept:
        return self.reply.sink is None

    cdef int leave(self) except -1:
        if self.purgatory is not None:
            self.handler.waiting_entries -= self.entries_waiting
            if self.session is not None and self.session.waiting is self:
                self.session.waiting = None
            self.purgatory.leave(self)
        return 0

    # --- reading ----------------------------------------------------------------------------------------------------

    cdef bint attempt(self, bint final) except -1:
        if self.in_steps:
            self.at_once = self.at_once or final
            if final:
                self.leave()
            return False
        if self.reply.sink is None:        # the client has disconnected
            self.leave()
            self.reply.skip()
            return True
        self.take_up()
        self.begin_round()
        self.at_once = final
        if self.handler.slices is not None and len(self.entries) > ENTRIES_AT_ONCE_MAX:
            if final:
                self.leave()
            self.in_steps = True
            if self.reply.at.handed_ns == 0:
                self.reply.alone = True
                self.reply.held_bytes = ENTRY_BYTES * len(self.entries)
            if not self.receiving:
                self.handler.slices.later(self.reply, self.steps(), True)
            return False
        self.read_more(len(self.entries))
        return self.end_round()

    def steps(self) -> Generator[None]:
        """Run a round of reads, and answer, slice by slice. Loop's thread."""
        while self.read_count < len(self.entries) and self.reply.sink is not None:
            self.read_more(STEP_ENTRIES)
            yield
        self.put_back()
        if self.reply.sink is None:        # the client has disconnected
            self.in_steps = False
            self.leave()
            self.reply.skip()
            self.spent, self.entries = self.entries, []
        elif self.cold and self.fetch_cold():
            self.in_steps = False
            self.leave()
        elif self.has_enough():
            self.leave()
            yield from self.answering_steps()
            self.in_steps = False
        else:
            self.in_steps = False
            self.wait_for_more()
            if self.purgatory is None:
                self.park()
                if self.purgatory is not None:
                    self.attempt(False)            # data may have moved before it was registered
            elif self.bytes_ready >= self.params.min_bytes:
                self.attempt(False)
        while self.spent:
            del self.spent[max(0, len(self.spent) - STEP_FREED):]
            yield

    cdef int read_more(self, Py_ssize_t count) except -1:
        cdef FetchEntry entry
        cdef bytes reported = None
        cdef bint of_follower = self.params.replica_id >= 0
        cdef Permissions checked = None if of_follower else self.permissions   # a follower's were checked before
        cdef Py_ssize_t end = min(self.read_count + count, len(self.entries))
        self.handler.table.begin_round()
        if self.rules.is_forbidden and self.read_count == 0:
            self.permissions.report(self.reply, RESOURCE_CLUSTER, OPERATION_CLUSTER_ACTION, b"", False)
        while self.read_count < end:
            entry = self.entries[self.read_count]
            self.read_count += 1
            entry.read(self.handler.table, checked, &self.rules)
            if checked is not None and entry.error == ERROR_TOPIC_AUTHORIZATION_FAILED:
                reported = entry.report_refusal(checked, self.reply, reported)
            self.bytes_count += entry.size()
            self.at_once = (self.at_once or entry.error != ERROR_NONE or entry.diverging_epoch >= 0
                            or entry.preferred >= 0
                            or (of_follower and self.session is not None and entry.is_awaited(self.handler.by_rack)))
            self.cold = self.cold or entry.cold is not None
        return 0

    cdef bint end_round(self) except -1:
        self.put_back()
        if self.cold and self.fetch_cold():
            self.leave()
            return True
        if self.has_enough():
            self.leave()
            self.answer()
            return True
        self.wait_for_more()
        return False

    cdef bint has_enough(self) noexcept:
        return self.at_once or self.bytes_count >= self.params.min_bytes

    cdef int wait_for_more(self) except -1:
        self.forget()
        self.bytes_ready = self.bytes_count + self.stirred_bytes
        return 0

    cdef int take_up(self) except -1:
        if self.session is not None and self.session.unread is not None:
            if self.looked:
                self.entries = self.session.unread.entries()
            self.session.unread.clear()        # changes during the round will be in it
            self.looked = True
        return 0

    cdef int put_back(self) except -1:
        cdef FetchEntry entry
        if self.session is not None and self.session.unread is not None:
            for entry in self.entries:
                if (self.reply.sink is None or not entry.is_settled()) and entry.session is self.session:
                    self.session.unread.add(entry)
        return 0

    cdef int learn_permissions(self) except -1:
        self.permissions = permissions_of(self.handler.permissions, self.reply.sink)
        self.rules.is_forbidden = (self.permissions is not None and self.params.replica_id >= 0
                                   and not self.permissions.on_cluster() >> OPERATION_CLUSTER_ACTION & 1)
        return 0

    cdef int begin_round(self) except -1:
        cdef ReadRules* rules = &self.rules
        self.learn_permissions()
        self.read_count = 0
        self.bytes_count = self.stirred_bytes = 0
        self.cold = False
        rules.near = NULL
        rules.near_count = 0
        if self.rack is not None:
            self.near = self.handler.table.nodes_in(self.rack)
            rules.near = <const int32_t*>PyBytes_AS_STRING(self.near)
            rules.near_count = PyBytes_GET_SIZE(self.near) // sizeof(int32_t)
        rules.bytes_left = self.params.max_bytes
        rules.replica_id = self.params.replica_id
        rules.broker_epoch = self.params.broker_epoch
        rules.committed = self.params.isolation == 1 and rules.replica_id < 0
        if rules.replica_id >= 0:
            rules.isolation = ISOLATION_LOG_END
        else:
            rules.isolation = ISOLATION_LAST_STABLE if rules.committed else ISOLATION_HIGH_WATERMARK
        rules.need_leader = rules.replica_id >= 0 or self.reply.api_version < ANY_REPLICA_FROM
        rules.whole_first = True
        rules.look_for_cold = self.handler.cold_reader is not None and self.warmed_count < COLD_LOOKS_MAX
        return 0

    cdef bint fetch_cold(self) except -1:
        """Have missing data brought into memory. Return False when that cannot be requested now: then the reply goes
        without it."""
        cdef FetchWarming warming = FetchWarming.__new__(FetchWarming)
        cdef FetchEntry entry
        warming.fetch = self
        for entry in self.entries:
            if entry.cold is not None and self.handler.cold_reader.submit(
                    entry.cold, entry.partition.core, warming):
                warming.left += 1
        if warming.left == 0:
            return False
        self.forget()
        return True

    cdef int forget(self) except -1:
        cdef FetchEntry entry
        for entry in self.entries:
            entry.forget()
        return 0

    # --- answering --------------------------------------------------------------------------------------------------

    cdef int answer(self) except -1:
        cdef Py_ssize_t count = len(self.entries)
        cdef int16_t error = ERROR_NONE
        cdef list parts
        if self.is_throttled():
            return self.answer_throttled()
        if self.session is not None:
            error = self.session_error()
        if error == ERROR_NONE:
            self.choose(0, count)
            self.account(0, count)
        if self.session is None and self.begin_session:
            self.begin(self.handler.sessions.create(
                self.entries, self.reply.api_version >= FETCH_BY_ID_FROM, self.params.replica_id >= 0,
                self.handler.by_rack, monotonic_ms()))
            if self.session is not None:
                self.introduce(0, count)
        parts = encode_fetch(self.reply, self.handler.table, error, self.session_id(error),
                             self.entries if error == ERROR_NONE else [], self.handler.out)
        self.forget()
        self.entries = []
        return self.reply.finish(parts)

    def answering_steps(self) -> Generator[None]:
        """Answer as `answer` does, slice by slice."""
        cdef list entries = self.entries, parts = []
        cdef Py_ssize_t at, count = len(entries)
        cdef int version = self.reply.api_version
        cdef SessionCache sessions = self.handler.sessions
        cdef FetchSession session = None
        cdef FetchEncoding place
        cdef Scratch out = Scratch()
        cdef int16_t error = ERROR_NONE
        if self.is_throttled():
            self.spent = entries
            self.answer_throttled()
            return
        if self.session is not None:
            error = self.session_error()
        elif self.begin_session:
            session = sessions.prepare(count, version >= FETCH_BY_ID_FROM, self.params.replica_id >= 0,
                                       self.handler.by_rack, monotonic_ms())
        for at in range(0, count if error == ERROR_NONE else 0, STEP_ENTRIES):
            self.choose(at, min(at + STEP_ENTRIES, count))
            self.account(at, min(at + STEP_ENTRIES, count))
            if session is not None:
                sessions.fill(session, entries, at, min(at + STEP_ENTRIES, count))
            yield
        if session is not None and sessions.enroll(session):
            self.begin(session)
            for at in range(0, count, STEP_ENTRIES):
                self.introduce(at, min(at + STEP_ENTRIES, count))
                yield
        place = begin_encoding(self.reply, error, self.session_id(error), entries if error == ERROR_NONE else [], out)
        while error == ERROR_NONE and encode_some(&place, version, self.handler.table, entries, out, parts,
                                                  STEP_ENTRIES):
            yield
        end_encoding(&place, version, self.handler.table, entries, out, parts)
        self.forget()
        self.entries = []
        self.spent = entries
        self.reply.finish(parts)

    cdef int16_t session_error(self) noexcept:
        """INVALID_FETCH_SESSION_EPOCH, counted, when another request overtook this one."""
        if self.session.epoch == self.session_epoch:
            return ERROR_NONE
        self.handler.count_error(ERROR_INVALID_FETCH_SESSION_EPOCH)
        return ERROR_INVALID_FETCH_SESSION_EPOCH

    cdef int32_t session_id(self, int16_t error) noexcept:
        return self.session.session_id if self.session is not None and error == ERROR_NONE else 0

    cdef bint is_throttled(self) except -1:
        return self.handler.quotas is not None and self.params.replica_id < 0 and not self.charge()

    cdef int account(self, Py_ssize_t start, Py_ssize_t end) except -1:
        """Count the errors of partitions, and the bytes that are sent."""
        cdef FetchEntry entry
        cdef Py_ssize_t at
        for at in range(start, end):
            entry = self.entries[at]
            if not entry.goes_out:
                continue
            if entry.error != ERROR_NONE:
                self.handler.count_error(entry.error)
            entry.account(self.params.replica_id >= 0)
        return 0

    cdef bint charge(self) except -1:
        """Charge the reply to the client's quotas; return False when it may not be sent."""
        cdef FetchEntry entry
        cdef int64_t bytes_count = 0
        for entry in self.entries:
            bytes_count += entry.size()
        return self.handler.quotas.charge_fetch(self.reply, bytes_count)

    cdef int answer_throttled(self) except -1:
        """Reply with no partitions. No session state has changed, so the client fetches the same again."""
        cdef int16_t error = ERROR_NONE if self.session is None else self.session_error()
        self.forget()
        self.entries = []
        return self.reply.finish(encode_fetch(
            self.reply, self.handler.table, error, self.session_id(error), [], self.handler.out))

    cdef int begin(self, FetchSession session) except -1:
        """Begin a session, if there was room for one."""
        self.session = session
        if session is not None and session.of_follower and self.handler.on_follower is not None \
                and self.reply.sink is not None:
            self.handler.on_follower(self.reply.sink)
        return 0

    cdef int introduce(self, Py_ssize_t start, Py_ssize_t end) except -1:
        """Note that the client of a new session knows the content of this reply."""
        cdef FetchEntry entry
        cdef Py_ssize_t at
        for at in range(start, end):
            entry = self.entries[at]
            entry.note_reported()
            if entry.size() > 0:
                self.session.move_to_end(entry)
        return 0

    cdef int choose(self, Py_ssize_t start, Py_ssize_t end) except -1:
        """Select the partitions that go into the reply: of a session those with news."""
        cdef FetchEntry entry
        cdef Py_ssize_t at
        for at in range(start, end):
            entry = self.entries[at]
            entry.goes_out = self.session is None or entry.has_news()
            if entry.goes_out and self.session is not None:
                entry.note_reported()
                if entry.size() > 0:
                    self.session.move_to_end(entry)
        return 0


@cython.final
cdef class FetchWarming(Warming):

    cdef int warmed(self) except -1:
        self.left -= 1
        if self.left == 0:
            self.fetch.warmed_count += 1
            self.fetch.attempt(True)
        return 0
