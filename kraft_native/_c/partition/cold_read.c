#define _GNU_SOURCE
#include "partition/cold_read.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

typedef struct job {
    struct job *next;
    const void *data;
    size_t size;
    size_t ahead;
    void *owner;
    int error;
} job;

typedef struct job_queue {
    job *head, *tail;
} job_queue;

struct kf_cold_reader {
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_t thread;
    pid_t process; /* a fork has the memory but not the thread */
    job_queue waiting;
    job_queue done;
    int event_fd;
    bool stopping;
    bool joined;
};

static void push(job_queue *queue, job *item) {
    item->next = NULL;
    if (queue->tail) queue->tail->next = item;
    else queue->head = item;
    queue->tail = item;
}

static job *pop(job_queue *queue) {
    job *item = queue->head;
    if (!item) return NULL;
    queue->head = item->next;
    if (!queue->head) queue->tail = NULL;
    return item;
}

/* 0, or the error of a range that cannot be read: a thread that touches it would get SIGBUS. */
static int bring_in(const job *item) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)item->data & ~(page - 1), end = (uintptr_t)item->data + item->size;
    /* All at once, so that the disk sees one large read; then wait for it. Failed advice costs time, nothing else. */
    madvise((void *)start, end - start + item->ahead, MADV_WILLNEED);
    if (madvise((void *)start, end - start, MADV_POPULATE_READ) == 0) return 0;
    if (errno == EFAULT || errno == EHWPOISON) return EIO;
    if (errno != EINVAL) return 0;
    for (; start < end; start += page) (void)*(const volatile char *)start;
    return 0;
}

static void *run_thread(void *argument) {
    kf_cold_reader *reader = argument;
    uint64_t one = 1;
    pthread_mutex_lock(&reader->lock);
    while (!reader->stopping) {
        job *item = pop(&reader->waiting);
        if (!item) {
            pthread_cond_wait(&reader->work, &reader->lock);
            continue;
        }
        pthread_mutex_unlock(&reader->lock);
        item->error = bring_in(item);
        pthread_mutex_lock(&reader->lock);
        push(&reader->done, item);
        /* Fails only when the counter is full and the other side is due to wake anyway. */
        if (write(reader->event_fd, &one, sizeof one) < 0) continue;
    }
    pthread_mutex_unlock(&reader->lock);
    return NULL;
}

kf_cold_reader *kf_cold_start(int *error) {
    kf_cold_reader *reader = calloc(1, sizeof *reader);
    if (!reader) {
        *error = ENOMEM;
        return NULL;
    }
    reader->process = getpid();
    reader->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (reader->event_fd < 0) {
        *error = errno;
        free(reader);
        return NULL;
    }
    pthread_mutex_init(&reader->lock, NULL);
    pthread_cond_init(&reader->work, NULL);
    /* The interpreter's threads handle signals. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    *error = pthread_create(&reader->thread, NULL, run_thread, reader);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (*error) {
        reader->joined = true;
        kf_cold_free(reader);
        return NULL;
    }
    pthread_setname_np(reader->thread, "kraft-coldread");
    return reader;
}

int kf_cold_submit(kf_cold_reader *reader, const void *data, size_t size, size_t ahead, void *owner) {
    job *item = malloc(sizeof *item);
    if (!item) return -ENOMEM;
    *item = (job){.data = data, .size = size, .ahead = ahead, .owner = owner};
    pthread_mutex_lock(&reader->lock);
    bool stopping = reader->stopping;
    if (!stopping) push(&reader->waiting, item);
    pthread_mutex_unlock(&reader->lock);
    if (stopping) {
        free(item);
        return -ESHUTDOWN;
    }
    pthread_cond_signal(&reader->work);
    return 0;
}

void *kf_cold_take(kf_cold_reader *reader, int *error) {
    pthread_mutex_lock(&reader->lock);
    job *item = pop(&reader->done);
    if (!item && reader->joined) item = pop(&reader->waiting);
    pthread_mutex_unlock(&reader->lock);
    void *owner = item ? item->owner : NULL;
    *error = item ? item->error : 0;
    free(item);
    return owner;
}

int kf_cold_eventfd(const kf_cold_reader *reader) { return reader->event_fd; }

void kf_cold_stop(kf_cold_reader *reader) {
    if (reader->joined) return;
    if (reader->process == getpid()) {
        pthread_mutex_lock(&reader->lock);
        reader->stopping = true;
        pthread_cond_signal(&reader->work);
        pthread_mutex_unlock(&reader->lock);
        pthread_join(reader->thread, NULL);
    }
    reader->joined = true;
}

void kf_cold_free(kf_cold_reader *reader) {
    if (reader->process == getpid()) {
        pthread_cond_destroy(&reader->work);
        pthread_mutex_destroy(&reader->lock);
    }
    close(reader->event_fd);
    free(reader);
}
