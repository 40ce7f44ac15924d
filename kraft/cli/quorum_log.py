"""`kraft quorum log`: the records of a metadata log or of one of its snapshots, ours or Apache Kafka's."""

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from kraft.cli.log_dump import Range, batches
from kraft.cli.number_types import IntRange
from kraft.cli.options import JSON, Fields
from kraft.cli.partition import open_partition
from kraft.metadata.control_records import control_message
from kraft.protocol.ids import id_text
from kraft.protocol.message import Struct
from kraft.protocol.record_frames import decode_record
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME
from kraft_native.base.errors import KraftError
from kraft_native.batch.batch import Batch, walk
from kraft_native.batch.control import control_records
from kraft_native.batch.records import records
from kraft_native.file import file_io


@click.command("log")
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@click.option("--from", "start", type=IntRange(0), default=0, help="The first offset.")
@click.option("--to", "end", type=IntRange(0), help="The offset behind the last.")
@click.option("--control", "only_control", is_flag=True, help="Only control records: leaders, voters, snapshots.")
@JSON
def log_command(path: Path, start: int, end: int | None, only_control: bool, as_json: bool) -> None:
    """Show the records of a metadata log with offset and epoch, control records included, committed or not.

    PATH is the log's directory, the data directory around it, or a snapshot (*.checkpoint). Reads only; exit code 1
    when something cannot be read.
    """
    damage: list[str] = []
    for batch in _batches(path, Range(start, end, None), damage):
        if only_control and not batch.is_control:
            continue
        for fields in batch_rows(batch, damage):
            if start <= fields["offset"] and (end is None or fields["offset"] < end):
                click.echo(json.dumps(fields, ensure_ascii=False) if as_json else row_text(fields))
    for text in damage:
        click.echo(text, err=True)
    if damage:
        raise click.exceptions.Exit(1)


def _batches(path: Path, wanted: Range, damage: list[str]) -> Iterator[Batch]:
    if path.is_file():
        yield from walk(file_io.read_file(path))
        return
    inner = path / DIRECTORY_NAME
    partition = open_partition(inner if inner.is_dir() else path)
    for _, _, batch in batches(partition, wanted, damage.append):
        yield batch


def batch_rows(batch: Batch, damage: list[str]) -> Iterator[Fields]:
    """Return the records of one batch: offset, epoch, time, type, version, data. Other records count as damage."""
    found = [(each.offset, each.timestamp_ms, each.type, each.value) for each in control_records(batch)] if (
        batch.is_control) else [(each.offset, each.timestamp_ms, None, each.value) for each in records(batch)]
    for offset, timestamp_ms, kind, value in found:
        try:
            if kind is None:
                message, version = decode_record(value or b"")
            else:
                message, version = control_message(kind, value or b""), int.from_bytes((value or b"")[:2], "big")
        except KraftError as error:
            damage.append(f"offset {offset}: {error}")
            continue
        yield {"offset": offset, "epoch": batch.leader_epoch, "timestamp_ms": timestamp_ms, "control": kind is not None,
               "type": type(message).__name__, "version": version, "data": plain(message)}


def plain(value: object) -> Any:
    """Convert a message to JSON, with ids and bytes in base64 as Kafka writes them."""
    if isinstance(value, Struct):
        return {name: plain(getattr(value, name)) for name in value.__slots__ if name != "unknown_tags"}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, UUID):
        return id_text(value)
    return b64encode(value).decode() if isinstance(value, bytes) else value


def row_text(fields: Fields) -> str:
    data = " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in fields["data"].items()
                    if value not in (None, []))
    return f"{fields['offset']}@{fields['epoch']} {fields['type']} {data}".rstrip()
