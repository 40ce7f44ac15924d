"""Share partitions: the records in flight of one share group in one partition that this node leads.

A share partition is created by the first ShareFetch that needs it. Then `load(share)` is called, and its answer
is `loaded`, `paused` or `failed`. It is in force in one leader epoch of its partition. When that ends it is dropped,
and what was acquired from it is lost: the next leader delivers it again. It is dropped, too, when no member of its
group has a session with this node, once its writes are over. The stored state of an empty group may change.

After a change `write()` is called once in an iteration of the loop, and takes all that is to be written by `take_due`.
One alarm serves all locks: `arm(deadline_ms)` is called when it must ring earlier than it would.
"""

from libc.stdint cimport int16_t, int32_t, int64_t

cimport cython

from kraft_native.base.clock cimport monotonic_ms
from kraft_native.base.fault cimport ERROR_NONE, ERROR_NOT_LEADER_OR_FOLLOWER
from kraft_native.partition.purgatory cimport WAKE_BYTES_ALL
from kraft_native.share.sessions cimport ShareSession

from kraft_native.base.errors import InvalidArgumentError

cdef enum:
    PARTITIONS_MAX_DEFAULT = 50_000
    IDLE_MS = 600_000              # without a request, and nothing acquired
    SWEEP_MS = 30_000


@cython.final
cdef class ShareSettings:
    """Settings of one share group: share.record.lock.duration.ms, share.partition.max.record.locks,
    share.delivery.count.limit, share.isolation.level and share.renew.acknowledge.enable."""

    def __init__(self, int64_t lock_ms, int64_t locks_max, int16_t deliveries_max, *, bint committed=False,
                 bint renews=True):
        if lock_ms < 1 or locks_max < 1 or deliveries_max < 1:
            raise InvalidArgumentError(f"settings of a share group: {lock_ms}, {locks_max} and {deliveries_max} must "
                                       "all be at least 1")
        self.lock_ms = lock_ms
        self.locks_max = locks_max
        self.deliveries_max = deliveries_max
        self.committed = committed
        self.renews = renews


@cython.final
cdef class SharePartition(Watched):
    """One share group in one partition. `SharePartitions` creates them."""

    def __init__(self):
        raise TypeError("a table creates its share partitions")

    def __repr__(self) -> str:
        return f"<share partition of {self.group!r} in {self.partition!r}, epoch {self.leader_epoch}>"

    cdef int check(self) noexcept:
        if self.status == SHARE_DROPPED or self.partition.removed or not self.partition.is_leader or (
            self.partition.leader_epoch != self.leader_epoch
        ):
            return ERROR_NOT_LEADER_OR_FOLLOWER
        return ERROR_NONE

    cdef bint is_idle(self, int64_t now_ms) noexcept:
        return ((self.retired or self.used_ms + IDLE_MS < now_ms) and self.window.acquired_count == 0
                and self.window.write_in_flight == 0 and not self.window.unwritten and not self.waiters)

    cdef int changed(self, bint notifies) except -1:
        if self.window.unwritten and self.window.write_in_flight == 0 and not self.due:
            self.due = True
            self.table.due.append(self)
            if len(self.table.due) == 1:
                self.table.purgatory.call_soon(self.table.write)
        if self.window.deadline_ms >= 0:
            self.table.set_alarm(self.window.deadline_ms)
        if notifies:
            self.table.purgatory.notify(self, WAKE_BYTES_ALL, False)
        return 0

    def loaded(self, int32_t state_epoch, int64_t start, list batches not None: list[tuple[int, int, int, int]]
               ) -> None:
        """Begin to serve, with the state that was read. See `ShareWindow.load`, which may refuse it."""
        if self.status != SHARE_LOADING:
            return
        self.window.load(start, batches)
        self.state_epoch = state_epoch
        self.status = SHARE_READY
        self.changed(True)

    def paused(self, int64_t pause_ms) -> None:
        """Request the state again when something is fetched after `pause_ms`."""
        if self.status == SHARE_LOADING:
            self.status = SHARE_PAUSED
            self.until_ms = monotonic_ms() + pause_ms

    def failed(self, int error) -> None:
        """End with Kafka's error. Pending requests get it; the next one begins again."""
        if self.status != SHARE_DROPPED:
            self.table.drop(self, error)

    def take_write(self) -> tuple[int, int, list[tuple[int, int, int, int]]] | None:
        """Begin the next write. See `ShareWindow.take_write`."""
        self.due = False
        return None if self.status != SHARE_READY else self.window.take_write()

    def written(self, int error) -> None:
        """Note the outcome of the write in flight: Kafka's error, or 0. What a failed write had is in a later one."""
        cdef bint more = self.window.unwritten
        if self.status != SHARE_READY:
            return
        self.window.written(error)
        if error == ERROR_NONE or more:
            self.changed(True)
        else:
            self.table.purgatory.notify(self, WAKE_BYTES_ALL, False)
            self.table.set_alarm(monotonic_ms() + self.settings.lock_ms // 8)
        if error == ERROR_NONE and self.retired:
            self.table.set_alarm(monotonic_ms())


@cython.final
cdef class SharePartitions:
    """All share partitions of a node.

    `load(share)` requests the state of one. `write()` is called when writes are due. `settings_of(group)` returns the
    `ShareSettings` of a group, by its id in UTF-8. `arm(deadline_ms)` has to call `expire` by then, on the clock of
    `purgatory.now_ms`.
    """

    def __init__(self, Purgatory purgatory not None, *, load: Callable[[SharePartition], object],
                 write: Callable[[], None], settings_of: Callable[[bytes], ShareSettings],
                 arm: Callable[[int], object], int64_t partitions_max=PARTITIONS_MAX_DEFAULT):
        self.purgatory = purgatory
        self.load = load
        self.write = write
        self.settings_of = settings_of
        self.arm = arm
        self.partitions_max = partitions_max
        self.partitions = {}
        self.by_group = {}
        self.known = {}
        self.due = []
        self.armed_ms = -1

    def __len__(self) -> int:
        return len(self.partitions)

    def acknowledged_totals(self) -> list[int]:
        """Return the number of acknowledged ranges of offsets since the start, by acknowledge type."""
        cdef int kind
        return [self.acknowledged[kind] for kind in range(5)]

    def get(self, bytes group not None, bytes topic_id not None, int32_t index) -> SharePartition | None:
        """Return a share partition that is in force."""
        return self.find(group, topic_id, index)

    def settings_changed(self) -> None:
        """Read the settings of all groups again."""
        cdef SharePartition share
        self.known.clear()
        for share in self.partitions.values():
            share.settings = self.settings(share.group)

    cdef ShareSettings settings(self, bytes group):
        cdef ShareSettings found = self.known.get(group)
        if found is None:
            if len(self.known) >= self.partitions_max:
                self.known.clear()
            found = self.known[group] = self.settings_of(group)
        return found

    cdef SharePartition find(self, bytes group, bytes topic_id, int32_t index):
        cdef SharePartition found = self.partitions.get((group, topic_id, index))
        if found is not None and found.check() != ERROR_NONE:
            self.drop(found, ERROR_NOT_LEADER_OR_FOLLOWER)
            return None
        return found

    cdef SharePartition bring(self, bytes group, Partition partition):
        cdef SharePartition share = self.find(group, partition.topic_id, partition.index)
        cdef int64_t now = monotonic_ms()
        if share is None:
            if len(self.partitions) >= self.partitions_max:
                return None
            share = SharePartition.__new__(SharePartition)
            share.group = group
            share.partition = partition
            share.leader_epoch = partition.leader_epoch
            share.window = ShareWindow(0)
            share.settings = self.settings(group)
            share.table = self
            share.status = SHARE_PAUSED
            self.partitions[group, partition.topic_id, partition.index] = share
            self.by_group.setdefault(group, {})[share] = None
            self.set_alarm(now + SWEEP_MS)
        share.used_ms = now
        share.retired = False
        if share.status == SHARE_PAUSED and share.until_ms <= now:
            share.status = SHARE_LOADING
            self.load(share)
        return share

    def release(self, ShareSession session not None) -> None:
        """Release everything that a member has in the partitions of its session, which has ended."""
        cdef SharePartition share
        for topic_id, index in session.entries:
            share = self.find(session.group, topic_id, index)
            if share is not None and share.window.leave(session.member):
                share.changed(True)

    def retire(self, bytes group not None) -> None:
        """Drop the share partitions of a group without sessions here, each when nothing waits for it."""
        cdef SharePartition share
        for share in self.by_group.get(group, ()):
            share.retired = True
            self.set_alarm(monotonic_ms())

    cdef int drop(self, SharePartition share, int error) except -1:
        cdef tuple key = (share.group, share.partition.topic_id, share.partition.index)
        if self.partitions.get(key) is share:
            del self.partitions[key]
            del self.by_group[share.group][share]
            if not self.by_group[share.group]:
                del self.by_group[share.group]
        share.status = SHARE_FAILED if share.status == SHARE_LOADING else SHARE_DROPPED
        share.error = error
        self.purgatory.notify(share, WAKE_BYTES_ALL, False)
        return 0

    cdef int set_alarm(self, int64_t deadline_ms) except -1:
        if self.armed_ms < 0 or deadline_ms < self.armed_ms:
            self.armed_ms = deadline_ms
            self.arm(deadline_ms)
        return 0

    def take_due(self) -> list[SharePartition]:
        """Return the share partitions with something to write."""
        cdef list due = self.due
        self.due = []
        return due

    def expire(self, int64_t now_ms) -> int:
        """End the locks whose time is over, and forget what is not used. Return the next deadline; -1: none is
        pending."""
        cdef SharePartition share
        cdef int64_t next_ms = now_ms + SWEEP_MS
        for share in list(self.partitions.values()):
            if share.check() != ERROR_NONE:
                self.drop(share, ERROR_NOT_LEADER_OR_FOLLOWER)
                continue
            if share.window.expire(now_ms, share.settings.deliveries_max):
                self.expired_total += 1
                share.changed(True)
            elif share.window.unwritten:
                share.changed(False)
            if share.window.deadline_ms >= 0:
                next_ms = min(next_ms, share.window.deadline_ms)
            elif share.is_idle(now_ms):
                self.drop(share, ERROR_NOT_LEADER_OR_FOLLOWER)
        self.armed_ms = next_ms if self.partitions else -1
        return self.armed_ms
