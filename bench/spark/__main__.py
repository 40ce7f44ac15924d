"""`python -m bench.spark`: rows per second and processor time per row of reads in Spark, on two threads.

    python -m bench.spark [--megabytes 1024] [--value-bytes 100] [--turns 3] [--connector PYTHON --jars JAR,JAR...]

The same records are read from a log directory, from a node of ours, by the core without Spark, and, with `--connector`
(a Python that has PySpark 4.0.0) and the jars of Spark's own connector, by that from the same node. Every
read goes to Spark's `noop` sink; medians, after a turn that does not count.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from bench.spark.cost import cpu_seconds
from kraft import LogDir
from kraft.log_dir import TopicPartition
from kraft.spark import session
from kraft.spark.options import read_options
from kraft.spark.origin import origin_of
from kraft.spark.positions import batch_spans
from kraft.spark.produce import BatchProducer
from kraft.spark.write_options import WriteOptions
from kraft_native.column_encoder import encode_columns
from tests.integration.process import NodeProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "bench"
PARTITIONS = 2
KEY_BYTES = 16
CHUNK = 100_000
READS = {"all columns": None, "offset, timestamp": "offset long, timestamp timestamp"}


class Result(NamedTuple):
    """One read: rows per second and processor time per row, in microseconds."""

    name: str
    rows_per_second: float
    cpu_us: float


def batches(records: int, value_bytes: int) -> Iterator[bytes]:
    """Record batches of 16 KB, as a producer sends them, of random letters."""
    random = np.random.default_rng(1)
    for start in range(0, records, CHUNK):
        count = min(CHUNK, records - start)
        values = random.integers(97, 123, (count, value_bytes), np.uint8)
        keys = random.integers(97, 123, (count, KEY_BYTES), np.uint8)
        yield from encode_columns(values, keys=keys, timestamps=1_700_000_000_000, batch_bytes_max=16_384)


def measured(name: str, rows: int, turns: int, work: Callable[[], object]) -> Result:
    work()
    found = []
    for _ in range(turns):
        began, cpu = time.monotonic(), cpu_seconds(os.getpid())
        work()
        found.append((time.monotonic() - began, cpu_seconds(os.getpid()) - cpu))
    return result(name, rows, found)


def result(name: str, rows: int, turns: list[tuple[float, float]]) -> Result:
    return Result(name, rows / statistics.median(seconds for seconds, _ in turns),
                  statistics.median(cpu for _, cpu in turns) / rows * 1e6)


def without_spark(path: str, columns: tuple[str, ...]) -> Callable[[], None]:
    """The core alone, on one thread."""

    def read() -> None:
        options = read_options({"path": path}, streaming=False)
        origin = origin_of(options)
        for each in origin.ranges(batch_spans(origin, options)):
            for _ in origin.read(each, columns):
                pass

    return read


def in_spark(spark: SparkSession, where: str, options: dict[str, str], rows: int, turns: int) -> Iterator[Result]:
    for name, schema in READS.items():

        def read(schema: str | None = schema) -> None:
            reader = spark.read.format("kraft").options(**options)
            frame = (reader if schema is None else reader.schema(schema)).load()
            frame.write.format("noop").mode("overwrite").save()

        yield measured(f"{where}: {name}", rows, turns, read)


def fill_node(node: NodeProcess, records: int, value_bytes: int) -> None:
    producer = BatchProducer(WriteOptions(node.address))
    producer.identify()
    from tests.spark.topics import Topics

    Topics(node).create(TOPIC, PARTITIONS)
    for number, batch in enumerate(batches(records, value_bytes)):
        producer.send(TopicPartition(TOPIC, number % PARTITIONS), batch)
    producer.close()


def connector(python: str, jars: str, node: NodeProcess, turns: int) -> Iterator[Result]:
    """Spark's own, in an environment of its own."""
    command = [python, str(Path(__file__).with_name("connector.py")), jars, node.address, TOPIC, str(turns)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=900)
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found = json.loads(line)
            yield result(f"Spark's connector: {found['name']}", found["rows"], found["turns"])


@click.command()
@click.option("--megabytes", default=1024, show_default=True, help="Of records.")
@click.option("--value-bytes", default=100, show_default=True)
@click.option("--turns", default=3, show_default=True)
@click.option("--connector", "connector_python", help="A Python with PySpark 4.0.0.")
@click.option("--jars", help="The connector's jars, with commas between them.")
@click.option("--no-node", is_flag=True, help="Only the log directory.")
def main(megabytes: int, value_bytes: int, turns: int, connector_python: str | None, jars: str | None,
         no_node: bool) -> None:
    records = megabytes * 1_000_000 // (value_bytes + KEY_BYTES + 10)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as top:
        with LogDir(Path(top) / "data") as directory:
            for number, batch in enumerate(batches(records, value_bytes)):
                directory.log(TOPIC, number % PARTITIONS).append(batch)
        path = str(Path(top) / "data")
        results.append(measured("core, one thread: all columns", records, turns, without_spark(
            path, ("key", "value", "offset", "timestamp", "timestamp_type"))))
        results.append(measured("core, one thread: offset, timestamp", records, turns, without_spark(
            path, ("offset", "timestamp"))))
        spark = session("bench", master="local[2]", settings={"spark.driver.memory": "3g"})
        results += in_spark(spark, "log directory", {"path": path}, records, turns)
        if not no_node:
            node = NodeProcess(Path(top) / "node")
            node.start()
            try:
                fill_node(node, records, value_bytes)
                results += in_spark(spark, "node", {"kafka.bootstrap.servers": node.address, "subscribe": TOPIC},
                                    records, turns)
                spark.stop()
                if connector_python and jars:
                    results += connector(connector_python, jars, node, turns)
            finally:
                node.stop()
    table = Table(title=f"{records:,} records of {value_bytes} bytes, local[2]; processor time without the node's, "
                        "except in the rows that read from it")
    for heading in ("read", "rows/s", "MB/s", "CPU us/row"):
        table.add_column(heading, justify="left" if heading == "read" else "right")
    for each in results:
        table.add_row(each.name, f"{each.rows_per_second / 1e6:.2f} M",
                      f"{each.rows_per_second * (value_bytes + KEY_BYTES) / 1e6:,.0f}", f"{each.cpu_us:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
