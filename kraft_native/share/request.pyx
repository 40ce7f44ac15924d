"""ShareFetch and ShareAcknowledge, versions 1 and 2 (KIP-932, KIP-1206, KIP-1222).

A request is served in three steps, and may wait in the purgatory before the second and the third.

1. Its session is found, and its acknowledgements are decided (`share/window.pyx`).
2. When the writes of these are over, their outcome is known.
3. A ShareFetch reads the partitions of its session, and acquires what it has read, as one step: nothing is acquired for
   a request that waits. It waits for MinBytes, until MaxWaitMs.

MaxBytes is divided among the partitions that are left. The first batch is sent whatever its size. A partition from
which records were sent comes last in the next request. MaxRecords ends an acquisition at the end of a batch, in acquire
mode 1 within it.

A session ends with epoch -1, or with its connection: what its member has in its partitions becomes available.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

cimport cython

from kraft_native.base.clock cimport monotonic_ms
from kraft_native.base.fault cimport (
    ERROR_GROUP_AUTHORIZATION_FAILED, ERROR_INVALID_REQUEST, ERROR_INVALID_SHARE_SESSION_EPOCH, ERROR_NONE,
    ERROR_REQUEST_TIMED_OUT, ERROR_SHARE_SESSION_LIMIT_REACHED, ERROR_SHARE_SESSION_NOT_FOUND,
    ERROR_UNKNOWN_TOPIC_OR_PARTITION, ERROR_UNSUPPORTED_VERSION,
)
from kraft_native.base.span cimport Span, span_of
from kraft_native.partition.purgatory cimport PARKED_FETCH, PARKED_INTERNAL
from kraft_native.request.permissions cimport OPERATION_READ, RESOURCE_GROUP
from kraft_native.request.reply cimport ReplySink, permissions_of
from kraft_native.serve.fetch_session cimport next_epoch
from kraft_native.share.partitions cimport SHARE_READY, SharePartition
from kraft_native.share.reading cimport acquire_part, find_partition, read_part
from kraft_native.share.sessions cimport ShareEntry
from kraft_native.share.window cimport Bounds
from kraft_native.share.wire cimport (
    SHARE_FETCH_KEY, SHARE_PARTITIONS_MAX, SHARE_VERSION_MAX, SHARE_VERSION_MIN, decode_share, encode_share, new_part,
)

from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    BYTES_MAX_DEFAULT = 55 * 1024 * 1024               # fetch.max.bytes
    WAITING_ENTRIES_MAX_DEFAULT = 250_000
    COLD_LOOKS_MAX = 6
    ROUNDS_MAX = 16                # of reads that find nothing but what is passed over
    WRITE_WAIT_MS = 30_000         # for the writes of acknowledgements, which end earlier
    MEMBER_BYTES_MAX = 36
    FULL_EPOCH = 0
    FINAL_EPOCH = -1
    OUTCOME_UNKNOWN = -2


@cython.final
cdef class ShareHandler(RequestHandler):
    """Handler of ShareFetch and ShareAcknowledge from `table`. `shares` and `sessions` are the node's.

    `bytes_max` bounds a reply (fetch.max.bytes), except for one larger batch. `permissions` has what clients may do;
    without them everything is allowed. Until `enabled` is set, requests get UNSUPPORTED_VERSION.
    """

    def __init__(self, PartitionTable table not None, SharePartitions shares not None, ShareSessions sessions not None,
                 ColdReader cold_reader=None, *, int64_t bytes_max=BYTES_MAX_DEFAULT,
                 int64_t waiting_entries_max=WAITING_ENTRIES_MAX_DEFAULT, ClientQuotas quotas=None,
                 bint enabled=True):
        if not 0 <= bytes_max <= 0x7FFFFFFF:
            raise InvalidArgumentError(f"bytes_max: {bytes_max} is outside 0 to {0x7FFFFFFF}")
        self.table = table
        self.shares = shares
        self.sessions = sessions
        self.cold_reader = cold_reader
        self.bytes_max = bytes_max
        self.waiting_entries_max = waiting_entries_max
        self.quotas = quotas
        self.enabled = enabled
        self.out = Scratch()
        self.extents = Extents()

    cdef int handle(self, Reply reply, const uint8_t* body, Py_ssize_t body_bytes) except -1:
        cdef ParkedShare request = ParkedShare.__new__(ParkedShare)
        cdef list names = [], forgotten = []
        cdef Span span = span_of(body, body_bytes)
        cdef int error
        if not SHARE_VERSION_MIN <= reply.api_version <= SHARE_VERSION_MAX:
            return reply.refuse()
        request.handler = self
        request.reply = reply
        request.is_fetch = reply.api_key == SHARE_FETCH_KEY
        request.kind = PARKED_FETCH if request.is_fetch else PARKED_INTERNAL
        request.parts = []
        if not decode_share(&span, request.is_fetch, reply.api_version, &request.params, names, request.parts,
                            forgotten):
            return reply.refuse()
        request.group, request.member = names
        error = self.admit(request)
        if error == ERROR_NONE:
            error = self.find_session(request, forgotten)
        if error != ERROR_NONE:
            return request.refuse(error)
        self.table.begin_round()
        request.begun_ms = monotonic_ms()
        request.acknowledge()
        request.prepare()
        return request.step(False)

    cdef int admit(self, ParkedShare request) except -2:
        cdef ShareParams* params = &request.params
        if not self.enabled:
            return ERROR_UNSUPPORTED_VERSION
        if not request.group or not request.member or len(request.member) > MEMBER_BYTES_MAX:
            return ERROR_INVALID_REQUEST
        request.permissions = permissions_of(self.permissions, request.reply.sink)
        if request.permissions is not None and not request.permissions.on_group(request.group) >> OPERATION_READ & 1:
            request.permissions.report(request.reply, RESOURCE_GROUP, OPERATION_READ, request.group, False)
            return ERROR_GROUP_AUTHORIZATION_FAILED
        if not request.is_fetch:
            return ERROR_NONE
        # A request that renews locks fetches nothing, and says so.
        if params.renews and (params.max_wait_ms or params.min_bytes or params.max_bytes or params.max_records):
            return ERROR_INVALID_REQUEST
        params.max_bytes = max(0, <int32_t>min(params.max_bytes, self.bytes_max))
        if self.quotas is not None:
            params.max_bytes = <int32_t>self.quotas.response_bytes_max(request.reply, params.max_bytes)
        params.min_bytes = min(params.min_bytes, params.max_bytes)
        return ERROR_NONE

    cdef int find_session(self, ParkedShare request, list forgotten) except -1:
        cdef ShareSession session = self.sessions.find(request.group, request.member)
        cdef SharePart part
        cdef ShareEntry entry
        cdef tuple key
        cdef int32_t epoch = request.params.session_epoch
        if epoch == FULL_EPOCH:
            if not request.is_fetch:
                return ERROR_INVALID_SHARE_SESSION_EPOCH
            for part in request.parts:
                if part.acknowledges:
                    return ERROR_INVALID_REQUEST
            if session is not None:
                self.sessions.close(session)
            session = self.sessions.open(request.group, request.member, request.reply.sink)
            if session is None:
                return ERROR_SHARE_SESSION_LIMIT_REACHED
        elif session is None:
            return ERROR_SHARE_SESSION_NOT_FOUND
        elif epoch != FINAL_EPOCH:
            if session.epoch != epoch:
                return ERROR_INVALID_SHARE_SESSION_EPOCH
            self.sessions.move(session, request.reply.sink)
            session.epoch = next_epoch(epoch)
        request.session = session
        if request.is_fetch and epoch != FINAL_EPOCH:
            for part in request.parts:
                key = (part.topic_id, part.index)
                if key not in session.entries:
                    if len(session.entries) >= SHARE_PARTITIONS_MAX:
                        return ERROR_INVALID_REQUEST
                    entry = ShareEntry.__new__(ShareEntry)
                    entry.topic_id = part.topic_id
                    entry.index = part.index
                    session.entries[key] = entry
            for key in forgotten:
                session.entries.pop(key, None)
        return ERROR_NONE

    def left(self, ReplySink connection not None) -> None:
        """End the sessions of a connection that has closed."""
        for session in self.sessions.left(connection):
            self.ended(session)

    cdef int ended(self, ShareSession session) except -1:
        self.shares.release(session)
        if not self.sessions.has_group(session.group):
            self.shares.retire(session.group)
        return 0


@cython.final
cdef class ParkedShare(Parked):

    cdef int refuse(self, int error) except -1:
        self.handler.count_error(error)
        if self.handler.quotas is not None:
            self.handler.quotas.charge_time(self.reply)
        return self.reply.finish(encode_share(
            self.reply, self.is_fetch, self.handler.table, <int16_t>error, 0, [], self.handler.out))

    # --- acknowledgements -------------------------------------------------------------------------------------------

    cdef int acknowledge(self) except -1:
        cdef SharePart part
        cdef int error
        for part in self.parts:
            if part.acknowledges:
                error = part.acknowledge_error
                if error == ERROR_NONE:
                    error = part.acknowledge_error = <int16_t>self.acknowledge_part(part, self.begun_ms)
                if error != ERROR_NONE:
                    self.handler.count_error(error)
        if self.params.session_epoch == FINAL_EPOCH:
            self.handler.sessions.close(self.session)
            self.handler.ended(self.session)
        return 0

    cdef int acknowledge_part(self, SharePart part, int64_t now_ms) except -2:
        cdef SharePartition share
        cdef Py_ssize_t place
        cdef int error = find_partition(part, self.handler.table, self.permissions, self.reply)
        if error != ERROR_NONE:
            return error
        share = self.handler.shares.find(self.group, part.topic_id, part.index)
        if share is None or share.status != SHARE_READY:
            return ERROR_UNKNOWN_TOPIC_OR_PARTITION
        if part.renews and not share.settings.renews:
            return ERROR_INVALID_REQUEST
        share.used_ms = now_ms
        share.window.follow(part.partition.core.log_start, part.partition.core.log_end)
        error = share.window.change(part.changes, part.change_count, self.member, share.settings.deliveries_max,
                                    now_ms + share.settings.lock_ms, &part.write_id)
        if error != ERROR_NONE:
            return error
        for place in range(part.change_count):
            share.table.acknowledged[part.changes[place].event] += 1
        if part.write_id > 0:
            part.share = share
            self.writes_left += 1
        share.changed(False)
        return ERROR_NONE

    cdef int collect_outcomes(self, bint final) except -1:
        """Learn which writes are over. `final`: the others have an unknown outcome."""
        cdef SharePart part
        cdef int outcome
        for part in self.parts:
            if part.write_id == 0:
                continue
            if part.share.status == SHARE_READY and part.share.check() != ERROR_NONE:
                self.handler.shares.drop(part.share, part.share.check())
            if part.share.status != SHARE_READY:
                outcome = part.share.error
            else:
                outcome = part.share.window.outcome(part.write_id)
            if outcome == OUTCOME_UNKNOWN:
                if not final:
                    continue
                outcome = ERROR_REQUEST_TIMED_OUT
            if outcome != ERROR_NONE:
                self.handler.count_error(outcome)
            part.acknowledge_error = <int16_t>outcome
            part.write_id = 0
            part.share = None
            self.writes_left -= 1
        return 0

    # --- waiting ----------------------------------------------------------------------------------------------------

    cdef int prepare(self) except -1:
        """Collect the partitions to fetch from."""
        cdef dict named
        cdef ShareEntry entry
        cdef SharePart part
        if not self.is_fetch or self.params.renews or self.params.session_epoch == FINAL_EPOCH:
            return 0
        self.sources = []
        named = {}
        for part in self.parts:
            named[part.topic_id, part.index] = part
        for key, entry in self.session.entries.items():
            part = named.get(key)
            if part is None:
                part = new_part(entry.topic_id, entry.index)
                part.partition = entry.partition
                self.parts.append(part)
            self.sources.append(part)
        return 0

    cdef int step(self, bint final) except -1:
        if self.reply.sink is None:        # the client has disconnected
            self.leave()
            return self.reply.skip()
        if self.writes_left > 0:
            self.collect_outcomes(final)
            if self.writes_left > 0:
                return self.wait(self.begun_ms + WRITE_WAIT_MS, self.written_parts())
        if self.sources is None:
            return self.answer()
        if not self.attempt(final or monotonic_ms() >= self.begun_ms + self.params.max_wait_ms):
            self.wait(self.begun_ms + self.params.max_wait_ms, self.awaited())
        return 0

    cdef list written_parts(self):
        cdef list found = []
        cdef SharePart part
        for part in self.parts:
            if part.write_id > 0:
                found.append(part.share)
                found.append(part.partition)
        return found

    cdef list awaited(self):
        cdef list found = []
        cdef SharePart part
        for part in self.sources:
            if part.partition is not None:
                found.append(part.partition)
            if part.source is not None:
                found.append(part.source)
        return found

    cdef int wait(self, int64_t deadline_ms, list watched) except -1:
        cdef int64_t count = len(watched)
        self.leave()
        if self.handler.waiting_entries + count > self.handler.waiting_entries_max:
            self.handler.table.purgatory.make_room()
        if (
            self.handler.waiting_entries + count > self.handler.waiting_entries_max
            or not self.handler.table.purgatory.park(self, watched, deadline_ms)
        ):
            return self.step(True)
        self.entries_waiting = count
        self.handler.waiting_entries += count
        self.reply.waiter = self
        return 0

    cdef int wake(self, int64_t bytes_count) except -1:
        return self.step(False)

    cdef int expire(self) except -1:
        self.leave()
        return self.step(True)

    cdef int abandon(self) except -1:
        return self.leave()

    cdef bint abandoned(self) noexcept:
        return self.reply.sink is None

    cdef int leave(self) except -1:
        if self.purgatory is not None:
            self.handler.waiting_entries -= self.entries_waiting
            self.purgatory.leave(self)
        return 0

    # --- reading ----------------------------------------------------------------------------------------------------

    cdef bint attempt(self, bint final) except -1:
        """Answer if there is enough. Return False when it has to wait."""
        cdef int64_t bytes_count, taken = 0
        cdef bint at_once = final or not self.sources or self.params.max_records <= 0, cold = False
        cdef int _
        if self.handler.sessions.find(self.group, self.member) is not self.session:
            self.leave()
            self.refuse(ERROR_SHARE_SESSION_NOT_FOUND)     # a later request of the member has ended it
            return True
        for _ in range(ROUNDS_MAX):
            bytes_count = self.read(&at_once, &cold)
            if cold and self.fetch_cold():
                self.leave()
                return True
            if not at_once and bytes_count < max(1, self.params.min_bytes):
                self.forget()
                return False
            if bytes_count == 0 or (self.handler.quotas is not None
                                    and not self.handler.quotas.charge_fetch(self.reply, bytes_count)):
                break
            taken = self.acquire()
            if taken > 0 or self.params.max_records <= 0:
                break
        if taken == 0 and not at_once and self.reply.throttle_ms == 0:
            return False                                   # everything that was read is passed over
        self.leave()
        self.answer()
        return True

    cdef int forget(self) except -1:
        """Release what was read."""
        cdef SharePart part
        for part in self.sources:
            part.records = None
            part.aborted = None
        return 0

    cdef int64_t read(self, bint* at_once, bint* cold) except -1:
        """Read all partitions, and return the bytes."""
        cdef ShareHandler handler = self.handler
        cdef SharePart part
        cdef ShareRules rules
        cdef int64_t bytes_count = 0
        rules.bytes_left = self.params.max_bytes
        rules.parts_left = len(self.sources)
        rules.whole_first = True
        rules.look_for_cold = handler.cold_reader is not None and self.warmed_count < COLD_LOOKS_MAX
        handler.table.begin_round()
        for part in self.sources:
            read_part(part, self.group, handler.table, handler.shares, self.permissions, self.reply, &rules)
            at_once[0] = at_once[0] or part.error != ERROR_NONE
            cold[0] = cold[0] or part.cold is not None
            if part.records is not None:
                bytes_count += part.records.size
        return bytes_count

    cdef int64_t acquire(self) except -1:
        """Acquire what was read, and return the number of offsets."""
        cdef SharePart part
        cdef Bounds bounds
        cdef int64_t taken = 0
        cdef int64_t now = monotonic_ms()
        cdef tuple key
        bounds.strict = self.params.acquire_mode == 1
        bounds.records_per_entry = max(1, self.params.batch_size)
        for part in self.sources:
            if part.records is None:
                continue
            bounds.records_max = self.params.max_records - taken
            if bounds.records_max <= 0:
                part.records = None
                continue
            bounds.locks_max = part.source.settings.locks_max
            bounds.deadline_ms = now + part.source.settings.lock_ms
            taken += acquire_part(part, self.member, self.handler.extents, &bounds)
            if part.records is not None:
                key = (part.topic_id, part.index)
                entry = self.session.entries.pop(key, None)
                if entry is not None:                      # the others come first the next time
                    (<ShareEntry>entry).partition = part.partition
                    self.session.entries[key] = entry
        return taken

    cdef bint fetch_cold(self) except -1:
        """Have missing data brought into memory. Return False when that cannot be requested now: then the reply goes
        without it."""
        cdef ShareWarming warming = ShareWarming.__new__(ShareWarming)
        cdef SharePart part
        warming.request = self
        for part in self.sources:
            if part.cold is not None and self.handler.cold_reader.submit(part.cold, part.partition.core, warming):
                warming.left += 1
            part.cold = None
            part.records = None
        return warming.left > 0

    cdef int answer(self) except -1:
        cdef list pieces
        cdef SharePart part
        self.leave()
        if not self.is_fetch and self.handler.quotas is not None:
            self.handler.quotas.charge_time(self.reply)
        for part in self.parts:
            if part.acquired_entries == 0:
                part.records = None
            if part.error != ERROR_NONE:
                self.handler.count_error(part.error)
        pieces = encode_share(self.reply, self.is_fetch, self.handler.table, ERROR_NONE,
                              self.handler.shares.settings(self.group).lock_ms, self.parts, self.handler.out)
        self.parts = self.sources = None
        return self.reply.finish(pieces)


@cython.final
cdef class ShareWarming(Warming):

    cdef int warmed(self) except -1:
        self.left -= 1
        if self.left == 0:
            self.request.warmed_count += 1
            self.request.step(False)
        return 0
