"""Return of memory to the system."""

import subprocess
import sys

import pytest

from kraft.runtime.base import unused_memory
from kraft.runtime.base.unused_memory import GROWN_BYTES_MIN, STEADY_BYTES_MAX, UnusedMemory

SMALL_BYTES = 2_000
"""Size of blocks that the C library takes from its heap."""


class Sizes:
    """Memory that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.trims = 100 << 20, 0
        monkeypatch.setattr(unused_memory, "anonymous_bytes", lambda: self.now)
        monkeypatch.setattr(unused_memory, "trim_heap", self._trim)
        self.watch = UnusedMemory()

    def _trim(self) -> None:
        self.trims += 1
        self.now -= 10 << 20

    def run(self, grown: int, *, idle: bool = True) -> int:
        self.now += grown
        self.watch.run(idle=idle)
        return self.trims


def test_memory_is_returned_when_a_burst_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = Sizes(monkeypatch)
    assert sizes.run(GROWN_BYTES_MIN) == 0, "it grows"
    assert sizes.run(0, idle=False) == 0, "requests wait"
    assert sizes.run(STEADY_BYTES_MAX) == 1
    assert sizes.watch.returns == 1
    assert sizes.run(0) == 1, "the rest is in use"
    assert sizes.run(GROWN_BYTES_MIN - 1) == 1
    assert sizes.run(0) == 1, "too little"
    assert sizes.run(-GROWN_BYTES_MIN) == 1
    assert sizes.run(GROWN_BYTES_MIN) == 1
    assert sizes.run(0) == 2


HOLES = f"""
from kraft.runtime.base.unused_memory import UnusedMemory, anonymous_bytes
watch = UnusedMemory()
blocks = [bytes({SMALL_BYTES}) for _ in range(40_000)]
kept = blocks[::50]
del blocks
grown = anonymous_bytes()
watch.run(idle=True)
watch.run(idle=True)
print(watch.returns, grown - anonymous_bytes() >> 20, len(kept))
"""


def test_holes_between_blocks_are_returned() -> None:
    """Use a process of its own: the heap that another test left may have room for all blocks."""
    ended = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    returns, returned_mib, kept = map(int, ended.stdout.split())
    assert (returns, kept) == (1, 800)
    assert returned_mib > 30
