"""`kraft bench`: loads any cluster that speaks Kafka's protocol and measures it."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource
from rich.console import Console
from rich.table import Table

from kraft.cli.bench_limits import check, search
from kraft.cli.bench_options import load_options, prepare, workload_of, workload_options
from kraft.cli.bench_progress import measured, refuse_log
from kraft.cli.client_config import CLIENT_CONFIG
from kraft.cli.command import kraft
from kraft.cli.number_types import IntRange
from kraft.cli.options import BOOTSTRAP, print_json
from kraft.client import Cluster
from kraft.client.security import PLAINTEXT
from kraft.load.compare import RATIO_NOTE, Ratio, compare
from kraft.load.measure import Measurement, cpu_seconds
from kraft.load.report import html_report
from kraft.load.workload import KINDS

# Permitted shortfall of a run below its wanted rate, and the time that a run loses at its end at any rate.
RATE_TOLERANCE: Final = 0.05
RATE_GRACE_SECONDS: Final = 0.25
BUSY: Final = 0.9


@kraft.group("bench")
def bench() -> None:
    """Load any Kafka cluster and measure it: latency from the time at which a request was due, CPU time with --pid."""


bench.add_command(check)
bench.add_command(search)


def _single(kind: str, text: str) -> None:
    """Register `kraft bench KIND`."""
    @bench.command(kind, help=text)
    @BOOTSTRAP
    @click.option("--pid", "pids", type=IntRange(1), multiple=True,
                  help="Process of the server on this machine: its CPU time. Again for each node of a cluster.")
    @workload_options
    def command(bootstrap: str, pids: tuple[int, ...], **options: Any) -> None:
        workload = workload_of(kind, options)
        cpu_seconds(pids)                      # a missing process is reported before the load starts
        with Cluster(bootstrap) as cluster:
            prepare(workload, cluster, options)
            run = measured(workload, cluster, options, pids)
        _write(options, f"kraft bench {kind}", [(bootstrap, run)], [])
        if not options["as_json"]:
            _print_run(bootstrap, run)
        _end([(bootstrap, run)])


_single("ping", "ApiVersions requests: the cost of a request itself.")
_single("produce", "One batch per request, to one partition per connection.")
_single("fetch", "Read partitions from their start, repeatedly.")
_single("end-to-end", "Produce and read at the same time: the time from when a batch was due to its arrival.")


@bench.command("commit")
@BOOTSTRAP
@click.option("--pid", "pids", type=IntRange(1), multiple=True,
              help="Process of a controller on this machine: its CPU time. Again for each of them.")
@click.option("--local", type=IntRange(1, 9), metavar="CONTROLLERS",
              help="Start a quorum of so many controllers on this machine, and measure that.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False, exists=True),
              help="Directory on the disk of the local quorum [default: the system's for temporary files].")
@load_options
@click.pass_context
def commit_command(context: click.Context, /, bootstrap: str, pids: tuple[int, ...], local: int | None,
                   data: Path | None, **options: Any) -> None:
    """Commits of the metadata quorum: one record per request, answered when a majority has it.

    A request changes a quota of a client id that no client has. The quotas are removed at the end. --bootstrap may name
    controllers, whose leader is then loaded directly, or brokers, which forward each request to it.
    """
    workload = workload_of("commit", options)
    given = [name for name in ("bootstrap", "pids")
             if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if local is None and data is not None:
        raise click.UsageError("--data needs --local.")
    if local is not None and given:
        raise click.UsageError(f"--local starts its own quorum: it goes without --{given[0].removesuffix('s')}.")
    cpu_seconds(pids)
    with _quorum(bootstrap, pids, local, data) as (name, cluster, processes):
        prepare(workload, cluster, options)
        run = measured(workload, cluster, options, processes)
    _write(options, "kraft bench commit", [(name, run)], [])
    if not options["as_json"]:
        _print_run(name, run)
    _end([(name, run)])


@contextmanager
def _quorum(bootstrap: str, pids: tuple[int, ...], local: int | None,
            data: Path | None) -> Iterator[tuple[str, Cluster, tuple[int, ...]]]:
    """Yield the name, a client and the processes of the quorum, which is started when it is a local one."""
    if local is None:
        with Cluster(bootstrap) as cluster:
            yield bootstrap, cluster, pids
        return
    from kraft.local.cluster import LocalCluster

    with (tempfile.TemporaryDirectory(prefix="kraft-bench-", dir=data) as directory,
          LocalCluster(Path(directory).absolute(), brokers=0, controllers=local) as nodes):
        nodes.start()
        with Cluster(nodes.controller_bootstrap, security=PLAINTEXT) as cluster:
            yield f"{local} local controller(s)", cluster, tuple(each.pid for each in nodes.running if each.pid)


@bench.command("compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--pid-a", "pids_a", type=IntRange(1), multiple=True, help="Process of A on this machine.")
@click.option("--pid-b", "pids_b", type=IntRange(1), multiple=True, help="Process of B on this machine.")
@click.option("--pairs", default=5, show_default=True, type=IntRange(1), help="Number of pairs of runs.")
@CLIENT_CONFIG
@workload_options
def compare_command(a: str, b: str, kind: str, pids_a: tuple[int, ...], pids_b: tuple[int, ...], pairs: int,
                    **options: Any) -> None:
    """Run one workload alternately on the clusters A and B (host:port), and print ratios with their confidence."""
    refuse_log(options)
    workload = workload_of(kind, options)
    cpu_seconds((*pids_a, *pids_b))
    runs: list[tuple[Measurement, Measurement]] = []
    with Cluster(a) as cluster_a, Cluster(b) as cluster_b:
        for cluster in (cluster_a, cluster_b):
            prepare(workload, cluster, options)
        for turn in range(pairs):
            # The order alternates, so that neither cluster always starts in the state that the other left.
            order = [(cluster_a, pids_a), (cluster_b, pids_b)]
            found = [measured(workload, cluster, options, pids, f"pair {turn + 1} of {pairs}")
                     for cluster, pids in (order if turn % 2 == 0 else reversed(order))]
            runs.append((found[0], found[1]) if turn % 2 == 0 else (found[1], found[0]))
    named = [(f"{name} {turn + 1}", run) for turn, pair in enumerate(runs)
             for name, run in zip(("A", "B"), pair, strict=True)]
    ratios = compare(runs, options["seed"])
    _write(options, f"kraft bench compare: {kind}, A = {a}, B = {b}", named, ratios)
    if not options["as_json"]:
        _print_ratios(ratios)
    _end(named)


def _end(runs: list[tuple[str, Measurement]]) -> None:
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
    return None


def _write(options: dict[str, Any], title: str, runs: list[tuple[str, Measurement]], ratios: list[Ratio]) -> None:
    found: dict[str, Any] = {"runs": [{"name": name, **run.as_dict()} for name, run in runs]}
    if ratios:
        found["ratios"] = [ratio._asdict() for ratio in ratios]
    if options["as_json"]:
        print_json([found])
    if (file := options["output_file"]) is not None:
        file.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    if (file := options["html_file"]) is not None:
        file.write_text(html_report(title, runs, ratios), "utf-8")


def _print_run(name: str, run: Measurement) -> None:
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
    if run.durability:
        table.add_row("durability", run.durability)
    table.add_row("errors", f"{run.errors:,}{f' ({run.first_error})' if run.first_error else ''}")
    Console(stderr=False).print(table)


def _print_ratios(ratios: list[Ratio]) -> None:
    table = Table("figure", "A", "B", "A / B", "95 % interval", caption=RATIO_NOTE, caption_justify="left")
    for each in ratios:
        table.add_row(each.figure, f"{each.a:,.1f}", f"{each.b:,.1f}", f"{each.ratio:.3f}", each.interval_text)
    Console().print(table)


def _percentile(point: str) -> str:
    return point if point in ("max", "mean") else f"p{point}"
