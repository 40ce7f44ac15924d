"""Return of unused memory to the system after a burst of requests.

The C library keeps what is freed between blocks that are still in use: tens of megabytes after many large requests, for
as long as nothing needs them. A node returns them once it is idle again, and only when it has grown. A return takes
a few milliseconds, and the system has to clear pages that are needed again.
"""

import os
from pathlib import Path
from typing import Final

from kraft_native.file.buffer import trim_heap

GROWN_BYTES_MIN: Final = 16 << 20
"""Growth since the last return that is worth another one."""
STEADY_BYTES_MAX: Final = 1 << 20
"""Change between two checks of a node whose burst has ended."""
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
STATM: Final = Path("/proc/self/statm")


def anonymous_bytes() -> int:
    """Return the resident memory of this process that is no part of a file."""
    _, resident, shared, *_ = STATM.read_bytes().split()
    return (int(resident) - int(shared)) * PAGE_BYTES


class UnusedMemory:
    """Watch on the memory of this process. Loop thread only."""

    def __init__(self) -> None:
        self._least = self._last = anonymous_bytes()
        self.returns = 0
        """Number of returns until now."""

    def run(self, *, idle: bool) -> None:
        """Return memory if it is time. `idle`: no request waits."""
        now = anonymous_bytes()
        last, self._last = self._last, now
        self._least = min(self._least, now)
        if idle and now - self._least >= GROWN_BYTES_MIN and abs(now - last) <= STEADY_BYTES_MAX:
            trim_heap()
            self.returns += 1
            self._least = self._last = anonymous_bytes()
