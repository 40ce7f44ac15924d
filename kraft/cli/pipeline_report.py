"""`kraft pipeline report`: results of benchmarks and recordings as figures and a page."""

from pathlib import Path

import click

from kraft.cli.options import JSON, OUTPUT_FILE, print_rows
from kraft.cli.pipeline_workers import chosen_workers, worker_options


@click.command("report")
@click.argument("files", metavar="FILE...", nargs=-1, required=True,
                type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--html", "page_file", type=OUTPUT_FILE,
              help="Write a page with plots as one HTML file.")
@click.option("--title", default="kraft pipeline report", show_default=True)
@worker_options
@JSON
def report_command(files: tuple[Path, ...], page_file: Path | None, title: str, threads: int | None,
                   master: str | None, spark_settings: tuple[str, ...], as_json: bool) -> None:
    """Show results of `kraft bench --output` and recordings of `kraft quorum timeline --json` together.

    With --html the first result is compared with each of the others, run by run, where their workloads are the same.
    """
    from kraft.pipeline.report import mismatches, page, read_inputs, summary

    with chosen_workers(threads, master, spark_settings) as workers:
        inputs = read_inputs([file.resolve() for file in files], workers)
    for first, other, settings in mismatches(inputs):
        differing = ", ".join(f"{name} {a} and {b}" for name, a, b in settings)
        click.echo(f"kraft: {first} and {other} ran different workloads and are not compared: {differing}", err=True)
    rows = summary(inputs)
    print_rows(as_json, rows, ("source", "figure", "runs", "median", "low", "high"),
               [(row["source"], row["figure"], row["runs"],
                 *(f"{row[name]:,.1f}" for name in ("median", "low", "high"))) for row in rows])
    if page_file is not None:
        page_file.write_text(page(title, inputs), "utf-8")
