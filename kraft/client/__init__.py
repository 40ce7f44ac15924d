"""A small client for tools: any request of the protocol to any node of any Kafka cluster, one at a time.

It is for the command line and for measurements. Applications that produce and consume use full clients.
"""

from kraft.client.cluster import Cluster, Node
from kraft.client.connection import AuthenticationError, Connection, ConnectionFailedError
from kraft.client.refusals import RefusedError

__all__ = ["AuthenticationError", "Cluster", "Connection", "ConnectionFailedError", "Node", "RefusedError"]
