"""Transaction index of one segment: the aborted transactions whose abort marker lies in it (Kafka's TransactionIndex).

    34 bytes, big-endian: int16 version 0, int64 producer id, int64 first offset, int64 last offset (of the marker),
    int64 last stable offset when the marker was appended

A segment without aborted transactions has no file. So unlike with the other indexes a missing file has a meaning, and a
loss would show aborted records to read_committed readers. Therefore `flush` makes the file's name durable as well as
its bytes. Entries are few; all are kept in memory after the first use. Used by the thread that owns the log.
"""

import errno
import os

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from posix.fcntl cimport O_CREAT, O_WRONLY

from kraft_native.base.bytes_be cimport load_i16, load_i64, store_i16, store_i64
from kraft_native.base.limits cimport TXN_INDEX_ENTRY_BYTES
from kraft_native.file.file_io cimport check as check_errno
from kraft_native.file.file_io cimport file_close, file_datasync, file_open, file_size, file_write

from kraft_native.base.errors import CorruptFileError, InvalidArgumentError, LogReadOnlyError, StorageError
from kraft_native.file.file_io import is_unreadable, read_file, set_aside, sync_directory, write_atomic

cdef enum:
    ENTRY_VERSION = 0


cdef void store_entry(uint8_t* entry, const AbortedTxn* aborted) noexcept nogil:
    store_i16(entry, ENTRY_VERSION)
    store_i64(entry + 2, aborted.producer_id)
    store_i64(entry + 10, aborted.first_offset)
    store_i64(entry + 18, aborted.last_offset)
    store_i64(entry + 26, aborted.last_stable_offset)


@cython.final
cdef class TransactionIndex:
    """Aborted transactions, by the offset of their marker. The file is not touched before the first query.

    Iteration yields (producer_id, first_offset, last_offset, last_stable_offset) in file order. Invariant: last offsets
    strictly increase and are at least `base_offset`. A file that breaks it, or has an entry of an unknown version,
    raises `CorruptFileError` from every query; `reset` and append again. An incomplete entry at the end, which a crash
    may leave, is ignored, and overwritten by the next append.
    """

    def __init__(self, path: FilePath, int64_t base_offset):
        if base_offset < 0:
            raise InvalidArgumentError(f"base_offset: {base_offset} is below 0")
        self.path = os.fsencode(path)
        self.base_offset = base_offset
        self.entries = []

    cdef int load(self) except -1:
        if self.loaded:
            return 0
        try:
            data = read_file(self.path)
        except StorageError as error:
            if is_unreadable(error):
                if self.failure is None:
                    set_aside(self.path)           # it is created again
                raise CorruptFileError(str(error)) from error
            if error.errno != errno.ENOENT:
                raise
            data = b""
        self.parse(data)
        self.loaded = True
        return 0

    cdef int parse(self, bytes data) except -1:
        cdef const uint8_t* entry = <const uint8_t*>PyBytes_AS_STRING(data)
        cdef Py_ssize_t count = PyBytes_GET_SIZE(data) // TXN_INDEX_ENTRY_BYTES
        cdef int64_t last_before = self.base_offset - 1
        cdef Py_ssize_t slot
        cdef list entries = []
        for slot in range(count):
            where = f"{os.fsdecode(self.path)}: entry {slot} at byte {slot * TXN_INDEX_ENTRY_BYTES}"
            if load_i16(entry) != ENTRY_VERSION:
                raise CorruptFileError(f"{where}: version {load_i16(entry)}, known: {ENTRY_VERSION}")
            if load_i64(entry + 18) < self.base_offset:
                raise CorruptFileError(f"{where}: last offset {load_i64(entry + 18)} lies below the base offset")
            if load_i64(entry + 18) <= last_before:
                raise CorruptFileError(f"{where}: last offset {load_i64(entry + 18)} does not follow on {last_before}")
            if not 0 <= load_i64(entry + 10) <= load_i64(entry + 18):
                raise CorruptFileError(f"{where}: first offset {load_i64(entry + 10)} is outside 0 to the last offset "
                                       f"{load_i64(entry + 18)}")
            last_before = load_i64(entry + 18)
            entries.append((load_i64(entry + 2), load_i64(entry + 10), last_before, load_i64(entry + 26)))
            entry += TXN_INDEX_ENTRY_BYTES
        self.entries = entries
        self.tail_bytes = PyBytes_GET_SIZE(data) - count * TXN_INDEX_ENTRY_BYTES
        return 0

    cdef int append(self, const AbortedTxn* aborted) except -1:
        """Append an entry. `InvalidArgumentError` when the last offset does not follow the last entry's, or lies below
        the base or the first offset. `StorageError`: nothing was added, and nothing more will be written."""
        cdef uint8_t entry[TXN_INDEX_ENTRY_BYTES]
        cdef int fd
        cdef int64_t size
        self.require_usable()
        self.load()
        last_before = self.entries[len(self.entries) - 1][2] if self.entries else self.base_offset - 1
        if aborted.last_offset <= last_before:
            raise InvalidArgumentError(f"last_offset: {aborted.last_offset} does not follow on {last_before}")
        if not 0 <= aborted.first_offset <= aborted.last_offset:
            raise InvalidArgumentError(f"first_offset: {aborted.first_offset} is outside 0 to {aborted.last_offset}")
        store_entry(entry, aborted)
        fd = file_open(self.path, O_WRONLY | O_CREAT, 0o644)
        self.written(fd)
        size = file_size(fd)
        if size >= 0:
            self.created = self.created or size == 0
            size = file_write(fd, entry, TXN_INDEX_ENTRY_BYTES, len(self.entries) * TXN_INDEX_ENTRY_BYTES)
        file_close(fd)
        self.written(size)
        self.unsynced = True
        self.tail_bytes = 0
        self.entries.append((aborted.producer_id, aborted.first_offset, aborted.last_offset,
                             aborted.last_stable_offset))
        return 0

    def add(self, int64_t producer_id, int64_t first_offset, int64_t last_offset, int64_t last_stable_offset) -> None:
        """Append one aborted transaction; see the class for the order of last offsets."""
        cdef AbortedTxn aborted
        aborted.producer_id = producer_id
        aborted.first_offset = first_offset
        aborted.last_offset = last_offset
        aborted.last_stable_offset = last_stable_offset
        self.append(&aborted)

    # type: (int, int, list[tuple[int, int, int, int]]) -> bool
    cpdef bint collect(self, int64_t fetch_offset, int64_t upper_bound, list found) except -1:
        """Add to `found` the entries that overlap [fetch_offset, upper_bound). True when later segments cannot hold
        another: an entry's last stable offset reaches `upper_bound`, so every transaction open below it has ended."""
        self.load()
        for entry in self.entries:
            if entry[2] >= fetch_offset and entry[1] < upper_bound:
                found.append(entry)
            if entry[3] >= upper_bound:
                return True
        return False

    cpdef int truncate_to(self, int64_t offset) except -1:
        """Drop the entries whose last offset is >= `offset`, here and in the file, durably. Return their number."""
        cdef Py_ssize_t before, kept
        self.load()
        before = kept = len(self.entries)
        while kept > 0 and self.entries[kept - 1][2] >= offset:
            kept -= 1
        if kept < before:
            self.replace(self.entries[:kept])
        return <int>(before - kept)

    cpdef int reset(self) except -1:
        """Drop all entries, and whatever the file holds, durably: the start of a rebuild. An absent file stays
        absent."""
        self.require_usable()
        if os.path.exists(self.path):
            self.replace([])
        self.entries = []
        self.loaded = True
        return 0

    cdef int answer_from(self, list entries, object failure) except -1:
        self.entries = entries
        self.failure = failure
        self.loaded = True
        return 0

    cpdef int flush(self) except -1:
        cdef const char* name = PyBytes_AS_STRING(self.path)
        cdef int fd, result
        self.require_usable()
        if not self.unsynced:
            return 0
        with nogil:
            fd = result = file_open(name, O_WRONLY, 0)
            if fd >= 0:
                result = file_datasync(fd)
                file_close(fd)
        self.written(result)
        if self.created:
            try:
                sync_directory(os.path.dirname(self.path) or b".")
            except StorageError as error:
                self.failure = StorageError(error.path, error.errno, "flushing the directory")
                raise
        self.created = False
        self.unsynced = False
        return 0

    def check(self) -> None:
        """Raise `CorruptFileError`, with the fault and its place, when the file breaks the class's invariant or ends
        within an entry. A missing file is right."""
        self.load()
        if self.tail_bytes != 0:
            raise CorruptFileError(f"{os.fsdecode(self.path)}: {self.tail_bytes} bytes of an incomplete entry after "
                                   f"entry {len(self.entries)}")

    def repair(self) -> int:
        """Drop an incomplete entry at the end of the file; return the bytes dropped. Anything else that `check` raises
        cannot be repaired, only rebuilt from the log."""
        cdef Py_ssize_t dropped
        self.load()
        dropped = self.tail_bytes
        if dropped != 0:
            self.replace(self.entries)
        return dropped

    cdef int replace(self, list entries) except -1:
        """Replace the file by a new one with these entries, durably. A failure leaves everything as it was."""
        cdef AbortedTxn aborted
        cdef bytearray data = bytearray(len(entries) * TXN_INDEX_ENTRY_BYTES)
        cdef uint8_t* entry = <uint8_t*>PyByteArray_AS_STRING(data)
        self.require_usable()
        for producer_id, first_offset, last_offset, last_stable_offset in entries:
            aborted.producer_id = producer_id
            aborted.first_offset = first_offset
            aborted.last_offset = last_offset
            aborted.last_stable_offset = last_stable_offset
            store_entry(entry, &aborted)
            entry += TXN_INDEX_ENTRY_BYTES
        try:
            write_atomic(self.path, bytes(data))
        except StorageError as error:
            self.failure = StorageError(error.path, error.errno, "replacing the transaction index")
            raise
        self.entries = entries
        self.tail_bytes = 0
        self.created = False
        self.unsynced = False
        return 0

    cdef int require_usable(self) except -1:
        if self.failure is not None:
            raise LogReadOnlyError(f"{os.fsdecode(self.path)}: not written after a failure: {self.failure}",
                                   self.failure)
        return 0

    cdef int written(self, int64_t result) except -1:
        """Raise for a negative result of a write or flush, and remember it."""
        if result < 0:
            self.failure = StorageError(os.fsdecode(self.path), <int>-result, "writing the transaction index")
            check_errno(result, self.path)
        return 0

    def __len__(self) -> int:
        self.load()
        return len(self.entries)

    def __iter__(self) -> Iterator[tuple[int, int, int, int]]:
        self.load()
        return iter(list(self.entries))
