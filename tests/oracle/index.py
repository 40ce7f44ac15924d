"""Offset index and time index as plain lists searched from front to back: slow and obvious models of
`segment/index.pyx`.

The semantics are those of Kafka's OffsetIndex and TimeIndex: which entries are kept or dropped, and the answers.
"""

import struct
from dataclasses import dataclass, field


class RefusedError(Exception):
    """Raised where the real index must raise InvalidArgumentError."""


@dataclass
class OffsetIndexOracle:
    base_offset: int
    max_bytes: int
    entries: list[tuple[int, int]] = field(default_factory=list)  # (absolute offset, position)

    @property
    def is_full(self) -> bool:
        return len(self.entries) >= self.max_bytes // 8

    def append(self, last_offset: int, position: int) -> None:
        if not 0 <= last_offset - self.base_offset < 2**31 or not 0 <= position < 2**31:
            raise RefusedError
        if self.is_full or (self.entries and (last_offset <= self.entries[-1][0] or position <= self.entries[-1][1])):
            raise RefusedError
        self.entries.append((last_offset, position))

    def find(self, offset: int) -> tuple[int, int]:
        found = (self.base_offset, 0)
        for entry in self.entries:
            if entry[0] <= offset:
                found = entry
        return found

    def find_upper_bound(self, position: int) -> int:
        for entry in self.entries:
            if entry[1] >= position:
                return entry[0]
        return -1

    def truncate_to(self, offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry[0] < offset]

    def encode(self) -> bytes:
        return b"".join(struct.pack(">ii", offset - self.base_offset, position) for offset, position in self.entries)


@dataclass
class TimeIndexOracle:
    base_offset: int
    max_bytes: int
    entries: list[tuple[int, int]] = field(default_factory=list)  # (timestamp, absolute offset)

    @property
    def is_full(self) -> bool:
        return len(self.entries) >= self.max_bytes // 12 - 1

    def maybe_append(self, timestamp: int, offset: int, skip_full_check: bool = False) -> bool:
        if self.is_full and not skip_full_check:
            raise RefusedError
        if self.entries and (timestamp < self.entries[-1][0] or offset < self.entries[-1][1]):
            raise RefusedError
        if timestamp <= (self.entries[-1][0] if self.entries else -1):
            return False
        if not 0 <= offset - self.base_offset < 2**31:
            raise RefusedError
        self.entries.append((timestamp, offset))
        return True

    def find(self, timestamp: int) -> tuple[int, int]:
        found = (-1, self.base_offset)
        for entry in self.entries:
            if entry[0] <= timestamp:
                found = entry
        return found

    def truncate_to(self, offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry[1] < offset]

    def encode(self) -> bytes:
        return b"".join(struct.pack(">qi", timestamp, offset - self.base_offset) for timestamp, offset in self.entries)
