/* Limits of this machine, with which bench/engine.py compares its figures. One measurement per call:
 *
 * - limits touch BYTES                          touches that much memory once (a fresh virtual machine pays for it)
 * - limits memcpy BLOCK SECONDS
 * - limits write PATH BLOCK BYTES new|over      page-cache writes into a new file, or over an existing one
 * - limits direct PATH BLOCK BYTES              O_DIRECT writes over preallocated space
 * - limits sync PATH BLOCK COUNT append|over    write + fdatasync, one at a time
 * - limits spin PROCESSOR                       keeps a processor from idling until the caller ends; yields to all
 *
 * Prints one JSON object: bytes or operations per second, CPU seconds, and for `sync` the median and p99 in
 * microseconds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static void die(const char *what) {
    fprintf(stderr, "limits: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *block_of(size_t size, int fill) {
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, size ? size : 1) != 0) die("memory");
    memset(memory, fill, size);
    return memory;
}

static void rate(double bytes, double wall, double cpu_s) {
    printf("{\"bytes_per_s\": %.0f, \"cpu_s_per_gb\": %.4f}\n", bytes / wall, cpu_s / (bytes / 1e9));
}

static void touch(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap");
    double t = now(), c = cpu();
    for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
    rate((double)bytes, now() - t, cpu() - c);
}

static void copy(size_t block, double seconds) {
    char *from = block_of(block, 1), *to = block_of(block, 2);
    double t = now(), c = cpu(), bytes = 0, elapsed;
    do {
        for (int i = 0; i < 64; i++) {
            memcpy(to, from, block);
            __asm__ volatile("" : : "r"(to) : "memory");
        }
        bytes += 64.0 * (double)block;
        elapsed = now() - t;
    } while (elapsed < seconds);
    rate(bytes, elapsed, cpu() - c);
}

static void write_all(int fd, const char *data, size_t size, off_t at) {
    while (size > 0) {
        ssize_t n = pwrite(fd, data, size, at);
        if (n < 0) die("pwrite");
        data += n;
        at += n;
        size -= (size_t)n;
    }
}

static void write_blocks(const char *path, size_t block, size_t bytes, int over, int direct) {
    int flags = O_RDWR | O_CREAT | (over ? 0 : O_TRUNC) | (direct ? O_DIRECT : 0);
    int fd = open(path, flags, 0644);
    if (fd < 0) die(path);
    if (direct && posix_fallocate(fd, 0, (off_t)bytes) != 0) die("fallocate");
    char *data = block_of(block, 7);
    double t = now(), c = cpu();
    for (size_t at = 0; at + block <= bytes; at += block) write_all(fd, data, block, (off_t)at);
    rate((double)(bytes / block * block), now() - t, cpu() - c);
    close(fd);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sync_blocks(const char *path, size_t block, int count, int over) {
    int fd = open(path, O_RDWR | O_CREAT | (over ? 0 : O_TRUNC), 0644);
    if (fd < 0) die(path);
    char *data = block_of(block, 7);
    double *took = block_of(sizeof(double) * (size_t)count, 0);
    if (over) {
        for (int i = 0; i < count; i++) write_all(fd, data, block, (off_t)i * (off_t)block);
        if (fsync(fd) != 0) die("fsync");
    }
    double start = now(), c = cpu();
    for (int i = 0; i < count; i++) {
        double t = now();
        write_all(fd, data, block, (off_t)i * (off_t)block);
        if (fdatasync(fd) != 0) die("fdatasync");
        took[i] = now() - t;
    }
    double wall = now() - start, cpu_s = cpu() - c;
    qsort(took, (size_t)count, sizeof(double), by_value);
    printf("{\"per_s\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"cpu_us\": %.1f}\n", count / wall,
           took[count / 2] * 1e6, took[count * 99 / 100] * 1e6, cpu_s / count * 1e6);
    close(fd);
}

static void spin(int processor) {
    /* Where sessions share the processor (autogroup), this process's session must yield as well. */
    setsid();
    int share = open("/proc/self/autogroup", O_WRONLY);
    while (share >= 0 && write(share, "19", 2) < 0) {
        if (errno != EAGAIN) die("/proc/self/autogroup");
        usleep(100000);                /* without root only one such change at a time is permitted */
    }
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(processor, &only);
    struct sched_param none = {0};
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || sched_setaffinity(0, sizeof only, &only) != 0 ||
        sched_setscheduler(0, SCHED_IDLE, &none) != 0)
        die("spin");
    for (;;) __asm__ volatile("" : : : "memory");
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "touch") && argc == 3)
        touch(strtoull(argv[2], NULL, 10));
    else if (!strcmp(what, "memcpy") && argc == 4)
        copy(strtoull(argv[2], NULL, 10), atof(argv[3]));
    else if (!strcmp(what, "write") && argc == 6)
        write_blocks(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10), !strcmp(argv[5], "over"), 0);
    else if (!strcmp(what, "direct") && argc == 5)
        write_blocks(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10), 1, 1);
    else if (!strcmp(what, "sync") && argc == 6)
        sync_blocks(argv[2], strtoull(argv[3], NULL, 10), atoi(argv[4]), !strcmp(argv[5], "over"));
    else if (!strcmp(what, "spin") && argc == 3)
        spin(atoi(argv[2]));
    else {
        fprintf(stderr, "usage: see the head of limits.c\n");
        return 2;
    }
    return 0;
}
