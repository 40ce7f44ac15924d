"""What the options of a read say to read from."""

from kraft.spark.cluster import ClusterTopics
from kraft.spark.directories import Directories
from kraft.spark.options import ReadOptions
from kraft.spark.positions import Origin


def origin_of(options: ReadOptions) -> Origin:
    """Log directories where `path` is given, else a cluster."""
    return Directories(options) if options.paths else ClusterTopics(options)
