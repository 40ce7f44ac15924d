/* The flusher's state, and where each log waits in it. The caller holds the flusher's lock. */
#ifndef KRAFT_FLUSH_QUEUES_H
#define KRAFT_FLUSH_QUEUES_H

#include "log/flusher.h"

#include "log/flush_clock.h"
#include "log/flush_message.h"
#include "log/flush_steps.h"

enum place { PLACE_NOWHERE, PLACE_GATHERING, PLACE_READY };

/* The public part first: a kf_flush_handle is the head of one of these. Guarded by the flusher's lock. */
typedef struct log_state {
    kf_flush_handle public;
    kf_flusher *flusher;
    struct log_state *previous, *next; /* in the queue named by `place` */
    struct log_state *previous_registered, *next_registered;
    enum place place;
    bool running;
    bool closed;
    int step_index;         /* of the step that runs now */
    step_list queued;       /* the next round */
    step_list round;        /* the round that runs */
    int64_t submitted_end;
    int64_t taken_end;      /* rounds begun so far reach to here */
    int64_t wanted_end;     /* durability was requested to here */
    int64_t queued_bytes;
    int64_t linger_ns;      /* time to gather, negative: until a request */
    int64_t deadline_ns;    /* of gathering */
    int64_t hold_until_ns;  /* after a slow round: see `hold` */
    int64_t hold_bytes;
    int event_fd;           /* -1 until requested */
    int64_t event_end;      /* an event reports a mark from here on, and a failure */
    bool happened;          /* what an event reports, since the handle's creation */
    int waiters;
    unsigned resets;
    pthread_cond_t moved;   /* mark moved, failure, reset, end of a round, stop */
    flush_message message;
} log_state;

typedef struct queue {
    log_state *head, *tail;
} queue;

struct kf_flusher {
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_t thread;
    kf_datasync_fn datasync;
    kf_sync_directory_fn sync_directory;
    int64_t bytes_trigger;
    int64_t linger_ns;
    queue gathering; /* in order of deadline */
    queue ready;     /* first come, first served */
    log_state *registered; /* every handle, in no order */
    unsigned fork_generation;
    int event_fd;    /* -1 until requested; of all logs */
    bool happened;   /* what it reports, since the start */
    bool sleeping;   /* the thread waits for `work` */
    bool waking;     /* it is to be woken when the lock is given up: see `unlock` */
    bool stopping;
    kf_flush_statistics statistics;
};

/* A child of fork has the memory but not the thread, and perhaps a lock that no thread will ever release. Counting
 * forks is cheaper than a call for the process id at each submission. */
static unsigned fork_generation = 0;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void count_fork(void) { fork_generation++; }
static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

static inline bool forked(const kf_flusher *flusher) {
    return __builtin_expect(flusher->fork_generation != fork_generation, 0);
}

static inline log_state *state_of(kf_flush_handle *handle) { return (log_state *)handle; }

/* ---- queues ---- */

static void leave_queue(log_state *log) {
    if (log->place == PLACE_NOWHERE) return;
    queue *q = log->place == PLACE_READY ? &log->flusher->ready : &log->flusher->gathering;
    if (log->previous) log->previous->next = log->next;
    else q->head = log->next;
    if (log->next) log->next->previous = log->previous;
    else q->tail = log->previous;
    log->previous = log->next = NULL;
    log->place = PLACE_NOWHERE;
}

static void enter_queue(log_state *log, enum place place) {
    leave_queue(log);
    queue *q = place == PLACE_READY ? &log->flusher->ready : &log->flusher->gathering;
    log_state *before = q->tail; /* nearly always the right one: all linger equally long, only holds are shorter */
    if (place == PLACE_GATHERING)
        while (before && before->deadline_ns > log->deadline_ns) before = before->previous;
    log_state *after = before ? before->next : q->head;
    log->previous = before;
    log->next = after;
    if (before) before->next = log;
    else q->head = log;
    if (after) after->previous = log;
    else q->tail = log;
    log->place = place;
}

static void wake_thread(kf_flusher *flusher) {
    if (flusher->sleeping) {
        flusher->sleeping = false; /* one signal is enough, further submissions need not pay for it */
        flusher->waking = true;
    }
}

static bool take_waking(kf_flusher *flusher) {
    bool waking = flusher->waking;
    flusher->waking = false;
    return waking;
}

/* Wakes the thread after releasing the lock. Otherwise it would find the lock held and sleep again. */
static void unlock(kf_flusher *flusher) {
    bool waking = take_waking(flusher);
    pthread_mutex_unlock(&flusher->lock);
    if (waking) pthread_cond_signal(&flusher->work);
}

static void gather_until(log_state *log, int64_t deadline_ns) {
    log->deadline_ns = deadline_ns;
    enter_queue(log, PLACE_GATHERING);
    /* It may sleep for longer; a log that only waits for a request is no reason to wake. */
    if (log->flusher->gathering.head == log && deadline_ns != INT64_MAX) wake_thread(log->flusher);
}

/* Puts a log with queued steps into its queue. */
static void place_log(log_state *log) {
    kf_flusher *flusher = log->flusher;
    if (log->place == PLACE_READY || log->queued.count == 0) return;
    if (log->hold_until_ns && flusher->linger_ns >= 0) {
        if (log->queued_bytes < log->hold_bytes && now_ns() < log->hold_until_ns) {
            /* Requested steps may have come while a round ran, and gather for long: no later than the hold. */
            bool wanted = log->wanted_end > log->taken_end && log->deadline_ns > log->hold_until_ns;
            if (log->place == PLACE_NOWHERE || wanted) gather_until(log, log->hold_until_ns);
            return;
        }
        log->hold_until_ns = 0;
    }
    if (log->linger_ns == 0 || log->queued_bytes >= flusher->bytes_trigger || log->wanted_end > log->taken_end) {
        enter_queue(log, PLACE_READY);
        wake_thread(flusher);
    } else if (log->place == PLACE_NOWHERE) {
        gather_until(log, log->linger_ns < 0 ? INT64_MAX : now_ns() + log->linger_ns);
    }
}

#endif
