"""Access to a cluster through its bootstrap addresses: finds nodes, leaders and coordinators, and connects to them."""

import time
from typing import Final, NamedTuple, Self, TypeVar

from kraft.client.connection import (
    CONNECT_SECONDS,
    TIMEOUT_SECONDS_DEFAULT,
    AuthenticationError,
    Connection,
    ConnectionFailedError,
)
from kraft.client.refusals import RefusedError, check
from kraft.client.retries import Attempts
from kraft.client.security import Security, current
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic

COORDINATOR_BATCH_VERSION: Final = 4
PORT_DEFAULT: Final = 9092
CONNECT_SECONDS_MIN: Final = 0.5

Response = TypeVar("Response", bound=Message)


class Node(NamedTuple):
    """One broker in the cluster's metadata."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Cluster:
    """Connections to a cluster's nodes, opened when needed; a context manager. One thread uses it at a time.

    `bootstrap` is `host:port[,host:port...]`; the first address that answers is used. `security` None means the
    `current` one.
    """

    def __init__(self, bootstrap: str, *, client_id: str = "kraft", timeout: float = TIMEOUT_SECONDS_DEFAULT,
                 security: Security | None = None) -> None:
        self.bootstrap = [_address(part) for part in bootstrap.split(",") if part.strip()]
        if not self.bootstrap:
            raise ConnectionFailedError(f"bootstrap: {bootstrap!r} is not host:port[,host:port...]")
        self.client_id = client_id
        self.timeout = timeout
        self.security = current() if security is None else security
        self._first: Connection | None = None
        self._by_node: dict[int, Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        for connection in [self._first, *self._by_node.values()]:
            if connection is not None:
                connection.close()
        self._first = None
        self._by_node.clear()

    def any(self) -> Connection:
        """Return a connection to the first bootstrap address that answers."""
        if self._first is None:
            failures = []
            deadline = time.monotonic() + CONNECT_SECONDS
            for at, (host, port) in enumerate(self.bootstrap):
                share = max(deadline - time.monotonic(), 0) / (len(self.bootstrap) - at)
                try:
                    self._first = self.connect(host, port, max(share, CONNECT_SECONDS_MIN))
                    break
                except AuthenticationError:
                    raise              # the other addresses belong to the same cluster
                except ConnectionFailedError as error:
                    failures.append(str(error))
            else:
                raise ConnectionFailedError("; ".join(failures))
        return self._first

    def connect(self, host: str, port: int, connect_timeout: float = CONNECT_SECONDS,
                timeout: float | None = None) -> Connection:
        """Open a new connection that the caller owns."""
        return Connection(host, port, client_id=self.client_id,
                          timeout=self.timeout if timeout is None else timeout, security=self.security,
                          connect_timeout=connect_timeout)

    def node(self, node_id: int) -> Connection:
        """Return a connection to a broker by its id. Raises `ConnectionFailedError` when the cluster has none of that
        id."""
        if node_id not in self._by_node:
            nodes = {node.node_id: node for node in self.nodes()}
            if node_id not in nodes:
                raise ConnectionFailedError(f"node {node_id}: the cluster has {sorted(nodes)}")
            self._by_node[node_id] = self.connect(nodes[node_id].host, nodes[node_id].port)
        return self._by_node[node_id]

    def metadata(self, topics: list[str] | None = None, *, create: bool = False) -> MetadataResponse:
        """Request the metadata of these topics; None means all. Errors of single topics are in the answer."""
        names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        return self.any().send(MetadataRequest(topics=names, allow_auto_topic_creation=create), MetadataResponse)

    def topic(self, name: str) -> MetadataResponseTopic:
        """Request one topic's metadata. Raises `RefusedError` when it does not exist or is not ready."""
        found = self.metadata([name]).topics[0]
        check(f"topic {name}", found.error_code)
        return found

    def check_access(self) -> None:
        """Check that the cluster serves this client. A listener with SASL accepts a connection without SASL,
        and refuses its first request."""
        if MetadataRequest.API_KEY in self.any().versions:      # a controller of Kafka does not have it
            self.metadata([])

    def nodes(self) -> list[Node]:
        """Return the brokers, sorted by id."""
        brokers = self.metadata([]).brokers
        return sorted(Node(each.node_id, each.host, each.port, each.rack) for each in brokers)

    def controller(self) -> Connection:
        """Return a connection to the broker that accepts changes of the cluster: the one that metadata names."""
        return self.node(self.metadata([]).controller_id)

    def leader(self, topic: str, partition: int) -> Connection:
        """Return a connection to the leader of a partition. Raises `RefusedError` when it has none and `LookupError`
        when there is no such partition."""
        for each in self.topic(topic).partitions:
            if each.partition_index == partition:
                check(f"partition {topic}-{partition}", each.error_code)
                return self.node(each.leader_id)
        raise LookupError(f"partition {topic}-{partition}: the topic has no such partition")

    def coordinator(self, key: str, key_type: int = 0) -> Connection:
        """Return a connection to the coordinator of a group (`key_type` 0) or a transactional id (1). Waits until there
        is one."""
        return self.node(self.coordinator_id(key, key_type))

    def coordinator_id(self, key: str, key_type: int = 0) -> int:
        """Return the node id of the coordinator, as `coordinator` does."""
        attempts = Attempts(self.timeout)
        while True:
            connection = self.any()
            if connection.version(FindCoordinatorRequest.API_KEY) >= COORDINATOR_BATCH_VERSION:
                request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
                found = connection.send(request, FindCoordinatorResponse).coordinators[0]
                code, message, node = found.error_code, found.error_message, found.node_id
            else:
                old = connection.send(FindCoordinatorRequest(key_type=key_type, key=key), FindCoordinatorResponse)
                code, message, node = old.error_code, old.error_message, old.node_id
            if code == ErrorCode.NONE:
                return node
            attempts.again(RefusedError(f"coordinator of {key}", code, message or None))

    def send(self, request: Message, response: type[Response]) -> Response:
        """Send a request to any node. Use it for requests that every broker answers or forwards."""
        return self.any().send(request, response)


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.strip().rpartition(":")
    if not separator:
        return text.strip().strip("[]"), PORT_DEFAULT
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ConnectionFailedError(f"bootstrap: {text.strip()!r} has no port of 1 to 65535")
    return host.strip("[]"), int(port)
