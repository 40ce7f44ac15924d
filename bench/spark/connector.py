"""Reads a topic with Spark's own Kafka connector: a program for an environment with the PySpark that its jars fit.

    python bench/spark/connector.py JARS BOOTSTRAP TOPIC TURNS DIRECTORY READ...

READ is `all columns`, `offset, timestamp` or `to Parquet (zstd)`, which writes to a directory below DIRECTORY. Prints a
line of JSON for each: its name, its rows, seconds and processor time of each turn. It stands alone, as that environment
has neither kraft nor this directory as a package.
"""

import importlib.util
import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

COLUMNS = {"offset, timestamp": ["offset", "timestamp"]}


def load_cost():
    spec = importlib.util.spec_from_file_location("cost", Path(__file__).with_name("cost.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    jars, bootstrap, topic, turns, directory, *reads = sys.argv[1:]
    cost = load_cost()
    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
             .config("spark.driver.memory", "3g").config("spark.jars", jars).getOrCreate())
    frame = (spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
             .option("startingOffsets", "earliest").load())
    rows = frame.count()
    for name in reads:
        writer = frame.select(*COLUMNS.get(name, ["*"])).write.mode("overwrite")
        measured = []
        warmed = time.monotonic() + cost.WARM_SECONDS
        while len(measured) < int(turns):
            began, cpu = time.monotonic(), cost.cpu_seconds(os.getpid())
            if "Parquet" in name:
                writer.option("compression", "zstd").parquet(directory)
            else:
                writer.format("noop").save()
            if began > warmed:
                measured.append((time.monotonic() - began, cost.cpu_seconds(os.getpid()) - cpu))
        print(json.dumps({"name": name, "rows": rows, "turns": measured}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
