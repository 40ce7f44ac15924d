"""Measurements: each function returns the results of one part, all of the same topic."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.spark.data import TOPIC, Shape
from bench.spark.measure import Result, Turn, Work, measured, timed
from bench.spark.peer import Connector
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


class Beside:
    """Spark's own connector in a process of its own, which alternates with ours."""

    def __init__(self, process: subprocess.Popen[str], where: str) -> None:
        self.pid = process.pid
        self._process = process
        self._where = where
        self.rows: int = self._answer()

    def work(self, name: str) -> Work:
        return Work(f"Spark's connector, {self._where}: {name}", self.rows, lambda: self._turn(name))

    def _turn(self, name: str) -> Turn:
        assert self._process.stdin is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return Turn(*self._answer())

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(("[", *"0123456789")):
                return json.loads(line)
        raise SystemExit(f"Spark's connector ended with {self._process.wait()}")


@contextmanager
def of_connector(connector: Connector, where: str, bootstrap: str, directory: Path) -> Iterator[Beside]:
    command = [connector.python, str(Path(__file__).with_name("connector.py")), connector.jars, bootstrap, TOPIC,
               str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Beside(process, where)
        finally:
            if process.stdin is not None:
                process.stdin.close()


@dataclass
class Bench:
    """Common needs of all parts. `servers` are processes whose time is not counted; `beside` is None without the
    connector."""

    shape: Shape
    turns: int
    top: Path
    servers: Sequence[int] = ()
    beside: Beside | None = None

    def measured(self, where: str, name: str, do: Callable[[], object], rows: int | None = None) -> list[Result]:
        """Measure ours and, if it exists, the connector's read of that name."""
        others = [*self.servers, *([self.beside.pid] if self.beside else [])]
        works = [Work(f"{where}: {name}", rows or self.shape.records, timed(do, others))]
        return measured([*works, *([self.beside.work(name)] if self.beside else [])], self.turns)


def without_spark(bench: Bench, path: str) -> Iterator[list[Result]]:
    """Measure the core alone, on one thread."""
    for name, columns in (("all columns", ("key", "value", "offset", "timestamp", "timestamp_type")),
                          ("offset, timestamp", ("offset", "timestamp"))):

        def read(columns: tuple[str, ...] = columns) -> None:
            options = read_options({"path": path, "subscribe": TOPIC}, streaming=False)
            origin = origin_of_options(options)
            for each in origin.ranges(batch_spans(origin, options)):
                for _ in origin.read(each, columns):
                    pass

        yield bench.measured("core, one thread", name, read)


def in_spark(bench: Bench, spark: SparkSession, where: str, options: dict[str, str]) -> Iterator[list[Result]]:
    """Measure reads of every row to Spark's `noop` sink."""
    for name, schema in COLUMNS.items():
        reader = spark.read.format("kraft").options(**options, subscribe=TOPIC)
        frame = (reader if schema is None else reader.schema(schema)).load()
        check_count(bench, where, frame.count())
        yield bench.measured(where, name, frame.write.format("noop").mode("overwrite").save)


def check_count(bench: Bench, where: str, count: int) -> None:
    if count != bench.shape.records:
        raise SystemExit(f"{where} has {count} rows, not {bench.shape.records}")


def exports(bench: Bench, path: str, where: str, workers: Workers) -> list[Result]:
    """Measure exports, to a new table each time."""

    def export() -> None:
        with tempfile.TemporaryDirectory(dir=bench.top) as directory:
            source = {"path": path, "subscribe": TOPIC}
            origin = origin_of(source)
            with Table(Path(directory) / "table", {}) as table:
                batch = plan_batch(origin, table.path, table.last())
                made = run_batch(table, source, FileSettings(), workers, batch)
            check_count(bench, where, sum(file.rows for file in made.files))

    return bench.measured(where, PARQUET, export)


def export_in_threads(bench: Bench, path: str) -> list[Result]:
    return exports(bench, path, "log directory, threads", Threads(THREADS))


def export_in_spark(bench: Bench, path: str, spark: SparkSession) -> list[Result]:
    return exports(bench, path, "log directory, Spark's workers", SparkWorkers(spark))


def audits(bench: Bench, path: str) -> list[Result]:
    """Measure audits of two replicas; both count."""
    copy = bench.top / "replica"
    shutil.copytree(path, copy, copy_function=os.link)

    def check() -> None:
        scopes = [audit.scope_of(replicas) for replicas in find_replicas([Path(path), copy], [TOPIC]).values()]
        verdicts = list(audit.run(scopes, Threads(THREADS)))
        assert all(verdict.sound for verdict in verdicts), verdicts
        check_count(bench, "audit", sum(verdict.records for verdict in verdicts))

    try:
        return bench.measured("threads", "audit of two replicas", check, 2 * bench.shape.records)
    finally:
        shutil.rmtree(copy)
