"""Merge of a table's small files into large ones, for days or hours that many batches wrote to."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq

from kraft.pipeline.parquet import ROW_GROUP_BYTES, FileSettings, make_durable, new_writer
from kraft.pipeline.table import Commit, DataFile, Table, live_files

MERGE = "merge"
OUTPUT_BYTES = 256 << 20


def merge_small(table: Table, settings: FileSettings, below_bytes: int,
                output_bytes: int = OUTPUT_BYTES) -> Commit | None:
    """Replace files smaller than `below_bytes`, where several lie in one directory, by files of up to about
    `output_bytes`, all in one commit. Return None when nothing is to do.

    Readers that list the files by the commits see the same rows before and after. One that lists a directory during the
    exchange may see rows of both.
    """
    added: list[DataFile] = []
    removed: list[str] = []
    for directory, files in _groups(table.path, below_bytes, output_bytes):
        added.append(_merged(table, settings, directory, files))
        removed += [file.path for file in files]
    if not added:
        return None
    last = table.last()
    number = 0 if last is None else last.number + 1
    return table.commit((), added, query_id=MERGE, batch_id=number, removed=removed)


def _groups(table: Path, below_bytes: int, output_bytes: int) -> Iterator[tuple[str, list[DataFile]]]:
    """Yield directories with at least two files that together make a larger one."""
    small: dict[str, list[DataFile]] = {}
    for file in sorted(live_files(table)):
        if file.size_bytes < below_bytes:
            small.setdefault(str(PurePosixPath(file.path).parent), []).append(file)
    for directory, files in sorted(small.items()):
        group: list[DataFile] = []
        for file in files:
            if group and sum(each.size_bytes for each in group) + file.size_bytes > output_bytes:
                if len(group) > 1:
                    yield directory, group
                group = []
            group.append(file)
        if len(group) > 1:
            yield directory, group


def _merged(table: Table, settings: FileSettings, directory: str, files: Sequence[DataFile]) -> DataFile:
    """Write one file with the rows of all, by partition and offset, which is the order of their names."""
    name = f"merged-{uuid.uuid4().hex[:16]}.parquet"
    staged = table.staging / f"{name}.part"
    schema = pq.read_schema(table.path / files[0].path).remove_metadata()
    writer = new_writer(staged, schema, settings)
    rows = 0
    try:
        waiting: list[pa.Table] = []
        for file in files:
            found = pq.ParquetFile(table.path / file.path)
            for number in range(found.num_row_groups):
                waiting.append(found.read_row_group(number))
                rows += len(waiting[-1])
                if sum(each.nbytes for each in waiting) >= ROW_GROUP_BYTES:
                    _flush(writer, waiting)
        _flush(writer, waiting)
    finally:
        writer.close()
    return DataFile(f"{directory}/{name}", str(staged.relative_to(table.path)), rows, make_durable(staged))


def _flush(writer: pq.ParquetWriter, waiting: list[pa.Table]) -> None:
    if waiting:
        whole = pa.concat_tables([each.replace_schema_metadata(None) for each in waiting])
        writer.write_table(whole, row_group_size=max(len(whole), 1))
        waiting.clear()
