/* Group commit: one thread that makes written bytes durable for many logs.
 *
 * The owner of a log writes, then submits (descriptor, end offset). While the thread flushes one log, submissions for
 * it gather; the next flush covers them. A log moves through three places:
 *
 *   nowhere --submit--> gathering --(bytes, age, or a request)------> ready --thread--> running
 *                \----------(linger 0: at once)------------------------^
 *
 * Steps of one log run in the order in which they were first submitted. So after a roll the old file, the directory and
 * the new file become durable in this order. The durable mark moves only over bytes that all earlier steps covered. The
 * first failure is final: the error is kept, the mark never moves again, nothing is retried.
 *
 * Descriptors are not duplicated (a test hook knows files by descriptor): the caller keeps each one open until the
 * mark has passed its end offset, or `kf_flush_forget` or `kf_flush_close` returned.
 *
 * Functions return 0 or -errno:
 *
 * - -ECHILD: the caller is a fork of the process that has the thread.
 * - -ESHUTDOWN: the flusher or the handle was closed.
 * - -ECANCELED: the awaited bytes were truncated away.
 */
#ifndef KRAFT_FLUSHER_H
#define KRAFT_FLUSHER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { KF_FLUSH_MESSAGE_BYTES_MAX = 512 };

typedef int (*kf_datasync_fn)(int fd);
typedef int (*kf_sync_directory_fn)(const char *path);

typedef struct kf_flusher kf_flusher;

typedef struct kf_flush_statistics {
    int64_t submissions;
    int64_t flushes;      /* rounds: one per log processed */
    int64_t syncs;        /* system calls that succeeded */
    int64_t bytes;        /* submitted with the rounds that were flushed */
    int64_t busy_ns;      /* time spent in sync calls */
} kf_flush_statistics;

/* Only these members may be read without the flusher's lock, through the functions below. */
typedef struct kf_flush_handle {
    int64_t durable;
    int error;            /* errno of the first failure, 0: none */
    int failed_fd;        /* descriptor of the failed step, -1: a directory, or no failure */
} kf_flush_handle;

static inline int64_t kf_flush_durable(const kf_flush_handle *handle) {
    return __atomic_load_n(&handle->durable, __ATOMIC_ACQUIRE);
}

static inline int kf_flush_error(const kf_flush_handle *handle) {
    return __atomic_load_n(&handle->error, __ATOMIC_ACQUIRE);
}

/* NULL with *error set when memory or the thread is not available. linger_ns 0: flush at once when no flush runs.
 * Negative: age starts no flush, only bytes, a request or a wait do, and a wait returns when the whole round is done.
 * With one owner that always waits the order of all system calls follows from its calls alone. */
kf_flusher *kf_flusher_start(kf_datasync_fn datasync, kf_sync_directory_fn sync_directory, int64_t bytes_trigger,
                             int64_t linger_ns, int *error);
/* Flushes pending steps and ends the thread. Every later submission is refused. May be called twice. */
int kf_flusher_stop(kf_flusher *flusher);
/* Stops the flusher if needed, and frees it. No handle may be left. */
void kf_flusher_free(kf_flusher *flusher);
/* A descriptor that becomes readable when any log's mark moves, as far as events report it, or a flush fails. Created
 * at the first call, readable if that has happened before; the flusher owns it. */
int kf_flusher_eventfd(kf_flusher *flusher);
int kf_flusher_statistics(kf_flusher *flusher, kf_flush_statistics *out);

kf_flush_handle *kf_flush_register(kf_flusher *flusher, int64_t durable, int *error);
/* Drops pending steps, wakes waiters, waits for a running flush of this log. Descriptors may be closed then. */
void kf_flush_close(kf_flush_handle *handle);
/* Closes and frees. No other thread may use the handle any more. */
void kf_flush_free(kf_flush_handle *handle);

int kf_flush_submit(kf_flush_handle *handle, int fd, int64_t end_offset, int64_t size);
int kf_flush_submit_directory(kf_flush_handle *handle, const char *path);
/* Lets submissions gather until a caller requests a flush or waits, or there are enough bytes. This is for a log whose
 * owner sends one request for all that it submits in a loop iteration: the thread need not wake twice. After a slow
 * round it may be flushed without a request, when the hold of that round ends. */
int kf_flush_gather_until_requested(kf_flush_handle *handle);
/* Starts the flush that reaches end_offset without gathering any longer. Never blocks. */
int kf_flush_request(kf_flush_handle *handle, int64_t end_offset);
/* Has the thread send `size` bytes (at most KF_FLUSH_MESSAGE_BYTES_MAX, copied) to a socket the moment the mark reaches
 * end_offset. So the acknowledgement of a flush need not wait for the log's owner. Returns 1; 0 when the mark is at
 * end_offset already, and nothing will be sent. A later message replaces an earlier one; a failure, a reset below
 * end_offset and the close of the handle drop it. The descriptor stays open until `kf_flush_take_back` returned. */
int kf_flush_send(kf_flush_handle *handle, int64_t end_offset, int fd, const char *data, int size);
/* Withdraws the message: 1 when it has been sent, 0 when it has not and will not be. Once per message. */
int kf_flush_take_back(kf_flush_handle *handle);
/* Requests a flush, then blocks until the mark reaches end_offset. timeout_ns < 0: no limit. -ETIMEDOUT when it passed.
 * */
int kf_flush_wait(kf_flush_handle *handle, int64_t end_offset, int64_t timeout_ns);
/* Lowers the mark and all pending ends to end_offset at most, after a truncation. Never blocks. */
int kf_flush_reset(kf_flush_handle *handle, int64_t end_offset);
/* Drops the pending steps of a deleted file, and waits while it is being flushed. */
int kf_flush_forget(kf_flush_handle *handle, int fd);
/* A descriptor that becomes readable at each move of the mark and at a failure. Created at the first call, readable if
 * that has happened before; the handle owns it. */
int kf_flush_eventfd(kf_flush_handle *handle);
/* Limits events to marks from end_offset on and to failures: an owner that does not wait for a flush need not be woken
 * by it. Returns 1; 0 when the mark is at end_offset already, and no event will report that. At first they report all.
 * */
int kf_flush_notify_from(kf_flush_handle *handle, int64_t end_offset);
int64_t kf_flush_submitted(kf_flush_handle *handle);

#endif
