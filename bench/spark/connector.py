"""Reads a topic with Spark's own Kafka connector: a program for an environment with the PySpark that its jars fit.

    python bench/spark/connector.py JARS BOOTSTRAP TOPIC TURNS

Prints a line of JSON for each read: its name and rows, seconds and processor time of each turn. It stands alone, as
that environment has neither kraft nor this directory as a package.
"""

import importlib.util
import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession


def load_cost():
    spec = importlib.util.spec_from_file_location("cost", Path(__file__).with_name("cost.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    jars, bootstrap, topic, turns = sys.argv[1:]
    cost = load_cost()
    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
             .config("spark.jars", jars).getOrCreate())
    frame = (spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
             .option("startingOffsets", "earliest").load())
    rows = frame.count()
    for name, columns in (("all columns", ["*"]), ("offset, timestamp", ["offset", "timestamp"])):
        selected = frame.select(*columns)
        measured = []
        for _ in range(int(turns) + 1):
            began, cpu = time.monotonic(), cost.cpu_seconds(os.getpid())
            selected.write.format("noop").mode("overwrite").save()
            measured.append((time.monotonic() - began, cost.cpu_seconds(os.getpid()) - cpu))
        print(json.dumps({"name": name, "rows": rows, "turns": measured[1:]}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
