/* Cost of consensus in C alone: the appends, flushes and loopback messages of a quorum, and nothing else.
 *
 *   quorum_commit DIRECTORY REPLICAS RECORD_BYTES IN_FLIGHT SECONDS
 *
 * One process for each replica. The leader keeps IN_FLIGHT records between their append and their commit. The new
 * records of an iteration are appended by one write, flushed by a second thread, and sent during the flush. A follower
 * requests with its log end, which is its acknowledgement; the leader answers when it has more. A follower appends the
 * received records, calls fdatasync and requests again. A record is committed when a majority has it durably. Epochs,
 * elections, checks and the meaning of records are omitted. Prints one line of JSON.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REPLICAS_MAX = 9, BATCH_HEADER_BYTES = 61, RECORD_HEADER_BYTES = 9, MESSAGE_BYTES = 120, CHUNK_BYTES = 8 << 20,
       TURNS_MAX = 1 << 22 };

typedef struct { char header[MESSAGE_BYTES - 8]; int64_t size; } answer_head;   /* as large as a Fetch response's */
typedef struct { char header[MESSAGE_BYTES - 8]; int64_t end; } question;       /* as large as a Fetch request */
typedef struct { int64_t end, count, began; } turn;

static int file, replicas, in_flight;
static int64_t record_bytes;
static char *chunk;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void need(int ok, const char *what) {
    if (ok) return;
    perror(what);
    _exit(1);
}

static void send_all(int peer, const void *data, int64_t size) {
    while (size > 0) {
        ssize_t sent = send(peer, data, (size_t)size, MSG_NOSIGNAL);
        if (sent <= 0) _exit(0);
        data = (const char *)data + sent;
        size -= sent;
    }
}

static void receive_all(int peer, void *data, int64_t size) {
    while (size > 0) {
        ssize_t got = recv(peer, data, (size_t)size, 0);
        if (got <= 0) _exit(0);
        data = (char *)data + got;
        size -= got;
    }
}

static void no_delay(int peer) {
    int on = 1;
    need(setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
}

static void open_file(const char *directory, int number) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", directory, number);
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    need(file >= 0, path);
    need(fsync(file) == 0, "fsync");
}

/* ---- a follower ---- */

static void follow(const struct sockaddr_in *leader) {
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    need(connect(peer, (const struct sockaddr *)leader, sizeof *leader) == 0, "connect");
    no_delay(peer);
    question query = {.end = 0};
    answer_head head;
    for (;;) {
        send_all(peer, &query, sizeof query);
        receive_all(peer, &head, sizeof head);
        receive_all(peer, chunk, head.size);
        need(pwrite(file, chunk, (size_t)head.size, query.end) == head.size, "pwrite");
        need(fdatasync(file) == 0, "fdatasync");
        query.end += head.size;
    }
}

/* ---- the leader's flushes ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static int64_t submitted = 0, durable = 0;
static int flushed_event;

static void *flush(void *nothing) {
    pthread_mutex_lock(&lock);
    for (;;) {
        while (submitted <= durable) pthread_cond_wait(&work, &lock);
        int64_t end = submitted;
        pthread_mutex_unlock(&lock);
        need(fdatasync(file) == 0, "fdatasync");
        __atomic_store_n(&durable, end, __ATOMIC_RELEASE);
        need(eventfd_write(flushed_event, 1) == 0, "eventfd");
        pthread_mutex_lock(&lock);
    }
    return nothing;
}

/* ---- the leader ---- */

static int64_t log_end = 0, ends[REPLICAS_MAX], committed = 0;
static int parked[REPLICAS_MAX];
static struct pollfd peers[REPLICAS_MAX];
static turn *turns;
static int64_t first_turn = 0, turn_count = 0;
static int64_t *times, *counts, done_turns = 0;

static void propose(int64_t count) {
    int64_t size = BATCH_HEADER_BYTES + count * (RECORD_HEADER_BYTES + record_bytes);
    need(size <= CHUNK_BYTES && turn_count < TURNS_MAX, "room");
    int64_t began = now_ns();
    need(pwrite(file, chunk, (size_t)size, log_end) == size, "pwrite");
    log_end += size;
    turns[turn_count++] = (turn){log_end, count, began};
    pthread_mutex_lock(&lock);
    submitted = log_end;
    pthread_cond_signal(&work);
    pthread_mutex_unlock(&lock);
}

static void answer_parked(void) {
    static char *outgoing;
    if (outgoing == NULL) need((outgoing = malloc(sizeof(answer_head) + CHUNK_BYTES)) != NULL, "malloc");
    for (int peer = 1; peer < replicas; peer++) {
        if (!parked[peer] || ends[peer] == log_end) continue;
        int64_t size = log_end - ends[peer];
        if (size > CHUNK_BYTES) size = CHUNK_BYTES;
        answer_head *head = (answer_head *)outgoing;
        head->size = size;
        need(pread(file, outgoing + sizeof *head, (size_t)size, ends[peer]) == size, "pread");
        send_all(peers[peer].fd, outgoing, (int64_t)sizeof *head + size);
        parked[peer] = 0;
    }
}

static int64_t majority_end(void) {
    int64_t sorted[REPLICAS_MAX];
    for (int each = 0; each < replicas; each++) {
        int at = each;
        for (; at > 0 && sorted[at - 1] < ends[each]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = ends[each];
    }
    return sorted[replicas / 2];
}

/* Returns the number of records that became committed now. */
static int64_t commit(void) {
    int64_t now = now_ns(), count = 0;
    committed = majority_end();
    while (first_turn < turn_count && turns[first_turn].end <= committed) {
        times[done_turns] = now - turns[first_turn].began;
        counts[done_turns++] = turns[first_turn].count;
        count += turns[first_turn++].count;
    }
    return count;
}

static int64_t lead(double seconds) {
    int64_t total = 0, until = now_ns() + (int64_t)(seconds * 1e9);
    propose(in_flight);
    for (;;) {
        answer_parked();
        need(poll(peers, (nfds_t)replicas, -1) > 0, "poll");
        if (peers[0].revents) {
            eventfd_t ignored;
            eventfd_read(flushed_event, &ignored);
            ends[0] = __atomic_load_n(&durable, __ATOMIC_ACQUIRE);
        }
        for (int peer = 1; peer < replicas; peer++)
            if (peers[peer].revents) {
                question query;
                receive_all(peers[peer].fd, &query, sizeof query);
                ends[peer] = query.end;
                parked[peer] = 1;
            }
        int64_t count = commit();
        total += count;
        if (now_ns() >= until) return total;
        if (count) propose(count);
    }
}

static int64_t *order_by;
static int by_time(const void *a, const void *b) {
    int64_t x = order_by[*(const int64_t *)a], y = order_by[*(const int64_t *)b];
    return x < y ? -1 : x > y;
}

static double percentile_us(double share, int64_t total) {
    int64_t *order = malloc((size_t)(done_turns + 1) * sizeof *order);
    need(order != NULL, "malloc");
    for (int64_t at = 0; at < done_turns; at++) order[at] = at;
    order_by = times;
    qsort(order, (size_t)done_turns, sizeof *order, by_time);
    double left = share * (double)total, found = 0;
    for (int64_t at = 0; at < done_turns && left > 0; at++) {
        left -= (double)counts[order[at]];
        found = (double)times[order[at]] / 1e3;
    }
    free(order);
    return found;
}

int main(int count, char **arguments) {
    if (count != 6) {
        fprintf(stderr, "use: %s DIRECTORY REPLICAS RECORD_BYTES IN_FLIGHT SECONDS\n", arguments[0]);
        return 2;
    }
    replicas = atoi(arguments[2]);
    record_bytes = atoll(arguments[3]);
    in_flight = atoi(arguments[4]);
    need(replicas >= 1 && replicas <= REPLICAS_MAX && (chunk = malloc(CHUNK_BYTES)) != NULL, "replicas");
    memset(chunk, 'r', CHUNK_BYTES);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    need(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, REPLICAS_MAX) == 0, "listen");
    need(getsockname(listener, (struct sockaddr *)&address, &size) == 0, "getsockname");
    pid_t children[REPLICAS_MAX];
    for (int number = 1; number < replicas; number++) {
        children[number] = fork();
        need(children[number] >= 0, "fork");
        if (children[number] > 0) continue;
        open_file(arguments[1], number);
        follow(&address);
    }
    open_file(arguments[1], 0);
    turns = malloc(TURNS_MAX * sizeof *turns);
    times = malloc(TURNS_MAX * sizeof *times);
    counts = malloc(TURNS_MAX * sizeof *counts);
    need(turns != NULL && times != NULL && counts != NULL, "malloc");
    need((flushed_event = eventfd(0, EFD_NONBLOCK)) >= 0, "eventfd");
    peers[0] = (struct pollfd){.fd = flushed_event, .events = POLLIN};
    for (int number = 1; number < replicas; number++) {
        peers[number] = (struct pollfd){.fd = accept(listener, NULL, NULL), .events = POLLIN};
        need(peers[number].fd >= 0, "accept");
        no_delay(peers[number].fd);
    }
    pthread_t thread;
    need(pthread_create(&thread, NULL, flush, NULL) == 0, "pthread_create");
    int64_t began = now_ns(), total = lead(atof(arguments[5]));
    double seconds = (double)(now_ns() - began) / 1e9;
    for (int number = 1; number < replicas; number++) {
        kill(children[number], SIGKILL);
        waitpid(children[number], NULL, 0);
    }
    printf("{\"count\": %lld, \"per_s\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f}\n", (long long)total,
           (double)total / seconds, percentile_us(0.5, total), percentile_us(0.99, total));
    return 0;
}
