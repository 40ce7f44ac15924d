"""`kraft pipeline metadata`: the metadata log as tables."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kraft.cli.moments import time_ms, whole_number
from kraft.cli.options import JSON, OUTPUT_DIRECTORY, count_of, print_json, print_rows, print_table
from kraft.cli.pipeline_workers import chosen_workers, worker_options
from kraft.config.errors import InvalidConfigError

if TYPE_CHECKING:
    import pyarrow as pa


@click.command("metadata")
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--table", "name", metavar="NAME", help="Print this table [default: all, with their counts of rows].")
@click.option("--at", "moment", metavar="OFFSET|TIME", help="As of this offset, or this time (ISO 8601, UTC).")
@click.option("--out", type=OUTPUT_DIRECTORY,
              help="Write every table there as a Parquet file.")
@worker_options
@JSON
def metadata_command(directory: Path, name: str | None, moment: str | None, out: Path | None, threads: int | None,
                     master: str | None, spark_settings: tuple[str, ...], as_json: bool) -> None:
    """Show the cluster and its history as tables: leaders, ISRs, brokers, configs.

    DIRECTORY is a metadata log (__cluster_metadata-0), of kraft or of Apache Kafka, or the data directory around it.
    Only reads; the node may run.
    """
    from kraft.pipeline.metadata import TABLES, MetadataTask, read_task

    if name is not None and name not in TABLES:
        raise click.BadParameter(f"{name!r} is not one of {', '.join(TABLES)}", param_hint="--table")
    task = MetadataTask(directory.resolve(), **_until(moment))
    with chosen_workers(threads, master, spark_settings) as workers:
        (_, found), = workers.run(read_task, [task])
    if out is not None:
        import pyarrow.parquet as pq

        out.mkdir(parents=True, exist_ok=True)
        for each, table in found.items():
            pq.write_table(table, out / f"{each}.parquet")
    if name is None:
        rows = [(each, len(table), table.column_names) for each, table in found.items()]
        if as_json:
            print_json({"table": each, "rows": count, "columns": columns} for each, count, columns in rows)
        else:
            print_table(("table", "rows", "columns"), rows)
            if out is not None:
                click.echo(f"{count_of(len(rows), 'file')} in {out}")
        return
    _print(found[name], as_json)


def _print(table: "pa.Table", as_json: bool) -> None:
    print_rows(as_json, table.to_pylist(), table.column_names,
               [[_text(value) for value in row.values()] for row in table.to_pylist()])


def _text(value: object) -> object:
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z") if isinstance(value, datetime) else value


def _until(moment: str | None) -> dict[str, Any]:
    if moment is None:
        return {}
    offset = whole_number(moment)
    try:
        return {"until_ms": time_ms("--at", moment)} if offset is None else {"until_offset": offset}
    except InvalidConfigError as error:
        raise click.UsageError(str(error)) from error
