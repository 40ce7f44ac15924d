/* The live page: 4 KiB shared between the owner of a log and readers in other processes.
 *
 * The owner writes the state under a sequence lock: `sequence` is odd while it writes. So a reader that saw the same
 * even number before and after has a consistent copy. A write costs a few plain stores.
 *
 * Waking works without a count of waiters, because a killed reader would leave a count too high indefinitely:
 *
 *   waiter: seen = wake_word;  armed = 1;  fence;  read the state: not there yet;  futex_wait(wake_word, seen)
 *   owner:  write the state;   fence;  if armed: armed = 0, wake_word += 1, futex_wake(all)
 *
 * Either the owner sees `armed`, or the waiter sees the state (fences on both sides). If the owner's `armed = 0` undoes
 * the `armed = 1` of a second waiter, then that waiter read `seen` before the owner changed wake_word, and its
 * futex_wait returns at once. A reader that died armed costs one system call.
 */
#ifndef KRAFT_LIVE_H
#define KRAFT_LIVE_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KF_LIVE_BYTES 4096
#define KF_LIVE_MAGIC 0x4556494c54464152ULL /* "RAFTLIVE" in memory */
#define KF_LIVE_VERSION 1

typedef struct kf_live_state {
    int64_t log_start;
    int64_t high_watermark;
    int64_t last_stable_offset;
    int64_t log_end;
    int64_t active_base;             /* base offset of the segment that is appended to */
    int64_t active_bytes;            /* bytes of whole batches in it */
    uint64_t truncation_generation;  /* odd while bytes below log_end may be cut or rewritten */
    uint64_t segments_generation;    /* changes before and after segment files are added, replaced, removed, reused */
    uint64_t closed;                 /* 1: the owner closed the log */
} kf_live_state;

typedef struct kf_live_page {
    uint64_t magic;
    uint32_t version;
    uint32_t size;
    int64_t owner_pid;
    uint64_t owner_start_ticks;      /* field 22 of /proc/<pid>/stat */
    uint64_t owner_pid_namespace;    /* inode of /proc/self/ns/pid: process ids of another one mean nothing here */
    uint64_t incarnation;            /* incremented each time that an owner opens the log */
    uint64_t unused[2];
    uint64_t sequence;
    kf_live_state state;
    uint64_t unused_2[6];
    uint32_t wake_word;
    uint32_t unused_3[15];
    uint32_t armed;                  /* the only word that readers write; on a cache line of its own */
} kf_live_page;

_Static_assert(offsetof(kf_live_page, sequence) == 64, "layout of the live page");
_Static_assert(offsetof(kf_live_page, wake_word) == 192, "layout of the live page");
_Static_assert(offsetof(kf_live_page, armed) == 256, "layout of the live page");

/* ---- owner ---- */

static inline void kf_live_begin(kf_live_page *page) {
    __atomic_store_n(&page->sequence, page->sequence + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void kf_live_end(kf_live_page *page) {
    __atomic_store_n(&page->sequence, page->sequence + 1, __ATOMIC_RELEASE);
}

#define KF_LIVE_SET(page, field, value) __atomic_store_n(&(page)->state.field, (value), __ATOMIC_RELAXED)

/* Sets the limits. Returns whether anything a reader may wait for moved. */
static inline bool kf_live_publish(kf_live_page *page, int64_t log_start, int64_t high_watermark,
                                   int64_t last_stable_offset, int64_t log_end, int64_t active_base,
                                   int64_t active_bytes) {
    bool moved = page->state.high_watermark != high_watermark ||
                 page->state.last_stable_offset != last_stable_offset || page->state.log_start != log_start;
    kf_live_begin(page);
    KF_LIVE_SET(page, log_start, log_start);
    KF_LIVE_SET(page, high_watermark, high_watermark);
    KF_LIVE_SET(page, last_stable_offset, last_stable_offset);
    KF_LIVE_SET(page, log_end, log_end);
    KF_LIVE_SET(page, active_base, active_base);
    KF_LIVE_SET(page, active_bytes, active_bytes);
    kf_live_end(page);
    return moved;
}

/* The new generation must be seen before any system call that changes files: hence the full fence. */
static inline void kf_live_set_truncation(kf_live_page *page, uint64_t generation) {
    kf_live_begin(page);
    KF_LIVE_SET(page, truncation_generation, generation);
    kf_live_end(page);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void kf_live_segments_changed(kf_live_page *page) {
    kf_live_begin(page);
    KF_LIVE_SET(page, segments_generation, page->state.segments_generation + 1);
    kf_live_end(page);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void kf_live_set_closed(kf_live_page *page, uint64_t closed) {
    kf_live_begin(page);
    KF_LIVE_SET(page, closed, closed);
    kf_live_end(page);
}

/* Wakes waiting readers of other processes, if any. */
static inline void kf_live_wake(kf_live_page *page) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(__atomic_load_n(&page->armed, __ATOMIC_RELAXED) == 0, 1)) return;
    __atomic_store_n(&page->armed, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&page->wake_word, page->wake_word + 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &page->wake_word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- reader ---- */

#if defined(__x86_64__)
#define KF_LIVE_PAUSE() __builtin_ia32_pause()
#else
#define KF_LIVE_PAUSE() __asm__ __volatile__("yield")
#endif

/* Copies a consistent state. False when the owner stayed inside a write all the time: it may have died. */
static inline bool kf_live_read(const kf_live_page *page, kf_live_state *out) {
    const uint64_t *from = (const uint64_t *)&page->state;
    uint64_t *to = (uint64_t *)out;
    for (int attempt = 0; attempt < 100000; attempt++) {
        uint64_t before = __atomic_load_n(&page->sequence, __ATOMIC_ACQUIRE);
        if ((before & 1) == 0) {
            for (size_t i = 0; i < sizeof *out / sizeof *to; i++) to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
            __atomic_thread_fence(__ATOMIC_ACQUIRE);
            if (__atomic_load_n(&page->sequence, __ATOMIC_RELAXED) == before) return true;
        }
        KF_LIVE_PAUSE();
    }
    return false;
}

/* After a pread: true when the bytes read may have changed since `state` was copied. */
static inline bool kf_live_changed(const kf_live_page *page, const kf_live_state *state) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return __atomic_load_n(&page->state.truncation_generation, __ATOMIC_RELAXED) != state->truncation_generation ||
           __atomic_load_n(&page->state.segments_generation, __ATOMIC_RELAXED) != state->segments_generation;
}

static inline uint32_t kf_live_wake_word(const kf_live_page *page) {
    return __atomic_load_n(&page->wake_word, __ATOMIC_ACQUIRE);
}

static inline void kf_live_arm(kf_live_page *page) {
    __atomic_store_n(&page->armed, 1, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline int64_t kf_live_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Sleeps until woken, until wake_word differs from `seen`, until the time passes, or until a signal comes. */
static inline void kf_live_sleep(const kf_live_page *page, uint32_t seen, int64_t timeout_ns) {
    struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
    syscall(SYS_futex, &page->wake_word, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

#endif
