/* The flusher's time: a clock that does not go back, and conditions that wait by it. */
#ifndef KRAFT_FLUSH_CLOCK_H
#define KRAFT_FLUSH_CLOCK_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline int init_condition(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);
    if (error) return error;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    error = pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return error;
}

/* Whether the deadline has passed. */
static inline bool wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t deadline_ns) {
    struct timespec deadline = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};
    return pthread_cond_timedwait(condition, lock, &deadline) == ETIMEDOUT;
}

#endif
