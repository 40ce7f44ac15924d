"""Interface of a log under test. `reference.py` has small logs in Python, `engine.py` the real one."""

from pathlib import Path
from typing import Protocol

from kraft.crashes.disk import State

from .promises import Batch, Observed

DURABILITIES = ("page-cache", "group-commit", "per-append")


class View(Protocol):
    """A log that is only read."""

    def observe(self) -> Observed:
        """Return everything that the log serves."""

    def close(self) -> None:
        """Close the view."""


class Session(Protocol):
    """An open log, with one writer."""

    def stored(self, batch: bytes, offset: int) -> bytes:
        """Return the bytes that the log must serve for a batch that is appended now at `offset`."""

    def append(self, batch: bytes) -> tuple[int, bytes]:
        """Append one batch. Return its base offset and the bytes that must be served for it from now on."""

    def durable_end(self) -> int:
        """Return the offset below which everything is acknowledged as durable (0 where the class promises nothing)."""

    def wait_durable(self) -> None:
        """Wait until everything appended is durable, where the class acknowledges that."""

    def flush(self) -> None:
        """Make everything appended durable."""

    def truncate(self, offset: int) -> int:
        """Cut off everything at or above the offset and return the new end. Durable on return."""

    def restart_at(self, offset: int) -> None:
        """Drop everything and start at the offset. Durable on return."""

    def delete_records(self, offset: int) -> int:
        """Move the log start up to the offset and return the new start. Durable on return."""

    def observe(self) -> Observed:
        """Return everything that the log serves."""

    def begin_epoch(self) -> None:
        """Begin a new leader epoch at the log end."""

    def apply_retention(self) -> int:
        """Drop whole segments from the front and return the new start. Durable on return."""

    def compact(self) -> list[Batch]:
        """Compact the sealed segments and return everything that is served afterwards."""

    def roll(self) -> None:
        """Begin a new segment."""

    def checkpoint(self) -> None:
        """Write a checkpoint, below which an open after a crash need not read."""

    def audit(self) -> list[str]:
        """Return contradictions between the log's own parts (indexes, epochs, producers) and its batches; [] when
        none."""

    def close(self) -> None:
        """Close cleanly."""

    def abandon(self) -> None:
        """Release descriptors and locks as a killed process does, without a clean close."""


class Subject(Protocol):
    name: str
    transactions: bool      # whether workloads write transactions
    checks_epochs: bool     # whether it detects a wrong leader epoch in a batch

    def open(self, directory: Path, durability: str) -> Session:
        """Open the log in an existing directory."""

    def look(self, directory: Path) -> View:
        """Open a damaged log for reading."""

    def operations(self) -> dict[str, int]:
        """Return the names of the workload steps that this log supports, with their weights."""

    def ignores(self, path: str) -> bool:
        """Return whether a file may have any content after a crash (a page shared by running processes)."""

    def gaps_end(self, state: State) -> int:
        """Return the offset up to which the log in these files has been compacted: below it, offsets may be missing."""

    def start_files(self) -> tuple[str, ...]:
        """Return the files without which the log start is not known."""

    def ignored_files(self) -> tuple[str, ...]:
        """Return the names of the ignored files, which the kit fills with noise."""
