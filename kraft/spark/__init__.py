"""Apache Spark on kraft: the data source `format("kraft")`, and sessions that are ready for it.

No other part of kraft imports this one. Importing it does not import Spark, which is an extra (`kraft[spark]`).
"""

from kraft.spark.errors import SparkUnavailableError
from kraft.spark.sessions import session

__all__ = ["SparkUnavailableError", "session"]
