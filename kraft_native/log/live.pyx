"""The live page: how readers in other processes learn what they may read, and are woken.

The owner of a log keeps the file `kraft.live` (4 KiB, never shorter, hence no SIGBUS) in the partition directory and
maps it. Kafka ignores the file. It holds no data: after the owner's end its content means nothing, and the next owner
resets it. `_c/log/live.h` has the layout and the ordering rules.

An owner is alive when it holds its lock on the file and, where its process id is visible from here, a process of that
id and start time exists. The lock alone would outlive it in its forked children. The id alone says nothing across
process namespaces and restarts.

A reader needs write permission for one word, by which it requests to be woken. Without it the reader can only poll the
page.
"""

import os

from libc.errno cimport errno
from libc.string cimport memset

cimport cython
from cpython.exc cimport PyErr_CheckSignals

from kraft_native.file.file_io cimport (
    check, file_close, file_lock, file_locked, file_mapping_keeps_lock, file_open, file_size, file_truncate, file_write,
)

from kraft_native.log.flusher cimport timeout_to_ns

from kraft_native.base.errors import InvalidArgumentError, LogClosedError, LogLockedError, StorageError

cdef extern from "<errno.h>" nogil:
    enum:
        EACCES
        EAGAIN
        ENOENT
        EPERM
        EROFS
        ESRCH
        ESTALE

cdef extern from "<fcntl.h>" nogil:
    enum:
        O_CREAT
        O_RDONLY
        O_RDWR

cdef extern from "<signal.h>" nogil:
    int kill(int pid, int signal_number)

cdef extern from "<sys/mman.h>" nogil:
    void* mmap(void* addr, size_t length, int prot, int flags, int fd, long offset)
    int munmap(void* addr, size_t length)
    enum:
        PROT_READ
        PROT_WRITE
        MAP_ANONYMOUS
        MAP_PRIVATE
        MAP_SHARED
    void* MAP_FAILED

cdef extern from "<unistd.h>" nogil:
    int getpid()
    Py_ssize_t write(int fd, const void* data, size_t size)

cdef extern from "log/live.h" nogil:
    enum:
        KF_LIVE_BYTES
        KF_LIVE_VERSION
    uint64_t KF_LIVE_MAGIC
    void kf_live_end(kf_live_page* page)
    bint kf_live_publish(kf_live_page* page, int64_t log_start, int64_t high_watermark, int64_t last_stable_offset,
                         int64_t log_end, int64_t active_base, int64_t active_bytes)
    void kf_live_set_truncation(kf_live_page* page, uint64_t generation)
    void kf_live_segments_changed(kf_live_page* page)
    void kf_live_set_closed(kf_live_page* page, uint64_t closed)
    void kf_live_wake(kf_live_page* page)
    bint kf_live_read(const kf_live_page* page, kf_live_state* out)
    bint kf_live_changed(const kf_live_page* page, const kf_live_state* state)
    uint32_t kf_live_wake_word(const kf_live_page* page)
    void kf_live_arm(kf_live_page* page)
    int64_t kf_live_now_ns()
    void kf_live_sleep(const kf_live_page* page, uint32_t seen, int64_t timeout_ns)

FILE_NAME = "kraft.live"

# A sleeping reader checks this often whether the owner is alive and whether a signal came.
cdef int64_t SLICE_NS = 200_000_000
# It polls the page this often when it may not write the word that requests a wake-up.
cdef int64_t UNARMED_SLICE_NS = 5_000_000

cdef tuple identity = None
# By device, for the life of the process: True where mappings keep locks.
cdef dict locks_kept = {}
cdef int64_t live_pages = 0
cdef int64_t live_views = 0


def counters() -> dict[str, int]:
    """Count the pages and views that are mapped in this process."""
    return {"live_pages": live_pages, "live_views": live_views}


cdef uint64_t process_start_ticks(int64_t pid) except? 0:
    """Field 22 of /proc/<pid>/stat; 0 when no such process exists or it has ended and is only not yet waited for."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


cdef tuple own_identity():
    """(process id, its start, its namespace of ids); determined once per process."""
    global identity
    cdef int64_t pid = getpid()
    if identity is None or <int64_t>identity[0] != pid:
        identity = pid, process_start_ticks(pid), os.stat("/proc/self/ns/pid").st_ino
    return identity


cdef bint page_is_sound(const kf_live_page* page) noexcept nogil:
    return page.magic == KF_LIVE_MAGIC and page.version == KF_LIVE_VERSION and page.size == KF_LIVE_BYTES


cdef bint mapping_keeps_lock(int fd, bytes path) except -1:
    """Return whether `fd` may be closed while its file is mapped: that saves a descriptor per log."""
    cdef object device = os.fstat(fd).st_dev
    cdef int kept
    if device not in locks_kept:
        kept = file_mapping_keeps_lock(os.path.dirname(path) or b".")
        if kept < 0:
            return False
        locks_kept[device] = kept
    return locks_kept[device]


cdef bytes path_in(object directory):
    return os.path.join(os.fsencode(directory), FILE_NAME.encode())


@cython.final
@cython.no_gc
cdef class LivePage:
    """The owner's page of a partition directory: creates the file or takes over that of an owner that has ended.

    It opens inside a truncation (readers wait), because opening a log may cut its tail: publish the limits, then call
    `end_truncation`. Raises LogLockedError when another owner is alive. `detached`: it is in memory only, and not
    shared. Owner's thread only.
    """

    def __cinit__(self, directory: FilePath, *, bint detached=False):
        global live_pages
        self.fd = -1
        self.path = os.fsdecode(path_in(directory))
        self.page = <kf_live_page*>self._map(-1) if detached else <kf_live_page*>self._open(path_in(directory))
        live_pages += 1
        self._take_over()

    cdef void* _open(self, bytes path) except NULL:
        cdef int fd = <int>check(file_open(path, O_RDWR | O_CREAT, 0o644), path)
        cdef int locked
        cdef bint kept
        cdef void* address
        try:
            locked = file_lock(fd, True)
            if locked == -EAGAIN:
                raise LogLockedError(f"{self.path}: another process owns this log")
            check(locked, path)
            self._make_room(fd, path)
            kept = mapping_keeps_lock(fd, path)
            address = self._map(fd)
            if not kept:
                self.fd = fd
        finally:
            if self.fd < 0:
                file_close(fd)
        return address

    cdef void* _map(self, int fd) except NULL:
        cdef void* address = mmap(NULL, KF_LIVE_BYTES, PROT_READ | PROT_WRITE,
                                  MAP_SHARED if fd >= 0 else MAP_PRIVATE | MAP_ANONYMOUS, fd, 0)
        if address == MAP_FAILED:
            raise StorageError(self.path, errno, "mapping")
        return address

    cdef int _make_room(self, int fd, bytes path) except -1:
        """Allocate real blocks under the whole page: a store into a hole of a full disk would be a SIGBUS."""
        cdef unsigned char zeros[KF_LIVE_BYTES]
        cdef int64_t size = check(file_size(fd), path)
        if size < KF_LIVE_BYTES:
            memset(zeros, 0, KF_LIVE_BYTES)
            check(file_write(fd, zeros, KF_LIVE_BYTES, 0), path)
        elif size > KF_LIVE_BYTES:
            check(file_truncate(fd, KF_LIVE_BYTES), path)  # not one of ours, so no reader uses bytes past the page
        return 0

    cdef int _take_over(self) except -1:
        """Continue the generations, so that attached readers notice; reset all else."""
        cdef kf_live_page* page = self.page
        cdef uint64_t truncation = page.state.truncation_generation | 1
        if not page_is_sound(page):
            memset(page, 0, KF_LIVE_BYTES)
            truncation = 1
        if page.sequence & 1:
            # The last owner ended inside a write: end it, but with a state that readers do not use.
            page.state.truncation_generation = truncation
            kf_live_end(page)
        kf_live_set_truncation(page, truncation)
        kf_live_segments_changed(page)
        page.owner_pid, page.owner_start_ticks, page.owner_pid_namespace = own_identity()
        page.size = KF_LIVE_BYTES
        page.version = KF_LIVE_VERSION
        kf_live_set_closed(page, 0)
        page.incarnation += 1
        page.magic = KF_LIVE_MAGIC
        self.wake()
        return 0

    def __dealloc__(self):
        self._release()

    cdef void _release(self) noexcept:
        global live_pages
        if self.page == NULL:
            return
        munmap(self.page, KF_LIVE_BYTES)
        self.page = NULL
        file_close(self.fd)
        self.fd = -1
        live_pages -= 1

    cdef void publish_limits(self, int64_t log_start, int64_t high_watermark, int64_t last_stable_offset,
                             int64_t log_end, int64_t active_base, int64_t active_bytes) noexcept nogil:
        if kf_live_publish(self.page, log_start, high_watermark, last_stable_offset, log_end, active_base,
                           active_bytes):
            self.wake()

    cdef void truncation_begins(self) noexcept nogil:
        kf_live_set_truncation(self.page, self.page.state.truncation_generation | 1)

    cdef void truncation_ends(self) noexcept nogil:
        kf_live_set_truncation(self.page, (self.page.state.truncation_generation | 1) + 1)
        self.wake()

    cdef void segments_change(self) noexcept nogil:
        kf_live_segments_changed(self.page)

    cdef void wake(self) noexcept nogil:
        cdef uint64_t one = 1
        cdef int i
        kf_live_wake(self.page)
        for i in range(self.event_count):
            # It fails only when the counter is full, and then its reader is due to wake anyway.
            if write(self.events[i], &one, sizeof(one)) < 0:
                continue
        self.event_count = 0

    cdef int _need_open(self) except -1:
        if self.page == NULL:
            raise LogClosedError(f"{self.path}: the page was closed")
        return 0

    def publish(self, int64_t log_start, int64_t high_watermark, int64_t last_stable_offset, int64_t log_end,
                int64_t active_base, int64_t active_bytes) -> None:
        """Publish the limits for readers. Call it after the bytes are in the file.

        log_start <= last_stable_offset <= high_watermark <= log_end; `active_bytes` counts the whole batches in the
        segment `active_base`. Wakes waiting readers when one of the first three changed.
        """
        self._need_open()
        if not 0 <= log_start <= last_stable_offset <= high_watermark <= log_end:
            raise InvalidArgumentError(
                f"log start {log_start} <= last stable offset {last_stable_offset} <= high watermark "
                f"{high_watermark} <= log end {log_end} does not hold")
        if active_bytes < 0:
            raise InvalidArgumentError(f"active_bytes is {active_bytes}; it cannot be negative")
        self.publish_limits(log_start, high_watermark, last_stable_offset, log_end, active_base, active_bytes)

    def begin_truncation(self) -> None:
        """Announce that bytes below the log end are about to be cut or rewritten: readers discard what they read from
        now on."""
        self._need_open()
        self.truncation_begins()

    def end_truncation(self) -> None:
        """Announce that the files match the published limits. Wakes waiting readers."""
        self._need_open()
        self.truncation_ends()

    def segments_changed(self) -> None:
        """Call it before and after segment files are added, replaced, removed, or reused for another segment."""
        self._need_open()
        self.segments_change()

    def arm(self, int eventfd) -> None:
        """Write to the eventfd once, at the next wake-up of readers. For followers on the owner's own thread."""
        cdef int i
        self._need_open()
        for i in range(self.event_count):
            if self.events[i] == eventfd:
                return
        if self.event_count == LIVE_EVENTS_MAX:
            raise InvalidArgumentError(f"{LIVE_EVENTS_MAX} eventfds are armed already; a page has room for no more")
        self.events[self.event_count] = eventfd
        self.event_count += 1

    def disarm(self, int eventfd) -> None:
        """Unregister the eventfd, before it is closed. Harmless when it is not armed."""
        cdef int i
        for i in range(self.event_count):
            if self.events[i] == eventfd:
                self.event_count -= 1
                self.events[i] = self.events[self.event_count]
                return

    def close(self) -> None:
        """Report to readers that the log is closed, wake them, release the lock. Idempotent.

        In a fork of the owner it only unmaps: the owner still owns.
        """
        if self.page != NULL and self.page.owner_pid == getpid():
            kf_live_set_closed(self.page, 1)
            self.wake()
        self._release()


@cython.final
@cython.no_gc
cdef class LiveView:
    """A reader's view of the page in `directory`. Raises FileNotFoundError when no usable one exists."""

    def __cinit__(self, directory: FilePath):
        global live_views
        cdef bytes path = path_in(directory)
        cdef void* address
        self.fd = -1
        self.path = os.fsdecode(path)
        cdef int fd = file_open(path, O_RDWR, 0)
        self.writable = fd >= 0
        if fd in (-EACCES, -EPERM, -EROFS):
            fd = file_open(path, O_RDONLY, 0)
        if fd == -ENOENT:
            raise FileNotFoundError(ENOENT, "the log has no live page", self.path)
        check(fd, path)
        try:
            if check(file_size(fd), path) < KF_LIVE_BYTES:  # an owner is just creating it
                raise FileNotFoundError(ENOENT, "the log's live page is not complete", self.path)
            address = mmap(NULL, KF_LIVE_BYTES, PROT_READ | (PROT_WRITE if self.writable else 0), MAP_SHARED, fd, 0)
            if address == MAP_FAILED:
                raise StorageError(self.path, errno, "mapping")
            if not page_is_sound(<kf_live_page*>address):
                munmap(address, KF_LIVE_BYTES)
                raise FileNotFoundError(ENOENT, "the log's live page is of an unknown version", self.path)
            self.fd = fd
        finally:
            if self.fd < 0:
                file_close(fd)
        self.page = <const kf_live_page*>address
        live_views += 1

    def __dealloc__(self):
        global live_views
        if self.page == NULL:
            return
        munmap(<void*>self.page, KF_LIVE_BYTES)
        file_close(self.fd)
        live_views -= 1

    cdef int read_state(self, kf_live_state* out) noexcept nogil:
        while not kf_live_read(self.page, out):
            if not self.owner_lives():
                return -ESTALE
        return 0

    cdef bint changed_since(self, const kf_live_state* state) noexcept nogil:
        return kf_live_changed(self.page, state)

    cdef uint64_t incarnation(self) noexcept nogil:
        return self.page.incarnation

    cdef bint owner_lives(self) noexcept nogil:
        if file_locked(self.fd) == 0:
            return False
        with gil:
            return self._process_lives()

    cdef bint _process_lives(self) noexcept:
        """Return False only when the owner's process has certainly ended."""
        cdef int64_t pid = self.page.owner_pid
        try:
            if self.page.owner_pid_namespace != own_identity()[2]:
                return True
            if kill(<int>pid, 0) < 0 and errno == ESRCH:
                return False
            return process_start_ticks(pid) == self.page.owner_start_ticks
        except OSError:
            return True

    cdef uint32_t wake_word(self) noexcept nogil:
        return kf_live_wake_word(self.page)

    cdef void request_wake(self) noexcept nogil:
        if self.writable:
            kf_live_arm(<kf_live_page*>self.page)

    cdef void sleep(self, uint32_t seen, int64_t timeout_ns) noexcept nogil:
        kf_live_sleep(self.page, seen, min(timeout_ns, SLICE_NS if self.writable else UNARMED_SLICE_NS))

    def wait(self, int64_t offset, timeout: float | None = None, *, bint committed=False) -> bool:
        """Block until the record at `offset` may be read: until the high watermark, or with `committed` the last stable
        offset, is above it. False when `timeout` seconds passed first.

        Raises LogClosedError when there is no owner any more: at once after its `close`, within a second after its
        death. Any thread; the interpreter lock is free meanwhile.
        """
        cdef int64_t left = timeout_to_ns(timeout)
        cdef int64_t began, slept_ns
        cdef int64_t unchecked_ns = 0  # time since the last check of the owner
        cdef uint32_t seen
        cdef bint requested = False  # set after the first check: a wait that ends at once costs the owner nothing
        cdef kf_live_state state
        while True:
            seen = self.wake_word()
            if requested:
                self.request_wake()
            if self.read_state(&state) < 0 or state.closed:
                raise LogClosedError(f"{self.path}: the owner of the log has ended")
            if not state.truncation_generation & 1:
                if (state.last_stable_offset if committed else state.high_watermark) > offset:
                    return True
            if left == 0:
                return False
            if not requested:
                requested = True
                continue
            with nogil:
                began = kf_live_now_ns()
                self.sleep(seen, left if left > 0 else SLICE_NS)
                slept_ns = kf_live_now_ns() - began
            PyErr_CheckSignals()
            unchecked_ns += slept_ns
            if unchecked_ns >= SLICE_NS:
                unchecked_ns = 0
                if not self.owner_lives():
                    raise LogClosedError(f"{self.path}: the owner of the log has ended")
            if left > 0:
                left = max(left - slept_ns, 0)

    def state(self) -> dict[str, int]:
        """A consistent copy of the owner's last published state, by field name."""
        cdef kf_live_state state
        if self.read_state(&state) < 0:
            raise StorageError(self.path, ESTALE, "the owner ended while it wrote the live page")
        return state

    @property
    def owner_pid(self) -> int:
        """Process id of the last owner, in that process's own namespace."""
        return self.page.owner_pid

    @property
    def owner_alive(self) -> bool:
        """True while an owner has the log open."""
        return self.owner_lives()
