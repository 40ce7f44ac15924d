#define _GNU_SOURCE
#include "log/flusher.h"

#include "log/flush_queues.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Limits of `hold` in nanoseconds. */
#define HOLD_NS_MIN 250000
#define HOLD_NS_MAX 1000000
/* The shortest that the system gives. */
#define SLICE_NS 100000

/* ---- the thread ---- */

static void notify(log_state *log) {
    if (log->waiters) pthread_cond_broadcast(&log->moved);
}

static void signal_event(int event_fd) {
    uint64_t one = 1;
    /* Fails only with EAGAIN, when the counter is full and the reader is due to wake anyway. */
    if (event_fd >= 0 && write(event_fd, &one, sizeof one) < 0) return;
}

/* Created at the first call. An earlier event is reported at once: a caller that comes after a flush would wait
 * indefinitely. */
static int event_of(int *event_fd, bool happened) {
    if (*event_fd < 0) *event_fd = eventfd(happened ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
    return *event_fd < 0 ? -errno : *event_fd;
}

static void fail(log_state *log, int failed_fd, int error) {
    drop_message(&log->message);
    log->public.failed_fd = failed_fd;
    __atomic_store_n(&log->public.error, error, __ATOMIC_RELEASE);
    leave_queue(log);
    clear_steps(&log->queued);
}

/* Runs one step, releasing the lock meanwhile. Returns 0 or an errno. The step is a copy, because other threads may
 * void or clamp those of the round. */
static int run_step(kf_flusher *flusher, step s) {
    if (s.kind == STEP_NOTHING) return 0;
    pthread_mutex_unlock(&flusher->lock);
    int64_t begun = now_ns();
    int result = s.kind == STEP_FILE ? flusher->datasync(s.fd) : flusher->sync_directory(s.path);
    int64_t spent = now_ns() - begun;
    pthread_mutex_lock(&flusher->lock);
    flusher->statistics.busy_ns += spent;
    if (result >= 0) flusher->statistics.syncs++;
    return result < 0 ? -result : 0;
}

/* With a slow disk it pays to let the writers that a round has just acknowledged submit again before the next one.
 * Otherwise a writer with a fixed number of records in flight would stay split into two halves, one being flushed and
 * one waiting: two flushes where one could carry all. So the next round is held until as many bytes have arrived as the
 * last round flushed, but for a quarter of the last round's time at most. The quarter of a fast disk is too short for
 * that. */
static void hold(log_state *log, int64_t round_ns, int64_t round_bytes) {
    int64_t pause_ns = round_ns / 4;
    if (pause_ns < HOLD_NS_MIN || log->flusher->linger_ns < 0) return;
    log->hold_until_ns = now_ns() + (pause_ns > HOLD_NS_MAX ? HOLD_NS_MAX : pause_ns);
    log->hold_bytes = log->queued_bytes + round_bytes;
    if (log->hold_bytes > log->flusher->bytes_trigger) log->hold_bytes = log->flusher->bytes_trigger;
    if (log->place == PLACE_READY) {
        leave_queue(log);
        place_log(log);
    }
}

/* One round of one log. Called and left with the lock held; `running` keeps the handle alive meanwhile. */
static void run_round(kf_flusher *flusher, log_state *log) {
    leave_queue(log);
    step_list taken = log->queued;
    log->queued = log->round;
    log->round = taken;
    int64_t bytes = log->queued_bytes;
    log->queued_bytes = 0;
    log->taken_end = log->submitted_end;
    log->running = true;
    int error = 0;
    int64_t busy_ns = -flusher->statistics.busy_ns;
    for (log->step_index = 0; log->step_index < log->round.count && !error; log->step_index++) {
        step current = log->round.items[log->step_index];
        error = run_step(flusher, current);
        int64_t end = log->round.items[log->step_index].end; /* read again: a reset may have clamped it */
        if (!error && log->step_index + 1 == log->round.count) {
            flusher->statistics.flushes++; /* before any notice: a caller that sees a flush done sees it counted */
            flusher->statistics.bytes += bytes;
        }
        if (error)
            fail(log, current.kind == STEP_FILE ? current.fd : -1, error);
        else if (end > log->public.durable)
            __atomic_store_n(&log->public.durable, end, __ATOMIC_RELEASE);
        else
            continue;
        send_message(&log->message, log->public.durable);
        notify(log);
        log->happened = flusher->happened = true;
        int own = log->event_fd, common = flusher->event_fd;
        if ((own >= 0 || common >= 0) && (error || log->public.durable >= log->event_end)) {
            pthread_mutex_unlock(&flusher->lock);
            signal_event(own);
            signal_event(common);
            pthread_mutex_lock(&flusher->lock);
        }
    }
    clear_steps(&log->round);
    log->running = false;
    if (!error) hold(log, busy_ns + flusher->statistics.busy_ns, bytes);
    notify(log); /* for those that wait for the end of the round: forget, unregister */
}

static void promote_due(kf_flusher *flusher) {
    if (!flusher->gathering.head) return;
    int64_t now = flusher->stopping ? INT64_MAX : now_ns();
    while (flusher->gathering.head && flusher->gathering.head->deadline_ns <= now)
        enter_queue(flusher->gathering.head, PLACE_READY);
}

/* The thread works for some microseconds and then waits for the disk. The system tends to wake it on the processor of
 * its waker. There it would wait until its owner is idle, while other processors are idle too. A thread with short
 * slices (Linux 6.12) runs before one without, and has no larger share. Without this support it simply waits. */
static void request_short_slices(void) {
    struct { /* `sched_attr` of the system's interface, which not every C library has */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } scheduling = {0};
    if (syscall(SYS_sched_getattr, 0, &scheduling, sizeof scheduling, 0) < 0) return;
    if (scheduling.policy != SCHED_OTHER) return; /* another party has set the policy already */
    scheduling.runtime = SLICE_NS;
    syscall(SYS_sched_setattr, 0, &scheduling, 0);
}

static void *run_thread(void *argument) {
    kf_flusher *flusher = argument;
    request_short_slices();
    prctl(PR_SET_TIMERSLACK, 1000UL); /* of the default 50 us half a short linger would be lost */
    pthread_mutex_lock(&flusher->lock);
    for (;;) {
        promote_due(flusher);
        if (flusher->ready.head) {
            run_round(flusher, flusher->ready.head);
            continue;
        }
        if (flusher->stopping) break;
        flusher->sleeping = true;
        if (flusher->gathering.head && flusher->linger_ns >= 0) {
            wait_until(&flusher->work, &flusher->lock, flusher->gathering.head->deadline_ns);
        } else {
            pthread_cond_wait(&flusher->work, &flusher->lock);
        }
        flusher->sleeping = false;
    }
    for (log_state *log = flusher->registered; log; log = log->next_registered) notify(log);
    pthread_mutex_unlock(&flusher->lock);
    return NULL;
}

/* ---- flusher ---- */

kf_flusher *kf_flusher_start(kf_datasync_fn datasync, kf_sync_directory_fn sync_directory, int64_t bytes_trigger,
                             int64_t linger_ns, int *error) {
    pthread_once(&fork_once, watch_forks);
    kf_flusher *flusher = calloc(1, sizeof *flusher);
    if (!flusher) {
        *error = ENOMEM;
        return NULL;
    }
    flusher->datasync = datasync;
    flusher->sync_directory = sync_directory;
    flusher->bytes_trigger = bytes_trigger;
    flusher->linger_ns = linger_ns;
    flusher->fork_generation = fork_generation;
    flusher->event_fd = -1;
    pthread_mutex_init(&flusher->lock, NULL);
    *error = init_condition(&flusher->work);
    if (!*error) {
        /* The interpreter's threads handle signals. */
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        *error = pthread_create(&flusher->thread, NULL, run_thread, flusher);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (!*error) {
            pthread_setname_np(flusher->thread, "kraft-flusher");
            return flusher;
        }
        pthread_cond_destroy(&flusher->work);
    }
    pthread_mutex_destroy(&flusher->lock);
    free(flusher);
    return NULL;
}

int kf_flusher_stop(kf_flusher *flusher) {
    if (forked(flusher)) return -ECHILD;
    pthread_mutex_lock(&flusher->lock);
    bool join = !flusher->stopping;
    flusher->stopping = true;
    wake_thread(flusher);
    unlock(flusher);
    if (join) pthread_join(flusher->thread, NULL);
    return 0;
}

void kf_flusher_free(kf_flusher *flusher) {
    if (kf_flusher_stop(flusher) == 0) {
        pthread_cond_destroy(&flusher->work);
        pthread_mutex_destroy(&flusher->lock);
    } /* in a fork their state is unknown; they hold nothing but this memory and the fork's own copy of the event */
    if (flusher->event_fd >= 0) close(flusher->event_fd);
    free(flusher);
}

int kf_flusher_eventfd(kf_flusher *flusher) {
    if (forked(flusher)) return -ECHILD;
    pthread_mutex_lock(&flusher->lock);
    int result = event_of(&flusher->event_fd, flusher->happened);
    pthread_mutex_unlock(&flusher->lock);
    return result;
}

int kf_flusher_statistics(kf_flusher *flusher, kf_flush_statistics *out) {
    if (forked(flusher)) return -ECHILD;
    pthread_mutex_lock(&flusher->lock);
    *out = flusher->statistics;
    pthread_mutex_unlock(&flusher->lock);
    return 0;
}

/* ---- handles ---- */

kf_flush_handle *kf_flush_register(kf_flusher *flusher, int64_t durable, int *error) {
    if (forked(flusher)) {
        *error = ECHILD;
        return NULL;
    }
    log_state *log = calloc(1, sizeof *log);
    *error = log ? init_condition(&log->moved) : ENOMEM;
    if (*error) {
        free(log);
        return NULL;
    }
    log->flusher = flusher;
    log->public.durable = log->submitted_end = log->taken_end = log->wanted_end = durable;
    log->public.failed_fd = -1;
    log->linger_ns = flusher->linger_ns;
    log->event_fd = -1;
    log->event_end = INT64_MIN;
    pthread_mutex_lock(&flusher->lock);
    log->next_registered = flusher->registered;
    if (flusher->registered) flusher->registered->previous_registered = log;
    flusher->registered = log;
    pthread_mutex_unlock(&flusher->lock);
    return &log->public;
}

void kf_flush_close(kf_flush_handle *handle) {
    log_state *log = state_of(handle);
    kf_flusher *flusher = log->flusher;
    if (forked(flusher)) return;
    pthread_mutex_lock(&flusher->lock);
    if (!log->closed) {
        log->closed = true;
        drop_message(&log->message);
        leave_queue(log);
        clear_steps(&log->queued);
        if (log->previous_registered) log->previous_registered->next_registered = log->next_registered;
        else flusher->registered = log->next_registered;
        if (log->next_registered) log->next_registered->previous_registered = log->previous_registered;
        notify(log);
        /* Steps of the round that have not begun need not run, and must not move the mark. */
        for (int i = log->step_index + 1; log->running && i < log->round.count; i++) {
            log->round.items[i].kind = STEP_NOTHING;
            log->round.items[i].end = INT64_MIN;
        }
        log->waiters++;
        while (log->running) pthread_cond_wait(&log->moved, &flusher->lock);
        log->waiters--;
        if (log->event_fd >= 0) close(log->event_fd);
        log->event_fd = -1;
    }
    pthread_mutex_unlock(&flusher->lock);
}

void kf_flush_free(kf_flush_handle *handle) {
    log_state *log = state_of(handle);
    if (forked(log->flusher)) {
        if (log->event_fd >= 0) close(log->event_fd); /* the fork's own copy */
    } else {
        kf_flush_close(handle);
        pthread_cond_destroy(&log->moved);
    }
    clear_steps(&log->queued);
    clear_steps(&log->round);
    free(log->queued.items);
    free(log->round.items);
    free(log);
}

/* Locks when the handle can accept requests; otherwise returns the reason. */
static int lock_usable(log_state *log) {
    if (forked(log->flusher)) return -ECHILD;
    pthread_mutex_lock(&log->flusher->lock);
    int result = log->public.error ? -log->public.error : log->closed || log->flusher->stopping ? -ESHUTDOWN : 0;
    if (result < 0) pthread_mutex_unlock(&log->flusher->lock);
    return result;
}

int kf_flush_submit(kf_flush_handle *handle, int fd, int64_t end_offset, int64_t size) {
    log_state *log = state_of(handle);
    int result = lock_usable(log);
    if (result < 0) return result;
    if (end_offset > log->submitted_end) log->submitted_end = end_offset;
    if (!has_file(&log->queued, fd)) result = add_step(&log->queued, STEP_FILE, fd, NULL, log->submitted_end);
    /* The end always goes to the last step: a file that is dirtied again after a newer one must not move the mark over
     * that one's bytes. */
    if (result == 0) log->queued.items[log->queued.count - 1].end = log->submitted_end;
    else fail(log, fd, -result); /* later steps must not move the mark over bytes that none of them covers */
    log->queued_bytes += size;
    log->flusher->statistics.submissions++;
    place_log(log);
    unlock(log->flusher);
    return result;
}

int kf_flush_submit_directory(kf_flush_handle *handle, const char *path) {
    log_state *log = state_of(handle);
    int result = lock_usable(log);
    if (result < 0) return result;
    if (!has_directory(&log->queued, path)) {
        char *copy = strdup(path);
        result = copy ? add_step(&log->queued, STEP_DIRECTORY, -1, copy, log->submitted_end) : -ENOMEM;
        if (result < 0) {
            free(copy);
            fail(log, -1, -result);
        }
    }
    place_log(log);
    unlock(log->flusher);
    return result;
}

int kf_flush_request(kf_flush_handle *handle, int64_t end_offset) {
    log_state *log = state_of(handle);
    if (kf_flush_durable(handle) >= end_offset && !forked(log->flusher)) return 0;
    int result = lock_usable(log);
    if (result < 0) return result;
    if (end_offset > log->wanted_end) log->wanted_end = end_offset;
    place_log(log);
    unlock(log->flusher);
    return 0;
}

int kf_flush_gather_until_requested(kf_flush_handle *handle) {
    log_state *log = state_of(handle);
    int result = lock_usable(log);
    if (result < 0) return result;
    log->linger_ns = -1;
    pthread_mutex_unlock(&log->flusher->lock);
    return 0;
}

int kf_flush_send(kf_flush_handle *handle, int64_t end_offset, int fd, const char *data, int size) {
    log_state *log = state_of(handle);
    if (size < 1 || size > KF_FLUSH_MESSAGE_BYTES_MAX) return -EMSGSIZE;
    int result = lock_usable(log);
    if (result < 0) return result;
    result = log->public.durable < end_offset;
    if (result) put_message(&log->message, end_offset, fd, data, size);
    pthread_mutex_unlock(&log->flusher->lock);
    return result;
}

int kf_flush_take_back(kf_flush_handle *handle) {
    log_state *log = state_of(handle);
    if (forked(log->flusher)) return -ECHILD;
    pthread_mutex_lock(&log->flusher->lock);
    int result = take_message(&log->message);
    pthread_mutex_unlock(&log->flusher->lock);
    return result;
}

int kf_flush_wait(kf_flush_handle *handle, int64_t end_offset, int64_t timeout_ns) {
    log_state *log = state_of(handle);
    kf_flusher *flusher = log->flusher;
    if (forked(flusher)) return -ECHILD;
    if (kf_flush_durable(handle) >= end_offset) return 0;
    int64_t deadline_ns = timeout_ns < 0 ? 0 : now_ns() + timeout_ns;
    int result = 0;
    bool timed_out = false;
    pthread_mutex_lock(&flusher->lock);
    unsigned resets = log->resets;
    if (end_offset > log->wanted_end) log->wanted_end = end_offset;
    place_log(log);
    if (take_waking(flusher)) pthread_cond_signal(&flusher->work);
    log->waiters++;
    for (;;) {
        bool idle = !log->running && log->queued.count == 0;
        if (log->public.durable >= end_offset && !(log->running && flusher->linger_ns < 0)) break; /* see the header */
        if (log->public.error) result = -log->public.error;
        else if (log->closed || (flusher->stopping && idle)) result = -ESHUTDOWN;
        else if (resets != log->resets && end_offset > log->submitted_end) result = -ECANCELED;
        else if (timed_out) result = -ETIMEDOUT;
        if (result < 0) break;
        if (timeout_ns < 0) pthread_cond_wait(&log->moved, &flusher->lock);
        else timed_out = wait_until(&log->moved, &flusher->lock, deadline_ns);
    }
    log->waiters--;
    pthread_mutex_unlock(&flusher->lock);
    return result;
}

int kf_flush_reset(kf_flush_handle *handle, int64_t end_offset) {
    log_state *log = state_of(handle);
    int result = lock_usable(log);
    if (result < 0) return result;
    if (log->public.durable > end_offset) __atomic_store_n(&handle->durable, end_offset, __ATOMIC_RELEASE);
    if (log->submitted_end > end_offset) log->submitted_end = end_offset;
    if (log->taken_end > end_offset) log->taken_end = end_offset;
    if (log->wanted_end > end_offset) log->wanted_end = end_offset;
    if (log->message.end > end_offset) drop_message(&log->message);
    clamp_steps(&log->queued, end_offset);
    clamp_steps(&log->round, end_offset);
    log->resets++;
    notify(log);
    pthread_mutex_unlock(&log->flusher->lock);
    return 0;
}

int kf_flush_forget(kf_flush_handle *handle, int fd) {
    log_state *log = state_of(handle);
    kf_flusher *flusher = log->flusher;
    if (forked(flusher)) return -ECHILD;
    pthread_mutex_lock(&flusher->lock);
    void_steps(&log->queued, 0, fd);
    if (log->running) void_steps(&log->round, log->step_index + 1, fd);
    log->waiters++;
    while (log->running && log->step_index < log->round.count &&
           log->round.items[log->step_index].kind == STEP_FILE && log->round.items[log->step_index].fd == fd)
        pthread_cond_wait(&log->moved, &flusher->lock);
    log->waiters--;
    pthread_mutex_unlock(&flusher->lock);
    return 0;
}

int kf_flush_eventfd(kf_flush_handle *handle) {
    log_state *log = state_of(handle);
    int result = lock_usable(log);
    if (result < 0) return result;
    result = event_of(&log->event_fd, log->happened);
    pthread_mutex_unlock(&log->flusher->lock);
    return result;
}

int kf_flush_notify_from(kf_flush_handle *handle, int64_t end_offset) {
    log_state *log = state_of(handle);
    int result = lock_usable(log);
    if (result < 0) return result;
    log->event_end = end_offset;
    result = log->public.durable < end_offset;
    pthread_mutex_unlock(&log->flusher->lock);
    return result;
}

int64_t kf_flush_submitted(kf_flush_handle *handle) {
    log_state *log = state_of(handle);
    if (forked(log->flusher)) return -ECHILD;
    pthread_mutex_lock(&log->flusher->lock);
    int64_t result = log->submitted_end;
    pthread_mutex_unlock(&log->flusher->lock);
    return result;
}
