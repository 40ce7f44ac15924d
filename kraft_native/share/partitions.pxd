"""Share partitions of a node: one for each share group and partition that the group fetches from."""

from libc.stdint cimport int16_t, int32_t, int64_t

from kraft_native.partition.partition cimport Partition
from kraft_native.partition.purgatory cimport Purgatory, Watched
from kraft_native.share.window cimport ShareWindow


cdef enum ShareStatus:
    SHARE_LOADING                  # its state was requested
    SHARE_READY
    SHARE_PAUSED                   # its state cannot be read for now: it is requested again after `until_ms`
    SHARE_FAILED                   # `error` says why; another one takes its place at the next request
    SHARE_DROPPED                  # no longer in the table


cdef class ShareSettings:
    """Settings of one share group."""
    cdef readonly int64_t lock_ms          # time of an acquisition lock
    cdef readonly int64_t locks_max        # records in flight of one partition
    cdef readonly int16_t deliveries_max
    cdef readonly bint committed           # only committed records are delivered
    cdef readonly bint renews              # locks may be renewed


cdef class SharePartition(Watched):
    cdef readonly bytes group
    cdef readonly Partition partition
    cdef readonly int32_t leader_epoch     # of the partition, when this was created
    cdef readonly int32_t state_epoch
    cdef readonly ShareWindow window
    cdef readonly ShareSettings settings
    cdef readonly int status
    cdef readonly int error                # Kafka's, once it has failed
    cdef readonly int64_t until_ms
    cdef int64_t used_ms
    cdef bint retired                      # no member of the group has a session here
    cdef bint due                          # for a write
    cdef SharePartitions table

    # Kafka's error when another node leads the partition, or this one in a later epoch; 0 when it is in force.
    cdef int check(self) noexcept
    # Whether it may be dropped: it is not used, and nothing waits for it.
    cdef bint is_idle(self, int64_t now_ms) noexcept
    # After a change of the window: writes what is to be written, sets the alarm, and notifies pending requests.
    cdef int changed(self, bint notifies) except -1


cdef class SharePartitions:
    """Loop thread only."""
    cdef readonly Purgatory purgatory
    cdef readonly int64_t partitions_max
    cdef dict partitions                   # (group, topic id, index) -> SharePartition
    cdef dict by_group                     # group -> dict of its share partitions, as keys
    cdef dict known                        # group -> ShareSettings
    cdef list due                          # SharePartition with something to write
    cdef readonly int64_t armed_ms         # deadline of the alarm; -1: none
    cdef object load
    cdef object write
    cdef object settings_of
    cdef object arm
    # Since the start.
    cdef readonly int64_t acquired_total
    cdef int64_t[5] acknowledged           # by acknowledge type
    cdef readonly int64_t expired_total    # partitions of which locks ended

    cdef ShareSettings settings(self, bytes group)
    # None when there is none, or it is out of force.
    cdef SharePartition find(self, bytes group, bytes topic_id, int32_t index)
    # The same, created and loaded if need be. None when there are too many.
    cdef SharePartition bring(self, bytes group, Partition partition)
    cdef int drop(self, SharePartition share, int error) except -1
    cdef int set_alarm(self, int64_t deadline_ms) except -1
