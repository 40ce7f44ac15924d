/* Every system call of the engine that touches a file goes through here.
 *
 * Reasons for a single entry. A short write is finished or fails as a whole (KAFKA-17181). EINTR never reaches a
 * caller, open descriptors are counted, and a test may watch or fail any call (`faults.pyx`). All functions return
 * -errno on failure and never retry a failed write or flush. After a failed fsync Linux may have dropped the dirty
 * pages, and a second call would report success for lost data.
 */
#ifndef KRAFT_FILEIO_H
#define KRAFT_FILEIO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum kf_op {
    KF_OPEN = 1,      /* path, a = flags; fd is known only afterwards (see KF_OPENED) */
    KF_OPENED = 2,    /* path, fd, a = flags, b = 1 when the call created the file; reports only, cannot fail */
    KF_CLOSED = 3,    /* fd; reports only */
    KF_WRITE = 4,     /* fd, a = file offset, data/size */
    KF_TRUNCATE = 5,  /* fd, a = new size */
    KF_DATASYNC = 6,  /* fd */
    KF_SYNC = 7,      /* fd */
    KF_SYNC_DIR = 8,  /* path of the directory */
    KF_RENAME = 9,    /* path -> path2 */
    KF_UNLINK = 10,   /* path */
    KF_MKDIR = 11,    /* path */
    KF_READ = 12,     /* fd, a = file offset, b = byte count */
    KF_ALLOCATE = 13, /* fd, a = file offset, b = byte count: reserves space, may lengthen the file with zeros */
    KF_DONE = 0x100   /* added to an operation from KF_WRITE on, reading excepted: it returned `result`; only reports.
                       * A call that the hook itself failed is not reported again. */
};

typedef struct kf_event {
    int op;
    int fd;
    int64_t a;
    int64_t b;
    const char *path;
    const char *path2;
    const struct iovec *iov;
    int iov_count;
    size_t size;
    int64_t result; /* KF_DONE: bytes accepted by a write, 0, or -errno */
} kf_event;

/* A hook's result: 0 = continue; a negative errno = fail the call with it, undone. For KF_WRITE a positive n = let the
 * kernel accept only the first n bytes of this call (a further call requests the rest). */
typedef int64_t (*kf_hook_fn)(const kf_event *event, void *context);

void kf_set_hook(kf_hook_fn hook, void *context);
int64_t kf_open_count(void);

int kf_open(const char *path, int flags, int mode);
void kf_close(int fd);
int kf_pwritev(int fd, struct iovec *iov, int iov_count, int64_t offset);
int kf_pwrite(int fd, const void *data, size_t size, int64_t offset);
int64_t kf_pread(int fd, void *data, size_t size, int64_t offset);
/* Begins to send written bytes to the device and does not wait, so that the flush that must follow finds little to do.
 * Promises nothing, so no hook is called. 0 also where the file system cannot do it. */
int kf_write_back(int fd, int64_t offset, int64_t size);
/* Brings reserved space that was never written into the page cache, by writing the zeros that it holds. Nothing that a
 * crash could show changes, so no hook is called. */
int kf_populate(int fd, int64_t offset, int64_t size);
int kf_truncate(int fd, int64_t size);
int kf_allocate(int fd, int64_t offset, int64_t size);
/* Reports to a hook a write that is done by memory copy (`window.c`): 0, or -errno when it must not happen. A hook that
 * shortens it makes it fail with -EIO, since a copy has no short form. */
int kf_announce_write(int fd, const struct iovec *iov, int iov_count, size_t size, int64_t offset);
/* Reports the end of that copy. */
void kf_announce_written(int fd, const struct iovec *iov, int iov_count, size_t size, int64_t offset);
/* Sets the time of the last change that the file shows. No content changes, so no hook is called. */
int kf_set_time(int fd, int64_t modified_ns);
/* Time at which the kernel would stamp a file that changes now: that of its last clock tick. */
int64_t kf_stamp(void);
int kf_datasync(int fd);
int kf_sync(int fd);
int kf_sync_dir(const char *path);
int kf_rename(const char *from, const char *to);
int kf_unlink(const char *path);
int kf_mkdir(const char *path, int mode);
int64_t kf_size(int fd);
/* Acquires a write (exclusive) or read lock on the whole file without waiting. Open-file-description locks: they
 * conflict with the POSIX locks that a Java FileChannel acquires in another process. -EAGAIN when it is held. */
int kf_lock(int fd, int exclusive);
/* Whether another holder has an exclusive lock on the file: 1 or 0. Acquires nothing. */
int kf_locked(int fd);
/* Whether a lock on a file of this directory outlives its descriptor while the file is mapped: 1 or 0, or -errno when
 * that cannot be tried. It does, except where a mapping is one of another file, as below an overlay. Tried on a file
 * without a name. */
int kf_mapping_keeps_lock(const char *directory);

#endif
