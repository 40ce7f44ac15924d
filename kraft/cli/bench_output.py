"""Results of `kraft bench`: tables, files, and what a run did not reach."""

import json
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from kraft.cli.options import print_json
from kraft.load.compare import RATIO_NOTE, Ratio
from kraft.load.measure import Measurement
from kraft.load.report import html_report, loop_of

# Permitted shortfall of a run below its wanted rate, and the time that a run loses at its end at any rate.
RATE_TOLERANCE: Final = 0.05
RATE_GRACE_SECONDS: Final = 0.25
BUSY: Final = 0.9


def end(runs: list[tuple[str, Measurement]]) -> None:
    """Report problems of runs on standard error, and exit with 1 when there are any."""
    found = [f"{name}: {shortfall}" for name, run in runs if (shortfall := shortfall_of(run)) is not None]
    for text in found:
        click.echo(f"kraft: {text}", err=True)
    if found:
        raise click.exceptions.Exit(1)


def shortfall_of(run: Measurement) -> str | None:
    """Describe the part of its task that a run did not do; None when it did all."""
    if run.errors:
        return f"{run.errors:,} of {run.requests:,} requests were refused ({run.first_error})"
    rate, kind = float(run.workload["rate"]), run.workload["kind"]
    due = rate * max(0.0, run.seconds - RATE_GRACE_SECONDS)
    if run.requests < due * (1 - RATE_TOLERANCE):
        busy = run.generator_busy or 0.0
        side = f"the load generator, whose thread computed {busy:.0%} of the time" if busy >= BUSY else \
            (f"the server or the way to it: the load generator computed {busy:.0%} of the time, and waited for replies "
             f"to the {run.workload['in_flight']} request(s) in flight on each connection")
        return f"{rate:,.0f} requests/s were due and {run.requests_per_second:,.0f} were reached; the limit was {side}"
    if not run.requests:
        return f"no request was answered within {run.seconds:g} s"
    if kind == "fetch" and not run.records_per_second:
        return f"topic {run.workload['topic']}: there is no record to read (--fill-bytes appends some)"
    if run.backlog and run.backlog["drain_seconds"] >= run.backlog["limit_seconds"]:
        return (f"the backlog was not drained in {run.backlog['limit_seconds']:g} s: "
                f"{run.backlog['records_left']:,.0f} records are unread")
    return None


def write(options: dict[str, Any], title: str, runs: list[tuple[str, Measurement]], ratios: list[Ratio]) -> None:
    """Print the figures as JSON, and write files, as far as the options want it."""
    found: dict[str, Any] = {"runs": [{"name": name, **run.as_dict()} for name, run in runs]}
    if ratios:
        found["ratios"] = [ratio._asdict() for ratio in ratios]
    if options["as_json"]:
        print_json([found])
    if (file := options["output_file"]) is not None:
        file.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    if (file := options["html_file"]) is not None:
        file.write_text(html_report(title, runs, ratios), "utf-8")


def print_run(name: str, run: Measurement) -> None:
    """Print a run as a table."""
    table = Table(show_header=False, title=f"{run.workload['kind']} on {name}", title_justify="left")
    table.add_row("requests", f"{run.requests_per_second:,.0f}/s ({run.requests:,} in {run.seconds:.1f} s)")
    if run.workload["kind"] not in ("ping", "commit"):
        table.add_row("records", f"{run.records_per_second:,.0f}/s")
    table.add_row("bytes", f"{run.megabytes_per_second:,.1f} MB/s")
    for label, latency in (("latency", run.latency_us), ("end to end", run.end_to_end_us or {})):
        if latency:
            table.add_row(f"{label} us", ", ".join(f"{_percentile(point)} {value:,.0f}"
                                                   for point, value in latency.items()))
    if run.cpu_us_per_request is not None:
        table.add_row("server CPU", f"{run.cpu_us_per_request:.2f} us/request, "
                                    f"{run.cpu_seconds_per_gigabyte or 0:.2f} s/GB, "
                                    f"{run.resident_megabytes or 0:.0f} MB resident")
    table.add_row("samples", f"{run.samples:,}"
                             f"{f', end to end {run.end_to_end_samples:,}' if run.end_to_end_samples else ''}")
    if run.processes > 1:
        table.add_row("processes", f"{run.processes} of the load generator")
    if run.backlog:
        table.add_row("backlog", f"{run.backlog['records']:,.0f} records, {run.backlog['bytes'] / 1e6:,.1f} MB, "
                                 f"built in {run.backlog['build_seconds']:,.1f} s")
        table.add_row("drained", f"in {run.backlog['drain_seconds']:,.2f} s, {run.records_read / run.seconds:,.0f} "
                                 f"records/s and {run.record_bytes_read / run.seconds / 1e6:,.1f} MB/s read")
    table.add_row("loop", loop_of(run))
    if run.durability:
        table.add_row("durability", run.durability)
    table.add_row("run", f"{run.date} on {run.host}, kraft {run.version}"
                         f"{f', metadata.version {run.metadata_version}' if run.metadata_version else ''}")
    table.add_row("errors", f"{run.errors:,}{f' ({run.first_error})' if run.first_error else ''}")
    Console(stderr=False).print(table)


def print_ratios(ratios: list[Ratio]) -> None:
    """Print the ratios of a comparison as a table."""
    table = Table("figure", "A", "B", "A / B", "95 % interval", caption=RATIO_NOTE, caption_justify="left")
    for each in ratios:
        table.add_row(each.figure, f"{each.a:,.1f}", f"{each.b:,.1f}", f"{each.ratio:.3f}", each.interval_text)
    Console().print(table)


def _percentile(point: str) -> str:
    return point if point in ("max", "mean") else f"p{point}"
