"""`kraft pipeline ingest`: files of rows become records of a topic."""

from pathlib import Path

import click

from kraft.cli.options import BOOTSTRAP, JSON, OUTPUT_DIRECTORY, TIMEOUT, count_of, print_json
from kraft.cli.pipeline_workers import chosen_workers, worker_options
from kraft.cli.progress import progress_bar


@click.command("ingest")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--topic", required=True, help="It must exist.")
@click.option("--job", required=True, type=OUTPUT_DIRECTORY,
              help="Directory of this job's plan and progress; the same again to finish what was interrupted.")
@click.option("--value", default="", metavar="COLUMN", help="The records' values [default: the row as JSON].")
@click.option("--key", default="", metavar="COLUMN", help="The records' keys, which also choose the partition.")
@click.option("--timestamp", default="", metavar="COLUMN", help="The records' times [default: now].")
@click.option("--partition", default="", metavar="COLUMN", help="The records' partitions [default: by key].")
@click.option("--codec", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="zstd",
              show_default=True)
@BOOTSTRAP
@TIMEOUT
@worker_options
@JSON
def ingest_command(paths: tuple[Path, ...], topic: str, job: Path, value: str, key: str, timestamp: str,
                   partition: str, codec: str, bootstrap: str, timeout: float, threads: int | None,
                   master: str | None, spark_settings: tuple[str, ...], as_json: bool) -> None:
    """Write the rows of Parquet, CSV or JSON files (one object per line) to a topic, each row exactly once.

    FILE may be a directory: all files below it. Whatever dies, the same command again finishes the job, with no row
    missing and none twice. Files must stay as they are until then.
    """
    from kraft.client import Cluster
    from kraft.pipeline.ingest import Columns, open_job, run_job
    from kraft.pipeline.row_files import files_in

    files = files_in(paths)
    with Cluster(bootstrap, timeout=timeout) as cluster:
        plan = open_job(job, cluster, files, topic, Columns(value, key, timestamp, partition), codec=codec)
    total = sum(split.file.size_bytes for split in plan.splits)
    with chosen_workers(threads, master, spark_settings) as workers, progress_bar(
            f"ingest into {topic}", total) as progress:
        done = run_job(job, bootstrap, plan, workers, progress)
    if as_json:
        print_json([{"topic": topic, "files": len(files), "splits": len(plan.splits), "rows": done.rows,
                     "rows_before": done.before}])
    else:
        before = f", {count_of(done.before, 'row')} of them before" if done.before else ""
        click.echo(f"{count_of(done.rows, 'row')} of {count_of(len(files), 'file')} are in {topic}{before}")
