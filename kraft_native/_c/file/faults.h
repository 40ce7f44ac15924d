/* A recorder of, and faults in, the calls of `file_io.c`: one hook, installed only while something is active.
 *
 * All state is static and guarded by one mutex. So a call on another thread that is still inside the hook while the
 * last plan ends touches no freed memory. Callers own `kf_rule` and `kf_trace` and must remove them first.
 */
#ifndef KRAFT_FAULTS_H
#define KRAFT_FAULTS_H

#include <stddef.h>
#include <stdint.h>

#include "file/file_io.h"

#define KF_RULE_SLOTS 16
#define KF_MARK 14 /* an entry of the trace that no file operation made */

typedef struct kf_rule {
    uint32_t kinds;       /* bit (1 << op) for each kind that matches */
    const char *under;    /* the path starts with it; "" matches all */
    const char *suffix;   /* the path ends with it; "" matches all */
    int64_t at;           /* which matching operation fails, counted from 1; 0: none, the rule only counts */
    int error;            /* errno to fail with; 0: none (with short_bytes: the write is only split) */
    int64_t short_bytes;  /* > 0: a write at `at` accepts so many bytes, and the next match fails instead */
    int persistent;       /* everything that matches after the first failure fails as well */
    int64_t delay_us;     /* > 0: every matching operation starts so much later */
    int due;              /* the next matching operation fails (after a short write) */
    int64_t seen;         /* matching operations so far */
    int64_t fired;        /* operations that were failed, shortened or delayed */
} kf_rule;

typedef struct kf_entry {
    int op;             /* enum kf_op without KF_DONE, or KF_MARK */
    int begun;          /* the operation has begun and not yet returned: only flushes are reported so */
    int fd;
    int64_t a;
    int64_t b;
    int64_t result;     /* -errno when it failed */
    int64_t thread;
    size_t text_at;     /* path, path2 and data lie one after the other in the trace's bytes */
    size_t path_size;
    size_t path2_size;
    size_t data_size;
} kf_entry;

typedef struct kf_trace {
    const char *under;  /* only operations on paths that start with it; "" records all */
    kf_entry *entries;
    size_t count, capacity;
    char *bytes;
    size_t bytes_used, bytes_capacity;
    int out_of_memory;  /* entries were lost: the trace must not be used */
} kf_trace;

/* `file_io.c` is linked into another extension, so its way to install a hook is handed over once, at import. */
typedef void (*kf_install_fn)(kf_hook_fn hook, void *context);
void kf_faults_init(kf_install_fn install_hook);

/* -1 when a trace is active already. */
int kf_trace_start(kf_trace *trace);
void kf_trace_stop(kf_trace *trace);
/* Puts a mark with the number `value` into the order; the trace must be active. */
void kf_trace_mark(kf_trace *trace, int64_t value);
void kf_trace_free(kf_trace *trace);

/* -1 when all slots are taken. */
int kf_rule_add(kf_rule *rule);
void kf_rule_remove(kf_rule *rule);

#endif
