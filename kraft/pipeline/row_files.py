"""Files of rows, Parquet, CSV or lines of JSON, cut into splits that can be read alone, always in the same chunks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from kraft.pipeline.producing import IngestError
from kraft_native.errors import InvalidArgumentError

KINDS: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
BLOCK_BYTES: Final = 16 << 20


class FileSplit(NamedTuple):
    """A file, or of a Parquet file some row groups. Size and time tell whether it is still the same."""

    path: str
    kind: str
    groups: tuple[int, ...]
    size_bytes: int
    file_bytes: int
    modified_ns: int


def files_in(paths: Sequence[Path]) -> list[Path]:
    """The files themselves, and those below directories, by name. Private ones (`_x`, `.x`) are left out.

    `InvalidArgumentError` for a name that says nothing of its kind.
    """
    found: list[Path] = []
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        found += [each for each in inside if each.is_file() and not any(
            part.startswith(("_", ".")) for part in each.relative_to(path).parts)]
    for each in found:
        if each.suffix not in KINDS:
            raise InvalidArgumentError(f"{each}: not one of {', '.join(KINDS)}")
    return found


def splits_of(files: Sequence[Path], split_bytes: int) -> Iterator[FileSplit]:
    """Parquet files in runs of row groups of about `split_bytes`, the others whole."""
    for path in files:
        facts = path.stat()
        kind = KINDS[path.suffix]
        if kind != "parquet":
            yield FileSplit(os.fspath(path), kind, (), facts.st_size, facts.st_size, facts.st_mtime_ns)
            continue
        metadata = pq.read_metadata(path)
        groups: list[int] = []
        size = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            groups.append(number)
            size += sum(group.column(column).total_compressed_size for column in range(group.num_columns))
            if size >= split_bytes or number == metadata.num_row_groups - 1:
                yield FileSplit(os.fspath(path), kind, tuple(groups), size, facts.st_size, facts.st_mtime_ns)
                groups, size = [], 0


def read_split(split: FileSplit, chunk_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows in chunks that are the same at every reading. `IngestError` when the file is not what it was."""
    facts = os.stat(split.path)
    if (facts.st_size, facts.st_mtime_ns) != (split.file_bytes, split.modified_ns):
        raise IngestError(f"{split.path}: changed since the job began")
    if split.kind == "parquet":
        with pq.ParquetFile(split.path) as file:
            yield from file.iter_batches(chunk_rows, row_groups=list(split.groups))
        return
    if split.kind == "csv":
        options = pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False)
        convert = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
        with pyarrow.csv.open_csv(split.path, options, convert_options=convert) as found:
            for batch in found:
                yield from _cut(batch, chunk_rows)
        return
    table = pyarrow.json.read_json(split.path, pyarrow.json.ReadOptions(use_threads=False, block_size=BLOCK_BYTES))
    yield from table.combine_chunks().to_batches(chunk_rows)


def _cut(batch: pa.RecordBatch, chunk_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(batch), chunk_rows):
        yield batch.slice(start, chunk_rows)
