"""What is measured: each function gives the results of one part, all of the same topic."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.spark.data import TOPIC, Shape
from bench.spark.measure import Result, measured, result
from kraft.pipeline import audit
from kraft.pipeline.export import plan_batch, run_batch
from kraft.pipeline.on_spark import SparkWorkers
from kraft.pipeline.origins import origin_of
from kraft.pipeline.parquet import FileSettings
from kraft.pipeline.replicas import find_replicas
from kraft.pipeline.table import Table
from kraft.pipeline.workers import Threads, Workers
from kraft.spark.options import read_options
from kraft.spark.origin import origin_of as origin_of_options
from kraft.spark.positions import batch_spans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {"all columns": None, "offset, timestamp": "offset long, timestamp timestamp"}
PARQUET = "to Parquet (zstd)"
THREADS = 2


@dataclass
class Bench:
    """What all parts need. `servers` are processes whose time is not counted."""

    shape: Shape
    turns: int
    top: Path
    servers: Sequence[int] = ()

    def measured(self, name: str, work: Callable[[], object], rows: int | None = None) -> Result:
        return measured(name, rows or self.shape.records, self.turns, work, self.servers)


def without_spark(bench: Bench, path: str) -> Iterator[Result]:
    """The core alone, on one thread."""
    for name, columns in (("all columns", ("key", "value", "offset", "timestamp", "timestamp_type")),
                          ("offset, timestamp", ("offset", "timestamp"))):

        def read(columns: tuple[str, ...] = columns) -> None:
            options = read_options({"path": path, "subscribe": TOPIC}, streaming=False)
            origin = origin_of_options(options)
            for each in origin.ranges(batch_spans(origin, options)):
                for _ in origin.read(each, columns):
                    pass

        yield bench.measured(f"core, one thread: {name}", read)


def in_spark(bench: Bench, spark: SparkSession, where: str, options: dict[str, str]) -> Iterator[Result]:
    """Every row to Spark's `noop` sink."""
    for name, schema in COLUMNS.items():
        reader = spark.read.format("kraft").options(**options, subscribe=TOPIC)
        frame = (reader if schema is None else reader.schema(schema)).load()
        check_count(bench, where, frame.count())
        yield bench.measured(f"{where}: {name}",
                             lambda frame=frame: frame.write.format("noop").mode("overwrite").save())


def check_count(bench: Bench, where: str, count: int) -> None:
    if count != bench.shape.records:
        raise SystemExit(f"{where} has {count} rows, not {bench.shape.records}")


def exports(bench: Bench, path: str, where: str, workers: Workers) -> Result:
    """To a new table each time."""

    def export() -> None:
        with tempfile.TemporaryDirectory(dir=bench.top) as directory:
            source = {"path": path, "subscribe": TOPIC}
            origin = origin_of(source)
            with Table(Path(directory) / "table", {}) as table:
                batch = plan_batch(origin, table.path, table.last())
                made = run_batch(table, source, FileSettings(), workers, batch)
            check_count(bench, where, sum(file.rows for file in made.files))

    return bench.measured(f"{where}: {PARQUET}", export)


def export_in_threads(bench: Bench, path: str) -> Result:
    return exports(bench, path, "log directory, threads", Threads(THREADS))


def export_in_spark(bench: Bench, path: str, spark: SparkSession) -> Result:
    return exports(bench, path, "log directory, Spark's workers", SparkWorkers(spark))


def audits(bench: Bench, path: str) -> Result:
    """Two replicas; both count."""
    copy = bench.top / "replica"
    shutil.copytree(path, copy, copy_function=os.link)

    def check() -> None:
        scopes = [audit.scope_of(replicas) for replicas in find_replicas([Path(path), copy], [TOPIC]).values()]
        verdicts = list(audit.run(scopes, Threads(THREADS)))
        assert all(verdict.sound for verdict in verdicts), verdicts
        check_count(bench, "audit", sum(verdict.records for verdict in verdicts))

    try:
        return bench.measured("audit of two replicas, threads", check, 2 * bench.shape.records)
    finally:
        shutil.rmtree(copy)


def of_connector(bench: Bench, python: str, jars: str, where: str, bootstrap: str,
                 parts: Sequence[str]) -> Iterator[Result]:
    """Spark's own connector, in an environment of its own."""
    command = [python, str(Path(__file__).with_name("connector.py")), jars, bootstrap, TOPIC, str(bench.turns),
               str(bench.top / "connector"), *parts]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=900)
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found = json.loads(line)
            check_count(bench, f"Spark's connector, {where}", found["rows"])
            yield result(f"Spark's connector, {where}: {found['name']}", found["rows"], found["turns"])
