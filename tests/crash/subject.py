"""What the kit asks of a log. `reference.py` has small ones in Python, `engine.py` the real one."""

from pathlib import Path
from typing import Protocol

from .disk import State
from .promises import Batch, Observed

DURABILITIES = ("page-cache", "group-commit", "per-append")


class View(Protocol):
    """A log that is looked at."""

    def observe(self) -> Observed:
        """Everything that the log serves."""

    def close(self) -> None:
        """Ends it."""


class Session(Protocol):
    """An open log, with one writer."""

    def stored(self, batch: bytes, offset: int) -> bytes:
        """The bytes that the log must serve for a batch that it appends now, at the offset."""

    def append(self, batch: bytes) -> tuple[int, bytes]:
        """Appends one batch; gives its base offset and the bytes that must be served for it from now on."""

    def durable_end(self) -> int:
        """Everything below this offset was acknowledged as durable (0 where the class promises nothing)."""

    def wait_durable(self) -> None:
        """Waits until all that was appended is durable, where the class acknowledges that."""

    def flush(self) -> None:
        """Makes everything appended durable."""

    def truncate(self, offset: int) -> int:
        """Cuts off what is at or above the offset; gives the new end. Durable when it returns."""

    def restart_at(self, offset: int) -> None:
        """Drops everything and starts at the offset. Durable when it returns."""

    def delete_records(self, offset: int) -> int:
        """Moves the log start up to the offset; gives the new start. Durable when it returns."""

    def observe(self) -> Observed:
        """Everything that the log serves."""

    def begin_epoch(self) -> None:
        """A new leader epoch begins at the log end."""

    def apply_retention(self) -> int:
        """Drops whole segments from the front; gives the new start. Durable when it returns."""

    def compact(self) -> list[Batch]:
        """Compacts what is sealed; gives all that is served afterwards."""

    def roll(self) -> None:
        """Begins a new segment."""

    def checkpoint(self) -> None:
        """Notes how far an open after a crash need not look."""

    def audit(self) -> list[str]:
        """Contradictions between the log's own parts (indexes, epochs, producers) and its batches; [] when none."""

    def close(self) -> None:
        """A clean close."""

    def abandon(self) -> None:
        """Gives up descriptors and locks as a killed process does, without a clean close."""


class Subject(Protocol):
    name: str
    transactions: bool      # whether workloads write transactions
    checks_epochs: bool     # whether it knows a wrong leader epoch in a batch

    def open(self, directory: Path, durability: str) -> Session:
        """Opens the log in an existing directory."""

    def look(self, directory: Path) -> View:
        """Opens what damage was done to; to be observed."""

    def operations(self) -> dict[str, int]:
        """Names of the workload steps that this log knows, with their weights."""

    def ignores(self, path: str) -> bool:
        """Whether a file may have any content after a crash (a page shared by running processes)."""

    def gaps_end(self, state: State) -> int:
        """Up to which offset the log in these files has been compacted: there, offsets may be missing."""

    def start_files(self) -> tuple[str, ...]:
        """The files without which the log start is not known."""

    def ignored_files(self) -> tuple[str, ...]:
        """Their names: the kit puts noise there."""
