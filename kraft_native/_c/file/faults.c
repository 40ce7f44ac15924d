#define _GNU_SOURCE
#include "file/faults.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static kf_install_fn install = NULL;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static kf_rule *rules[KF_RULE_SLOTS];
static kf_trace *active_trace = NULL;

static int starts_with(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

static int ends_with(const char *text, const char *end) {
    size_t text_size = strlen(text), end_size = strlen(end);
    return text_size >= end_size && memcmp(text + text_size - end_size, end, end_size) == 0;
}

/* The path of the event. For a call on a descriptor the kernel is queried, so it is the file's current name. */
static const char *path_of(const kf_event *event, char *space) {
    if (event->path != NULL) return event->path;
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", event->fd);
    ssize_t size = readlink(link, space, PATH_MAX - 1);
    space[size < 0 ? 0 : size] = 0;
    return space;
}

/* Makes room for `more` items of `item` bytes; 0 when memory is short. */
static int grow(void **items, size_t *capacity, size_t used, size_t more, size_t item) {
    if (used + more <= *capacity) return 1;
    size_t wanted = *capacity ? *capacity * 2 : 1024;
    while (wanted < used + more) wanted *= 2;
    void *moved = realloc(*items, wanted * item);
    if (moved == NULL) return 0;
    *items = moved;
    *capacity = wanted;
    return 1;
}

static void put_bytes(kf_trace *trace, const void *data, size_t size) {
    if (size > 0) memcpy(trace->bytes + trace->bytes_used, data, size);
    trace->bytes_used += size;
}

static void record(const kf_event *event, const char *path, int op, int begun, int64_t result) {
    kf_trace *trace = active_trace;
    size_t path_size = path ? strlen(path) : 0, path2_size = event->path2 ? strlen(event->path2) : 0;
    size_t data_size = op == KF_WRITE && result > 0 ? (size_t)result : 0;
    if (trace->out_of_memory ||
        !grow((void **)&trace->entries, &trace->capacity, trace->count, 1, sizeof(kf_entry)) ||
        !grow((void **)&trace->bytes, &trace->bytes_capacity, trace->bytes_used,
              path_size + path2_size + data_size, 1)) {
        trace->out_of_memory = 1;
        return;
    }
    trace->entries[trace->count++] = (kf_entry){
        .op = op, .begun = begun, .fd = event->fd, .a = event->a, .b = event->b, .result = result,
        .thread = (int64_t)syscall(SYS_gettid), .text_at = trace->bytes_used, .path_size = path_size,
        .path2_size = path2_size, .data_size = data_size,
    };
    put_bytes(trace, path, path_size);
    put_bytes(trace, event->path2, path2_size);
    for (int i = 0; i < event->iov_count && data_size > 0; i++) {
        size_t take = event->iov[i].iov_len < data_size ? event->iov[i].iov_len : data_size;
        put_bytes(trace, event->iov[i].iov_base, take);
        data_size -= take;
    }
}

static int matches(const kf_rule *rule, const kf_event *event, const char *path) {
    if (!(rule->kinds & (1u << event->op))) return 0;
    if (starts_with(path, rule->under) && ends_with(path, rule->suffix)) return 1;
    return event->path2 != NULL && starts_with(event->path2, rule->under) && ends_with(event->path2, rule->suffix);
}

/* Decision of one rule about an operation that is about to start: 0, -errno, or how many bytes a write may accept. */
static int64_t judge(kf_rule *rule, const kf_event *event) {
    rule->seen++;
    rule->fired += rule->delay_us > 0;
    int now = rule->at > 0 && rule->seen == rule->at;
    if (now && rule->short_bytes > 0 && event->op == KF_WRITE) {
        rule->fired++;
        rule->due = rule->error != 0;
        return rule->short_bytes;
    }
    if (!now && !rule->due) return 0;
    if (rule->error == 0) return 0;
    rule->fired++;
    rule->due = rule->persistent;
    return -(int64_t)rule->error;
}

static int is_flush(int op) { return op == KF_DATASYNC || op == KF_SYNC || op == KF_SYNC_DIR; }

static int is_reported_afterwards(int op) { return op == KF_OPENED || op == KF_CLOSED || (op & KF_DONE); }

static int64_t hook(const kf_event *event, void *context) {
    (void)context;
    char space[PATH_MAX];
    pthread_mutex_lock(&guard);
    const char *path = path_of(event, space);
    int64_t verdict = 0, delay_us = 0;
    int op = event->op & ~KF_DONE;
    int reported = is_reported_afterwards(event->op);
    for (int i = 0; i < KF_RULE_SLOTS && !reported; i++) {
        if (rules[i] == NULL || !matches(rules[i], event, path)) continue;
        int64_t answer = judge(rules[i], event);
        if (rules[i]->delay_us > delay_us) delay_us = rules[i]->delay_us;
        if (verdict == 0 || answer < 0) verdict = answer;
    }
    if (active_trace != NULL && op != KF_READ && starts_with(path, active_trace->under)) {
        if (verdict < 0)
            record(event, path, op, 0, verdict);
        else if (reported)
            record(event, path, op, 0, event->op & KF_DONE ? event->result : 0);
        else if (is_flush(op))
            record(event, path, op, 1, 0);
    }
    pthread_mutex_unlock(&guard);
    if (delay_us > 0) nanosleep(&(struct timespec){delay_us / 1000000, delay_us % 1000000 * 1000}, NULL);
    return verdict;
}

/* Call with the guard held: the hook is installed exactly while it is needed. */
static void update_hook(void) {
    int needed = active_trace != NULL;
    for (int i = 0; i < KF_RULE_SLOTS; i++) needed |= rules[i] != NULL;
    install(needed ? hook : NULL, NULL);
}

void kf_faults_init(kf_install_fn install_hook) { install = install_hook; }

int kf_trace_start(kf_trace *trace) {
    pthread_mutex_lock(&guard);
    int result = active_trace == NULL ? 0 : -1;
    if (result == 0) active_trace = trace;
    update_hook();
    pthread_mutex_unlock(&guard);
    return result;
}

void kf_trace_stop(kf_trace *trace) {
    pthread_mutex_lock(&guard);
    if (active_trace == trace) active_trace = NULL;
    update_hook();
    pthread_mutex_unlock(&guard);
}

void kf_trace_mark(kf_trace *trace, int64_t value) {
    kf_event event = {.op = KF_MARK, .fd = -1, .a = value};
    pthread_mutex_lock(&guard);
    if (active_trace == trace) record(&event, NULL, KF_MARK, 0, 0);
    pthread_mutex_unlock(&guard);
}

void kf_trace_free(kf_trace *trace) {
    kf_trace_stop(trace);
    free(trace->entries);
    free(trace->bytes);
    trace->entries = NULL;
    trace->bytes = NULL;
    trace->count = trace->capacity = trace->bytes_used = trace->bytes_capacity = 0;
}

int kf_rule_add(kf_rule *rule) {
    int result = -1;
    pthread_mutex_lock(&guard);
    for (int i = 0; i < KF_RULE_SLOTS && result < 0; i++) {
        if (rules[i] != NULL) continue;
        rules[i] = rule;
        result = 0;
    }
    update_hook();
    pthread_mutex_unlock(&guard);
    return result;
}

void kf_rule_remove(kf_rule *rule) {
    pthread_mutex_lock(&guard);
    for (int i = 0; i < KF_RULE_SLOTS; i++)
        if (rules[i] == rule) rules[i] = NULL;
    update_hook();
    pthread_mutex_unlock(&guard);
}
