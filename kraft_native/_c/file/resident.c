#define _GNU_SOURCE
#include "file/resident.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux 6.5; the number is the same on every machine. */
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

#define PAGES_PER_LOOK 1024
/* From this many pages on, cachestat and two checks are cheaper than a check of every page. */
#define PAGES_COUNTED_MIN 16

struct range {
    uint64_t start, size;
};

struct counts {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

/* Whether `count` pages from `at` on are present and complete. A page that is not mapped costs up to 200 ns. */
static int all_there(uintptr_t at, size_t count, uintptr_t page) {
    unsigned char pages[PAGES_PER_LOOK];
    while (count > 0) {
        size_t look = count > PAGES_PER_LOOK ? PAGES_PER_LOOK : count;
        if (mincore((void *)at, look * page, pages) < 0) return 1;
        for (size_t i = 0; i < look; i++)
            if (!(pages[i] & 1)) return 0;
        at += look * page;
        count -= look;
    }
    return 1;
}

int kf_resident(int fd, int64_t position, const void *data, size_t size) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)data & ~(page - 1);
    size_t count = ((uintptr_t)data + size - start + page - 1) / page;
    struct range range = {.start = (uint64_t)position - ((uintptr_t)data - start), .size = count * page};
    struct counts counts;
    if (count < PAGES_COUNTED_MIN || syscall(SYS_cachestat, fd, &range, &counts, 0) < 0)
        return all_there(start, count, page);
    if (counts.cached < count) return 0;
    /* It counts a page that is just being read as present. Files are read forward: the last page comes last. */
    return all_there(start, 1, page) && all_there(start + (count - 1) * page, 1, page);
}
