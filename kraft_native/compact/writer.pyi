from typing import Final, final

SUFFIXES: Final[tuple[bytes, ...]]

@final
class SegmentWriter:
    @property
    def size(self) -> int: ...
