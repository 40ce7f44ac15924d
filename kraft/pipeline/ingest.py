"""`ingest`: rows of Parquet, CSV or JSON files become records of a topic, each exactly once.

A job is a directory with its plan: the files, cut into splits, and the transactional id or the producer id of each
split. A split always produces the same batches. So after any crash, a new run queries the cluster for the progress of
each split and continues from there (`split_writers`). Rows of a split keep their order in a partition; splits are
independent.
"""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from kraft.client import Cluster
from kraft.client.configs import setting
from kraft.client.partitions import LATEST, every, list_all_offsets
from kraft.client.producer import UNIDENTIFIED, new_producer
from kraft.client.security import PLAINTEXT, Security, current
from kraft.client.transactions import has_transactions
from kraft.pipeline.producing import IngestError
from kraft.pipeline.row_files import BadRow, FileSplit, read_split, splits_of
from kraft.pipeline.row_records import Columns, Conversion, Records, check_columns, check_types, sort_out
from kraft.pipeline.split_writers import Round, SequencedWriter, SplitWriter, begin_progress, transactional_writer
from kraft.pipeline.workers import Workers
from kraft_native.base.errors import UnsupportedVersionError
from kraft_native.columns.encoder import encode_columns
from kraft_native.file import file_io

FORMAT: Final = 3
# Rows that are partitioned and sent together. A split's batches depend on it: it is part of the plan.
CHUNK_ROWS: Final = 20_000
BATCH_BYTES: Final = 900_000
SPLIT_BYTES: Final = 128 << 20
RECORD_BYTES_MAX: Final = 1_048_588    # Kafka's default of max.message.bytes
# Limit of bad rows in one split; with more of them, the file is probably the wrong one.
BAD_ROWS_MAX: Final = 100_000
BAD_ROWS_SHOWN: Final = 5


class BadRowsError(IngestError):
    """Rows that cannot become records; the message gives the rows and the reasons."""


class Split(NamedTuple):
    """A part of the input, and the producer id that is only ever used for it (none for a job in transactions)."""

    number: int
    file: FileSplit
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A job. `starts`: the end of each partition before the first record. `record_bytes_max`: the topic's limit for one
    batch. `transactional_id`: that of the splits, without their numbers; empty for a job by sequence numbers."""

    topic: str
    topic_id: str
    starts: tuple[int, ...]
    columns: Columns
    types: tuple[tuple[str, str], ...]
    codec: str
    record_bytes_max: int
    reader: str
    chunk_rows: int
    transactional_id: str
    splits: tuple[Split, ...]

    def text(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self), "columns": self.columns._asdict(),
                           "splits": [[each.number, each.file._asdict(), each.producer_id, each.producer_epoch]
                                      for each in self.splits]}, indent=1) + "\n"

    @classmethod
    def read(cls, path: Path) -> Plan:
        found = json.loads(path.read_text())
        if found.pop("format") != FORMAT:
            raise IngestError(f"{path}: made by another release, whose batches are different ones; a new --job writes "
                              "all rows again")
        splits = tuple(Split(number, FileSplit(**{**file, "groups": tuple(file["groups"])}), producer, epoch)
                       for number, file, producer, epoch in found.pop("splits"))
        return cls(**{**found, "columns": Columns(**found["columns"]), "starts": tuple(found["starts"]),
                      "types": tuple((name, kind) for name, kind in found["types"]), "splits": splits})

    @property
    def conversion(self) -> Conversion:
        """Conversion of rows to records."""
        return Conversion(self.columns, self.types, len(self.starts), self.codec, self.record_bytes_max)


class IngestTask(NamedTuple):
    """One split for one worker. Plain values. `limit`: the number of bad rows that a write tolerates (0: the first one
    ends it), or that a check returns at most."""

    bootstrap: str
    plan: Plan
    split: Split
    limit: int = 0
    security: Security = PLAINTEXT


class Ingested(NamedTuple):
    """Counts of finished splits: their rows, and how many of them were in the topic before this attempt."""

    rows: int
    before: int


class SplitResult(NamedTuple):
    """Counts of a split, and its rows that cannot become records."""

    ingested: Ingested
    bad: tuple[BadRow, ...]


def open_job(job: Path, cluster: Cluster, files: Sequence[Path], topic: str, columns: Columns, *,
             types: Mapping[str, str] | None = None, codec: str = "zstd", split_bytes: int = SPLIT_BYTES,
             transactions: bool | None = None) -> Plan:
    """Return the job's plan: the existing one, which must be of the same input, or a new one, durable before it is
    used. `transactions`: whether it writes in transactions; None: if the cluster has them.

    `IngestError` when the job was planned with other inputs, or its topic was created again since.
    `InvalidArgumentError` when the files lack the columns, or types do not fit them. `UnsupportedVersionError` when the
    cluster lacks required transactions.
    """
    path = job / "plan.json"
    kinds = tuple(sorted((types or {}).items()))
    if path.exists():
        plan = Plan.read(path)
        _check_same(path, plan, files, topic, columns, kinds, transactions)
    found = cluster.topic(topic)
    topic_id = str(found.topic_id)
    if path.exists():
        if plan.topic_id != topic_id:
            raise IngestError(f"{path}: topic {topic} was deleted and created again since the job began")
        return plan
    limit = int(setting(cluster, "topic", topic, "max.message.bytes") or RECORD_BYTES_MAX)
    conversion = Conversion(columns, kinds, len(found.partitions), codec, limit)
    check_types(files, conversion)
    for file in files:
        check_columns(file, conversion)
    ends = list_all_offsets(cluster, [found], every([found], LATEST))
    starts = tuple(ends[topic, index] for index in range(len(found.partitions)))
    transactional_id = _new_transactional_id(cluster, transactions)
    splits = []
    for number, part in enumerate(splits_of(files, split_bytes)):
        if transactional_id:
            begin_progress(cluster, topic, f"{transactional_id}-{number}")
        splits.append(Split(number, part, *(UNIDENTIFIED if transactional_id
                                            else new_producer(cluster, cluster.timeout))))
    plan = Plan(topic, topic_id, starts, columns, kinds, codec, limit, pa.__version__, CHUNK_ROWS, transactional_id,
                tuple(splits))
    for name in ("checked", "bad", "done"):
        (job / name).mkdir(parents=True, exist_ok=True)
    file_io.sync_directory(job)
    file_io.write_atomic(path, plan.text().encode())
    return plan


def _new_transactional_id(cluster: Cluster, transactions: bool | None) -> str:
    """Return a new transactional id for a job; an empty one for a job without transactions."""
    if transactions is False:
        return ""
    if has_transactions(cluster):
        return f"kraft-ingest-{uuid.uuid4()}"
    if transactions:
        raise UnsupportedVersionError("transactions: required, but the cluster has none")
    return ""


def _check_same(path: Path, plan: Plan, files: Sequence[Path], topic: str, columns: Columns,
                types: tuple[tuple[str, str], ...], transactions: bool | None) -> None:
    planned_way = bool(plan.transactional_id)
    given = tuple(dict.fromkeys(os.fspath(file) for file in files))
    planned = tuple(dict.fromkeys(split.file.path for split in plan.splits))
    for name, now, then in (("topic", topic, plan.topic), ("columns", columns, plan.columns),
                            ("types", types, plan.types), ("files", given, planned),
                            ("reader", pa.__version__, plan.reader),
                            ("transactions", planned_way if transactions is None else transactions, planned_way)):
        if now != then:
            raise IngestError(f"{path}: the job was begun with {name} {then!r}, and can only be finished with that; "
                              f"now: {now!r}")


def run_job(job: Path, bootstrap: str, plan: Plan, workers: Workers, progress: Callable[[int], None] = lambda _: None,
            *, on_bad_row: str = "fail") -> Ingested:
    """Process the splits that are not noted as done, and note each. Return the sum over the splits processed now.

    `on_bad_row`:
    - "fail" checks every unchecked split before the first record of this call is sent. It raises `BadRowsError` when a
      row cannot become a record.
    - "dead-letter" writes such rows to `<job>/bad/<split>.jsonl` instead.
    """
    left = [split for split in plan.splits if not _noted(job, "done", split).exists()]
    if on_bad_row == "fail":
        _check_rows(job, plan, workers, left)
    limit = 0 if on_bad_row == "fail" else BAD_ROWS_MAX
    tasks = [IngestTask(bootstrap, plan, split, limit, current()) for split in left]
    rows = before = 0
    for task, (found, bad) in workers.run(ingest_split, tasks):
        if bad:
            file_io.write_atomic(_noted(job, "bad", task.split, ".jsonl"), dead_letters(task.split, bad))
        file_io.write_atomic(_noted(job, "done", task.split), json.dumps(found._asdict() | {"bad": len(bad)}).encode())
        rows, before = rows + found.rows, before + found.before
        progress(task.split.file.size_bytes)
    return Ingested(rows, before)


def bad_rows(job: Path) -> int:
    """Return the number of rows of the job that were written to its directory because they cannot become records."""
    return sum(path.read_bytes().count(b"\n") for path in (job / "bad").glob("*.jsonl"))


def _check_rows(job: Path, plan: Plan, workers: Workers, splits: Sequence[Split]) -> None:
    due = [split for split in splits if not _noted(job, "checked", split).exists()]
    failures = []
    for task, found in workers.run(check_split, [IngestTask("", plan, split, BAD_ROWS_SHOWN) for split in due]):
        if found:
            failures.append((task.split, found))
        else:
            file_io.write_atomic(_noted(job, "checked", task.split), b"{}")
    if failures:
        shown = [f"{split.file.path}, row {each.row}: {each.reason}"
                 for split, found in sorted(failures, key=lambda failure: failure[0].number) for each in found]
        more = "; there are more" if len(shown) > BAD_ROWS_SHOWN else ""
        raise BadRowsError(f"{'; '.join(shown[:BAD_ROWS_SHOWN])}{more}. No row of the files with these was written; "
                           "--on-bad-row dead-letter writes the other rows")


def _noted(job: Path, what: str, split: Split, suffix: str = ".json") -> Path:
    return job / what / f"{split.number}{suffix}"


def dead_letters(split: Split, bad: Iterable[BadRow]) -> bytes:
    """Return one JSON object per line for each of these rows: file, row, reason, and the row itself, in base64 if it is
    not text."""
    lines = []
    for row, reason, content in bad:
        try:
            shown = {"content": content.decode()}
        except UnicodeDecodeError:
            shown = {"content_base64": base64.b64encode(content).decode()}
        lines.append(json.dumps({"file": split.file.path, "row": row, "reason": reason, **shown}, ensure_ascii=False))
    return "".join(f"{line}\n" for line in lines).encode()


def check_split(task: IngestTask) -> tuple[BadRow, ...]:
    """Return the first rows of the split that cannot become records, up to the task's limit. Nothing is sent."""
    bad: list[BadRow] = []
    for rows in read_split(task.split.file, task.plan.chunk_rows, task.plan.columns.fields):
        bad += sort_out(rows, task.plan.conversion, 0, task.limit - len(bad))[1]
        if len(bad) >= task.limit:
            break
    return tuple(bad)


def ingest_split(task: IngestTask) -> SplitResult:
    """Write the records of one split, each exactly once, however often this is called. `IngestError` when the file
    changed."""
    plan, split = task.plan, task.split
    bad: list[BadRow] = []
    with Cluster(task.bootstrap, security=task.security) as cluster, _writer(cluster, plan, split) as writer:
        count = 0
        for number, rows in enumerate(read_split(split.file, plan.chunk_rows, plan.columns.fields)):
            records, wrong = sort_out(rows, plan.conversion, split.number + number, task.limit + 1 - len(bad))
            bad += wrong
            if len(bad) > task.limit:
                raise BadRowsError(f"{split.file.path}, row {bad[0].row}: {bad[0].reason}; these are more than "
                                   f"{task.limit:,} rows that cannot be records")
            count += len(records.values)
            writer.write(len(records.values), _rounds(records, plan))
        try:
            before = writer.finish()
        except IngestError as error:
            raise IngestError(f"{split.file.path}: {error}") from error
    return SplitResult(Ingested(count, before), tuple(bad))


def _writer(cluster: Cluster, plan: Plan, split: Split) -> AbstractContextManager[SplitWriter]:
    if plan.transactional_id:
        return transactional_writer(cluster, plan.topic, f"{plan.transactional_id}-{split.number}")
    return nullcontext(SequencedWriter(cluster, plan.topic, (split.producer_id, split.producer_epoch),
                                       dict(enumerate(plan.starts))))


def _rounds(records: Records, plan: Plan) -> Iterator[Round]:
    """Yield batches of a chunk with their counts, at most one of each partition at a time, in order."""
    values, keys, times, places = records
    batch_bytes = min(BATCH_BYTES, plan.record_bytes_max)
    encoders = {}
    for partition in np.unique(places):
        rows = pa.array(np.flatnonzero(places == partition))
        encoders[int(partition)] = encode_columns(
            values.take(rows), keys=None if keys is None else keys.take(rows),
            timestamps=None if times is None else times.take(rows), codec=plan.codec, batch_bytes_max=batch_bytes)
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
