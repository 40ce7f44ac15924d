/* Small appends through a mapped window at the end of a file.
 *
 * A pwrite of one 100-byte record costs about a microsecond of kernel work. A copy into a mapped page costs a quarter
 * of that, page faults included, and a tenth where the pages were brought into the cache beforehand (`kf_populate`).
 * The bytes are in the page cache as soon as the copy is done. So they survive the end of this process at any
 * instruction just as written ones do, and fdatasync flushes them like any others.
 *
 * The window's blocks are reserved first (fallocate), so a full disk is an error code here and never a SIGBUS later.
 * The price: the file is longer than its content, with zeros at its end, until it is cut to size at the roll or the
 * close. After a crash recovery treats those zeros as the torn tail that they are.
 */
#ifndef KRAFT_WINDOW_H
#define KRAFT_WINDOW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define KF_WINDOW_BYTES (1 << 20)

typedef struct kf_window {
    char *base;     /* NULL: nothing is mapped */
    int64_t start;  /* file offset of base, a multiple of the page size */
    int64_t end;
} kf_window;

/* Moves the window, if need be, so that `size` bytes fit at `offset`. 0, or -errno: -EOPNOTSUPP means that the space
 * cannot be reserved here and that a plain write must be tried instead. */
int kf_window_reach(kf_window *window, int fd, int64_t offset, size_t size);

/* Copies the pieces to `offset` of the file, which the window reaches. 0, or -errno with nothing written. */
int kf_window_write(kf_window *window, int fd, const struct iovec *iov, int iov_count, int64_t offset);

/* Unmaps. The file keeps its length: cut it with kf_truncate. Harmless when nothing is mapped. */
void kf_window_close(kf_window *window);

#endif
