"""Worlds of their own for a node: a small file system, and a clock that is ahead.

Both are properties of the process that forks the node, so that the node itself is the usual one.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

DISK_BYTES: Final = 40_000_000
FREE_BYTES: Final = 3_000_000
BALLAST: Final = "ballast"
CLOCK: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long ahead(void) { const char *text = getenv("CLOCK_AHEAD_SECONDS"); return text ? atol(text) : 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, now);
    if (!code && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead();
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec found;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &found)) return -1;
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *kept) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (kept) *kept = found.tv_sec;
    return found.tv_sec;
}
"""


def small_disk(directory: Path) -> list[str]:
    """Return a command that runs its arguments where `directory` is a file system of `DISK_BYTES`, almost all of them
    used. Only that process and its children see it, and it ends with them."""
    directory.mkdir(parents=True, exist_ok=True)
    script = (f'mount -t tmpfs -o size={DISK_BYTES} none "$0" && '
              f'fallocate -l {DISK_BYTES - FREE_BYTES} "$0/{BALLAST}" && exec "$@"')
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", script, str(directory)]


def has_namespaces() -> bool:
    """Return whether this machine lets its users mount file systems in a namespace."""
    return shutil.which("unshare") is not None and not subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "true"], check=False, capture_output=True).returncode


def clock_ahead(directory: Path, seconds: int) -> dict[str, str]:
    """Return variables of a process whose wall clock is ahead. It needs a compiler of C."""
    source, library = directory / "clock.c", directory / "clock.so"
    source.write_text(CLOCK)
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "CLOCK_AHEAD_SECONDS": str(seconds)}
