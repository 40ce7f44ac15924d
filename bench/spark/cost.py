"""Processor time of a process and its descendants on Linux, and the warm-up time of a session for each read."""

import os
from pathlib import Path

# Uncounted turns let Java's compilers rest: otherwise a fast read would be measured in a colder Java.
WARM_SECONDS = 10.0
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return the user and system time so far of a process and its descendants, including reaped ones."""
    stats = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            stats[int(entry.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    total, wanted = 0, [pid]
    while wanted:
        parent = wanted.pop()
        total += stats.get(parent, (0, 0))[1]
        wanted += [child for child, (above, _) in stats.items() if above == parent]
    return total / TICKS
