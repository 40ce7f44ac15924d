"""Compaction's output, and the swap that replaces its sources.

The swap is Kafka's (LocalLog.replaceSegments), with every step durable before the next. So a crash at any point, or a
power loss, leaves the sources or the output whole:

    1  <base>.log.cleaned and its indexes are written and flushed   open drops them: the sources exist
    2  .cleaned becomes .swap, the directory is flushed             from here on the output counts
    3  the sources are removed, the directory is flushed            open removes the rest of them
    4  the suffix .swap is removed, the directory is flushed        open removes the rest

Opening does the remaining steps (`tidy_directory` in recovery). In memory the output takes the sources' place between 2
and 3, with its file mapped, so reading works even when 3 or 4 fails. Slices of the sources stay readable.
"""

import os

cimport cython
from libc.errno cimport EDQUOT, EFBIG, ENOSPC, EOPNOTSUPP
from libc.string cimport memcpy
from posix.fcntl cimport O_CREAT, O_EXCL, O_RDWR

from kraft_native.base.limits cimport INT32_MAX_VALUE, NO_TIMESTAMP, SEGMENT_BYTES_MAX
from kraft_native.file.file_io cimport (
    check, file_allocate, file_close, file_open, file_sync, file_sync_dir, file_truncate, file_write, file_write_back,
)
from kraft_native.segment.index_file cimport IndexFile
from kraft_native.segment.segment cimport Segment, segment_load, segment_path
from kraft_native.segment.txn_index cimport TransactionIndex

from kraft_native.base.errors import StorageError
from kraft_native.file.file_io import rename, unlink

cdef enum:
    BUFFER_BYTES = 1 << 20
    # Runs of untouched batches from this size on are written from where they are.
    DIRECT_BYTES_MIN = 128 * 1024
    # Bytes sent to the device at a time, while the walk continues. The flush then has little to wait for.
    WRITE_BACK_BYTES = 8 * 1024 * 1024
    # Space is reserved in this size, like `SegmentFile.reserve`; sending allocates its blocks too.
    RESERVED_BYTES = 64 * 1024 * 1024

# To `.swap` in this order: a `.log.swap` means that all of its output exists. To the final names in reverse: a
# `.log.swap` means that the files under the final names are the sources'.
SUFFIXES: tuple[bytes, ...] = (b".index", b".timeindex", b".txnindex", b".log")


@cython.final
cdef class SegmentWriter:
    def __cinit__(self):
        self.fd = -1
        self.buffer = Scratch()
        self.buffer.reserve(BUFFER_BYTES)

    def __dealloc__(self):
        self.close()

    cdef int begin(self, bytes directory, int64_t base_offset, int64_t index_interval_bytes,
                   int64_t source_bytes) except -1:
        cdef bytes name
        self.directory = directory
        self.base_offset = base_offset
        self.index_interval_bytes = index_interval_bytes
        self.source_bytes = source_bytes
        self.size = self.written = self.sent = self.reserved_to = self.bytes_since_index = 0
        self.buffer.size = self.run_bytes = self.mark_count = 0
        self.run = NULL
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.path = segment_path(directory, base_offset, b".log.cleaned")
        for suffix in SUFFIXES:
            unlink(segment_path(directory, base_offset, suffix + b".cleaned"), missing_ok=True)
        name = self.path
        self.fd = <int>check(file_open(name, O_RDWR | O_CREAT | O_EXCL, 0o644), name)
        # Without a limit of entries: these indexes request no roll.
        self.offset_index = OffsetIndex.create(segment_path(directory, base_offset, b".index.cleaned"), base_offset,
                                               INT32_MAX_VALUE)
        self.time_index = TimeIndex.create(segment_path(directory, base_offset, b".timeindex.cleaned"), base_offset,
                                           INT32_MAX_VALUE)
        return 0

    cdef int put(self, const uint8_t* batch, Py_ssize_t size, int64_t last_offset,
                 int64_t max_timestamp) noexcept nogil:
        cdef IndexMark* mark
        cdef int result
        if self.size + size > SEGMENT_BYTES_MAX:
            return -EFBIG
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        # Like `Segment.count_batch`.
        if self.bytes_since_index > self.index_interval_bytes:
            mark = &self.marks[self.mark_count]
            mark.last_offset = last_offset
            mark.position = self.size
            mark.max_timestamp = self.max_timestamp
            mark.max_timestamp_offset = self.max_timestamp_offset
            self.mark_count += 1
            self.bytes_since_index = 0
        self.bytes_since_index += size
        self.size += size
        if self.run_bytes > 0 and batch == self.run + self.run_bytes:
            self.run_bytes += size
            return 0
        result = self.settle()
        self.run = batch
        self.run_bytes = size
        return result

    cdef int settle(self) noexcept nogil:
        cdef int result = 0
        cdef Py_ssize_t size = self.run_bytes
        if size == 0:
            return 0
        self.run_bytes = 0
        if size >= DIRECT_BYTES_MIN or self.buffer.size + size > BUFFER_BYTES:
            result = self.write_buffer()
            if result < 0:
                return result
        if size >= DIRECT_BYTES_MIN:
            result = self.write_out(self.run, size)
        else:
            memcpy(self.buffer.data + self.buffer.size, self.run, <size_t>size)
            self.buffer.size += size
        return result

    cdef int write_buffer(self) noexcept nogil:
        cdef int result = 0
        if self.buffer.size > 0:
            result = self.write_out(self.buffer.data, self.buffer.size)
            self.buffer.size = 0
        return result

    cdef int write_out(self, const uint8_t* data, Py_ssize_t size) noexcept nogil:
        cdef int64_t end
        cdef int result = 0
        if self.written + size > self.reserved_to and size >= DIRECT_BYTES_MIN:
            result = self.reserve(self.written + size)
        if result == 0:
            result = file_write(self.fd, data, <size_t>size, self.written)
        self.written += size
        if result == 0 and self.written - self.sent >= WRITE_BACK_BYTES:
            # Whole mebibytes: a page that is written to again would be sent twice.
            end = self.written - self.written % BUFFER_BYTES
            result = file_write_back(self.fd, self.sent, end - self.sent)
            self.sent = end
        return result

    cdef int reserve(self, int64_t end) noexcept nogil:
        """Reserve space to `end` and beyond, but no more than the sources have. Where that is not possible a plain
        write must do."""
        cdef int result
        end = max(end, min(self.written + RESERVED_BYTES, self.source_bytes))
        result = file_allocate(self.fd, self.written, end - self.written)
        self.reserved_to = end         # also after a failure: no next try
        return 0 if result == -EOPNOTSUPP or result == -ENOSPC or result == -EDQUOT else result

    cdef int index(self) except -1:
        """Add the pending index entries."""
        cdef int i
        for i in range(self.mark_count):
            self.offset_index.append(self.marks[i].last_offset, self.marks[i].position)
            self.time_index.maybe_append(self.marks[i].max_timestamp, self.marks[i].max_timestamp_offset)
        self.mark_count = 0
        return 0

    cdef int finish(self, list aborted, int64_t modified_ns) except -1:
        cdef TransactionIndex transactions
        cdef int result, fd = self.fd
        with nogil:
            result = self.settle()
            if result == 0:
                result = self.write_buffer()
            if result == 0 and self.reserved_to > 0:
                result = file_truncate(fd, self.written)
        check(result, self.path)
        self.index()
        if self.max_timestamp != NO_TIMESTAMP:
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset, True)
        self.offset_index.flush(True)
        self.time_index.flush(True)
        if aborted:
            transactions = TransactionIndex(segment_path(self.directory, self.base_offset, b".txnindex.cleaned"),
                                            self.base_offset)
            for entry in aborted:
                transactions.add(*entry)
            transactions.flush()
        os.utime(self.path, ns=(modified_ns, modified_ns))
        with nogil:
            result = file_sync(fd)
        check(result, self.path)
        return 0

    cdef int drop(self) except -1:
        self.close()
        for suffix in SUFFIXES:
            unlink(segment_path(self.directory, self.base_offset, suffix + b".cleaned"), missing_ok=True)
        return 0

    cdef void close(self) noexcept:
        file_close(self.fd)
        self.fd = -1
        self.offset_index = None
        self.time_index = None


cdef object take_index(IndexFile written, IndexFile named):
    """The index that was `written`, loaded, under the name of `named`."""
    written.seal()
    written.path = named.path + b".swap"
    written.load()
    written.path = named.path
    return written


cdef Segment take_over(LogCore core, SegmentWriter writer, list sources):
    """The output as a segment that can be read, whatever names its files have next."""
    cdef Segment source, last = sources[len(sources) - 1]
    cdef Segment segment = segment_load(core.directory, writer.base_offset, writer.size, True, last.next_base,
                                        core.config.index_interval_bytes, core.config.index_bytes_max)
    # Each batch was checked as it was read, and written from there.
    segment.checked.add(0, writer.size)
    # Its transaction index is as right as those of its sources.
    segment.txn_checked = True
    for source in sources:
        segment.txn_checked = segment.txn_checked and source.txn_checked
    segment.unstable_after = last.unstable_after
    segment.durable = True
    # Loaded now, under the present names: no later failure prevents look-ups.
    segment.offset_index = take_index(writer.offset_index, segment.offset_index)
    segment.time_index = take_index(writer.time_index, segment.time_index)
    segment.indexes_ready = True
    segment.fd = writer.fd
    writer.fd = -1
    if segment.size > 0:
        segment.map_to(segment.size)
    return segment


cdef int rename_all(LogCore core, int64_t base_offset, bytes old, bytes new) except -1:
    for suffix in SUFFIXES if new else SUFFIXES[::-1]:
        source = segment_path(core.directory, base_offset, suffix + old)
        if os.path.exists(source):
            rename(source, segment_path(core.directory, base_offset, suffix + new))
    check(file_sync_dir(core.directory), core.directory)
    return 0


cdef int swap_segments(LogCore core, SegmentWriter writer, list sources) except -1:
    cdef Py_ssize_t slot = core.segments.index(sources[0])
    cdef Segment segment, output
    try:
        rename_all(core, writer.base_offset, b".cleaned", b".swap")
        output = take_over(core, writer, sources)
        core.live.segments_change()
        core.segments[slot:slot + len(sources)] = [output]
        for segment in sources:        # all of them, before anything can fail: no list has them any longer
            core.forget_segment(segment)
            segment.close_file()
        for segment in sources:
            segment.delete()
            if segment.base_offset != writer.base_offset:
                # As in Kafka: no segment starts there any longer.
                unlink(segment_path(core.directory, segment.base_offset, b".snapshot"), missing_ok=True)
        check(file_sync_dir(core.directory), core.directory)
        rename_all(core, writer.base_offset, b".swap", b"")
        output.close_file()
        core.live.segments_change()
    except StorageError as error:
        core.fail(error)
    finally:
        writer.close()
    return 0
