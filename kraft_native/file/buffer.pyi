"""Memory with a visible owner: growable scratch space, mapped files, and pinned slices of them."""

from typing import final
from weakref import WeakSet

mappings: WeakSet[Mapping]

def counters() -> dict[str, int]:
    """Live objects by kind and mapped bytes; the difference between two moments is a leak or current use."""

def idle_bytes() -> int:
    """Bytes of unused scratch memory that is kept for the next user; at most 64 MiB."""

def trim_heap() -> None: ...


def release_idle() -> None:
    """Return idle scratch memory to the system."""

@final
class Scratch:
    """A growable byte buffer for one owner."""

    def __bytes__(self) -> bytes: ...
    def __len__(self) -> int: ...

@final
class Mapping:
    """A read-only shared mapping of a file. Unmapped when the last slice and owner are freed."""

@final
class Slice:
    """Read-only bytes of the log, pinned. `memoryview(slice)` is zero-copy, `bytes(slice)` copies."""

    @property
    def first_offset(self) -> int:
        """Offset of the first batch, -1 when the slice is empty."""

    @property
    def next_offset(self) -> int:
        """Offset at which to continue reading."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __bytes__(self) -> bytes: ...
    def __len__(self) -> int: ...
