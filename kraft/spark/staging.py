"""A batch of a stream is staged first: its tasks write files, and the driver publishes them when all tasks are done.

    <location>/kraft-sink/<query>/producer.json             the identity of the query for the cluster
    <location>/kraft-sink/<query>/staged/<task>/*.batches   files of tasks: record batches of one partition of a topic
    <location>/kraft-sink/<query>/decisions/<batch>.json    the files of a batch that was, or is being, published

<query> is the id that Spark keeps in the query's checkpoint. A query that begins again without its checkpoint is
another query. Failed attempts leave files that nothing refers to. The files must survive whatever the checkpoint
survives, and all executors must see them. See `publishing` for the way into their topics.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kraft.log_dir import TopicPartition
from kraft.spark.encoding import Encoded
from kraft.spark.write_options import WriteOptions
from kraft_native.file import file_io

DIRECTORY: Final = "kraft-sink"
LENGTH_BYTES: Final = 8

StagedFile = tuple[str, int, str]
"""Topic, partition, path below the staging directory."""


@dataclass
class Decision:
    """Files that one batch of the stream publishes. `sequences` and `ends` are the values before the batch, by
    directory name. They are for publishing without a transaction; with one only `batch_id` and `done` are needed."""

    batch_id: int
    files: list[StagedFile] = field(default_factory=list)
    sequences: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    done: bool = False


class Staging:
    """The staging directory of one query."""

    def __init__(self, options: WriteOptions, query_id: str) -> None:
        assert options.staging is not None, "exactly once needs a staging directory"
        self.path = Path(options.staging.removeprefix("file://").removeprefix("file:")) / DIRECTORY / query_id
        self.staged = self.path / "staged"
        self.decisions = self.path / "decisions"

    def stage(self, encoded: Iterable[Encoded]) -> list[StagedFile]:
        """Write batches to files, durably, in a task; return the files."""
        directory = self.staged / uuid.uuid4().hex
        directory.mkdir(parents=True)
        files: dict[TopicPartition, Any] = {}
        try:
            for place, batch in encoded:
                if place not in files:
                    files[place] = (directory / f"{place.directory_name}.batches").open("wb")
                files[place].write(len(batch).to_bytes(LENGTH_BYTES, "big") + batch)
            for file in files.values():
                file.flush()
                os.fsync(file.fileno())
        finally:
            for file in files.values():
                file.close()
        file_io.sync_directory(directory)
        return [(place.topic, place.partition, f"{directory.name}/{place.directory_name}.batches") for place in files]

    def batches(self, files: Iterable[StagedFile]) -> Iterator[Encoded]:
        """Yield the record batches of these files, in their order."""
        for topic, partition, path in files:
            with (self.staged / path).open("rb") as file:
                while length := file.read(LENGTH_BYTES):
                    yield TopicPartition(topic, partition), file.read(int.from_bytes(length, "big"))

    def discard(self, files: Iterable[StagedFile]) -> None:
        """Remove the staged files of a failed batch. Files of a decision that is not done stay."""
        decision = self.decision()
        needed = set() if decision is None or decision.done else _directories(decision.files)
        for directory in _directories(files) - needed:
            shutil.rmtree(self.staged / directory, ignore_errors=True)

    def clear(self) -> None:
        """Remove all staged files."""
        shutil.rmtree(self.staged, ignore_errors=True)

    def decision(self) -> Decision | None:
        """Return the decision about the latest batch. A replaced driver may still write its own decision, which is
        about an earlier batch."""
        numbers = self._decided()
        if not numbers:
            return None
        found = json.loads((self.decisions / f"{numbers[-1]}.json").read_text())
        return Decision(**{**found, "files": [tuple(each) for each in found["files"]]})

    def decide(self, decision: Decision) -> None:
        """Write a decision durably, after its files. Remove the decisions about earlier batches."""
        if decision.files and not decision.done:
            file_io.sync_directory(self.staged)
        _write(self.decisions / f"{decision.batch_id}.json", vars(decision))
        for number in self._decided():
            if number < decision.batch_id:
                (self.decisions / f"{number}.json").unlink(missing_ok=True)

    def identity(self) -> dict[str, Any] | None:
        """Return the identity of the query for the cluster; None when it is not decided yet."""
        try:
            found: dict[str, Any] = json.loads((self.path / "producer.json").read_text())
        except FileNotFoundError:
            return None
        return found

    def identify(self, identity: dict[str, Any]) -> None:
        """Write the identity durably."""
        _write(self.path / "producer.json", identity)

    def _decided(self) -> list[int]:
        return sorted(int(path.stem) for path in self.decisions.glob("[0-9]*.json"))


def _write(path: Path, content: dict[str, Any]) -> None:
    """Write the file durably and atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file_io.write_atomic(path, json.dumps(content).encode())


def _directories(files: Iterable[StagedFile]) -> set[str]:
    return {path.partition("/")[0] for _, _, path in files}
