"""Memory with a visible owner.

`Scratch` grows and belongs to one user. `Mapping` is a mapped file, or a copy of one. `Slice` is the result of a read:
read-only bytes that pin their mapping. Live objects are counted (`counters()`), and tests assert that every count
returns to its old value.
"""

import os
import resource
import weakref

from libc.errno cimport ENODATA, errno
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy
from posix.fcntl cimport O_RDONLY

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

cimport cython

from kraft_native.file.file_io cimport check, file_close, file_open, file_read

from kraft_native.base.errors import StorageError

cdef extern from "<sys/mman.h>" nogil:
    void* mmap(void* addr, size_t length, int prot, int flags, int fd, long offset)
    int munmap(void* addr, size_t length)
    void* mremap(void* addr, size_t length, size_t new_length, int flags)
    int madvise(void* addr, size_t length, int advice)
    enum:
        MADV_HUGEPAGE
        PROT_READ
        PROT_WRITE
        MAP_ANONYMOUS
        MAP_PRIVATE
        MAP_SHARED
        MAP_POPULATE
        MREMAP_MAYMOVE
    void* MAP_FAILED

cdef extern from *:
    """
    #ifdef __GLIBC__
    #include <malloc.h>
    #define kn_trim() malloc_trim(0)
    #else
    #define kn_trim() 0
    #endif
    """
    int kn_trim() nogil

cdef extern from *:
    """
    #if defined(__SANITIZE_ADDRESS__)
    #define kn_sanitized 1
    #else
    #define kn_sanitized 0
    #endif
    """
    bint kn_sanitized

# Every mapping alive, so that a caller about to shrink a file finds those of other owners, such as an earlier log.
mappings: WeakSet[Mapping] = weakref.WeakSet()

cdef int64_t live_scratches = 0
cdef int64_t live_mappings = 0
cdef int64_t live_slices = 0
cdef int64_t mapped_bytes = 0
cdef int64_t mapped_files = 0

cdef enum:
    MAPPED_FILES_MAX = 4096            # open at once, where an eighth of all descriptors is not less
    HUGE_COPY_BYTES_MIN = 4 << 20      # from here on a copy of a file gets large pages
    NOT_OPENED = -1
    NOT_AVAILABLE = -2


def counters() -> dict[str, int]:
    """Live objects by kind and mapped bytes; the difference between two moments is a leak or current use."""
    return {
        "scratches": live_scratches,
        "mappings": live_mappings,
        "slices": live_slices,
        "mapped_bytes": mapped_bytes,
        "mapped_files": mapped_files,
    }


# --- blocks
#
# Large blocks of scratch space are kept for the next user instead of going back to the system. A page touched for the
# first time costs as much as copying several. The total is bounded, and only the GIL's holder comes here.
#
# Blocks from `MAPPED_BYTES_MIN` on are mappings of their own. They grow by moving pages, not bytes: to copy tens of
# megabytes takes the loop's time from all other connections.

cdef enum:
    IDLE_BLOCK_BYTES_MIN = 128 * 1024
    IDLE_BLOCKS_MAX = 16
    IDLE_BYTES_MAX = 64 * 1024 * 1024
    MAPPED_BYTES_MIN = 1024 * 1024

cdef struct IdleBlock:
    void* data
    Py_ssize_t size

cdef IdleBlock idle_blocks[16]
cdef int idle_count = 0
cdef Py_ssize_t idle_total = 0


cdef inline Py_ssize_t rounded(Py_ssize_t count) noexcept:
    """Round up by an eighth at most, so that similar needs find each other's blocks."""
    cdef Py_ssize_t step = IDLE_BLOCK_BYTES_MIN >> 3
    if count > IDLE_BYTES_MAX:
        return count
    while step << 4 <= count:
        step <<= 1
    return (count + step - 1) & ~(step - 1)


cdef void* take_idle(Py_ssize_t* size) noexcept:
    """The smallest idle block of `size` to twice `size` bytes, whose size is then set; NULL when none fits."""
    global idle_count, idle_total
    cdef int best = -1
    cdef int i
    cdef void* data
    for i in range(idle_count):
        if size[0] <= idle_blocks[i].size <= 2 * size[0] and (best < 0 or idle_blocks[i].size < idle_blocks[best].size):
            best = i
    if best < 0:
        return NULL
    data = idle_blocks[best].data
    size[0] = idle_blocks[best].size
    idle_count -= 1
    idle_total -= size[0]
    idle_blocks[best] = idle_blocks[idle_count]
    return data


cdef inline bint is_mapped(Py_ssize_t size) noexcept:
    """Return whether a block of that size is a mapping. With a sanitizer none is: it does not watch mappings."""
    return size >= MAPPED_BYTES_MIN and not kn_sanitized


cdef void* resized(void* data, Py_ssize_t size, Py_ssize_t new_size) noexcept:
    """Return a block of `new_size` bytes with the content of `data`, which is NULL or a block of `size` bytes. Return
    NULL when the system refuses; then `data` stays."""
    cdef void* fresh
    if is_mapped(size) and is_mapped(new_size):
        fresh = mremap(data, <size_t>size, <size_t>new_size, MREMAP_MAYMOVE)
        return NULL if fresh == MAP_FAILED else fresh
    if not is_mapped(size) and not is_mapped(new_size):
        return realloc(data, <size_t>new_size)
    if is_mapped(new_size):
        fresh = mmap(NULL, <size_t>new_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        if fresh == MAP_FAILED:
            return NULL
    else:
        fresh = malloc(<size_t>new_size)
        if fresh == NULL:
            return NULL
    if data != NULL:
        memcpy(fresh, data, <size_t>min(size, new_size))
        drop_block(data, size)
    return fresh


cdef void free_block(void* data, Py_ssize_t size) noexcept:
    if is_mapped(size):
        munmap(data, <size_t>size)
    else:
        free(data)


cdef void drop_block(void* data, Py_ssize_t size) noexcept:
    """Keep the block for later, or free it. Sanitizers see every free."""
    global idle_count, idle_total
    if (size < IDLE_BLOCK_BYTES_MIN or idle_count == IDLE_BLOCKS_MAX or idle_total + size > IDLE_BYTES_MAX
            or kn_sanitized):
        free_block(data, size)
        return
    idle_blocks[idle_count].data = data
    idle_blocks[idle_count].size = size
    idle_count += 1
    idle_total += size


def idle_bytes() -> int:
    """Bytes of unused scratch memory that is kept for the next user; at most 64 MiB."""
    return idle_total


def release_idle() -> None:
    """Return idle scratch memory to the system."""
    global idle_count, idle_total
    while idle_count > 0:
        idle_count -= 1
        idle_total -= idle_blocks[idle_count].size
        free_block(idle_blocks[idle_count].data, idle_blocks[idle_count].size)


def trim_heap() -> None:
    """Return to the system what the C library keeps of freed memory. Other allocations wait meanwhile."""
    with nogil:
        kn_trim()


@cython.final
cdef class Scratch:
    """A growable byte buffer for one owner."""

    def __cinit__(self):
        global live_scratches
        live_scratches += 1
        self.data = NULL
        self.size = 0
        self.capacity = 0

    def __dealloc__(self):
        global live_scratches
        live_scratches -= 1
        drop_block(self.data, self.capacity)

    cdef int reserve(self, Py_ssize_t count) except -1:
        cdef Py_ssize_t capacity
        cdef void* grown
        if count <= self.capacity:
            return 0
        capacity = max(count, self.capacity + (self.capacity >> 1), 4096)
        if capacity >= IDLE_BLOCK_BYTES_MIN:
            capacity = rounded(capacity)
            grown = take_idle(&capacity) if self.capacity < MAPPED_BYTES_MIN else NULL
            if grown != NULL:
                if self.data != NULL:
                    memcpy(grown, self.data, <size_t>self.capacity)
                    drop_block(self.data, self.capacity)
                self.data = <uint8_t*>grown
                self.capacity = capacity
                return 0
        grown = resized(self.data, self.capacity, capacity)
        if grown == NULL:
            raise MemoryError(f"{capacity} bytes of scratch space")
        self.data = <uint8_t*>grown
        self.capacity = capacity
        return 0

    cdef int put(self, const uint8_t* data, Py_ssize_t count) except -1:
        if count == 0:
            return 0
        self.reserve(self.size + count)
        memcpy(self.data + self.size, data, <size_t>count)
        self.size += count
        return 0

    cdef int trim(self, Py_ssize_t size) except -1:
        cdef Py_ssize_t capacity = max(size, <Py_ssize_t>64)
        cdef void* smaller
        assert size <= self.capacity
        self.size = size
        if self.capacity > 2 * size + 4096:
            smaller = resized(self.data, self.capacity, capacity)
            if smaller != NULL:
                self.data = <uint8_t*>smaller
                self.capacity = capacity
        return 0

    cdef int release(self) except -1:
        if self.data != NULL:
            free_block(self.data, self.capacity)
            self.data = NULL
            self.size = self.capacity = 0
        return 0

    def __bytes__(self) -> bytes:
        return PyBytes_FromStringAndSize(<char*>self.data, self.size)

    def __len__(self) -> int:
        return self.size


@cython.final
cdef class Mapping:
    """A read-only shared mapping of a file. Unmapped when the last slice and owner are freed."""

    def __cinit__(self):
        self.data = NULL
        self.size = 0
        self.pins = 0
        self.file = NOT_OPENED

    def __dealloc__(self):
        global live_mappings, mapped_bytes, mapped_files
        if self.file >= 0:
            file_close(self.file)
            mapped_files -= 1
        if self.data != NULL:
            live_mappings -= 1
            mapped_bytes -= self.size
            munmap(<void*>self.data, <size_t>self.size)


cdef Mapping map_file(int fd, Py_ssize_t size, bint populate, object path):
    global live_mappings, mapped_bytes
    cdef Mapping mapping = Mapping()
    cdef void* address
    cdef int error
    if size == 0:
        return mapping
    with nogil:
        address = mmap(NULL, <size_t>size, PROT_READ, MAP_SHARED | (MAP_POPULATE if populate else 0), fd, 0)
        error = errno
    if address == MAP_FAILED:
        raise StorageError(os.fsdecode(path), error, "mapping")
    mapping.data = <const uint8_t*>address
    mapping.size = size
    live_mappings += 1
    mapped_bytes += size
    status = os.fstat(fd)
    mapping.device = status.st_dev
    mapping.inode = status.st_ino
    mapping.path = path
    mappings.add(mapping)
    return mapping


cdef int64_t mapped_files_max() except -1:
    cdef int64_t descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAPPED_FILES_MAX if descriptors < 0 else min(<int64_t>MAPPED_FILES_MAX, descriptors >> 3)


cdef int mapped_file(Mapping mapping) except? -1:
    global mapped_files
    cdef int fd
    if mapping.file == NOT_OPENED and mapping.path is not None and mapped_files < mapped_files_max():
        mapping.file = NOT_AVAILABLE
        fd = file_open(<bytes>mapping.path, O_RDONLY, 0)
        if fd >= 0:
            mapped_files += 1
            mapping.file = fd
            status = os.fstat(fd)
            if <uint64_t>status.st_ino != mapping.inode or <uint64_t>status.st_dev != mapping.device:
                file_close(fd)
                mapped_files -= 1
                mapping.file = NOT_AVAILABLE
    return mapping.file if mapping.file >= 0 else -1


cdef Mapping copy_file(int fd, Py_ssize_t size, Py_ssize_t start, object path):
    global live_mappings, mapped_bytes
    cdef Mapping mapping = Mapping()
    cdef void* address
    cdef int error
    if size == 0:
        return mapping
    with nogil:
        address = mmap(NULL, <size_t>size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        error = errno
    if address == MAP_FAILED:
        raise StorageError(os.fsdecode(path), error, "taking memory")
    # Half of the time of a large copy would go into faults of small pages. Only advice: a refusal changes nothing.
    if size - start >= HUGE_COPY_BYTES_MIN:
        madvise(address, <size_t>size, MADV_HUGEPAGE)
    mapping.data = <const uint8_t*>address
    mapping.size = size
    live_mappings += 1
    mapped_bytes += size
    fill_copy(mapping, fd, start, size, path)
    return mapping


cdef int fill_copy(Mapping mapping, int fd, Py_ssize_t start, Py_ssize_t end, object path) except -1:
    cdef void* address = <void*>(mapping.data + start)
    cdef int64_t got
    with nogil:
        got = file_read(fd, address, <size_t>(end - start), start)
    check(got, path)
    if got < end - start:
        raise StorageError(os.fsdecode(path), ENODATA, f"the file became shorter than {end} bytes")
    return 0


cdef bint file_is_pinned(int fd) except -1:
    cdef Mapping mapping
    status = os.fstat(fd)
    for mapping in mappings:
        if mapping.pins > 0 and mapping.inode == <uint64_t>status.st_ino and mapping.device == <uint64_t>status.st_dev:
            return True
    return False


# no_gc_clear: the collector clears the members of a dead cycle before it frees them, and a slice without its owner
# could not release its pin. An owner never refers to its slice, so no cycle depends on being cleared here.
@cython.final
@cython.freelist(256)
@cython.no_gc_clear
cdef class Slice:
    """Read-only bytes of the log, pinned. `memoryview(slice)` is zero-copy, `bytes(slice)` copies.

    `first_offset` is the base offset of its first batch (-1 when empty), `next_offset` where to continue reading.
    """

    def __cinit__(self):
        global live_slices
        live_slices += 1
        self.data = NULL
        self.size = 0
        self.first_offset = -1
        self.next_offset = -1
        self.settled = False

    def __dealloc__(self):
        global live_slices
        live_slices -= 1
        if type(self.owner) is Mapping:
            (<Mapping>self.owner).pins -= 1

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, <void*>self.data, self.size, True, flags)

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        return PyBytes_FromStringAndSize(<const char*>self.data, self.size)

    @property
    def first_offset(self) -> int:
        """Offset of the first batch, -1 when the slice is empty."""
        return self.first_offset

    @property
    def next_offset(self) -> int:
        """Offset at which to continue reading."""
        return self.next_offset


cdef Slice slice_mapping(Mapping mapping, Py_ssize_t position, Py_ssize_t size):
    cdef Slice piece = Slice.__new__(Slice)
    piece.owner = mapping
    mapping.pins += 1
    piece.data = mapping.data + position
    piece.size = size
    return piece


cdef Slice slice_bytes(bytes data):
    cdef Slice piece = Slice.__new__(Slice)
    piece.owner = data
    piece.data = <const uint8_t*>PyBytes_AS_STRING(data)
    piece.size = PyBytes_GET_SIZE(data)
    return piece
