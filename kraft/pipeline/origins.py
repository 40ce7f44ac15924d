"""Selection of the data source by the options of the Kafka connector."""

from collections.abc import Mapping

from kraft.spark.cluster import ClusterTopics
from kraft.spark.directories import Directories
from kraft.spark.options import read_options
from kraft.spark.positions import Origin


def origin_of(source: Mapping[str, str]) -> Origin:
    """Return the log directories or the cluster that the options name. `InvalidArgumentError` for wrong options."""
    options = read_options(source, streaming=False)
    return Directories(options) if options.paths else ClusterTopics(options)
