#define _GNU_SOURCE
#include "file/window.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file/file_io.h"

void kf_window_close(kf_window *window) {
    if (window->base != NULL) munmap(window->base, (size_t)(window->end - window->start));
    window->base = NULL;
    window->start = window->end = 0;
}

/* Moves the window so that it begins in the page of `offset`. */
static int window_move(kf_window *window, int fd, int64_t offset) {
    kf_window_close(window);
    int64_t page = sysconf(_SC_PAGESIZE);
    int64_t start = offset / page * page;
    int result = kf_allocate(fd, start, KF_WINDOW_BYTES);
    if (result == -ENOSPC || result == -EDQUOT) return -EOPNOTSUPP; /* a plain write needs less space than a window */
    if (result < 0) return result;
    void *base = mmap(NULL, KF_WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, start);
    if (base == MAP_FAILED) return -errno;
    window->base = base;
    window->start = start;
    window->end = start + KF_WINDOW_BYTES;
    return 0;
}

int kf_window_reach(kf_window *window, int fd, int64_t offset, size_t size) {
    if (offset >= window->start && offset + (int64_t)size <= window->end && window->base != NULL) return 0;
    if (size > KF_WINDOW_BYTES / 2) return -EOPNOTSUPP;
    return window_move(window, fd, offset);
}

int kf_window_write(kf_window *window, int fd, const struct iovec *iov, int iov_count, int64_t offset) {
    size_t size = 0;
    for (int i = 0; i < iov_count; i++) size += iov[i].iov_len;
    int result = kf_announce_write(fd, iov, iov_count, size, offset);
    if (result < 0) return result;
    char *to = window->base + (offset - window->start);
    for (int i = 0; i < iov_count; i++) {
        memcpy(to, iov[i].iov_base, iov[i].iov_len);
        to += iov[i].iov_len;
    }
    kf_announce_written(fd, iov, iov_count, size, offset);
    return 0;
}
