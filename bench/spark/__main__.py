"""`python -m bench.spark`: rows per second and processor time per row of reads in Spark, on two threads.

    python -m bench.spark [--part NAME]... [--megabytes 1024] [--value-bytes 100] [--turns 3]
                          [--no-connector]

The same records are read from the log directory of a node of ours, from that node and from a node of Kafka. They are
exported and audited, and read by the core without Spark. Where Java and Maven exist (`peer.py`), Spark's own connector
reads the same topic alternately with ours. For parts that read directories it reads Kafka's node, if that runs. Reads
go to Spark's `noop` sink. Figures are medians, ratios medians of the turns' ratios, after uncounted turns (`cost.py`).
Before each part memory is touched: otherwise the first parts, which are ours, pay for pages of the host.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from bench.machine import touch_memory
from bench.macro.servers import KafkaServer, KraftServer, Server
from bench.spark import peer, reads
from bench.spark.data import KEY_BYTES, Shape, fill
from bench.spark.measure import Result
from bench.spark.peer import Connector
from bench.spark.reads import Bench
from kraft.spark import session
from tests.peer.kafka import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOUCHED_PER_PART = 4 << 30
PARTS = ("core", "directory", "node", "kafka", "export", "audit")


@dataclass
class Setup:
    """All running servers, with the topic in them. `kafka` is None where no part needs it."""

    bench: Bench
    spark: SparkSession
    node: Server
    kafka: Server | None

    @property
    def path(self) -> str:
        """Log directory of the node."""
        return str(self.node.data)


@contextmanager
def prepared(shape: Shape, turns: int, parts: Sequence[str]) -> Iterator[Setup]:
    """Start and fill the servers; stop them at the end."""
    with tempfile.TemporaryDirectory(prefix="bench-spark-", ignore_cleanup_errors=True) as name:
        top = Path(name)
        node = KraftServer(top / "node")
        servers: list[Server] = [node]
        if "kafka" in parts and missing() is None:
            servers.append(KafkaServer(top / "kafka"))
        try:
            for server in servers:
                server.start()
                fill(server.bootstrap, shape)
            pids = [pid for server in servers for pid in server.pids]
            spark = session("bench", master="local[2]", settings={"spark.driver.memory": "3g"})
            yield Setup(Bench(shape, turns, top, pids), spark, node, servers[1] if servers[1:] else None)
            spark.stop()
        finally:
            for server in servers:
                server.stop()


def run_part(setup: Setup, part: str, connector: Connector | None) -> Iterator[list[Result]]:
    """Yield the results of one part, each with the connector's beside it where that does the same."""
    server = setup.kafka if part in ("kafka", "directory", "export") and setup.kafka else setup.node
    with ExitStack() as stack:
        bench = setup.bench
        if connector is not None and part not in ("core", "audit"):
            name = "kafka" if server is setup.kafka else "node"
            beside = stack.enter_context(
                reads.of_connector(connector, name, server.bootstrap, bench.top / "connector"))
            reads.check_count(bench, "Spark's connector", beside.rows)
            bench = replace(bench, beside=beside)
        if part == "core":
            yield from reads.without_spark(bench, setup.path)
        elif part == "directory":
            yield from reads.in_spark(bench, setup.spark, "log directory", {"path": setup.path})
        elif part == "export":
            yield reads.export_in_threads(bench, setup.path)
            yield reads.export_in_spark(bench, setup.path, setup.spark)
        elif part == "audit":
            yield reads.audits(bench, setup.path)
        elif part == "node" or setup.kafka is not None:
            yield from reads.in_spark(bench, setup.spark, part, {"kafka.bootstrap.servers": server.bootstrap})


def show(shape: Shape, results: Sequence[list[Result]]) -> None:
    table = Table(title=f"{shape.records:,} records of {shape.value_bytes} bytes, local[2]; processor time without the "
                        "nodes'")
    for heading in ("read", "rows/s", "MB/s", "CPU us/row", "rows/s, of theirs", "CPU, of theirs"):
        table.add_column(heading, justify="left" if heading == "read" else "right")
    for found in results:
        ratios = [f"{ratio:.2f}" for each in found[1:] for ratio in found[0].beside(each)]
        for each in found:
            table.add_row(each.name, f"{each.rows_per_second / 1e6:.2f} M",
                          f"{each.rows_per_second * (shape.value_bytes + KEY_BYTES) / 1e6:,.0f}", f"{each.cpu_us:.2f}",
                          *ratios)
            ratios = []
    Console(width=140).print(table)


@click.command()
@click.option("--part", "parts", type=click.Choice(PARTS), multiple=True, help="Only this; may be given again.")
@click.option("--megabytes", default=1024, show_default=True, help="Of records.")
@click.option("--value-bytes", default=100, show_default=True)
@click.option("--turns", default=3, show_default=True)
@click.option("--connector/--no-connector", "beside", default=True, help="Beside Spark's own connector, or not.")
def main(parts: tuple[str, ...], megabytes: int, value_bytes: int, turns: int, beside: bool) -> None:
    shape = Shape.of_size(megabytes, value_bytes)
    if beside and (reason := peer.missing()) is not None:
        click.echo(f"without Spark's own connector: {reason}", err=True)
        beside = False
    connector = peer.connector() if beside else None
    touch_memory()
    with prepared(shape, turns, parts or PARTS) as setup:
        results = []
        for part in parts or PARTS:
            touch_memory(at_most=TOUCHED_PER_PART)
            for found in run_part(setup, part, connector):
                for each in found:
                    click.echo(f"{each.name}: {each.rows_per_second:,.0f} rows/s, {each.cpu_us:.2f} us", err=True)
                results.append(found)
        show(shape, results)


if __name__ == "__main__":
    main()
