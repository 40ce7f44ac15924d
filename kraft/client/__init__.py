"""A client of any Kafka cluster: any request of the protocol to any node, one at a time.

The command line, the pipeline, Spark and measurements use it. It sends and fetches whole batches (`producer`,
`fetcher`). Applications that produce and consume single records use full clients.
"""

from kraft.client.cluster import Cluster, Node
from kraft.client.connection import AuthenticationError, Connection, ConnectionFailedError
from kraft.client.refusals import RefusedError

__all__ = ["AuthenticationError", "Cluster", "Connection", "ConnectionFailedError", "Node", "RefusedError"]
