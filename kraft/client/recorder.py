"""Flight recorders of controllers and brokers, queried one by one: each has only its own node's events."""

import json
from dataclasses import dataclass, field
from typing import Final

from kraft.client.cluster import Cluster
from kraft.client.connection import AuthenticationError, Connection
from kraft.client.quorum import CONTROLLERS, QuorumClient
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kraft.protocol.messages.describe_recorder_request import DescribeRecorderRequest
from kraft.protocol.messages.describe_recorder_response import DescribeRecorderResponse
from kraft_native.base.errors import KraftError

NO_RECORDER: Final = "has no flight recorder"

Address = tuple[str, int]


@dataclass(slots=True)
class Recordings:
    """Results of a collection.

    `lines` has the entries of each node that answered, oldest first, the last one its state. `silent` has the reasons
    why nodes did not answer, by id; `unknown` has them by address where the id is unknown.
    """

    lines: dict[int, list[str]] = field(default_factory=dict)
    silent: dict[int, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)


def collect(cluster: Cluster, count: int) -> Recordings:
    """Collect the last `count` entries of every controller among the bootstrap addresses and of those that they name.

    Raises `AuthenticationError` when a bootstrap address refuses the client: no other answer explains as much.
    """
    found = Recordings()
    known: dict[Address, int] = {}
    queried: list[Address] = []
    waiting: list[Address] = list(cluster.bootstrap)
    while waiting:
        address = waiting.pop(0)
        if address in queried:
            continue
        queried.append(address)
        try:
            with cluster.connect(*address) as connection:
                described = _controllers(cluster, connection)
                known |= described
                waiting += described
                if ApiKey.VOTE not in connection.versions:
                    continue           # a broker: `of_broker` reads its entries
                if ApiKey.DESCRIBE_RECORDER in connection.versions:
                    answer = _recording(connection, count)
                    found.lines[answer.node_id] = answer.entries
                else:
                    found.unknown[_text(address)] = NO_RECORDER
        except KraftError as error:
            if isinstance(error, AuthenticationError) and address in cluster.bootstrap:
                raise
            found.unknown[_text(address)] = str(error)
    for address, node_id in known.items():
        why = found.unknown.pop(_text(address), None)
        if why is not None and node_id not in found.lines:
            found.silent[node_id] = why
    found.unknown = {address: why.removeprefix(f"{address}: ") for address, why in found.unknown.items()}
    return found


def of_broker(cluster: Cluster, node_id: int, count: int) -> list[str]:
    """Return the last `count` entries of a broker, oldest first, the last one its state. A broker without a flight
    recorder, such as Kafka's, has none. Raises what `Cluster.node` and `Connection.send` raise."""
    connection = cluster.node(node_id)
    return _recording(connection, count).entries if ApiKey.DESCRIBE_RECORDER in connection.versions else []


def metadata_faults(cluster: Cluster, node_id: int) -> list[str]:
    """Return the committed metadata that a broker cannot apply, one line each; none for a broker without a flight
    recorder."""
    lines = of_broker(cluster, node_id, 0)
    values = json.loads(lines[-1])["values"] if lines else {}
    listed, count = list(values.get("faults", [])), int(values.get("fault_count", 0))
    return listed + ([f"and {count - len(listed)} more"] if count > len(listed) else [])


def _recording(connection: Connection, count: int) -> DescribeRecorderResponse:
    return connection.send(DescribeRecorderRequest(max_entries=count), DescribeRecorderResponse)


def _controllers(cluster: Cluster, connection: Connection) -> dict[Address, int]:
    """Return the controllers that a node knows, with their ids. Raises what `QuorumClient.describe` raises."""
    if ApiKey.VOTE in connection.versions:
        described = connection.send(DescribeClusterRequest(endpoint_type=CONTROLLERS), DescribeClusterResponse)
        return {(each.host, each.port): each.broker_id for each in described.brokers}
    voters = QuorumClient(cluster).describe().voters
    return {(host, int(port)): voter.node_id for voter in voters for address in voter.addresses[:1]
            for host, _, port in [address.partition("://")[2].rpartition(":")]}


def _text(address: Address) -> str:
    return f"{address[0]}:{address[1]}"
