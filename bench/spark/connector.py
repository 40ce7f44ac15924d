"""Program that reads a topic with Spark's own Kafka connector, in an environment whose PySpark fits its jars.

    python bench/spark/connector.py JARS BOOTSTRAP TOPIC DIRECTORY

Prints the number of rows. Then each line of input is a read: `all columns`, `offset, timestamp` or `to Parquet (zstd)`,
which writes to DIRECTORY. The program executes it and prints seconds and processor time as a list in JSON. It imports
nothing of ours, because that environment has neither kraft nor this directory as a package.
"""

import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from types import ModuleType

from pyspark.sql import SparkSession

COLUMNS = {"offset, timestamp": ["offset", "timestamp"]}


def load_cost() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cost", Path(__file__).with_name("cost.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    jars, bootstrap, topic, directory = sys.argv[1:]
    cost = load_cost()
    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
             .config("spark.driver.memory", "3g").config("spark.jars", jars).getOrCreate())
    frame = (spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
             .option("startingOffsets", "earliest").load())
    print(json.dumps(frame.count()), flush=True)
    for line in sys.stdin:
        name = line.strip()
        writer = frame.select(*COLUMNS.get(name, ["*"])).write.mode("overwrite")
        began, cpu = time.monotonic(), cost.cpu_seconds(os.getpid())
        if "Parquet" in name:
            writer.option("compression", "zstd").parquet(directory)
        else:
            writer.format("noop").save()
        print(json.dumps([time.monotonic() - began, cost.cpu_seconds(os.getpid()) - cpu]), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
