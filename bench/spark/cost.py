"""Processor time of a process and all that it started, of Linux; and how long a session warms up for each read."""

import os
from pathlib import Path

# By turns that do not count, so that Java's compilers rest: a fast read would else be measured in a colder Java.
WARM_SECONDS = 10.0
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time so far of a process and its descendants, ended ones that were waited for included."""
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
