"""Facts about the server that a report has beside its figures: cluster, version, durability class."""

from typing import Final, NamedTuple

from kraft.client import Cluster, RefusedError
from kraft.client.configs import describe_configs
from kraft.client.features import describe_features
from kraft.client.quorum import QuorumClient
from kraft.load.workload import Workload
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterResponse

NEVER: Final = str(2**63 - 1)
UNKNOWN: Final = "unknown"
FLUSH_MESSAGES: Final = "flush.messages"
FLUSH_MS: Final = "flush.ms"


class Facts(NamedTuple):
    """`durability` is when an append to the load's topics counts as done; `metadata_version` is the level of the
    feature. Both are empty where the server does not say. `brokers` is 0 for controllers."""

    cluster_id: str
    brokers: int
    metadata_version: str
    durability: str


def facts_of(workload: Workload, cluster: Cluster) -> Facts:
    """Query the facts. What the client may not read is unknown, and not an error."""
    levels = describe_features(cluster).features
    version = str(levels["metadata.version"].level) if "metadata.version" in levels else ""
    identity, brokers = "", 0
    if DescribeClusterRequest.API_KEY in cluster.any().versions:
        described = cluster.send(DescribeClusterRequest(), DescribeClusterResponse)
        identity, brokers = described.cluster_id, len(described.brokers)
    return Facts(identity, brokers, version, _durability(workload, cluster))


def _durability(workload: Workload, cluster: Cluster) -> str:
    if workload.kind == "ping":
        return ""
    try:
        if workload.kind == "commit":
            return f"a majority of {len(QuorumClient(cluster).describe().voters)} voter(s)"
        settings = describe_configs(cluster, "topic", workload.topic_names[:1])[workload.topic_names[0]]
    except RefusedError:
        return UNKNOWN
    values = {each.name: each.value for each in settings}
    return durability_class(values.get(FLUSH_MESSAGES), values.get(FLUSH_MS))


def durability_class(messages: str | None, interval_ms: str | None) -> str:
    """Name the class that a topic's settings choose. A server may flush by neither, by each append, or by a number and
    a time."""
    if messages is None or interval_ms is None:
        return UNKNOWN
    if messages == "1" or interval_ms == "0":
        return "per-append"
    if messages == interval_ms == NEVER:
        return "page-cache"
    return f"group-commit ({FLUSH_MESSAGES}={messages}, {FLUSH_MS}={interval_ms})"
