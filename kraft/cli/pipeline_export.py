"""`kraft pipeline export`: topics become a table of Parquet files."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kraft.cli.interrupt import Interrupt
from kraft.cli.number_types import IntRange
from kraft.cli.options import JSON, OUTPUT_DIRECTORY, Seconds, count_of, print_json
from kraft.cli.pipeline_workers import chosen_workers, source_of, source_options, worker_options
from kraft.cli.progress import progress_bar

if TYPE_CHECKING:
    from kraft.pipeline.parquet import FileSettings
    from kraft.pipeline.table import Commit, Table
    from kraft.pipeline.workers import Workers


@click.command("export")
@click.argument("table", type=OUTPUT_DIRECTORY)
@source_options
@click.option("--by", type=click.Choice(["hour", "day", "none"]), default="hour", show_default=True,
              help="What a directory holds, by the records' time.")
@click.option("--codec", type=click.Choice(["zstd", "snappy", "lz4", "gzip", "none"]), default="zstd",
              show_default=True)
@click.option("--format", "lake", type=click.Choice(["parquet", "delta", "iceberg"]), default="parquet",
              show_default=True, help="Also register it as a Delta or an Iceberg table.")
@click.option("--headers", is_flag=True, help="With a column of headers.")
@click.option("--value", "value_format", type=click.Choice(["bytes", "text", "json", "avro", "protobuf"]),
              default="bytes", show_default=True, help="Format of the values.")
@click.option("--schema", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Of json, avro or protobuf (a file descriptor set).")
@click.option("--message", default="", help="The protobuf message's full name.")
@click.option("--skip-bytes", type=IntRange(0), default=0, show_default=True,
              help="In front of every value: 5 for the header of a schema registry.")
@click.option("--keep-undecodable", is_flag=True, help="Keep the bytes of values that cannot be decoded, do not fail.")
@click.option("--batch-records", type=IntRange(1), help="Offsets of one commit at most.")
@click.option("--every", type=Seconds(), metavar="SECONDS",
              help="Continue indefinitely, with a commit that often when there are new records.")
@click.option("--merge-below", type=IntRange(1), metavar="MIB",
              help="At the end, merge files that are smaller into large ones.")
@click.option("--checkpoint", type=OUTPUT_DIRECTORY,
              help="With --master: let Spark's streaming drive the commits, with its checkpoint there.")
@click.option("--allow-loss", is_flag=True, help="Continue when records were deleted before they could be read.")
@worker_options
@JSON
def export_command(table: Path, every: float | None, checkpoint: Path | None, threads: int | None, master: str | None,
                   spark_settings: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Add the records of topics to TABLE, a directory of Parquet files, each record exactly once.

    Continues at the end of the last run, however that ended. Reads committed records from a cluster (--bootstrap) or
    from the files of its logs (--from). Columns: topic, partition, offset, timestamp, key, value.
    """
    from kraft.pipeline.lakes import register_of
    from kraft.pipeline.table import Table, check_table

    check_table(table)
    settings, lake = _settings(options), options["lake"]
    source_of(options)
    if checkpoint is not None and master is None:
        raise click.UsageError("--checkpoint is Spark's: --master says where it runs")
    if lake == "iceberg" and options["merge_below"]:
        raise click.UsageError("--merge-below is not for --format iceberg, whose library adds files and replaces none")
    register = register_of(lake, table, settings)
    with chosen_workers(threads, master, spark_settings) as workers, Table(
            table, _table_settings(settings, lake), register) as opened:
        if checkpoint is not None:
            _stream(opened, settings, workers, options, every, checkpoint, as_json)
        else:
            _run(opened, settings, workers, options, every, as_json)
        if options["merge_below"]:
            from kraft.pipeline.merge import merge_small

            merged = merge_small(opened, settings, options["merge_below"] << 20)
            _print_result(merged, as_json)


def _run(table: "Table", settings: "FileSettings", workers: "Workers", options: dict[str, Any], every: float | None,
         as_json: bool) -> None:
    """Run batches until nothing more exists, or until Ctrl-C, which takes effect between two batches."""
    from kraft.pipeline.export import plan_batch, run_batch
    from kraft.pipeline.origins import origin_of

    source = source_of(options)
    commits = 0
    with Interrupt() as interrupt:
        while True:
            origin = origin_of(source)
            try:
                batch = plan_batch(origin, table.path, table.last(), records_max=options["batch_records"],
                                   allow_loss=options["allow_loss"])
                if batch.spans:
                    total = sum(span.end - span.start for span in batch.spans)
                    with progress_bar(f"export {count_of(total, 'offset')}", batch.size_bytes) as progress:
                        _print_result(run_batch(table, source, settings, workers, batch, progress=progress), as_json)
                    commits += 1
            finally:
                origin.close()
            if not batch.spans:
                if every is None:
                    if not commits:
                        click.echo(f"kraft: {table.path}: nothing new; the table has all records", err=True)
                    return
                interrupt.allow(True)
                time.sleep(every)
                interrupt.allow(False)
            interrupt.check()


def _stream(table: "Table", settings: "FileSettings", workers: "Workers", options: dict[str, Any], every: float | None,
            checkpoint: Path, as_json: bool) -> None:
    """Run Spark's query until it ends because nothing more exists, or until Ctrl-C."""
    from kraft.pipeline.on_spark import SparkWorkers
    from kraft.pipeline.spark_stream import export_stream
    from kraft.pipeline.table import commits

    assert isinstance(workers, SparkWorkers), "--master was given"
    source = source_of(options) | {"failOnDataLoss": str(not options["allow_loss"]).lower()}
    if options["batch_records"]:
        source["maxOffsetsPerTrigger"] = str(options["batch_records"])
    before = table.last()
    query = export_stream(workers.spark, table, source, settings, checkpoint.resolve(), every_seconds=every)
    try:
        query.awaitTermination()
    finally:
        query.stop()
        added = [commit for commit in commits(table.path) if before is None or commit.number > before.number]
        for commit in added:
            _print_result(commit, as_json)
        if not added:
            click.echo(f"kraft: {table.path}: nothing new; the table has all records", err=True)


def _settings(options: dict[str, Any]) -> "FileSettings":
    from kraft.pipeline.decoders import spec_from_files
    from kraft.pipeline.parquet import FileSettings

    value = spec_from_files(options["value_format"], options["schema"], options["message"], options["skip_bytes"])
    return FileSettings(by=options["by"], codec=options["codec"], headers=options["headers"], value=value,
                        on_error="keep" if options["keep_undecodable"] else "fail",
                        time_unit="ms" if options["lake"] == "parquet" else "us")


def _table_settings(settings: "FileSettings", lake: str) -> dict[str, Any]:
    """Return the settings that must not change between runs: they determine the columns, the places of files, and the
    catalog that lists them."""
    return {"lake": None if lake == "parquet" else lake, "by": settings.by, "headers": settings.headers,
            "value": list(settings.value), "key": list(settings.key)}


def _print_result(commit: "Commit | None", as_json: bool) -> None:
    if commit is None:
        return
    rows, size = sum(file.rows for file in commit.files), sum(file.size_bytes for file in commit.files)
    if as_json:
        print_json([{"commit": commit.number, "rows": rows, "bytes": size, "files": len(commit.files),
                     "removed": len(commit.removed), "spans": [span._asdict() for span in commit.spans]}])
    else:
        merged = f" for {len(commit.removed)} smaller ones" if commit.removed else ""
        click.echo(f"commit {commit.number}: {count_of(rows, 'row')} in {count_of(len(commit.files), 'file')}{merged}, "
                   f"{size / 1e6:,.1f} MB")
