"""Exactly-once writes in transactions beside those by sequence numbers, on our node.

    python -m bench.spark.writes [--part NAME]... [--megabytes 256] [--value-bytes 100] [--batches 10] [--turns 5]

- `publish`: the driver's step of the sink, without Spark: staged micro-batches into a topic.
- `sink`: a query of Spark, with two threads, that copies a topic in micro-batches.
- `ingest`: the rows of a Parquet file into a topic, with two threads.

The two ways alternate, after an uncounted turn of each. Every turn writes to a new topic, whose committed rows are
counted afterwards. Processor time is that of this process and its children, and the node's. Figures are medians, and
ratios medians of the turns' ratios. They count on an idle machine only.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema
from rich.console import Console
from rich.table import Table

from bench.machine import touch_memory
from bench.macro.servers import KraftServer
from bench.macro.topics import delete_topics
from bench.spark.cost import cpu_seconds
from bench.spark.data import KEY_BYTES, PARTITIONS, TOPIC, Shape, fill
from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.pipeline.ingest import open_job, run_job
from kraft.pipeline.row_records import Columns
from kraft.pipeline.workers import Threads
from kraft.spark import session
from kraft.spark.options import read_options
from kraft.spark.origin import origin_of
from kraft.spark.positions import batch_spans
from kraft.spark.publishing import publish
from kraft.spark.sink import Counted, encoded_rows, partitions_of
from kraft.spark.staging import Staging
from kraft.spark.write_options import write_options
from tests.spark.topics import UNFINISHED, settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS: Final = ("publish", "sink", "ingest")
WAYS: Final = {"transactions": True, "sequences": False}
CHUNK: Final = 100_000


class Cost(NamedTuple):
    """Cost of one turn: of the writer, and of the node."""

    seconds: float
    cpu_seconds: float
    node_cpu_seconds: float


class Target(NamedTuple):
    """An empty topic to write, in which way, and an empty directory."""

    topic: str
    transactions: bool
    directory: Path


Write = Callable[[Target], Callable[[], object]]
"""Function that prepares a write, and returns the function that executes it."""


@dataclass
class Bench:
    """Common needs of all parts."""

    node: KraftServer
    shape: Shape
    batches: int
    top: Path

    def turn(self, write: Write, *, transactions: bool) -> Cost:
        """Measure one write to a new topic."""
        topic = f"writes-{uuid.uuid4().hex[:8]}"
        with Cluster(self.node.bootstrap) as cluster:
            create_topic(cluster, topic, PARTITIONS)
        with tempfile.TemporaryDirectory(dir=self.top) as directory:
            execute = write(Target(topic, transactions, Path(directory)))
            begun, cpu, node_cpu = time.monotonic(), self._own_cpu(), self._node_cpu()
            execute()
            cost = Cost(time.monotonic() - begun, self._own_cpu() - cpu, self._node_cpu() - node_cpu)
        self._check(topic)
        delete_topics(self.node, [topic])
        return cost

    def _node_cpu(self) -> float:
        return sum(map(cpu_seconds, self.node.pids))

    def _own_cpu(self) -> float:
        return cpu_seconds(os.getpid()) - self._node_cpu()

    def _check(self, topic: str) -> None:
        settle(self.node.bootstrap, UNFINISHED)
        options = read_options({"kafka.bootstrap.servers": self.node.bootstrap, "subscribe": topic,
                                "kafka.isolation.level": "read_committed"}, streaming=False)
        origin = origin_of(options)
        count = sum(len(columns) for piece in origin.ranges(batch_spans(origin, options))
                    for columns in origin.read(piece, ("offset",)))
        origin.close()
        if count != self.shape.records:
            raise SystemExit(f"{topic} has {count} rows, not {self.shape.records}")

    def sink_options(self, target: Target) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.node.bootstrap, "topic": target.topic,
                "transactions": str(target.transactions).lower(), "checkpointLocation": str(target.directory)}


def rows_of(shape: Shape, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows with these numbers: random letters."""
    random = np.random.default_rng(start)
    for first in range(start, end, CHUNK):
        count = min(CHUNK, end - first)
        letters = [random.integers(97, 123, (count, size), np.uint8) for size in (KEY_BYTES, shape.value_bytes)]
        columns = [pa.FixedSizeBinaryArray.from_buffers(pa.binary(each.shape[1]), count, [None, pa.py_buffer(each)])
                   .cast(pa.binary()) for each in letters]
        yield pa.RecordBatch.from_arrays(columns, names=["key", "value"])


def publishing(bench: Bench, target: Target) -> Callable[[], object]:
    """Stage micro-batches, and return a function that publishes them."""
    bounds = np.linspace(0, bench.shape.records, bench.batches + 1).astype(int).tolist()
    schema = next(rows_of(bench.shape, 0, 1)).schema
    options = write_options(bench.sink_options(target), from_arrow_schema(schema), streaming=True)
    query, staged = Staging(options, "query"), []
    with partitions_of(options) as count:
        for number, (start, end) in enumerate(pairwise(bounds)):
            # A published batch removes everything that its query has staged.
            batch = Staging(options, f"batch-{number}")
            files = batch.stage(encoded_rows(Counted(rows_of(bench.shape, start, end)), options, count))
            staged.append((batch.staged, files))
    query.path.mkdir()

    def publish_all() -> None:
        for number, (directory, files) in enumerate(staged):
            directory.rename(query.staged)
            publish(options, "query", number, files)

    return publish_all


def copying(bench: Bench, spark: SparkSession, target: Target) -> Callable[[], object]:
    """Return a function that copies the filled topic by a query of Spark."""
    frame = spark.readStream.format("kraft").options(**{
        "kafka.bootstrap.servers": bench.node.bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(-(-bench.shape.records // bench.batches))}).load()
    writer = frame.select("key", "value").writeStream.format("kraft").outputMode("append").options(
        **bench.sink_options(target)).trigger(availableNow=True)
    return lambda: writer.start().awaitTermination()


def ingesting(bench: Bench, file: Path, target: Target) -> Callable[[], object]:
    """Return a function that plans and runs a job."""
    def ingest() -> None:
        job = target.directory / "job"
        with Cluster(bench.node.bootstrap) as cluster:
            plan = open_job(job, cluster, [file], target.topic, Columns("value", "key"), codec="none",
                            transactions=target.transactions)
        run_job(job, bench.node.bootstrap, plan, Threads(2))

    return ingest


def works(bench: Bench, parts: Sequence[str], stack: ExitStack) -> Iterator[tuple[str, Write]]:
    """Yield the chosen parts, each with its needs prepared."""
    if "publish" in parts:
        yield "publish", partial(publishing, bench)
    if "sink" in parts:
        fill(bench.node.bootstrap, bench.shape)
        spark = session("bench", master="local[2]", settings={"spark.driver.memory": "3g"})
        stack.callback(spark.stop)
        yield "sink", partial(copying, bench, spark)
    if "ingest" in parts:
        file = bench.top / "rows.parquet"
        with pq.ParquetWriter(file, next(rows_of(bench.shape, 0, 1)).schema) as writer:
            for batch in rows_of(bench.shape, 0, bench.shape.records):
                writer.write_batch(batch)
        yield "ingest", partial(ingesting, bench, file)


def measured(bench: Bench, write: Write, turns: int) -> dict[str, list[Cost]]:
    """Return the costs of the turns of both ways, which alternate."""
    found: dict[str, list[Cost]] = {way: [] for way in WAYS}
    for number in range(turns + 1):
        for way, transactions in WAYS.items():
            cost = bench.turn(write, transactions=transactions)
            if number > 0:
                found[way].append(cost)
    return found


def show(bench: Bench, results: Sequence[tuple[str, dict[str, list[Cost]]]]) -> None:
    records = bench.shape.records
    table = Table(title=f"{records:,} records of {bench.shape.value_bytes} bytes, {bench.batches} micro-batches; "
                        "ratios: transactions to sequences")
    for heading in ("write", "way", "rows/s", "CPU us/row", "node's CPU us/row"):
        table.add_column(heading, justify="left" if heading in ("write", "way") else "right")
    for part, costs in results:
        for way, turns in costs.items():
            seconds, cpu, node = (statistics.median(column) for column in zip(*turns, strict=True))
            table.add_row(part, way, f"{records / seconds / 1e6:.3f} M", f"{cpu / records * 1e6:.2f}",
                          f"{node / records * 1e6:.2f}")
        pairs = list(zip(*costs.values(), strict=True))
        table.add_row(part, "ratio", f"{statistics.median(two.seconds / one.seconds for one, two in pairs):.2f}",
                      *(f"{statistics.median(one[at] / (two[at] or 1e-3) for one, two in pairs):.2f}" for at in (1, 2)))
    Console(width=120).print(table)


@click.command()
@click.option("--part", "parts", type=click.Choice(PARTS), multiple=True, help="Only this; may be given again.")
@click.option("--megabytes", default=256, show_default=True, help="Of records.")
@click.option("--value-bytes", default=100, show_default=True)
@click.option("--batches", default=10, show_default=True, help="Micro-batches of the sink.")
@click.option("--turns", default=5, show_default=True)
def main(parts: tuple[str, ...], megabytes: int, value_bytes: int, batches: int, turns: int) -> None:
    """Measure exactly-once writes in transactions beside those by sequence numbers."""
    touch_memory()
    with tempfile.TemporaryDirectory(prefix="bench-writes-", ignore_cleanup_errors=True) as top, ExitStack() as stack:
        bench = Bench(KraftServer(Path(top) / "node"), Shape.of_size(megabytes, value_bytes), batches, Path(top))
        bench.node.start()
        stack.callback(bench.node.stop)
        results = []
        for part, write in works(bench, parts or PARTS, stack):
            click.echo(f"{part} ...", err=True)
            results.append((part, measured(bench, write, turns)))
        show(bench, results)


if __name__ == "__main__":
    main()
