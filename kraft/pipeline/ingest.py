"""`ingest`: rows of Parquet, CSV or JSON files become records of a topic, each exactly once.

A job is a directory with its plan: which files, cut into splits, and a producer id for each split. A split always makes
the same batches, so a run that begins anew (after whatever death) asks the partitions how far the split came, and goes
on from there (`producing`). Rows of a split keep their order in a partition; splits are independent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kraft.client import Cluster
from kraft.client.partitions import LATEST, every, list_offsets
from kraft.client.producing import new_producer, stamped
from kraft.pipeline.producing import IngestError, Writer
from kraft.pipeline.row_files import FileSplit, read_split, splits_of
from kraft.pipeline.workers import Workers
from kraft_native import fileio
from kraft_native.column_encoder import encode_columns
from kraft_native.errors import InvalidArgumentError
from kraft_native.murmur import murmur2_partitions

FORMAT: Final = 1
# Rows that are partitioned and sent together. A split's batches follow from it: it is part of the plan.
CHUNK_ROWS: Final = 20_000
BATCH_BYTES: Final = 900_000
SPLIT_BYTES: Final = 128 << 20


class Columns(NamedTuple):
    """Which columns make a record. `value`: "" for the whole row as JSON. The others: "" for none."""

    value: str = ""
    key: str = ""
    timestamp: str = ""
    partition: str = ""


class Split(NamedTuple):
    """A part of the input, and the producer that writes it: nobody else does, ever."""

    number: int
    file: FileSplit
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A job. `starts`: where each partition ended before the first record."""

    topic: str
    topic_id: str
    starts: tuple[int, ...]
    columns: Columns
    codec: str
    reader: str
    chunk_rows: int
    splits: tuple[Split, ...]

    def text(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self), "columns": self.columns._asdict(),
                           "splits": [[each.number, each.file._asdict(), each.producer_id, each.producer_epoch]
                                      for each in self.splits]}, indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> Plan:
        found = json.loads(path.read_text())
        if found.pop("format") != FORMAT:
            raise IngestError(f"{path}: made by a newer release")
        splits = tuple(Split(number, FileSplit(**{**file, "groups": tuple(file["groups"])}), producer, epoch)
                       for number, file, producer, epoch in found.pop("splits"))
        return cls(**{**found, "columns": Columns(**found["columns"]), "starts": tuple(found["starts"]),
                      "splits": splits})


class IngestTask(NamedTuple):
    """One split for one worker. Plain values."""

    bootstrap: str
    plan: Plan
    split: Split


class Ingested(NamedTuple):
    """What a split came to: its rows, and how many of them had been there before this attempt."""

    rows: int
    before: int


def open_job(job: Path, cluster: Cluster, files: Sequence[Path], topic: str, columns: Columns, *, codec: str = "zstd",
             split_bytes: int = SPLIT_BYTES) -> Plan:
    """The job's plan: the one that is there, which must be of the same input, or a new one, durable before it is used.

    `IngestError` when the job was planned otherwise, or its topic is another one by now.
    """
    path = job / "plan.json"
    if path.exists():
        plan = Plan.read(path)
        _check_same(path, plan, files, topic, columns)
    found = cluster.topic(topic)
    topic_id = str(found.topic_id)
    if path.exists():
        if plan.topic_id != topic_id:
            raise IngestError(f"{path}: topic {topic} was deleted and created again since the job began")
        return plan
    ends = list_offsets(cluster, [found], every([found], LATEST))
    starts = tuple(ends[topic, index] for index in range(len(found.partitions)))
    splits = [Split(number, file, *new_producer(cluster, cluster.timeout))
              for number, file in enumerate(splits_of(files, split_bytes))]
    plan = Plan(topic, topic_id, starts, columns, codec, pa.__version__, CHUNK_ROWS, tuple(splits))
    (job / "done").mkdir(parents=True, exist_ok=True)
    fileio.sync_directory(job)
    fileio.write_atomic(path, plan.text().encode())
    return plan


def _check_same(path: Path, plan: Plan, files: Sequence[Path], topic: str, columns: Columns) -> None:
    given = tuple(dict.fromkeys(os.fspath(file) for file in files))
    planned = tuple(dict.fromkeys(split.file.path for split in plan.splits))
    for name, now, then in (("topic", topic, plan.topic), ("columns", columns, plan.columns),
                            ("files", given, planned), ("reader", pa.__version__, plan.reader)):
        if now != then:
            raise IngestError(f"{path}: the job was begun with {name} {then!r}, and can only be finished with that; "
                              f"now: {now!r}")


def run_job(job: Path, bootstrap: str, plan: Plan, workers: Workers,
            progress: Callable[[int], None] = lambda _: None) -> Ingested:
    """Does the splits that are not noted as done, and notes each. The sum over all that were done now."""
    left = [split for split in plan.splits if not _done(job, split).exists()]
    rows = before = 0
    for task, found in workers.run(ingest_split, [IngestTask(bootstrap, plan, split) for split in left]):
        fileio.write_atomic(_done(job, task.split), json.dumps(found._asdict()).encode())
        rows, before = rows + found.rows, before + found.before
        progress(task.split.file.size_bytes)
    return Ingested(rows, before)


def _done(job: Path, split: Split) -> Path:
    return job / "done" / f"{split.number}.json"


def ingest_split(task: IngestTask) -> Ingested:
    """Writes the records of one split, each once however often this is called. `IngestError` when the file changed."""
    plan, split = task.plan, task.split
    with Cluster(task.bootstrap) as cluster:
        writer = Writer(cluster, plan.topic, (split.producer_id, split.producer_epoch), dict(enumerate(plan.starts)))
        there = writer.appended()
        sent = dict.fromkeys(there, 0)
        rows = 0
        for number, chunk in enumerate(read_split(split.file, plan.chunk_rows)):
            rows += len(chunk)
            places = places_of(chunk, plan.columns, len(plan.starts), split.number + number)
            for batches in _rounds(chunk, places, plan):
                todo = {}
                for partition, (batch, count) in batches.items():
                    # The last one that is there is sent again, where the broker would know it: it answers when all
                    # replicas have it. What was counted in the log is on all of them.
                    end, (before, known) = sent[partition] + count, there[partition]
                    if end > before or (known and end == before):
                        todo[partition] = stamped(batch, writer.producer, sent[partition])
                    sent[partition] += count
                writer.send(todo)
    wrong = [partition for partition, (count, _) in there.items() if count > sent[partition]]
    if wrong:
        raise IngestError(f"{split.file.path}: {plan.topic}-{wrong[0]} has more records of this split than it makes: "
                          "the file was changed")
    return Ingested(rows, sum(count for count, _ in there.values()))


def _rounds(chunk: pa.RecordBatch, places: npt.NDArray[np.int32],
            plan: Plan) -> Iterator[dict[int, tuple[bytes, int]]]:
    """Batches of a chunk with their counts, at most one of each partition at a time, in order."""
    values, keys, times = record_columns(chunk, plan.columns)
    encoders = {}
    for partition in np.unique(places):
        rows = pa.array(np.flatnonzero(places == partition))
        encoders[int(partition)] = encode_columns(
            values.take(rows), keys=None if keys is None else keys.take(rows),
            timestamps=None if times is None else times.take(rows), codec=plan.codec, batch_bytes_max=BATCH_BYTES)
    while encoders:
        found = {}
        for partition, encoder in list(encoders.items()):
            before = len(encoder)
            if before:
                batch = next(encoder)
                found[partition] = (batch, before - len(encoder))
            else:
                del encoders[partition]
        if found:
            yield found


def record_columns(rows: pa.RecordBatch, columns: Columns) -> tuple[pa.Array, pa.Array | None, pa.Array | None]:
    """Values, keys and times of the rows. `InvalidArgumentError` names a column that is missing or does not fit."""
    if columns.value:
        values = as_bytes(column_of(rows, columns.value), columns.value)
    else:
        named = [name for name in rows.schema.names if name != columns.partition]
        lines = rows.select(named).to_pandas().to_json(orient="records", lines=True, date_format="iso").splitlines()
        values = pa.array(lines, pa.string()).cast(pa.binary())
    keys = as_bytes(column_of(rows, columns.key), columns.key) if columns.key else None
    times = None
    if columns.timestamp:
        times = _times(column_of(rows, columns.timestamp), columns.timestamp)
    return values, keys, times


def _times(column: pa.Array, name: str) -> pa.Array:
    """Milliseconds: of times, of texts in ISO 8601, or of numbers as they are."""
    try:
        kind = pa.int64() if pa.types.is_integer(column.type) else pa.timestamp("ms")
        found = column.cast(kind, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(f"column {name}: {column.type} is no time: {error}") from error
    if found.null_count:
        raise InvalidArgumentError(f"column {name}: a row has no time")
    return found


def column_of(rows: pa.RecordBatch, name: str) -> pa.Array:
    if name not in rows.schema.names:
        raise InvalidArgumentError(f"column {name!r} is not among {', '.join(rows.schema.names)}")
    return rows[name]


def as_bytes(column: pa.Array, name: str) -> pa.Array:
    """Texts as UTF-8, numbers as their texts, bytes as they are."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            return column.cast(pa.binary())
        return column.cast(pa.binary()) if pa.types.is_large_binary(column.type) or pa.types.is_binary(
            column.type) else column.cast(pa.string()).cast(pa.binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(f"column {name}: {column.type} is no key or value: {error}") from error


def places_of(rows: pa.RecordBatch, columns: Columns, count: int, unkeyed: int) -> npt.NDArray[np.int32]:
    """The partition of each row: of its column, else by its key as Kafka's default partitioner has it; rows without a
    key all go to partition `unkeyed` modulo `count`, as a batch of a sticky producer does."""
    if columns.partition:
        given = column_of(rows, columns.partition)
        limits = pc.min_max(given).as_py()
        if given.null_count or not 0 <= limits["min"] <= limits["max"] < count:
            raise InvalidArgumentError(f"column {columns.partition}: {limits['min']} to {limits['max']} with "
                                       f"{given.null_count} nulls, but the topic has {count} partitions")
        return np.asarray(given.cast(pa.int32()))
    places = np.full(len(rows), unkeyed % count, np.int32)
    if columns.key:
        keys = as_bytes(column_of(rows, columns.key), columns.key)
        _, offsets, data = keys.buffers()
        starts = np.frombuffer(offsets, np.int32)[keys.offset:keys.offset + len(keys) + 1]
        hashed = np.empty(len(rows), np.int32)
        murmur2_partitions(starts.data, np.frombuffer(data or b"", np.uint8).data, count, hashed.data)
        places = np.where(keys.is_valid().to_numpy(zero_copy_only=False), hashed, places).astype(np.int32)
    return places
