"""A topic as a table that grows, and what follows from it. Every run takes what is new."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()


@dp.table(comment="Every record of the topic, once.")
def records() -> DataFrame:
    return (spark.readStream.format("kraft")
            .option("path", os.environ["KRAFT_LOGS"]).option("subscribe", os.environ.get("KRAFT_TOPIC", "orders"))
            .option("startingOffsets", "earliest").load())


@dp.materialized_view(comment="How much came in each hour.")
def per_hour() -> DataFrame:
    return (spark.read.table("records").groupBy("topic", f.date_trunc("hour", "timestamp").alias("hour"))
            .agg(f.count("*").alias("records"), f.sum(f.length("value")).alias("bytes")))
