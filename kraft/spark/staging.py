"""Writing exactly once without transactions: what a batch of a stream writes is staged, decided, and then published.

    <location>/kraft-sink/producer.json             the id of this query's producer
    <location>/kraft-sink/staged/<task>/*.batches   what tasks wrote: record batches of one partition of a topic
    <location>/kraft-sink/decision.json             which files make up the batch, where each partition stands

1. A task writes record batches to files of its own. Attempts that fail leave files that nobody refers to.
2. When all tasks of a batch are done the decision is written: their files, and for each partition the next sequence
   number of the query's producer and the end of the log. From here on the batch is what these files say, however often
   Spark repeats it, and in whichever order its rows come then.
3. The files are sent, one batch at a time, with the producer's id and rising sequence numbers. Whoever has to repeat
   that (the driver died, or Spark repeats the batch) looks which of them the log has, from its noted end on, and goes
   on behind them. A request that is still on its way has the same bytes and the same sequence number as its repetition,
   so the leader keeps one of the two.
4. The decision is noted as done. A batch that is repeated after that is dropped.

The files must survive what the checkpoint survives, and be seen by all executors.
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

from kraft.client.partitions import LATEST, list_offsets
from kraft.client.producing import SEQUENCES
from kraft.log_dir import TopicPartition
from kraft.spark.encoding import Encoded
from kraft.spark.errors import DataLossError
from kraft.spark.fetch import Fetcher
from kraft.spark.produce import BatchProducer
from kraft.spark.write_options import WriteOptions
from kraft_native.batch import walk

DIRECTORY: Final = "kraft-sink"
LENGTH_BYTES: Final = 8

StagedFile = tuple[str, int, str]
"""Topic, partition, path below the staging directory."""


@dataclass
class Decision:
    """What one batch of the stream publishes. `sequences` and `ends` are of before it, by directory name."""

    batch_id: int
    files: list[StagedFile] = field(default_factory=list)
    sequences: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    done: bool = False


class Staging:
    """The staging directory of one query."""

    def __init__(self, options: WriteOptions) -> None:
        assert options.staging is not None, "exactly once needs a staging directory"
        self.options = options
        self.path = Path(options.staging.removeprefix("file://").removeprefix("file:")) / DIRECTORY
        self.staged = self.path / "staged"

    def stage(self, encoded: Iterable[Encoded]) -> list[StagedFile]:
        """In a task: writes batches to files, durably, and tells which."""
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
        _sync_directory(directory)
        return [(place.topic, place.partition, f"{directory.name}/{place.directory_name}.batches") for place in files]

    def discard(self, files: Iterable[StagedFile]) -> None:
        """Removes what a batch that came to nothing staged; what a decision refers to that is not done stays."""
        decision = self._read_decision()
        needed = set() if decision is None or decision.done else _directories(decision.files)
        for directory in _directories(files) - needed:
            shutil.rmtree(self.staged / directory, ignore_errors=True)

    def publish(self, batch_id: int, files: list[StagedFile]) -> None:
        """In the driver: makes the batch part of its topics, once, whatever happened before."""
        before = self._read_decision()
        producer = self._producer()
        try:
            if before is not None and not before.done:
                self._roll_forward(before, producer)
            if before is None or before.batch_id < batch_id:
                decision = self._decide(batch_id, files, before, producer)
                self._send(decision, producer)
        finally:
            producer.close()
        # Those of a batch that was published before are dropped here, too.
        shutil.rmtree(self.staged, ignore_errors=True)

    def _decide(self, batch_id: int, files: list[StagedFile], before: Decision | None,
                producer: BatchProducer) -> Decision:
        places = {TopicPartition(topic, partition) for topic, partition, _ in files}
        ends = list_offsets(producer.cluster, [producer.cluster.topic(topic) for topic in
                                               sorted({each.topic for each in places})],
                            {(each.topic, each.partition): LATEST for each in places})
        decision = Decision(batch_id, files, {} if before is None else before.sequences,
                            {TopicPartition(*name).directory_name: end for name, end in ends.items()})
        if files:
            _sync_directory(self.staged)
        self._write("decision.json", vars(decision))
        return decision

    def _send(self, decision: Decision, producer: BatchProducer, skip: dict[str, int] | None = None) -> None:
        """Sends the decision's files, but for the first `skip` records of each partition."""
        left = dict(skip or {})
        for topic, partition, path in decision.files:
            place = TopicPartition(topic, partition)
            name = place.directory_name
            producer.sequences.setdefault(place, decision.sequences.get(name, 0))
            for batch in _batches(self.staged / path):
                count = int.from_bytes(batch[57:61], "big")
                if left.get(name, 0) >= count:
                    left[name] -= count
                    producer.sequences[place] = (producer.sequences[place] + count) % SEQUENCES
                else:
                    producer.send(place, batch)
        sequences = {**decision.sequences, **{place.directory_name: number
                                              for place, number in producer.sequences.items()}}
        self._write("decision.json", {**vars(decision), "sequences": sequences, "done": True})
        decision.sequences, decision.done = sequences, True

    def _roll_forward(self, decision: Decision, producer: BatchProducer) -> None:
        """Finishes what an earlier driver began."""
        there = {}
        for place in sorted({TopicPartition(topic, partition) for topic, partition, _ in decision.files}):
            name = place.directory_name
            there[name] = self._records_there(place, decision.ends.get(name, 0), decision.sequences.get(name, 0),
                                              producer)
        self._send(decision, producer, there)

    def _records_there(self, place: TopicPartition, start: int, sequence: int, producer: BatchProducer) -> int:
        """How many records of this batch a partition's log has: those from `sequence` on, by this query's producer."""
        last = sequence
        fetcher = Fetcher.of_cluster(self.options.client, self.options.timeout_ms)
        try:
            for records in fetcher.raw(place.topic, place.partition, start):
                for batch in walk(records):
                    if batch.producer_id == producer.producer_id and batch.producer_epoch == producer.producer_epoch:
                        if batch.base_sequence != last:
                            raise DataLossError(f"{place.directory_name}: the log has records of this query from "
                                                f"sequence {batch.base_sequence}, where {last} was to come: some of "
                                                "what it wrote is gone")
                        last = (batch.last_sequence + 1) % SEQUENCES
        finally:
            fetcher.close()
        return (last - sequence) % SEQUENCES

    def _producer(self) -> BatchProducer:
        """The query's own: its id is asked for once, and kept."""
        known = self._read("producer.json")
        if known is not None:
            return BatchProducer(self.options, known["producer_id"], known["producer_epoch"])
        producer = BatchProducer(self.options)
        producer.identify()
        self._write("producer.json", {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch})
        return producer

    def _read_decision(self) -> Decision | None:
        found = self._read("decision.json")
        if found is None:
            return None
        return Decision(**{**found, "files": [tuple(each) for each in found["files"]]})

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.path / name).read_text())
        except FileNotFoundError:
            return None
        return found

    def _write(self, name: str, content: dict[str, Any]) -> None:
        """Durably, and whole or not at all."""
        self.path.mkdir(parents=True, exist_ok=True)
        draft = self.path / f".{name}"
        with draft.open("w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path / name)
        _sync_directory(self.path)


def _directories(files: Iterable[StagedFile]) -> set[str]:
    return {path.partition("/")[0] for _, _, path in files}


def _batches(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while length := file.read(LENGTH_BYTES):
            yield file.read(int.from_bytes(length, "big"))


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
