"""A Spark driver for `spark_kills`, in a process of its own: `python -m tests.pipeline.spark_driver MASTER`.

It reads jobs, a line of JSON each, and reports how each ended. It may be killed at any moment: the next one continues.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from py4j.protocol import Py4JError

from kraft.client import Cluster
from kraft.pipeline.ingest import open_job, run_job
from kraft.pipeline.on_spark import SparkWorkers
from kraft.pipeline.parquet import FileSettings
from kraft.pipeline.row_files import files_in
from kraft.pipeline.row_records import Columns
from kraft.pipeline.spark_stream import export_stream
from kraft.pipeline.table import Table
from kraft.spark import session
from kraft.spark.sessions import PACKAGES, QUICK_JAVA_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

IN: Final = "records"
OUT: Final = "rows"
BATCH: Final = "2000"
# Spark searches Python data sources once, with a worker. If that worker is killed, it knows of none until it ends.
NOT_FOUND: Final = "DATA_SOURCE_NOT_FOUND"


class Job(NamedTuple):
    """Topic `records` becomes Parquet files, and the Parquet files below `files` become topic `rows`.

    `export` is the method of the first (`sink`: Spark's file sink, `table`: the pipeline's table). `ingest` is that of
    the second (`sink`: ours, `job`: the pipeline's, one for each directory of files). It writes in transactions, or by
    sequence numbers. Both read committed records.
    """

    top: str
    bootstrap: str
    export: str
    ingest: str
    transactions: bool


def start_export(spark: SparkSession, job: Job, stack: ExitStack) -> StreamingQuery:
    top = Path(job.top)
    source = {"kafka.bootstrap.servers": job.bootstrap, "subscribe": IN, "maxOffsetsPerTrigger": BATCH,
              "kafka.isolation.level": "read_committed"}
    if job.export == "table":
        table = stack.enter_context(Table(top / "table", {}))
        return export_stream(spark, table, source, FileSettings(), top / "table-checkpoint")
    frame = spark.readStream.format("kraft").options(**source, startingOffsets="earliest", minPartitions="4").load()
    return (frame.select("partition", "offset", "value").writeStream.format("parquet")
            .option("path", str(top / "parquet")).option("checkpointLocation", str(top / "parquet-checkpoint"))
            .trigger(availableNow=True).start())


def start_sink(spark: SparkSession, job: Job) -> StreamingQuery:
    top = Path(job.top)
    frame = (spark.readStream.schema("key string, value binary").option("recursiveFileLookup", "true")
             .option("maxFilesPerTrigger", "3").parquet(str(top / "files")))
    return (frame.writeStream.format("kraft").options(**{"kafka.bootstrap.servers": job.bootstrap, "topic": OUT,
                                                         "kafka.batch.size": "20000",
                                                         "transactions": str(job.transactions).lower()})
            .option("checkpointLocation", str(top / "sink-checkpoint")).trigger(availableNow=True).start())


def run_jobs(spark: SparkSession, job: Job) -> None:
    for files in sorted((Path(job.top) / "files").iterdir()):
        directory = Path(job.top) / f"job-{files.name}"
        with Cluster(job.bootstrap) as cluster:
            plan = open_job(directory, cluster, files_in([files]), OUT, Columns("value", "key"), split_bytes=1,
                            transactions=job.transactions)
        run_job(directory, job.bootstrap, plan, SparkWorkers(spark))


def run(spark: SparkSession, job: Job) -> None:
    """Run both directions at once, until everything has been moved. Raises the error of one that failed."""
    with ExitStack() as stack:
        queries = [start_export(spark, job, stack)]
        stack.callback(lambda: [query.stop() for query in queries])
        if job.ingest == "sink":
            queries.append(start_sink(spark, job))
        else:
            run_jobs(spark, job)
        for query in queries:
            query.awaitTermination()


def alive(spark: SparkSession) -> bool:
    """True while Spark runs: it ends by itself when its own parts are unresponsive for too long."""
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except (OSError, Py4JError):
        return False


def main() -> None:
    settings = {"spark.executor.extraJavaOptions": QUICK_JAVA_OPTIONS, "spark.executorEnv.PYTHONPATH": str(PACKAGES),
                "spark.sql.shuffle.partitions": "2", "spark.log.level": "OFF"}
    spark = session("kills", master=sys.argv[1], quick=True, settings=settings)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        try:    # any consequence of a killed process: the job runs again
            run(spark, Job(**json.loads(line)))
            print(json.dumps({"done": True}), flush=True)
        except Exception as error:
            if NOT_FOUND in str(error) or not alive(spark):
                raise
            print(json.dumps({"failed": f"{type(error).__name__}: {error}"[:2_000]}), flush=True)


if __name__ == "__main__":
    main()
