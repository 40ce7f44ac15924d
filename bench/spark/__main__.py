"""`python -m bench.spark`: rows per second and processor time per row of reads in Spark, on two threads.

    python -m bench.spark [--part NAME]... [--megabytes 1024] [--value-bytes 100] [--turns 3]
                          [--connector PYTHON --jars JAR,JAR...]

The same records are read from the log directory of a node of ours, from that node, from a node of Kafka's, exported
and audited, and read by the core without Spark. With `--connector` (a Python that has PySpark 4.0.0) and the jars of
Spark's own connector it reads the same topics in the same run. Reads go to Spark's `noop` sink; medians, after turns
that do not count (`cost.py`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from bench.macro.servers import KafkaServer, KraftServer, Server
from bench.spark import reads
from bench.spark.data import KEY_BYTES, Shape, fill
from bench.spark.measure import Result
from bench.spark.reads import Bench
from kraft.spark import session
from tests.peer.kafka import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = ("core", "directory", "node", "kafka", "export", "audit")


@dataclass
class Setup:
    """Everything that is running, with the topic in it. `kafka` is None where no part needs it."""

    bench: Bench
    spark: SparkSession
    node: Server
    kafka: Server | None

    @property
    def path(self) -> str:
        """The node's log directory."""
        return str(self.node.data)


@contextmanager
def prepared(shape: Shape, turns: int, parts: Sequence[str]) -> Iterator[Setup]:
    """Started, filled, and stopped in the end."""
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


def run_part(setup: Setup, part: str, connector: tuple[str, str] | None) -> Iterator[Result]:
    """The results of one part, ours and the connector's."""
    bench, spark, path = setup.bench, setup.spark, setup.path
    server = setup.kafka if part == "kafka" else setup.node
    theirs: list[str] = []
    if part == "core":
        yield from reads.without_spark(bench, path)
    elif part == "directory":
        yield from reads.in_spark(bench, spark, "log directory", {"path": path})
    elif part == "export":
        yield reads.export_in_threads(bench, path)
        yield reads.export_in_spark(bench, path, spark)
        theirs = [reads.PARQUET]
    elif part == "audit":
        yield reads.audits(bench, path)
    elif server is not None:
        yield from reads.in_spark(bench, spark, part, {"kafka.bootstrap.servers": server.bootstrap})
        theirs = list(reads.COLUMNS)
    if theirs and connector is not None and server is not None:
        yield from reads.of_connector(bench, *connector, part, server.bootstrap, theirs)


def show(shape: Shape, results: Sequence[Result]) -> None:
    table = Table(title=f"{shape.records:,} records of {shape.value_bytes} bytes, local[2]; processor time without the "
                        "nodes'")
    for heading in ("read", "rows/s", "MB/s", "CPU us/row"):
        table.add_column(heading, justify="left" if heading == "read" else "right")
    for each in results:
        table.add_row(each.name, f"{each.rows_per_second / 1e6:.2f} M",
                      f"{each.rows_per_second * (shape.value_bytes + KEY_BYTES) / 1e6:,.0f}", f"{each.cpu_us:.2f}")
    Console(width=120).print(table)


@click.command()
@click.option("--part", "parts", type=click.Choice(PARTS), multiple=True, help="Only this; may be given again.")
@click.option("--megabytes", default=1024, show_default=True, help="Of records.")
@click.option("--value-bytes", default=100, show_default=True)
@click.option("--turns", default=3, show_default=True)
@click.option("--connector", "connector_python", help="A Python with PySpark 4.0.0.")
@click.option("--jars", help="The connector's jars, with commas between them.")
def main(parts: tuple[str, ...], megabytes: int, value_bytes: int, turns: int, connector_python: str | None,
         jars: str | None) -> None:
    shape = Shape.of_size(megabytes, value_bytes)
    connector = (connector_python, jars) if connector_python and jars else None
    with prepared(shape, turns, parts or PARTS) as setup:
        results = []
        for part in parts or PARTS:
            for each in run_part(setup, part, connector):
                click.echo(f"{each.name}: {each.rows_per_second:,.0f} rows/s, {each.cpu_us:.2f} us", err=True)
                results.append(each)
        show(shape, results)


if __name__ == "__main__":
    main()
