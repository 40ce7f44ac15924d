"""`kraft pipeline ingest`: rows of files into records of a topic."""

import json
from pathlib import Path

import click

from kraft.cli.options import BOOTSTRAP, JSON, OUTPUT_DIRECTORY, TIMEOUT, count_of, print_json
from kraft.cli.pipeline_workers import chosen_workers, worker_options
from kraft.cli.progress import progress_bar
from kraft.cli.server_config import parse_assignments


@click.command("ingest")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--topic", required=True, help="It must exist.")
@click.option("--job", required=True, type=OUTPUT_DIRECTORY,
              help="Directory of this job's plan and progress; the same again to finish what was interrupted.")
@click.option("--value", default="", metavar="COLUMN", help="The records' values [default: the row as JSON].")
@click.option("--key", default="", metavar="COLUMN", help="The records' keys, which also choose the partition.")
@click.option("--timestamp", default="", metavar="COLUMN", help="The records' times [default: now].")
@click.option("--partition", default="", metavar="COLUMN", help="The records' partitions [default: by key].")
@click.option("--type", "types", multiple=True, metavar="COLUMN=TYPE",
              help="The type of a column, as Arrow names it; may be given again [default: CSV has texts].")
@click.option("--types", "types_file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="The same for several columns: a file with a JSON object.")
@click.option("--on-bad-row", type=click.Choice(["fail", "dead-letter"]), default="fail", show_default=True,
              help="fail: before any row is written; dead-letter: write the other rows, and these to JOB/bad.")
@click.option("--transactions/--no-transactions", default=None,
              help="Write in transactions, or by sequence numbers [default: as the cluster allows].")
@click.option("--codec", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="zstd",
              show_default=True)
@BOOTSTRAP
@TIMEOUT
@worker_options
@JSON
def ingest_command(paths: tuple[Path, ...], topic: str, job: Path, value: str, key: str, timestamp: str,
                   partition: str, types: tuple[str, ...], types_file: Path | None, on_bad_row: str,
                   transactions: bool | None, codec: str, bootstrap: str, timeout: float, threads: int | None,
                   master: str | None, spark_settings: tuple[str, ...], as_json: bool) -> None:
    """Write the rows of Parquet, CSV or JSON files (one object per line) to a topic, each row exactly once.

    FILE may be a directory, which means all files below it. After any crash, the same command finishes the job: no row
    is missing or duplicated. Files must not change until then. Every value is written exactly as in the file; a line of
    a JSON file is written byte for byte.
    """
    from kraft.client import Cluster
    from kraft.pipeline.ingest import bad_rows, open_job, run_job
    from kraft.pipeline.row_files import files_in
    from kraft.pipeline.row_records import Columns

    files = files_in(paths)
    with Cluster(bootstrap, timeout=timeout) as cluster:
        plan = open_job(job, cluster, files, topic, Columns(value, key, timestamp, partition),
                        types=_types(types, types_file), codec=codec, transactions=transactions)
    total = sum(split.file.size_bytes for split in plan.splits)
    with chosen_workers(threads, master, spark_settings) as workers, progress_bar(
            f"ingest into {topic}", total) as progress:
        done = run_job(job, bootstrap, plan, workers, progress, on_bad_row=on_bad_row)
    if as_json:
        print_json([{"topic": topic, "files": len(files), "splits": len(plan.splits), "rows": done.rows,
                     "rows_before": done.before, "bad_rows": bad_rows(job)}])
    else:
        before = f", {count_of(done.before, 'row')} of them before" if done.before else ""
        click.echo(f"{count_of(done.rows, 'row')} of {count_of(len(files), 'file')} are in {topic}{before}")
        if bad := bad_rows(job):
            click.echo(f"{count_of(bad, 'row')} cannot be records: {job / 'bad'}")


def _types(assignments: tuple[str, ...], file: Path | None) -> dict[str, str]:
    found: dict[str, str] = {}
    if file is not None:
        try:
            given = json.loads(file.read_text("utf-8"))
        except ValueError as error:
            raise click.BadParameter(f"{file}: not JSON: {error}", param_hint="--types") from error
        if not isinstance(given, dict) or not all(isinstance(kind, str) for kind in given.values()):
            raise click.BadParameter(f"{file}: not an object of columns and types", param_hint="--types")
        found |= given
    return found | parse_assignments(assignments, "--type")
