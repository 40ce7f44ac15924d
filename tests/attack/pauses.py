"""Pauses of the machine itself: a hypervisor runs another guest, and no process of this one.

One process for each processor (`python pauses.py PROCESSOR`) sleeps for a millisecond again and again, with the highest
priority. When it wakes much later, the processor did not run. At the end of its input it prints the pauses as JSON:
pairs of beginning and end, in seconds of `time.perf_counter`, which all processes share.
"""

import bisect
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final

SLEEP_SECONDS: Final = 0.001
PAUSE_SECONDS_MIN: Final = 0.004
"""Interrupts of the network delay a process of any priority too, for up to 2 ms."""
PRIORITY: Final = 50
END_SECONDS_MAX: Final = 60.0

Interval = tuple[float, float]
"""Beginning and end, in seconds."""


class Pauses:
    """Observer of the pauses, from the constructor until `end`."""

    def __init__(self) -> None:
        self._observers = [subprocess.Popen([sys.executable, "-I", __file__, str(processor)], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, text=True)
                           for processor in sorted(os.sched_getaffinity(0))]

    def end(self) -> list[Interval]:
        """Stop and return the pauses of all processors, sorted and joined where they overlap. Empty when this process
        may not observe them: a real-time priority is refused."""
        found: list[Interval] = []
        for each in self._observers:
            output, _ = each.communicate(timeout=END_SECONDS_MAX)
            found += [(begin, end) for begin, end in json.loads(output)]
        return joined(found)


def joined(intervals: Sequence[Interval]) -> list[Interval]:
    """Return the union of the intervals, sorted and disjoint."""
    found: list[Interval] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def within(pauses: Sequence[Interval], begin: float, end: float) -> float:
    """Return how many seconds of an interval lie within the pauses, which are sorted and disjoint."""
    first = bisect.bisect_left(pauses, begin, key=lambda pause: pause[1])
    seconds = 0.0
    for pause in pauses[first:]:
        if pause[0] >= end:
            break
        seconds += min(end, pause[1]) - max(begin, pause[0])
    return seconds


def main() -> None:
    found: list[Interval] = []
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    os.sched_setaffinity(0, {int(sys.argv[1])})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except PermissionError:
        ended.wait()
    before = time.perf_counter()
    while not ended.is_set():
        time.sleep(SLEEP_SECONDS)
        now = time.perf_counter()
        if now - before > PAUSE_SECONDS_MIN:
            found.append((before + SLEEP_SECONDS, now))
        before = now
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
