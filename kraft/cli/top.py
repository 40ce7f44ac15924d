"""`kraft top`: what a cluster does right now, by broker, topic, group and client."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kraft.cli import scrape, top_cluster, top_metrics
from kraft.cli.cluster import size_text
from kraft.cli.command import kraft
from kraft.cli.number_types import IntRange
from kraft.cli.options import Fields, Seconds, cluster_options, print_json, print_table
from kraft.client import Cluster

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

INTERVAL_SECONDS: Final = 2.0
ROWS: Final = 15
Cells = Sequence[object]


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _size(value: float) -> str:
    return size_text(round(value))


# Title, columns, and the cells of a row; of each part of the report.
PARTS: Final[dict[str, tuple[tuple[str, ...], Callable[[Fields], Cells]]]] = {
    "nodes": (
        ("listener", "requests/s", "records in/s", "in/s", "out/s", "produce p99 ms", "fetch p99 ms", "cpu %", "memory",
         "connections", "loop ms"),
        lambda row: (row["listener"], _rate(row["requests_per_second"]), _rate(row["records_in_per_second"]),
                     _size(row["bytes_in_per_second"]), _size(row["bytes_out_per_second"]), row["produce_p99_ms"],
                     row["fetch_p99_ms"], row["processor_percent"], _size(row["memory_bytes"]), row["connections"],
                     row["loop_delay_ms"])),
    "brokers": (
        ("node", "address", "controller", "leads", "replicas", "not in sync", "records/s", "bytes/s"),
        lambda row: (row["node"], row["address"], row["controller"], row["leads"], row["replicas"],
                     row["under_replicated"], _rate(row["records_per_second"]), _size(row["bytes_per_second"]))),
    "topics": (
        ("topic", "partitions", "not in sync", "size", "records/s", "bytes/s"),
        lambda row: (row["topic"], row["partitions"], row["under_replicated"], _size(row["bytes"]),
                     _rate(row["records_per_second"]), _size(row["bytes_per_second"]))),
    "groups": (
        ("group", "state", "members", "partitions", "lag", "records/s"),
        lambda row: (row["group"], row["state"], row["members"], row["partitions"], row["lag"],
                     _rate(row["records_per_second"]))),
    "clients": (
        ("client", "host", "group", "partitions", "lag", "records/s"),
        lambda row: (row["client"], row["host"], row["group"], row["partitions"], row["lag"],
                     _rate(row["records_per_second"]))),
}


@kraft.command("top")
@click.option("--interval", default=INTERVAL_SECONDS, show_default=True, type=Seconds(),
              help="Seconds between two samples.")
@click.option("--once", is_flag=True, help="Print the rates of one interval as plain tables, and end.")
@click.option("--rows", default=ROWS, show_default=True, type=IntRange(1), help="Rows of each table.")
@scrape.access_options
@cluster_options
def top_command(interval: float, once: bool, rows: int, listeners: tuple[str, ...], metrics_token_file: Path | None,
                metrics_ca: Path | None, bootstrap: str, timeout: float, as_json: bool) -> None:
    """Show rates, lag and sizes by broker, topic, group and client, until Ctrl-C.

    The cluster's protocol says what is written and read, so every Kafka cluster can be watched. Each --metrics adds a
    node of ours with its requests, latencies, processor time and memory. Sizes grow by blocks: bytes per second are of
    use for intervals of seconds. With --json each interval is one object; with --once or a pipe there are plain tables.
    """
    access = scrape.access_of(metrics_token_file, metrics_ca, timeout)
    with Cluster(bootstrap, timeout=timeout) as cluster:
        found = reports(cluster, listeners, access, interval)
        if as_json:
            for report in found:
                print_json([report])
                if once:
                    return
        elif once or not sys.stdout.isatty():
            for report in found:
                print_report(report, rows)
                if once:
                    return
        else:
            show(found, rows)


def reports(cluster: Cluster, listeners: Sequence[str], access: scrape.Access, interval: float) -> Iterator[Fields]:
    """Yield what happened in each interval. Raises what `top_cluster.take` and `scrape.fetch` raise."""
    before, nodes_before = _sample(cluster, listeners, access)
    while True:
        time.sleep(interval)
        now, nodes_now = _sample(cluster, listeners, access)
        yield {
            "seconds": round(now.time_s - before.time_s, 3),
            "nodes": [top_metrics.node(each, nodes_before[each], nodes_now[each]) for each in listeners],
            "brokers": top_cluster.brokers(before, now), "topics": top_cluster.topics(before, now),
            "groups": top_cluster.groups(before, now), "clients": top_cluster.clients(before, now),
        }
        before, nodes_before = now, nodes_now


def _sample(cluster: Cluster, listeners: Sequence[str],
            access: scrape.Access) -> tuple[top_cluster.Sample, dict[str, top_metrics.Scrape]]:
    taken = top_cluster.take(cluster, time.monotonic())
    scraped = {each: top_metrics.parse(scrape.fetch(each, "/metrics", access), time.monotonic()) for each in listeners}
    return taken, scraped


def print_report(report: Fields, rows: int) -> None:
    """Print the parts that have rows as plain tables."""
    for title, columns, cells, more in _tables(report, rows):
        print_table(columns, cells, f"{title}{more}")
        click.echo()


def show(found: Iterator[Fields], rows: int) -> None:
    """Redraw the terminal with each report, until Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    click.echo("measuring...", err=True)
    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        for report in found:
            live.update(drawn(report, rows), refresh=True)


def drawn(report: Fields, rows: int) -> "Group":
    """Return the tables of a report as the terminal shows them."""
    from rich import box
    from rich.console import Group
    from rich.table import Table

    tables = []
    for title, columns, cells, more in _tables(report, rows):
        table = Table(title=f"{title}{more}", title_justify="left", box=box.SIMPLE, expand=False)
        for column in columns:
            table.add_column(column, no_wrap=True)
        for row in cells:
            table.add_row(*map(_drawn_cell, row))
        tables.append(table)
    return Group(*tables)


def _drawn_cell(value: object) -> "Text":
    """Return a cell as it is: names may look like the library's markup."""
    from rich.text import Text

    match value:
        case None:
            return Text("-")
        case bool():
            return Text("yes" if value else "no")
        case int():
            return Text(f"{value:,}")
        case _:
            return Text(str(value))


def _tables(report: dict[str, Any], rows: int) -> Iterator[tuple[str, tuple[str, ...], list[Cells], str]]:
    """Yield title, columns, rows, and a note on rows that are omitted, of each part that has some."""
    for title, (columns, cells) in PARTS.items():
        if found := report[title]:
            more = "" if len(found) <= rows else f" ({rows} of {len(found):,})"
            yield title, columns, [cells(row) for row in found[:rows]], more
