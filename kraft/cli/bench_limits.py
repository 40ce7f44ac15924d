"""`kraft bench check` and `kraft bench search`: does a cluster bear a load, and which is the highest that it bears."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource
from rich.console import Console
from rich.table import Table

from kraft.cli.bench_options import PROGRESS, prepare, workload_of, workload_options
from kraft.cli.bench_progress import measured, refuse_log, watching
from kraft.cli.number_types import NUMBER, IntRange
from kraft.cli.options import BOOTSTRAP, Seconds, print_json
from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.load.checks import LOADS, verdicts
from kraft.load.measure import Measurement, measure
from kraft.load.report import html_report
from kraft.load.search import Limit, RateSearch
from kraft.load.workload import KINDS

SEARCH_IN_FLIGHT: Final = 64
PERCENTILES: Final = ("50", "90", "99", "99.9")


@click.command("check")
@BOOTSTRAP
@click.option("--load", "name", type=click.Choice(list(LOADS)), default="small", show_default=True,
              help="About 1, 16, 65 or 200 MB/s of batches with acks=all.")
@click.option("--topic", default="kraft-bench-check", show_default=True, help="Created when it does not exist.")
@click.option("--partitions", type=IntRange(1), help="Partitions of a new topic [default: the load's connections].")
@click.option("--seconds", type=Seconds(), default=60.0, show_default=True, help="Measured time.")
@PROGRESS
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(bootstrap: str, name: str, topic: str, partitions: int | None, seconds: float, progress: bool | None,
          as_json: bool) -> None:
    """Put a named load on the cluster and print PASS or FAIL for each criterion. Exits with 1 when one failed."""
    load = LOADS[name]
    workload = load.workload(topic)
    with Cluster(bootstrap) as cluster:
        create_topic(cluster, topic, partitions or load.connections)
        text = f"{name}: {load.rate:,.0f} requests/s, {load.megabytes_per_second:,.0f} MB/s"
        with watching(text, {"hdr_log": None, "progress": progress}) as report:
            run = measure(workload, cluster, seconds=seconds, warmup=min(2.0, seconds), report=report)
    found = verdicts(load, run)
    passed = all(each.passed for each in found)
    if as_json:
        print_json([{"load": name, "passed": passed, "criteria": [each._asdict() for each in found],
                     "run": run.as_dict()}])
    else:
        for each in found:
            click.echo(f"{'PASS' if each.passed else 'FAIL'}: {each.text}")
        click.echo(f"{'PASS' if passed else 'FAIL'}: {name}, on {bootstrap}")
    if not passed:
        raise click.exceptions.Exit(1)


@click.command("search")
@BOOTSTRAP
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--limit-ms", type=NUMBER, required=True, help="Highest latency, from the time when a request was due.")
@click.option("--percentile", type=click.Choice(PERCENTILES), default="99", show_default=True,
              help="Percentile of the latency.")
@click.option("--from", "first", type=NUMBER, default=100.0, show_default=True,
              help="First rate, in requests per second.")
@click.option("--precision", type=NUMBER, default=0.05, show_default=True,
              help="The search ends when a rate higher by this share fails.")
@workload_options
@click.pass_context
def search(context: click.Context, /, bootstrap: str, kind: str, limit_ms: float, percentile: str, first: float,
           precision: float, **options: Any) -> None:
    """Find the highest rate whose latency stays below a limit, in runs of --seconds each. --rate has no effect;
    --in-flight is 64 by default. The rate that is found is measured again, three times as long: one that fails
    then is no answer. Exits with 1 when even one request per second is too much."""
    refuse_log(options)
    if context.get_parameter_source("in_flight") is ParameterSource.DEFAULT and kind != "fetch":
        options["in_flight"] = SEARCH_IN_FLIGHT
    limit, found = Limit(float(percentile), limit_ms), RateSearch(first, precision)
    workload = workload_of(kind, {**options, "rate": first})
    runs: list[Measurement] = []
    confirmed: Measurement | None = None
    with Cluster(bootstrap) as cluster:
        prepare(workload, cluster, options)

        def probe(rate: float, seconds: float) -> Measurement:
            run = measured(replace(workload, rate=rate), cluster, options, text=f"{rate:,.0f} requests/s",
                           seconds=seconds)
            runs.append(run)
            found.note(rate, is_good=limit.is_met(run))
            return run

        while confirmed is None:
            while (rate := found.next_rate()) is not None:
                probe(rate, options["seconds"])
            if found.best is None:
                break
            run = probe(found.best, 3 * options["seconds"])
            confirmed = run if limit.is_met(run) else None
    _write(runs, limit, confirmed, options)
    if confirmed is None:
        raise click.ClickException(f"no rate keeps p{percentile} below {limit_ms:g} ms")


def _write(runs: list[Measurement], limit: Limit, confirmed: Measurement | None, options: dict[str, Any]) -> None:
    report = {"limit": {"percentile": limit.percentile, "milliseconds": limit.milliseconds},
              "rate": None if confirmed is None else confirmed.workload["rate"],
              "runs": [run.as_dict() for run in runs]}
    file: Path | None = options["output_file"]
    if file is not None:
        file.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    if (page := options["html_file"]) is not None:
        named = [(f"{float(run.workload['rate']):,.0f}/s", run) for run in runs]
        page.write_text(html_report("kraft bench search", named, []), "utf-8")
    if options["as_json"]:
        print_json([report])
        return
    table = Table("requests/s due", "made", "MB/s", f"p{limit.percentile:g} ms", "errors", "within the limit")
    for run in runs:
        value = limit.value_ms(run)
        table.add_row(f"{float(run.workload['rate']):,.0f}", f"{run.requests_per_second:,.0f}",
                      f"{run.megabytes_per_second:,.1f}", "" if value is None else f"{value:,.2f}", f"{run.errors:,}",
                      "yes" if limit.is_met(run) else "no")
    console = Console()
    console.print(table)
    if confirmed is not None:
        console.print(f"{float(confirmed.workload['rate']):,.0f} requests/s, "
                      f"{confirmed.megabytes_per_second:,.1f} MB/s, "
                      f"with p{limit.percentile:g} below {limit.milliseconds:g} ms", highlight=False)
