/* Durable small records per second in one file, in C alone.
 *
 *   group_commit <plain|kraft|lockstep> <append|recycled> <file> <records> <record bytes> <in flight>
 *
 * A writer keeps up to <in flight> records between its pwrite and their fdatasync.
 *
 * - plain     a second thread flushes whenever records are pending, with one lock, two conditions and nothing else
 * - kraft     the same, with the engine's flusher (_c/log/flusher.c) as the second thread
 * - lockstep  one thread: <in flight> pwrites, one fdatasync, and so on
 *
 * append: the file grows. recycled: its blocks were written before, as when an old segment's file is used again.
 * Prints one line of JSON.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "file/file_io.h"
#include "log/flusher.h"

static int file;
static int64_t flushes = 0, flush_ns = 0;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void need(int ok, const char *what) {
    if (ok) return;
    perror(what);
    exit(1);
}

/* ---- plain: the minimum of group commit ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, moved = PTHREAD_COND_INITIALIZER;
static int64_t submitted = 0, durable = 0;
static int idle = 0, waiting = 0, ended = 0;

static void *flush_plainly(void *nothing) {
    pthread_mutex_lock(&lock);
    for (;;) {
        if (submitted > durable) {
            int64_t end = submitted;
            pthread_mutex_unlock(&lock);
            int64_t began = now_ns();
            need(fdatasync(file) == 0, "fdatasync");
            began = now_ns() - began;
            pthread_mutex_lock(&lock);
            flush_ns += began;
            durable = end;
            flushes++;
            if (waiting) pthread_cond_broadcast(&moved);
        } else if (ended) {
            break;
        } else {
            idle = 1;
            pthread_cond_wait(&work, &lock);
            idle = 0;
        }
    }
    pthread_mutex_unlock(&lock);
    return nothing;
}

static void submit_plainly(int64_t end) {
    pthread_mutex_lock(&lock);
    submitted = end;
    if (idle) {
        idle = 0;
        pthread_cond_signal(&work);
    }
    pthread_mutex_unlock(&lock);
}

static void wait_plainly(int64_t end) {
    pthread_mutex_lock(&lock);
    waiting = 1;
    while (durable < end) pthread_cond_wait(&moved, &lock);
    waiting = 0;
    pthread_mutex_unlock(&lock);
}

/* ---- the writers ---- */

static char *record;
static int64_t records, record_bytes, in_flight;

static void write_record(int64_t n) {
    need(pwrite(file, record, (size_t)record_bytes, n * record_bytes) == record_bytes, "pwrite");
}

static void run_plain(void) {
    pthread_t thread;
    need(pthread_create(&thread, NULL, flush_plainly, NULL) == 0, "pthread_create");
    for (int64_t n = 0; n < records; n++) {
        if (n - __atomic_load_n(&durable, __ATOMIC_ACQUIRE) >= in_flight) wait_plainly(n - in_flight + 1);
        write_record(n);
        submit_plainly(n + 1);
    }
    wait_plainly(records);
    pthread_mutex_lock(&lock);
    ended = 1;
    pthread_cond_signal(&work);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

static void run_kraft(void) {
    int error = 0;
    kf_flusher *flusher = kf_flusher_start(kf_datasync, kf_sync_dir, 1 << 20, 0, &error);
    need(flusher != NULL, "kf_flusher_start");
    kf_flush_handle *handle = kf_flush_register(flusher, 0, &error);
    need(handle != NULL, "kf_flush_register");
    for (int64_t n = 0; n < records; n++) {
        if (n - kf_flush_durable(handle) >= in_flight)
            need(kf_flush_wait(handle, n - in_flight + 1, -1) == 0, "kf_flush_wait");
        write_record(n);
        need(kf_flush_submit(handle, file, n + 1, record_bytes) == 0, "kf_flush_submit");
    }
    need(kf_flush_wait(handle, records, -1) == 0, "kf_flush_wait");
    kf_flush_statistics totals;
    kf_flusher_statistics(flusher, &totals);
    flushes = totals.flushes;
    flush_ns = totals.busy_ns;
    kf_flush_free(handle);
    kf_flusher_free(flusher);
}

static void run_lockstep(void) {
    for (int64_t n = 0; n < records;) {
        for (int64_t end = n + in_flight; n < end && n < records; n++) write_record(n);
        int64_t began = now_ns();
        need(fdatasync(file) == 0, "fdatasync");
        flush_ns += now_ns() - began;
        flushes++;
    }
}

static void prepare(const char *path, int recycled) {
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    need(file >= 0, path);
    if (recycled)
        for (int64_t n = 0; n < records; n++) write_record(n);
    need(fsync(file) == 0, "fsync");
}

int main(int count, char **arguments) {
    if (count != 7) {
        fprintf(stderr, "use: %s plain|kraft|lockstep append|recycled FILE RECORDS RECORD_BYTES IN_FLIGHT\n",
                arguments[0]);
        return 2;
    }
    const char *mode = arguments[1];
    records = atoll(arguments[4]);
    record_bytes = atoll(arguments[5]);
    in_flight = atoll(arguments[6]);
    record = malloc((size_t)record_bytes);
    need(record != NULL, "malloc");
    memset(record, 'r', (size_t)record_bytes);
    prepare(arguments[3], strcmp(arguments[2], "recycled") == 0);
    int64_t began = now_ns();
    if (strcmp(mode, "plain") == 0) run_plain();
    else if (strcmp(mode, "kraft") == 0) run_kraft();
    else run_lockstep();
    double seconds = (double)(now_ns() - began) / 1e9;
    printf("{\"records_per_s\": %.0f, \"records_per_flush\": %.1f, \"us_per_flush\": %.1f}\n",
           (double)records / seconds, (double)records / (double)flushes, (double)flush_ns / 1e3 / (double)flushes);
    close(file);
    unlink(arguments[3]);
    free(record);
    return 0;
}
