"""Registration of a table as a Delta or an Iceberg table, too: the same Parquet files, registered by those formats' own
libraries.

Kraft's own commit remains the decision. When its files are in their places, they are registered in the other format, in
one transaction that carries the commit's number. After a crash, registration is repeated only for commits above the
last number present. So each commit is registered once, and readers of the other format see all of it or nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from kraft.pipeline.decoders import make_decoder
from kraft.pipeline.parquet import NO_VALUE, FileSettings, schema_of
from kraft.pipeline.table import PRIVATE, Commit, DataFile
from kraft_native.base.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS: Final = ("parquet", "delta", "iceberg")
PACKAGES: Final = {"delta": "deltalake", "iceberg": "pyiceberg"}
INSTALLED: Final = {"delta": "deltalake", "iceberg": "'pyiceberg[sql-sqlite]'"}
LEVELS: Final = {"none": ("topic",), "day": ("topic", "day"), "hour": ("topic", "day", "hour")}
APPLICATION: Final = "kraft-export"
NUMBER: Final = "kraft.commit"
NAMESPACE: Final = "kraft"

Register = Callable[[Commit], None]


def register_of(kind: str, table: Path, settings: FileSettings) -> Register | None:
    """Return the function that registers a commit in the format; None for Parquet alone. `InvalidArgumentError` when
    its library is missing."""
    if kind == "parquet":
        return None
    if find_spec(PACKAGES[kind]) is None:
        raise InvalidArgumentError(f"--format {kind} needs the package {PACKAGES[kind]}: pip install {INSTALLED[kind]}")
    schema = schema_of(settings, make_decoder(settings.key), make_decoder(settings.value))
    if kind == "delta":
        return partial(add_to_delta, table.resolve(), schema, settings.by)
    return partial(add_to_iceberg, table.resolve(), schema)


def levels_of(path: str) -> dict[str, str | None]:
    """Return the levels in a file's directories: topic, day and hour; None for records without a time."""
    pairs = (part.partition("=") for part in path.split("/")[:-1])
    return {name: None if value == NO_VALUE else unquote(value) for name, _, value in pairs}


def add_to_delta(table: Path, schema: pa.Schema, by: str, commit: Commit) -> None:
    """Add a transaction to the Delta table in the directory itself, which has the directory's partitioning."""
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, Transaction
    from deltalake.transaction import AddAction, RemoveAction

    levels = LEVELS[by]
    whole = pa.schema([*schema, *(pa.field(name, pa.string()) for name in levels)])
    found = DeltaTable.create(table, whole, mode="ignore", partition_by=list(levels), name=APPLICATION)
    last = found.transaction_version(APPLICATION)
    if last is not None and last >= commit.number:
        return
    now, changes = int(time.time() * 1_000), commit.removed == ()
    actions: list[Any] = [AddAction(file.path, file.size_bytes, levels_of(file.path), now, changes,
                                    json.dumps({"numRecords": file.rows})) for file in commit.files]
    actions += [RemoveAction(path, changes, now, partition_values=levels_of(path)) for path in commit.removed]
    found.create_write_transaction(actions, "append", found.schema(), list(levels), commit_properties=CommitProperties(
        app_transactions=[Transaction(APPLICATION, commit.number)], custom_metadata={NUMBER: str(commit.number)}))


def add_to_iceberg(table: Path, schema: pa.Schema, commit: Commit) -> None:
    """Add a snapshot to an Iceberg table for each topic, in a catalog (SQLite) below the directory."""
    from pyiceberg.catalog.sql import SqlCatalog

    private = table / PRIVATE
    catalog = SqlCatalog(NAMESPACE, uri=f"sqlite:///{private / 'iceberg.db'}")
    try:
        catalog.create_namespace_if_not_exists(NAMESPACE)
        for topic, files in _by_topic(commit.files):
            found = catalog.create_table_if_not_exists((NAMESPACE, topic), schema,
                                                       location=f"file://{private / 'iceberg' / topic}")
            if int(dict(found.properties).get(NUMBER, -1)) < commit.number:
                with found.transaction() as transaction:
                    transaction.add_files([str(table / file.path) for file in files])
                    transaction.set_properties({NUMBER: str(commit.number)})
    finally:
        catalog.close()


def _by_topic(files: Iterable[DataFile]) -> list[tuple[str, list[DataFile]]]:
    found: dict[str, list[DataFile]] = {}
    for file in files:
        found.setdefault(str(levels_of(file.path)["topic"]), []).append(file)
    return sorted(found.items())
