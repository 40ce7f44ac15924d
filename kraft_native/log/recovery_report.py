"""Findings and actions of opening a log: `recovery` fills the report, an owner and a node publish it."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple


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


@dataclass(eq=False, repr=False)
class RecoveryReport:
    """Report of the opening of one log. `recovery` fills it; nobody else changes it.

    - `marks_from`: source of the log start, the recovery point and the mark of a clean stop.
    - `clean`: the stop was clean and the files fit it: nothing was scanned.
    - `recovery_point`: start of the scan that was needed: everything below was durable.
    - `damage`: damage in the scanned segments; damage elsewhere is found when it is read, see `Segment.damage`.
    - `lost_ranges`: offsets at or above the log start that cannot be read, damage included; ascending, not touching.
    - `changed`: segments that are missing or shorter than their recorded sizes.
    - `rebuilt`: files rebuilt from the batches, besides the indexes of scanned segments.
    - `removed`: names of files that interrupted work had left.
    """

    directory: str = ""
    marks_from: Literal["given", "state", "kafka", "none"] = "none"
    clean: bool = False
    log_start_offset: int = 0
    log_end_offset: int = 0
    recovery_point: int = 0
    segments: int = 0
    segments_scanned: int = 0
    bytes_scanned: int = 0
    cut_bytes: int = 0
    elapsed_ms: float = 0.0
    cut: list[CutTail] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    lost_ranges: list[LostRange] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    @property
    def intact(self) -> bool:
        """True when all records that the log is known to have had exist. A cut end is not known to have been more."""
        return not self.damage and not self.lost_ranges

    def __repr__(self) -> str:
        return f"<RecoveryReport {self}>"

    def __str__(self) -> str:
        parts = [f"{self.directory}: offsets {self.log_start_offset} to {self.log_end_offset}"]
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
