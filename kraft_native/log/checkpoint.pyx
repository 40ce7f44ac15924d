"""The checkpoint of one log in three steps, so that only the first and the last need the owner.

    begin     owner         collects what to flush and the new content of the state file
    write     any thread    flushes the indexes and a new state file under a temporary name
    finish    owner         renames that file into place, unless the state was written by another call meanwhile

The new name is not flushed. After a power loss the old state may be back: its recovery point is lower, which costs the
next opening time and nothing else.
"""

import errno
import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from posix.fcntl cimport O_CREAT, O_TRUNC, O_WRONLY

from kraft_native.file.file_io cimport check, file_close, file_datasync, file_open, file_sync, file_write
from kraft_native.segment.index_file cimport IndexFile
from kraft_native.segment.segment cimport Segment

from kraft_native.base.errors import StorageError
from kraft_native.file.file_io import rename, unlink
from kraft_native.segment.checkpoints import log_state_bytes, log_state_path

# Opening removes files with this suffix.
cdef str TEMPORARY = ".next.tmp"
cdef int errno_no_file = errno.ENOENT


cdef LogCheckpoint begin_checkpoint(LogCore core):
    cdef LogCheckpoint checkpoint
    cdef Segment segment
    cdef IndexFile index
    cdef int64_t durable
    core.need_no_failure()
    if core.clean or core.untouched():
        return None
    if core.unsettled:
        core.enter_write()
    durable = core.durable_end()
    checkpoint = LogCheckpoint.__new__(LogCheckpoint)
    checkpoint.indexes = []
    try:
        for segment in core.segments:
            if not 0 <= segment.next_base <= durable:
                continue
            if segment.unwritten is not None:
                raise segment.unwritten
            segment.txn_index.flush()
            for index in (segment.offset_index, segment.time_index):
                if index.unsynced and index.growing is None and not index.detached:
                    checkpoint.indexes.append(index)
        if core.epochs.dirty:
            core.epochs.flush()
        core.release_flushed()
    except StorageError as error:
        core.fail(error)
    core.publish()
    checkpoint.core = core
    checkpoint.state = core.state_with(max(durable, core.recovery_point), core.log_start)
    checkpoint.content = log_state_bytes(checkpoint.state)
    checkpoint.state_writes = core.state_writes
    checkpoint.gaps_end = core.gaps_end
    if checkpoint.content == core.noted_state and not checkpoint.indexes:
        return None
    checkpoint.generation = core.live.page.state.truncation_generation
    checkpoint.path = log_state_path(core.directory)
    return checkpoint


@cython.final
cdef class LogCheckpoint:
    def write(self) -> None:
        """Wait for the device. `finish` reports any failure."""
        cdef IndexFile index
        try:
            for index in self.indexes:
                self.flush(index.path)
            if not self.stale:
                self.write_state()
        except StorageError as error:
            self.failure = error

    cdef int flush(self, bytes path) except -1:
        cdef const char* name = PyBytes_AS_STRING(path)
        cdef int fd, result
        with nogil:
            fd = result = file_open(name, O_WRONLY, 0)
            if fd >= 0:
                result = file_datasync(fd)
                file_close(fd)
        if result == -errno_no_file:
            self.stale = True          # its segment was removed
            return 0
        return check(result, path)

    cdef int write_state(self) except -1:
        cdef bytes path = os.fsencode(self.path + TEMPORARY)
        cdef const char* data = PyBytes_AS_STRING(self.content)
        cdef size_t size = <size_t>PyBytes_GET_SIZE(self.content)
        cdef int result, fd = file_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o644)
        if fd == -errno_no_file:
            self.stale = True          # the log's directory was removed
            return 0
        check(fd, path)
        with nogil:
            result = file_write(fd, data, size, 0)
            if result == 0:
                result = file_sync(fd)
            file_close(fd)
        return check(result, path)

    def finish(self) -> bool:
        """Apply the checkpoint; return False when changes of the log made it invalid: the next one will hold.

        A failure of `write` makes the log read-only and is raised.
        """
        cdef LogCore core = self.core
        cdef IndexFile index
        if not core.closed:
            core.enter()
        if core.closed or self.stale or core.live.page.state.truncation_generation != self.generation:
            self.drop()
            return False
        if self.failure is not None:
            core.fail(self.failure)
        for index in self.indexes:
            index.unsynced = False
        if core.state_writes != self.state_writes:
            self.drop()
            return False
        try:
            rename(self.path + TEMPORARY, self.path)
        except StorageError as error:
            core.fail(error)
        core.noted_state = self.content
        core.noted_durable = max(core.noted_durable, <int64_t>int(self.state.extra["durable_end"]))
        core.noted_gaps_end = self.gaps_end
        core.noted_start = self.state.log_start
        core.recovery_point = self.state.recovery_point
        return True

    cdef int drop(self) except -1:
        unlink(self.path + TEMPORARY, missing_ok=True)
        return 0
