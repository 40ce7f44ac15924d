"""Findings and actions of opening a log: `recovery` fills the report, an owner and a node publish it."""

from typing import NamedTuple

cimport cython


class CutTail(NamedTuple):
    """A torn end that was cut off."""

    path: str
    position: int
    size_bytes: int
    what: str


class Damage(NamedTuple):
    """Bytes [position, end_position) of a segment that are kept but never served: offsets [offset, next_offset)."""

    path: str
    position: int
    end_position: int
    offset: int
    next_offset: int
    what: str


class LostRange(NamedTuple):
    """Offsets [offset, next_offset) that the log had and that no sound batch holds any longer."""

    offset: int
    next_offset: int


class Changed(NamedTuple):
    """A segment that is shorter than its recorded size; `size_bytes` is -1 for a missing one."""

    path: str
    size_bytes: int
    noted_bytes: int


class Ignored(NamedTuple):
    """An unusable file, and the reason. Its content was rebuilt."""

    path: str
    what: str


@cython.final
cdef class RecoveryReport:
    def __cinit__(self):
        self.cut = []
        self.damage = []
        self.lost_ranges = []
        self.changed = []
        self.rebuilt = []
        self.ignored = []
        self.removed = []

    @property
    def intact(self) -> bool:
        """True when all records that the log is known to have had exist. A cut end is not known to have been more."""
        return not self.damage and not self.lost_ranges

    def __repr__(self) -> str:
        return f"<RecoveryReport {self}>"

    def __str__(self) -> str:
        cdef list parts = [f"{self.directory}: offsets {self.log_start_offset} to {self.log_end_offset}"]
        if self.clean:
            parts.append("closed cleanly")
        else:
            parts.append(f"{self.segments_scanned} of {self.segments} segments checked, from offset "
                         f"{self.recovery_point} on")
        if self.cut_bytes:
            parts.append(f"{self.cut_bytes} bytes of a torn end cut off")
        parts += [f"damage in {damage.path} at {damage.position}: {damage.what}" for damage in self.damage]
        parts += [f"{changed.path} " + (
            f"has {changed.size_bytes} bytes and had {changed.noted_bytes}" if changed.size_bytes >= 0
            else f"is missing; it had {changed.noted_bytes} bytes") for changed in self.changed]
        parts += [f"offsets {lost.offset} to {lost.next_offset - 1} are lost" for lost in self.lost_ranges]
        return "; ".join(parts + [f"{ignored.path}: {ignored.what}" for ignored in self.ignored])
