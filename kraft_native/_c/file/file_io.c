#define _GNU_SOURCE
#include "file/file_io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static kf_hook_fn hook_fn = NULL;
static void *hook_context = NULL;
static atomic_llong open_count = 0;

void kf_set_hook(kf_hook_fn hook, void *context) {
    hook_context = context;
    __atomic_store_n(&hook_fn, hook, __ATOMIC_RELEASE);
}

int64_t kf_open_count(void) { return atomic_load(&open_count); }

static inline int64_t call_hook(const kf_event *event) {
    kf_hook_fn hook = __atomic_load_n(&hook_fn, __ATOMIC_ACQUIRE);
    return __builtin_expect(hook == NULL, 1) ? 0 : hook(event, hook_context);
}

/* A trace needs both ends of a call. A flush covers what was written before it began; its promise holds only after it
 * returned; and a call may fail in the kernel. */
static inline void report_done(kf_event *event, int64_t result) {
    kf_hook_fn hook = __atomic_load_n(&hook_fn, __ATOMIC_ACQUIRE);
    if (__builtin_expect(hook == NULL, 1)) return;
    event->op |= KF_DONE;
    event->result = result;
    hook(event, hook_context);
}

/* Repeats `call` until it is not interrupted; yields its result, or -errno. */
#define UNINTERRUPTED(result, call)                 \
    do {                                            \
        do {                                        \
            (result) = (call);                      \
        } while ((result) < 0 && errno == EINTR);   \
        if ((result) < 0) (result) = -errno;        \
    } while (0)

int kf_open(const char *path, int flags, int mode) {
    kf_event event = {.op = KF_OPEN, .fd = -1, .path = path, .a = flags};
    int64_t verdict = call_hook(&event);
    if (verdict < 0) return (int)verdict;
    /* A file is reported as created only when this call created it, so O_CREAT is tried exclusively first. */
    int fd, created = 0;
    if (flags & O_CREAT) {
        UNINTERRUPTED(fd, open(path, flags | O_EXCL | O_CLOEXEC, mode));
        created = fd >= 0;
        if (fd == -EEXIST && !(flags & O_EXCL)) UNINTERRUPTED(fd, open(path, flags | O_CLOEXEC, mode));
    } else {
        UNINTERRUPTED(fd, open(path, flags | O_CLOEXEC));
    }
    if (fd < 0) return fd;
    atomic_fetch_add(&open_count, 1);
    event.op = KF_OPENED;
    event.fd = fd;
    event.b = created;
    call_hook(&event);
    return fd;
}

void kf_close(int fd) {
    if (fd < 0) return;
    kf_event event = {.op = KF_CLOSED, .fd = fd};
    call_hook(&event);
    atomic_fetch_sub(&open_count, 1);
    close(fd); /* Linux releases the descriptor whatever close returns */
}

static size_t iov_bytes(const struct iovec *iov, int count) {
    size_t total = 0;
    for (int i = 0; i < count; i++) total += iov[i].iov_len;
    return total;
}

/* Writes at most `limit` bytes of the vector: the number to which a hook shortens a call. */
static ssize_t write_some(int fd, const struct iovec *iov, int count, int64_t offset, size_t limit) {
    struct iovec shortened[2];
    int used = 0;
    for (int i = 0; i < count && used < 2 && limit > 0; i++) {
        if (iov[i].iov_len == 0) continue;
        shortened[used] = iov[i];
        if (shortened[used].iov_len > limit) shortened[used].iov_len = limit;
        limit -= shortened[used].iov_len;
        used++;
    }
    ssize_t written;
    UNINTERRUPTED(written, pwritev(fd, shortened, used, offset));
    return written;
}

int kf_pwritev(int fd, struct iovec *iov, int iov_count, int64_t offset) {
    size_t left = iov_bytes(iov, iov_count);
    for (; iov_count > 0 && iov->iov_len == 0; iov++) iov_count--;
    while (left > 0) {
        int count = iov_count > IOV_MAX ? IOV_MAX : iov_count;
        kf_event event = {.op = KF_WRITE, .fd = fd, .a = offset, .iov = iov, .iov_count = count,
                          .size = iov_bytes(iov, count)};
        int64_t verdict = call_hook(&event);
        if (verdict < 0) return (int)verdict;
        ssize_t written;
        if (verdict > 0 && (size_t)verdict < event.size)
            written = write_some(fd, iov, count, offset, (size_t)verdict);
        else
            UNINTERRUPTED(written, pwritev(fd, iov, count, offset));
        report_done(&event, written);
        if (written < 0) return (int)written;
        if (written == 0) return -EIO; /* a regular file never accepts nothing of something */
        left -= (size_t)written;
        offset += written;
        size_t done = (size_t)written;
        while (iov_count > 0 && done >= iov->iov_len) {
            done -= iov->iov_len;
            iov++;
            iov_count--;
        }
        if (done > 0) {
            iov->iov_base = (char *)iov->iov_base + done;
            iov->iov_len -= done;
        }
    }
    return 0;
}

int kf_pwrite(int fd, const void *data, size_t size, int64_t offset) {
    struct iovec iov = {.iov_base = (void *)data, .iov_len = size};
    return kf_pwritev(fd, &iov, 1, offset);
}

int64_t kf_pread(int fd, void *data, size_t size, int64_t offset) {
    kf_event event = {.op = KF_READ, .fd = fd, .a = offset, .b = (int64_t)size};
    int64_t verdict = call_hook(&event);
    if (verdict < 0) return verdict;
    size_t done = 0;
    while (done < size) {
        ssize_t got;
        UNINTERRUPTED(got, pread(fd, (char *)data + done, size - done, offset + (int64_t)done));
        if (got < 0) return got;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

int kf_write_back(int fd, int64_t offset, int64_t size) {
    int result;
    UNINTERRUPTED(result, sync_file_range(fd, offset, size, SYNC_FILE_RANGE_WRITE));
    return result == -ENOSYS || result == -EINVAL || result == -ESPIPE ? 0 : result;
}

int kf_populate(int fd, int64_t offset, int64_t size) {
    static const char zeros[16384]; /* small, so that the source of the copy stays in the nearest cache */
    struct iovec iov[16];
    while (size > 0) {
        int count = 0;
        int64_t gathered = 0;
        while (count < (int)(sizeof iov / sizeof iov[0]) && gathered < size) {
            int64_t part = size - gathered < (int64_t)sizeof zeros ? size - gathered : (int64_t)sizeof zeros;
            iov[count++] = (struct iovec){.iov_base = (void *)zeros, .iov_len = (size_t)part};
            gathered += part;
        }
        ssize_t written;
        UNINTERRUPTED(written, pwritev(fd, iov, count, offset));
        if (written < 0) return (int)written;
        if (written == 0) return -EIO;
        offset += written;
        size -= written;
    }
    return 0;
}

int kf_truncate(int fd, int64_t size) {
    kf_event event = {.op = KF_TRUNCATE, .fd = fd, .a = size};
    int64_t verdict = call_hook(&event);
    if (verdict < 0) return (int)verdict;
    int result;
    UNINTERRUPTED(result, ftruncate(fd, size));
    report_done(&event, result);
    return result;
}

int kf_allocate(int fd, int64_t offset, int64_t size) {
    kf_event event = {.op = KF_ALLOCATE, .fd = fd, .a = offset, .b = size};
    int64_t verdict = call_hook(&event);
    if (verdict < 0) return (int)verdict;
    int result;
    UNINTERRUPTED(result, fallocate(fd, 0, offset, size));
    report_done(&event, result);
    return result;
}

int kf_announce_write(int fd, const struct iovec *iov, int iov_count, size_t size, int64_t offset) {
    kf_event event = {.op = KF_WRITE, .fd = fd, .a = offset, .iov = iov, .iov_count = iov_count, .size = size};
    int64_t verdict = call_hook(&event);
    if (verdict > 0 && (size_t)verdict < size) return -EIO;
    return verdict < 0 ? (int)verdict : 0;
}

void kf_announce_written(int fd, const struct iovec *iov, int iov_count, size_t size, int64_t offset) {
    kf_event event = {.op = KF_WRITE, .fd = fd, .a = offset, .iov = iov, .iov_count = iov_count, .size = size};
    report_done(&event, (int64_t)size);
}

int kf_datasync(int fd) {
    kf_event event = {.op = KF_DATASYNC, .fd = fd};
    int64_t verdict = call_hook(&event);
    if (verdict < 0) return (int)verdict;
    int result;
    UNINTERRUPTED(result, fdatasync(fd));
    report_done(&event, result);
    return result;
}

int kf_sync(int fd) {
    kf_event event = {.op = KF_SYNC, .fd = fd};
    int64_t verdict = call_hook(&event);
    if (verdict < 0) return (int)verdict;
    int result;
    UNINTERRUPTED(result, fsync(fd));
    report_done(&event, result);
    return result;
}

int kf_set_time(int fd, int64_t modified_ns) {
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = modified_ns / 1000000000, .tv_nsec = modified_ns % 1000000000}};
    int result;
    UNINTERRUPTED(result, futimens(fd, times));
    return result;
}

int64_t kf_stamp(void) {
    struct timespec now;
#ifdef CLOCK_REALTIME_COARSE
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
#else
    clock_gettime(CLOCK_REALTIME, &now);
#endif
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int kf_sync_dir(const char *path) {
    kf_event event = {.op = KF_SYNC_DIR, .fd = -1, .path = path};
    int64_t verdict = call_hook(&event);
    if (verdict < 0) return (int)verdict;
    int fd, result;
    UNINTERRUPTED(fd, open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0) return fd;
    UNINTERRUPTED(result, fsync(fd));
    close(fd);
    report_done(&event, result);
    return result;
}

int kf_rename(const char *from, const char *to) {
    kf_event event = {.op = KF_RENAME, .fd = -1, .path = from, .path2 = to};
    int64_t verdict = call_hook(&event);
    if (verdict < 0) return (int)verdict;
    int result;
    UNINTERRUPTED(result, rename(from, to));
    report_done(&event, result);
    return result;
}

int kf_unlink(const char *path) {
    kf_event event = {.op = KF_UNLINK, .fd = -1, .path = path};
    int64_t verdict = call_hook(&event);
    if (verdict < 0) return (int)verdict;
    int result;
    UNINTERRUPTED(result, unlink(path));
    report_done(&event, result);
    return result;
}

int kf_mkdir(const char *path, int mode) {
    kf_event event = {.op = KF_MKDIR, .fd = -1, .path = path};
    int64_t verdict = call_hook(&event);
    if (verdict < 0) return (int)verdict;
    int result;
    UNINTERRUPTED(result, mkdir(path, (mode_t)mode));
    report_done(&event, result);
    return result;
}

int64_t kf_size(int fd) {
    struct stat st;
    int result;
    UNINTERRUPTED(result, fstat(fd, &st));
    return result < 0 ? result : (int64_t)st.st_size;
}

int kf_lock(int fd, int exclusive) {
    struct flock lock = {.l_type = exclusive ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    int result;
    UNINTERRUPTED(result, fcntl(fd, F_OFD_SETLK, &lock));
    return result == -EACCES ? -EAGAIN : result;
}

int kf_locked(int fd) {
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    int result;
    UNINTERRUPTED(result, fcntl(fd, F_OFD_GETLK, &lock));
    return result < 0 ? result : lock.l_type != F_UNLCK;
}

int kf_mapping_keeps_lock(const char *directory) {
    enum { BYTES = 4096 };
    char name[32];
    void *address = MAP_FAILED;
    int again = -1, kept;
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) return -errno;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (ftruncate(fd, BYTES) == 0 && kf_lock(fd, 1) == 0 && (again = open(name, O_RDWR | O_CLOEXEC)) >= 0)
        address = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    kept = address == MAP_FAILED ? -errno : 0;
    close(fd);
    if (address != MAP_FAILED) {
        kept = kf_locked(again);
        munmap(address, BYTES);
    }
    if (again >= 0) close(again);
    return kept;
}
