"""One partition of a Fetch, and the read of it (Kafka's Partition.fetchRecords).

| what | answer |
|---|---|
| a follower without CLUSTER_ACTION; a consumer without READ on the topic, known or not | 29 |
| unknown name; unknown id | 3; 100 |
| CurrentLeaderEpoch older; newer | 74; 75 |
| not the leader (a consumer may read from a follower from version 11) | 6, with the leader from version 16 |
| ReplicaId is no replica of the partition | 6 |
| LastFetchedEpoch unknown; the offset lies past its end | 1; DivergingEpoch, no records |
| offset below the log start or past the log end | 1 |
| offset between what may be seen and the log end | no records |
| a follower in the consumer's rack has the offset, and this leader is in another (KIP-392) | that one, no records |
| a throttled follower that is not in sync, and the quota is exceeded | no records |
| damage at the offset | 56 |

With an error all offsets are -1 and aborted transactions null; an empty list where the partition is unknown.
"""

from libc.stdint cimport int32_t, int64_t

cimport cython

from kraft_native.base.clock cimport monotonic_ms
from kraft_native.base.fault cimport (
    ERROR_KAFKA_STORAGE_ERROR, ERROR_NONE, ERROR_NOT_LEADER_OR_FOLLOWER, ERROR_OFFSET_OUT_OF_RANGE,
    ERROR_TOPIC_AUTHORIZATION_FAILED, ERROR_UNKNOWN_TOPIC_ID, ERROR_UNKNOWN_TOPIC_OR_PARTITION,
)
from kraft_native.base.mutants cimport (
    CONSUMERS_SEE_THE_LOG_END, DIVERGING_BELOW_THE_LOG_START, DIVERGING_FETCH_COUNTS, mutant,
)
from kraft_native.log.core cimport ISOLATION_LOG_END, LogCore
from kraft_native.log.lookup cimport aborted_between, cold_extent, read_from
from kraft_native.partition.table cimport Absence, Topic
from kraft_native.request.permissions cimport OPERATION_READ, RESOURCE_TOPIC
from kraft_native.serve.topic_access cimport topic_error

from kraft_native.base.errors import KraftError

cdef list NOTHING_ABORTED = []


cdef FetchEntry new_entry(bytes topic, bint by_id, const FetchSpec* spec):
    cdef FetchEntry entry = FetchEntry.__new__(FetchEntry)
    entry.topic = topic
    entry.by_id = by_id
    entry.spec = spec[0]
    entry.reported_high_watermark = entry.reported_log_start = entry.preferred = -1
    entry.leader_id = entry.leader_epoch = -1
    entry.unread_at = -1
    return entry


@cython.final
cdef class Unread:
    def __cinit__(self):
        self.places = []

    cdef int add(self, FetchEntry entry) except -1:
        """Add it. One that has a place keeps it."""
        if entry.unread_at < 0:
            self.add_last(entry)
        return 0

    cdef int add_last(self, FetchEntry entry) except -1:
        """Add it, or move it to the end."""
        entry.unread_at = len(self.places)
        self.places.append(entry)
        return 0

    cdef list entries(self):
        cdef list found = []
        cdef FetchEntry entry
        cdef Py_ssize_t at
        for at in range(len(self.places)):
            entry = self.places[at]
            if entry.unread is self and entry.unread_at == at:
                found.append(entry)
        return found

    cdef int clear(self) except -1:
        cdef FetchEntry entry
        for entry in self.places:
            if entry.unread is self:
                entry.unread_at = -1
        self.places = []
        return 0


@cython.final
cdef class FetchEntry(Observer):
    cdef Py_ssize_t size(self) noexcept:
        return 0 if self.records is None else self.records.size

    cdef int forget(self) noexcept:
        """Release what was read."""
        self.records = self.cold = None
        self.aborted = None
        return 0

    cdef int fail(self, int error) noexcept:
        self.error = error
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1
        self.diverging_epoch = self.preferred = -1
        self.at_end = False
        self.forget()
        return 0

    cdef bint resolve(self, PartitionTable table) except -1:
        cdef Topic topic
        cdef Absence absence
        if self.partition is not None and not self.partition.removed:
            return True
        topic = table.lookup(self.topic, self.by_id)
        if self.session is not None:
            self.unobserve()
        self.partition = None if topic is None else topic.at(self.spec.index)
        if self.partition is not None:
            if self.session is not None:
                self.observe(self.partition)
            return True
        absence = table.absent(self.topic, self.by_id).at(self.spec.index)
        self.leader_id = absence.leader_id
        self.leader_epoch = absence.leader_epoch
        self.fail(absence.error)
        if self.error == ERROR_UNKNOWN_TOPIC_OR_PARTITION or self.error == ERROR_UNKNOWN_TOPIC_ID:
            self.aborted = NOTHING_ABORTED
        return False

    cdef int observe(self, Partition partition) except -1:
        if partition.observers is None:
            partition.observers = []
        partition.observers.append(self)
        return 0

    cdef int unobserve(self) except -1:
        if self.partition is not None:
            self.partition.observers.remove(self)
        return 0

    cdef int enter(self, Watched session, Unread unread, bint wakes_for_marks) except -1:
        self.session = session
        self.unread = unread
        self.wakes_for_marks = wakes_for_marks
        unread.add(self)
        if self.partition is not None:
            self.observe(self.partition)
        return 0

    cdef int exit(self) except -1:
        if self.session is not None:
            self.unobserve()
            self.unread_at = -1
            self.session = None
            self.unread = None
        return 0

    cdef int moved(self, Purgatory purgatory, int64_t bytes_count, bint marks) except -1:
        self.unread.add(self)
        if not marks or self.wakes_for_marks:
            purgatory.notify(self.session, bytes_count, marks)
        return 0

    cdef bint is_settled(self) noexcept:
        return (self.at_end and self.high_watermark == self.reported_high_watermark
                and self.log_start_offset == self.reported_log_start)

    cdef int forbid(self) except -1:
        self.fail(ERROR_TOPIC_AUTHORIZATION_FAILED)
        self.aborted = NOTHING_ABORTED
        return 0

    cdef bytes report_refusal(self, Permissions permissions, object reply, bytes reported):
        if self.topic != reported:
            permissions.report(reply, RESOURCE_TOPIC, OPERATION_READ, self.topic, self.by_id)
        return self.topic

    cdef int note_reported(self) noexcept:
        # After an error the next reply reports both in any case. So it does when the client's log diverges: a follower
        # that has to cut its log ignores the marks.
        cdef bint known = self.error == ERROR_NONE and self.diverging_epoch < 0
        self.reported_log_start = self.log_start_offset if known else -1
        self.reported_high_watermark = self.high_watermark if known else -1
        return 0

    cdef bint has_news(self) noexcept:
        return (self.size() > 0 or self.error != ERROR_NONE or self.diverging_epoch >= 0 or self.preferred >= 0
                or self.high_watermark != self.reported_high_watermark
                or self.log_start_offset != self.reported_log_start)

    cdef bint is_awaited(self, bint by_consumers) noexcept:
        return (self.log_start_offset != self.reported_log_start
                or (by_consumers and self.high_watermark != self.reported_high_watermark))

    cdef int read(self, PartitionTable table, Permissions permissions, ReadRules* rules) except -1:
        cdef int error
        cdef Partition partition
        cdef bint is_here
        if rules.is_forbidden:
            return self.forbid()
        is_here = self.resolve(table)
        if permissions is not None and topic_error(
                table, permissions, OPERATION_READ, self.partition.topic_name if is_here else None, self.topic,
                self.by_id) != ERROR_NONE:
            return self.forbid()
        if not is_here:
            return 0
        partition = self.partition
        error = partition.fence(self.spec.current_leader_epoch, rules.need_leader)
        if error == ERROR_NONE and rules.replica_id >= 0 and not partition.progress.has(rules.replica_id):
            error = ERROR_NOT_LEADER_OR_FOLLOWER
        if error == ERROR_NONE and partition.core.closed:
            error = ERROR_KAFKA_STORAGE_ERROR
        if error == ERROR_NONE:
            try:
                self.read_records(rules)
            except KraftError as refusal:
                error = refusal.code
                partition.note_read_failure(refusal)
        if error != ERROR_NONE:
            self.fail(error)
        if self.error != ERROR_NONE:
            partition.refused_fetches += 1
        if rules.replica_id >= 0 and self.error == ERROR_NONE and (
            self.diverging_epoch < 0 or mutant(DIVERGING_FETCH_COUNTS)
        ):
            if not partition.note_replica(rules.replica_id, self.spec.log_start_offset, self.spec.fetch_offset,
                                          rules.broker_epoch):
                self.at_end = False    # read again until the keeper of the in-sync replicas knows of it
            self.high_watermark = partition.core.high_watermark()      # that may just have moved it
        return 0

    cdef int read_records(self, ReadRules* rules) except -1:
        cdef LogCore core = self.partition.core
        cdef int64_t offset = self.spec.fetch_offset, bytes_max
        if mutant(CONSUMERS_SEE_THE_LOG_END):
            rules.isolation = ISOLATION_LOG_END
        self.forget()
        self.error = ERROR_NONE
        self.diverging_epoch = self.preferred = -1
        self.at_end = False
        self.high_watermark = core.high_watermark()
        self.last_stable_offset = core.last_stable_offset()
        self.log_start_offset = core.log_start
        if rules.near_count > 0:
            self.preferred = self.partition.preferred_replica(rules.near, rules.near_count, offset)
            if self.preferred >= 0:
                return 0
        if self.spec.last_fetched_epoch >= 0 and self.diverges():
            return 0
        if offset < core.log_start or offset > core.log_end:
            return self.fail(ERROR_OFFSET_OUT_OF_RANGE)
        if rules.replica_id >= 0 and self.partition.holds_back(rules.replica_id):
            return 0
        if rules.committed:
            self.aborted = NOTHING_ABORTED
        bytes_max = min(max(self.spec.bytes_max, 0), rules.bytes_left)
        self.at_end = offset >= core.visible_limit(rules.isolation)
        if self.at_end or (bytes_max == 0 and not rules.whole_first):
            return 0
        if rules.look_for_cold:
            self.cold = cold_extent(core, offset, bytes_max)
            if self.cold is not None:
                rules.whole_first = False              # it will have its share; the others are checked for theirs
                rules.bytes_left = max(0, rules.bytes_left - bytes_max)
                return 0
        self.records = read_from(core, offset, bytes_max, rules.isolation)
        if self.records.size == 0 or (self.records.size > bytes_max and not rules.whole_first):
            self.records = None
            return 0
        if rules.committed:
            self.aborted = aborted_between(core, offset, self.records.next_offset)
        rules.whole_first = False
        rules.bytes_left = max(0, rules.bytes_left - self.records.size)
        return 0

    cdef int account(self, bint of_follower) except -1:
        if self.records is not None and self.partition is not None:
            self.partition.fetched_bytes += self.size()
            if of_follower and self.partition.leader_quota is not None:
                self.partition.leader_quota.record(self.size(), monotonic_ms())
        return 0

    cdef bint diverges(self) except -1:
        cdef LogCore core = self.partition.core
        cdef int32_t epoch
        cdef int64_t end
        epoch = core.epochs.end_of(self.spec.last_fetched_epoch, core.log_end, &end)
        # A follower whose offset was deleted must begin again, whatever the epochs say (KAFKA-12996).
        if epoch < 0 or end < 0 or self.spec.fetch_offset < core.log_start:
            if mutant(DIVERGING_BELOW_THE_LOG_START):
                self.diverging_epoch = self.spec.last_fetched_epoch
                self.diverging_end = max(end, self.spec.fetch_offset)
                return True
            self.fail(ERROR_OFFSET_OUT_OF_RANGE)
            return True
        if epoch < self.spec.last_fetched_epoch or end < self.spec.fetch_offset:
            self.diverging_epoch = epoch
            self.diverging_end = end
            return True
        return False
