/* Cost of serving a file's pages over loopback in C alone: the limit beside the Fetch rows of bench/macro.
 *
 *   serve_slices FILE CONNECTIONS REPLY_BYTES SECONDS
 *
 * One thread answers each request of 80 bytes with REPLY_BYTES of the file by sendfile, cyclically. The client is a
 * separate process that receives as kraft_native/_c/bench/load_generator.c does: the kernel discards the received
 * bytes, and wakes it once per 256 KiB. Prints one JSON object: bytes per second, and CPU seconds per gigabyte of the
 * serving process and of the client.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST_BYTES = 80, WAKE_BYTES = 256 << 10, CONNECTIONS_MAX = 64 };

typedef struct peer {
    int fd, wake;
    size_t left, at;
} peer;

static peer peers[CONNECTIONS_MAX];
static int count;
static size_t reply_bytes;

static void die(const char *what) {
    fprintf(stderr, "serve_slices: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu(int target) {
    struct rusage u;
    getrusage(target, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void watch(int epoll, int operation, peer *each, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = each};
    if (epoll_ctl(epoll, operation, each->fd, &event) < 0) die("epoll_ctl");
}

static void adopt(int epoll, peer *each, int fd) {
    int one = 1;
    if (fd < 0) die("socket");
    fcntl(fd, F_SETFL, O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    *each = (peer){.fd = fd, .wake = 1};
    watch(epoll, EPOLL_CTL_ADD, each, EPOLLIN);
}

static void send_request(peer *each) {
    static const char request[REQUEST_BYTES];
    if (send(each->fd, request, sizeof request, MSG_NOSIGNAL) != sizeof request) die("send");
    each->left = reply_bytes;
}

static void receive(peer *each) {
    for (;;) {
        ssize_t n = recv(each->fd, NULL, each->left, MSG_TRUNC);
        if (n == 0) die("recv");
        if (n < 0) break;
        each->left -= (size_t)n;
        if (each->left == 0) send_request(each);
    }
    int wake = each->left > WAKE_BYTES ? WAKE_BYTES : (int)each->left;
    if (wake != each->wake) setsockopt(each->fd, SOL_SOCKET, SO_RCVLOWAT, &wake, sizeof wake);
    each->wake = wake;
}

static void client(const struct sockaddr_in *address, double seconds) {
    struct epoll_event events[CONNECTIONS_MAX];
    int epoll = epoll_create1(0);
    for (int i = 0; i < count; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address) < 0) die("connect");
        adopt(epoll, &peers[i], fd);
        send_request(&peers[i]);
    }
    for (double end = now() + seconds; now() < end;) {
        int ready = epoll_wait(epoll, events, CONNECTIONS_MAX, 100);
        for (int i = 0; i < ready; i++) receive(events[i].data.ptr);
    }
    exit(0);
}

/* Sends the bytes that a peer awaits; returns their number. */
static size_t answer(int epoll, peer *each, int file, size_t size) {
    char request[REQUEST_BYTES];
    size_t sent = 0;
    int waits = each->left > 0;
    if (recv(each->fd, request, sizeof request, 0) > 0) each->left += reply_bytes;
    while (each->left > 0) {
        if (each->at + each->left > size) each->at = 0;
        off_t position = (off_t)each->at;
        ssize_t n = sendfile(each->fd, file, &position, each->left);
        if (n <= 0) break;
        each->at += (size_t)n;
        each->left -= (size_t)n;
        sent += (size_t)n;
    }
    if (waits != (each->left > 0)) watch(epoll, EPOLL_CTL_MOD, each, EPOLLIN | (waits ? 0 : EPOLLOUT));
    return sent;
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    struct epoll_event events[CONNECTIONS_MAX];
    struct stat status;
    if (argc != 5 || (count = atoi(argv[2])) < 1 || count > CONNECTIONS_MAX) return 2;
    reply_bytes = strtoull(argv[3], NULL, 10);
    int file = open(argv[1], O_RDONLY), listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
    if (file < 0 || fstat(file, &status) < 0 || (size_t)status.st_size < reply_bytes) die(argv[1]);
    signal(SIGPIPE, SIG_IGN);           /* the client ends when its time is over */
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, count) < 0) die("listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    pid_t child = fork();
    if (child == 0) client(&address, atof(argv[4]));
    for (int i = 0; i < count; i++) {
        adopt(epoll, &peers[i], accept(listener, NULL, NULL));
        peers[i].at = (size_t)status.st_size / (size_t)count * (size_t)i;
    }
    double begin = now(), bytes = 0;
    while (waitpid(child, NULL, WNOHANG) == 0) {
        int ready = epoll_wait(epoll, events, CONNECTIONS_MAX, 100);
        for (int i = 0; i < ready; i++)
            bytes += (double)answer(epoll, events[i].data.ptr, file, (size_t)status.st_size);
    }
    printf("{\"bytes_per_s\": %.0f, \"cpu_s_per_gb\": %.4f, \"client_cpu_s_per_gb\": %.4f}\n", bytes / (now() - begin),
           cpu(RUSAGE_SELF) / (bytes / 1e9), cpu(RUSAGE_CHILDREN) / (bytes / 1e9));
    return 0;
}
