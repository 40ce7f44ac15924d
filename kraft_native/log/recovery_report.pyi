"""Findings and actions of opening a log."""

from typing import Literal, NamedTuple, final

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
    """An unusable file, and the reason. Its content was rebuilt, as far as the batches have it."""

    path: str
    what: str

@final
class RecoveryReport:
    @property
    def directory(self) -> str: ...
    @property
    def marks_from(self) -> Literal["given", "state", "kafka", "none"]:
        """Source of the log start, the recovery point and the mark of a clean stop."""

    @property
    def clean(self) -> bool:
        """The stop was clean and the files fit it: nothing was scanned."""

    @property
    def intact(self) -> bool:
        """True when all records that the log is known to have had exist. A cut end is not known to have been more."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def recovery_point(self) -> int:
        """Start of the scan that was needed: everything below was durable."""

    @property
    def segments(self) -> int: ...
    @property
    def segments_scanned(self) -> int: ...
    @property
    def bytes_scanned(self) -> int: ...
    @property
    def elapsed_ms(self) -> float: ...
    @property
    def cut_bytes(self) -> int: ...
    @property
    def cut(self) -> list[CutTail]: ...
    @property
    def damage(self) -> list[Damage]:
        """Damage in the scanned segments; damage elsewhere is found when it is read, see `Segment.damage`."""

    @property
    def lost_ranges(self) -> list[LostRange]:
        """Offsets at or above the log start that cannot be read, damage included; ascending, not touching."""

    @property
    def changed(self) -> list[Changed]:
        """Segments that are missing or shorter than their recorded sizes."""

    @property
    def rebuilt(self) -> list[str]:
        """Files rebuilt from the batches, besides the indexes of scanned segments."""

    @property
    def ignored(self) -> list[Ignored]: ...
    @property
    def removed(self) -> list[str]:
        """Names of files that interrupted work had left."""
