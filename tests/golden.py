"""Access to the golden data: files that Kafka wrote, with the answers that Kafka gave (see the data's own README).

The directory is `$KRAFT_SHARED/golden`, by default `../shared/golden` beside the repository. Tests that need it carry
`@needs_golden` and skip visibly without it. Golden files are read in place and never opened for writing:
`copy_partition` gives a test its own copy.
"""

import functools
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def golden_root() -> Path | None:
    """The directory with `log/`, `unclean/`, `quorum/`, ...; None when it is missing."""
    shared = os.environ.get("KRAFT_SHARED")
    root = (Path(shared) if shared else REPOSITORY.parent / "shared") / "golden"
    return root if (root / "log").is_dir() else None


needs_golden = pytest.mark.skipif(golden_root() is None, reason="no golden data: set KRAFT_SHARED")


def golden(*parts: str) -> Path:
    """A path inside the golden data. Only for tests that carry `needs_golden`."""
    root = golden_root()
    assert root is not None, "no golden data: set KRAFT_SHARED"
    return root.joinpath(*parts)


@functools.cache
def load_json(path: Path) -> Any:
    """Parsed JSON, cached: the expectations are large and several tests need them. Treat as read-only."""
    return json.loads(path.read_text("utf-8"))


@dataclass(frozen=True)
class GoldenPartition:
    """One partition directory of `log/data` with Kafka's answers for it."""

    name: str
    directory: Path

    @property
    def expected(self) -> dict[str, Any]:
        """`log/expected/<partition>.json`."""
        result: dict[str, Any] = load_json(golden("log", "expected", f"{self.name}.json"))
        return result

    @property
    def files(self) -> dict[str, dict[str, Any]]:
        """Output of DumpLogSegments for each file, by file name: `size`, and `batches` or `entries`."""
        result: dict[str, dict[str, Any]] = self.expected["dump"]["files"]
        return result

    def records(self) -> list[dict[str, Any]]:
        """`log/expected/<partition>.jsonl`: every record as a read_uncommitted consumer sees it."""
        text = golden("log", "expected", f"{self.name}.jsonl").read_text("utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def __str__(self) -> str:
        return self.name


def partitions() -> list[GoldenPartition]:
    """Every partition that has expectations, by name; empty without golden data. Intended for `parametrize`."""
    root = golden_root()
    if root is None:
        return []
    return [
        GoldenPartition(directory.name, directory)
        for directory in sorted((root / "log" / "data").iterdir())
        if directory.is_dir() and (root / "log" / "expected" / f"{directory.name}.json").exists()
    ]


def copy_partition(partition: GoldenPartition, target: Path) -> Path:
    """A writable copy of the partition's directory under `target`, with its name."""
    directory = target / partition.name
    shutil.copytree(partition.directory, directory)
    return directory
