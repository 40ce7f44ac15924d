"""Selection of the data source by the options of the Kafka connector."""

from collections.abc import Mapping

from kraft.spark import origin
from kraft.spark.options import read_options
from kraft.spark.positions import Origin


def origin_of(source: Mapping[str, str]) -> Origin:
    """Return the log directories or the cluster that the options name. `InvalidArgumentError` for wrong options."""
    return origin.origin_of(read_options(source, streaming=False))
