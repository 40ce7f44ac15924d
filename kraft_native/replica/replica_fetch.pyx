"""A follower's side of one leader (Kafka's ReplicaFetcherThread), as an asyncio BufferedProtocol.

One connection, one fetch session (KIP-227), all partitions that the leader leads and this node follows. A response is
processed where it was received: its batches and its high watermarks go into the logs, and the next request leaves in
the same call. A request names only the partitions that moved. No Python frame runs for a response that succeeds.

Truncation (KIP-595's form of KIP-101). Each request carries the epoch of the last record. A leader whose log differs
replies with the end of that epoch in its log; the follower drops what lies past it and fetches again.

A request reports the log end, and the leader counts everything below it as replicated. With group commit a response's
records are therefore flushed before the next request leaves.

Partitions may be added while the leader holds the last request back. A request for them leaves at the end of the loop
iteration, in the same session: a thousand new partitions take a few requests. A leader that answers in order, as every
broker does, answers the held one first. Its records may then come a second time; records that the log has are skipped.

Throttled partitions that are behind leave the session while their quota is exceeded (KIP-73).

An error of one partition ends its following: `on_error(partition, code, cause)` is called, and the callee decides when
to `follow` again. `on_cut(partition, log end before, why)` reports a log that was cut. A broken connection ends
everything: `on_lost(fetcher)`; a fetcher is connected once.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memmove

cimport cython

from kraft_native.base.bytes_be cimport load_i32
from kraft_native.base.clock cimport monotonic_ms
from kraft_native.base.fault cimport (
    ERROR_FETCH_SESSION_ID_NOT_FOUND, ERROR_FETCH_SESSION_TOPIC_ID_ERROR, ERROR_INVALID_FETCH_SESSION_EPOCH, ERROR_NONE,
    ERROR_UNKNOWN_SERVER_ERROR,
)
from kraft_native.base.limits cimport BATCH_HEADER_BYTES, BATCH_LEADER_EPOCH, BATCH_MAGIC, MAGIC_CURRENT
from kraft_native.base.mutants cimport (
    HIGH_WATERMARK_BEFORE_TRUNCATION, REMOVED_PARTITION_CRASHES_THE_FETCHER, TRUNCATED_BY_A_FETCHER_OF_BEFORE, mutant,
)
from kraft_native.base.span cimport span_of
from kraft_native.batch.batch cimport BatchHeader, batch_bytes_at, batch_end_at, batch_require
from kraft_native.batch.legacy cimport LEGACY_MESSAGE_BYTES_MIN
from kraft_native.net.frames cimport READ_BYTES_MAX
from kraft_native.replica.replica_wire cimport FollowerSpec, read_fetch_head, read_fetch_part, read_fetch_topic
from kraft_native.request.fields cimport UUID_BYTES, read_count, skip_tags
from kraft_native.segment.config cimport DURABILITY_GROUP_COMMIT

from kraft_native.base.errors import InvalidArgumentError, KraftError, UnknownLeaderEpochError
from kraft_native.net.outgoing import plain_descriptor

cdef extern from "<sys/socket.h>" nogil:
    Py_ssize_t send(int fd, const void* data, size_t size, int flags)
    enum:
        MSG_DONTWAIT
        MSG_NOSIGNAL

cdef enum:
    RECEIVE_BYTES_MIN = 64 * 1024
    KEPT_BYTES_MAX = 4 * 1024 * 1024       # of the buffer between responses
    # A response may exceed the requested size by one batch, and by the parts that are not records.
    RESPONSE_SLACK_BYTES = 256 * 1024 * 1024
    FLUSH_WAIT_MS = 1_000              # then it is checked whether the flush has ended


cdef int32_t wire_id(int64_t number) noexcept nogil:
    return <int32_t>(number & 0x7FFFFFFF)


@cython.final
cdef class FollowedPartition:
    """A partition's place in a fetcher."""


@cython.final
cdef class ReplicaFetcher:
    """Fetcher of broker `node_id` of epoch `broker_epoch` (KIP-903). The settings are Kafka's
    `replica.fetch.wait.max.ms`, `.min.bytes`, `.response.max.bytes`, `.max.bytes`. Loop thread only."""

    def __init__(self, int32_t node_id, int64_t broker_epoch, *, str client_id not None,
                 on_error: Callable[[Partition, int, BaseException | None], object],
                 on_lost: Callable[[ReplicaFetcher], object],
                 on_cut: Callable[[Partition, int, str], object] | None = None, int32_t max_wait_ms=500,
                 int32_t min_bytes=1, int32_t bytes_max=10485760, int32_t partition_bytes_max=1048576):
        for name, value in (("node_id", node_id), ("max_wait_ms", max_wait_ms), ("min_bytes", min_bytes),
                            ("bytes_max", bytes_max), ("partition_bytes_max", partition_bytes_max)):
            if value < 0:
                raise InvalidArgumentError(f"{name}: {value} is below 0")
        self.identity.node_id = node_id
        self.identity.broker_epoch = broker_epoch
        self.identity.max_wait_ms = max_wait_ms
        self.identity.min_bytes = min_bytes
        self.identity.bytes_max = bytes_max
        self.partition_bytes_max = partition_bytes_max
        self.response_bytes_limit = <int64_t>bytes_max + RESPONSE_SLACK_BYTES
        self.client_id = client_id.encode()
        self.fd = -1
        self.on_error = on_error
        self.on_lost = on_lost
        self.on_cut = on_cut
        self.followed = {}
        self.held = {}
        self.changed = {}
        self.forgotten = {}
        self.session = {}
        self.writer = FetchWriter()
        self.landing = ReadWindow()
        self.received = Scratch()

    def __len__(self) -> int:
        return len(self.followed)

    @property
    def waits(self) -> bool:
        """True while a response is outstanding."""
        return self.transport is not None and self.responses_total < self.requests_total

    @property
    def silent_ms(self) -> int:
        """Milliseconds since the last byte, while a response is outstanding; else 0."""
        return monotonic_ms() - self.spoke_ms if self.waits else 0

    # --- followed partitions ----------------------------------------------------------------------------------------

    def follow(self, Partition partition not None) -> None:
        """Fetch the partition from its log end on, in its leader epoch."""
        cdef tuple key = (partition.topic_id, partition.index)
        cdef FollowedPartition followed = self.followed.get(key)
        if followed is not None and followed.partition is partition and followed.leader_epoch == partition.leader_epoch:
            return                     # a fetch that is under way may bring the last news for long
        followed = FollowedPartition.__new__(FollowedPartition)
        followed.partition = partition
        followed.key = key
        followed.leader_epoch = partition.leader_epoch
        followed.requested_from = -1
        followed.behind = True
        self.unfollow(partition)
        self.followed[followed.key] = followed
        self.place(followed)
        self.await_flush(partition)
        if not self.reading:
            self.send_soon(partition.purgatory)

    def unfollow(self, Partition partition not None) -> bool:
        """Stop fetching it; a response under way is not appended. Return whether it was followed."""
        cdef FollowedPartition followed
        if mutant(TRUNCATED_BY_A_FETCHER_OF_BEFORE) and self.waits and not partition.removed:
            return True
        followed = self.followed.pop((partition.topic_id, partition.index), None)
        if followed is None:
            return False
        self.changed.pop(followed.key, None)
        self.held.pop(followed.key, None)
        self.forget(followed)
        return True

    def partitions(self) -> list[Partition]:
        """The followed partitions."""
        cdef FollowedPartition followed
        return [followed.partition for followed in self.followed.values()]

    def close(self) -> None:
        """Close the connection; no callback runs."""
        self.on_lost = None
        if self.wait is not None:
            self.wait.purgatory.leave(self.wait)
            self.wait = None
        self.fd = -1
        if self.transport is not None:
            self.transport.abort()

    cdef int stop_following(self, FollowedPartition followed, object code, object cause) except -1:
        self.unfollow(followed.partition)
        followed.partition.note_failure()
        self.on_error(followed.partition, code, cause)
        return 0

    # --- what the transport calls -----------------------------------------------------------------------------------

    def connection_made(self, transport: Transport) -> None:
        self.transport = transport
        self.fd = plain_descriptor(transport)
        self.send_request()

    def connection_lost(self, exception: Exception | None) -> None:
        self.fd = -1
        self.transport = None
        if self.on_lost is not None:
            self.on_lost(self)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        """Do nothing: a request is small, and the next one leaves after a response."""

    def resume_writing(self) -> None:
        """Do nothing; see `pause_writing`."""

    def get_buffer(self, Py_ssize_t size_hint) -> ReadWindow:
        cdef Scratch received = self.received
        cdef Py_ssize_t room = RECEIVE_BYTES_MIN
        # For the announced bytes no more room is reserved than the received bytes take.
        if received.size >= 4:
            room = max(room, min(<Py_ssize_t>load_i32(received.data) + 4 - received.size, received.size))
        received.reserve(received.size + room)
        self.landing.data = received.data + received.size
        self.landing.size = min(received.capacity - received.size, READ_BYTES_MAX)
        return self.landing

    def buffer_updated(self, Py_ssize_t count) -> None:
        self.received.size += count
        self.spoke_ms = monotonic_ms()
        if self.transport is None:
            return
        self.reading = True
        try:
            self.take_frames()
        finally:
            self.reading = False
        if self.responses_total == self.requests_total:
            self.send_request()

    # --- requests ---------------------------------------------------------------------------------------------------

    cdef int send_request(self) except -1:
        """Send the next request, if there is anything to fetch, a reason to, and no flush to wait for."""
        cdef bint idle = self.responses_total == self.requests_total
        if self.transport is None or self.flushes_awaited > 0:
            return 0
        # One whose last partition was removed has ended.
        if not idle and (self.session_id == 0 or not self.session or not self.changed):
            return 0
        if self.session_id == 0:
            self.restart_session()
        if len(self.followed) == len(self.held) and not self.forgotten:
            return 0
        self.requests_total += 1
        if idle:
            self.spoke_ms = monotonic_ms()
        self.writer.begin(wire_id(self.requests_total), self.client_id, &self.identity, self.session_id,
                          self.session_epoch)
        self.put_changed()
        self.writer.forget()
        self.put_forgotten()
        if self.session_id != 0:
            self.session_epoch = 1 if self.session_epoch == 0x7FFFFFFF else self.session_epoch + 1
        self.put(self.writer.end(&self.identity), idle)
        return self.send_request() if self.changed else 0

    cdef int put(self, bytes request, bint idle) except -1:
        cdef Py_ssize_t sent = 0
        if idle and self.fd >= 0:
            # The transport finds out what is wrong with the connection.
            sent = max(0, send(self.fd, PyBytes_AS_STRING(request), <size_t>PyBytes_GET_SIZE(request),
                               MSG_DONTWAIT | MSG_NOSIGNAL))
        if sent < PyBytes_GET_SIZE(request):
            self.transport.write(request[sent:])
        return 0

    cdef int send_soon(self, Purgatory purgatory) except -1:
        if purgatory is None or purgatory.schedule is None:
            return self.send_request()
        if not self.sends_soon:
            self.sends_soon = True
            purgatory.call_soon(self.send_now)
        return 0

    def send_now(self) -> None:
        """Send the request that was put off to the end of the loop iteration."""
        self.sends_soon = False
        self.send_request()

    cdef int restart_session(self) except -1:
        """Make the next request name everything."""
        cdef FollowedPartition followed
        self.session_epoch = 0
        for followed in self.followed.values():
            followed.requested_from = -1
            if followed.key not in self.held:
                self.place(followed)
        self.forgotten.clear()
        self.session.clear()
        return 0

    cdef int place(self, FollowedPartition followed) except -1:
        cdef Partition partition = followed.partition
        if partition.follower_quota is not None and followed.behind and partition.purgatory is not None:
            if partition.follower_quota.exceeded(monotonic_ms()) and self.hold(followed):
                return 0
        self.changed[followed.key] = followed
        # In the same leader epoch the next request removes it, and the one after that adds it again. The leader may
        # have reported marks in answers that were ignored. It repeats them for what is new, or in another epoch.
        if self.forgotten and self.session.get(followed.key) != followed.leader_epoch:
            self.forgotten.pop(followed.key, None)
        return 0

    cdef bint hold(self, FollowedPartition followed) except -1:
        cdef Partition partition = followed.partition
        cdef int64_t now_ms = monotonic_ms()
        cdef ThrottleWait wait
        if self.wait is None:
            wait = ThrottleWait.__new__(ThrottleWait)
            wait.fetcher = self
            if not partition.purgatory.park(wait, [], now_ms + max(1, partition.follower_quota.wait_ms(now_ms))):
                return False
            self.wait = wait
        self.changed.pop(followed.key, None)
        followed.requested_from = -1
        self.forget(followed)
        self.held[followed.key] = followed
        return True

    cdef int forget(self, FollowedPartition followed) except -1:
        """Make the next request remove the partition from the leader's session. The leader would answer every request
        at once as long as it cannot serve a partition of the session."""
        if followed.key in self.session:
            self.forgotten[followed.key] = None
        return 0

    cdef int release(self) except -1:
        cdef FollowedPartition followed
        cdef dict held = self.held
        self.held = {}
        self.wait = None
        for followed in held.values():
            self.place(followed)
        if not self.reading:
            self.send_request()
        return 0

    cdef int put_changed(self) except -1:
        cdef FollowedPartition followed
        cdef FollowerSpec spec
        cdef dict left = {}
        spec.bytes_max = self.partition_bytes_max
        for followed in self.changed.values():
            if self.forgotten and followed.key in self.forgotten:
                left[followed.key] = followed
                continue
            self.writer.topic(followed.partition.topic_id)
            spec.index = followed.partition.index
            spec.leader_epoch = followed.leader_epoch
            spec.fetch_offset = followed.partition.core.log_end
            spec.log_start_offset = followed.partition.core.log_start
            spec.last_fetched_epoch = followed.partition.last_epoch()
            self.writer.partition(&spec)
            if followed.requested_from < 0:
                followed.requested_from = self.requests_total
                self.session[followed.key] = followed.leader_epoch
        self.changed = left
        return 0

    cdef int put_forgotten(self) except -1:
        for topic_id, index in self.forgotten:
            self.writer.topic(topic_id)
            self.writer.forgotten(index)
            del self.session[topic_id, index]
        self.forgotten.clear()
        return 0

    # --- responses --------------------------------------------------------------------------------------------------

    cdef int break_off(self, str why) except -1:
        """Drop the connection, because the peer's bytes make no sense; the fetcher's creator connects again."""
        self.fd = -1
        if self.transport is not None:
            self.transport.abort()
            self.transport = None
        self.received.size = 0
        self.on_error(None, ERROR_UNKNOWN_SERVER_ERROR, KraftError(f"the leader's answer cannot be used: {why}"))
        return 0

    cdef int take_frames(self) except -1:
        cdef Scratch received = self.received
        cdef Py_ssize_t at = 0
        cdef int32_t size
        while self.transport is not None and received.size - at >= 4:
            size = load_i32(received.data + at)
            if not 4 <= size <= self.response_bytes_limit:
                return self.break_off(f"a response of {size} bytes")
            if received.size - at - 4 < size:
                break
            self.take(received.data + at + 4, size)
            at += 4 + size
        if self.transport is None:
            return 0
        if at > 0:
            memmove(received.data, received.data + at, <size_t>(received.size - at))
            received.size -= at
        if received.size == 0 and received.capacity > KEPT_BYTES_MAX:
            self.received = Scratch()
        return 0

    cdef int take(self, const uint8_t* frame, Py_ssize_t size) except -1:
        """Process one response."""
        cdef Span body = span_of(frame, size)
        cdef int32_t correlation_id, session_id
        cdef int16_t error
        if not read_fetch_head(&body, &correlation_id, &error, &session_id):
            return self.break_off("its head is malformed")
        self.responses_total += 1
        if correlation_id != wire_id(self.responses_total):
            return self.break_off(f"it answers request {correlation_id}, not {wire_id(self.responses_total)}")
        if error != ERROR_NONE:
            self.session_id = 0
            if error not in (ERROR_FETCH_SESSION_ID_NOT_FOUND, ERROR_INVALID_FETCH_SESSION_EPOCH,
                             ERROR_FETCH_SESSION_TOPIC_ID_ERROR):
                return self.break_off(f"error {error}")
            return 0
        if session_id != self.session_id:
            self.session_id = session_id
            self.session_epoch = 1
        return self.take_topics(&body)

    cdef int take_topics(self, Span* body) except -1:
        cdef const uint8_t* topic_id
        cdef FollowedPartition followed
        cdef FollowerPart part
        cdef int32_t topics, parts
        cdef bytes name
        if read_count(body, True, UUID_BYTES, &topics) < 0:
            return self.break_off("its topics are malformed")
        while topics > 0:
            if not read_fetch_topic(body, &topic_id, &parts):
                return self.break_off("a topic is malformed")
            name = PyBytes_FromStringAndSize(<const char*>topic_id, UUID_BYTES)
            while parts > 0:
                if not read_fetch_part(body, &part):
                    return self.break_off("a partition is malformed")
                followed = self.followed.get((name, part.index))
                if followed is None and mutant(REMOVED_PARTITION_CRASHES_THE_FETCHER):
                    self.transport = None
                    return 0
                # A partition that was removed, or added after the request left, has no use for it.
                if followed is not None and 0 <= followed.requested_from <= self.responses_total:
                    self.take_part(followed, &part)
                parts -= 1
            if skip_tags(body, True) < 0:
                return self.break_off("a topic is malformed")
            topics -= 1
        return 0

    cdef int take_part(self, FollowedPartition followed, FollowerPart* part) except -1:
        cdef Partition partition = followed.partition
        cdef int64_t log_start = partition.core.log_start
        cdef bint appended
        if mutant(TRUNCATED_BY_A_FETCHER_OF_BEFORE):
            followed.leader_epoch = partition.leader_epoch
        if partition.removed or partition.is_leader or partition.leader_epoch != followed.leader_epoch:
            self.unfollow(partition)
            return 0
        if part.error != ERROR_NONE:
            return self.stop_following(followed, part.error, None)
        try:
            if part.diverging_epoch >= 0:
                if mutant(HIGH_WATERMARK_BEFORE_TRUNCATION):
                    partition.follow_marks(part.high_watermark, part.log_start_offset)
                    self.on_cut(partition, partition.core.log_end, "its high watermark was followed first")
                self.cut(partition, part)
                self.changed[followed.key] = followed
                return 0
            appended = part.records_bytes > 0 and self.append(followed, part)
            followed.behind = part.high_watermark > partition.core.log_end
            if appended:
                self.place(followed)
            partition.follow_marks(part.high_watermark, part.log_start_offset)
            if partition.core.log_start != log_start:
                self.changed[followed.key] = followed      # the leader may wait for it: Kafka's DeleteRecords
        except KraftError as error:
            return self.stop_following(followed, error.code, error)
        return 0

    cdef int cut(self, Partition partition, FollowerPart* part) except -1:
        """Drop what the leader does not have, and report a cut."""
        cdef int64_t before = partition.core.log_end
        if partition.cut_to_epoch(part.diverging_epoch, part.diverging_end) < before and self.on_cut is not None:
            self.on_cut(partition, before, f"in the leader's log epoch {part.diverging_epoch} ends at "
                                           f"{part.diverging_end}")
        return 0

    cdef bint append(self, FollowedPartition followed, FollowerPart* part) except -1:
        """Append the whole batches past the log end; the last one may have been cut.

        Batches of a later epoch than the request's are not appended (KAFKA-18723). A leader that sends the pages of its
        file may have lost its role meanwhile. Its log may then have been cut and continued in another epoch."""
        cdef Partition partition = followed.partition
        cdef const uint8_t* first = part.records
        cdef const uint8_t* end = part.records
        cdef Py_ssize_t left = part.records_bytes
        cdef int64_t log_end = partition.core.log_end
        cdef Py_ssize_t batch
        cdef int32_t epoch = followed.leader_epoch
        cdef bint legacy
        while left >= LEGACY_MESSAGE_BYTES_MIN:
            legacy = end[BATCH_MAGIC] < MAGIC_CURRENT      # has no epoch
            batch = batch_bytes_at(end)
            if batch < (LEGACY_MESSAGE_BYTES_MIN if legacy else BATCH_HEADER_BYTES) or batch > left:
                break
            if not legacy:
                epoch = load_i32(end + BATCH_LEADER_EPOCH)
                if epoch > followed.leader_epoch:
                    break
            # Batches that the log already has come before the new ones.
            if end == first and batch_end_at(end) < log_end:
                first += batch
            end += batch
            left -= batch
        if end == first:
            if epoch > followed.leader_epoch:
                raise UnknownLeaderEpochError(f"{partition!r}: the leader sent a batch of epoch {epoch}")
            return False
        if partition.core.log_start == log_end:
            self.start_within(partition, first, end - first)
        partition.replicate(first, end - first)
        self.bytes_total += end - first
        if partition.follower_quota is not None:
            partition.follower_quota.record(end - first, monotonic_ms())
        self.await_flush(partition)
        return True

    cdef int start_within(self, Partition partition, const uint8_t* first, Py_ssize_t size) except -1:
        """Start an empty log with the batch in which the leader's log starts. That batch comes whole; the log start
        follows with the marks."""
        cdef BatchHeader h
        batch_require(first, size, False, &h)
        if h.base_offset < partition.core.log_end:
            partition.log.truncate_fully_and_start_at(h.base_offset)
        return 0

    cdef int await_flush(self, Partition partition) except -1:
        """Delay the next request, with group commit, until the log's records are durable: it reports them to the
        leader."""
        cdef FlushWaiter waiter
        if (partition.core.config.durability_kind != DURABILITY_GROUP_COMMIT or partition.purgatory is None
                or partition.core.durable_end() >= partition.core.log_end):
            return 0
        waiter = FlushWaiter.__new__(FlushWaiter)
        waiter.fetcher = self
        waiter.partition = partition
        waiter.end_offset = partition.core.log_end
        if partition.purgatory.park(waiter, [partition], monotonic_ms() + FLUSH_WAIT_MS):
            self.flushes_awaited += 1
        return 0

    cdef int flush_is_over(self) except -1:
        self.flushes_awaited -= 1
        if not self.reading:
            self.send_request()
        return 0


@cython.final
cdef class FlushWaiter(Parked):
    """Delay of the next request until an append is durable here."""

    cdef int wake(self, int64_t bytes_count) except -1:
        if self.partition.removed or self.partition.core.closed:
            self.done()
        elif self.partition.core.first_failure() is not None:
            # Records that could not be flushed are never reported to the leader.
            self.fetcher.unfollow(self.partition)
            self.done()
        elif self.partition.core.durable_end() >= min(self.end_offset, self.partition.core.log_end):
            self.done()
        return 0

    cdef int expire(self) except -1:
        """Continue to wait: a flush that takes this long is still awaited."""
        self.purgatory.leave(self)
        self.fetcher.await_flush(self.partition)
        return self.fetcher.flush_is_over()

    cdef int done(self) except -1:
        self.purgatory.leave(self)
        return self.fetcher.flush_is_over()


@cython.final
cdef class ThrottleWait(Parked):
    """Wait of throttled partitions for their quota."""

    cdef int wake(self, int64_t bytes_count) except -1:
        return 0

    cdef int expire(self) except -1:
        self.purgatory.leave(self)
        return self.fetcher.release()
