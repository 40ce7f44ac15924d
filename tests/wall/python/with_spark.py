"""Copy one topic to another with Spark's own Kafka connector: `with_spark.py BOOTSTRAP SOURCE TARGET GROUP DIRECTORY`.

WALL_JARS: the connector's jars, with commas. The positions are in the query's checkpoint, not in a group.
"""

import os
import sys

from pyspark.sql import SparkSession

bootstrap, source, target, _, directory = sys.argv[1:]
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
         .config("spark.jars", os.environ["WALL_JARS"]).config("spark.sql.shuffle.partitions", "2").getOrCreate())
received = (spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", source)
            .option("startingOffsets", "earliest").load())
copied = received.selectExpr("key", "concat('seen ', cast(value AS string)) AS value")
(copied.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", target)
 .option("checkpointLocation", f"{directory}/checkpoint").start().awaitTermination())
