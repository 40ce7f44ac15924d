"""A small client for tools: any request of the protocol to any node of any Kafka cluster, one at a time.

It is made for the command line and for measuring. For applications that produce and consume there are full clients.
"""

from kraft.client.cluster import Cluster, Node
from kraft.client.connection import AuthenticationError, Connection, ConnectionFailedError
from kraft.client.refusals import RefusedError

__all__ = ["AuthenticationError", "Cluster", "Connection", "ConnectionFailedError", "Node", "RefusedError"]
