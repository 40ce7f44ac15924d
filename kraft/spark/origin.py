"""The origin that the options of a read name."""

from kraft.spark.cluster import ClusterTopics
from kraft.spark.directories import Directories
from kraft.spark.options import ReadOptions
from kraft.spark.positions import Origin


def origin_of(options: ReadOptions) -> Origin:
    """Return log directories when `path` is given, else a cluster."""
    return Directories(options) if options.paths else ClusterTopics(options)
