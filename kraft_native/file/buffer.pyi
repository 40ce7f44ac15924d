from typing import final
from weakref import WeakSet

mappings: WeakSet[Mapping]

def counters() -> dict[str, int]: ...
def idle_bytes() -> int: ...
def trim_heap() -> None: ...
def release_idle() -> None: ...

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
    @property
    def first_offset(self) -> int:
        """Offset of the first batch, -1 when the slice is empty."""

    @property
    def next_offset(self) -> int:
        """Offset at which to continue reading."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __bytes__(self) -> bytes: ...
    def __len__(self) -> int: ...
