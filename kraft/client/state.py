"""State of a cluster: its nodes, its quorum, its partitions and its log directories."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from kraft.client import recorder
from kraft.client.cluster import Cluster
from kraft.client.connection import ConnectionFailedError
from kraft.client.features import describe_features
from kraft.client.quorum import Description, describe_quorum
from kraft.client.refusals import check
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import text_of
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kraft.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from kraft.protocol.messages.metadata_response import MetadataResponse

FENCED_VERSION: Final = 2


class BrokerState(NamedTuple):
    """One broker. `problem` says why it could not be reached; None when it answered."""

    node_id: int
    address: str
    rack: str | None
    fenced: bool
    problem: str | None


class Partitions(NamedTuple):
    """Partitions by their problem, each named `topic-index`."""

    topics: int
    partitions: int
    without_leader: tuple[str, ...]
    under_replicated: tuple[str, ...]


class LogDirectory(NamedTuple):
    """One log directory. `problem` is None when the broker can use it; -1 means that the broker does not report a
    number."""

    node_id: int
    path: str
    problem: str | None
    logs: int
    log_bytes: int
    total_bytes: int
    usable_bytes: int


def brokers(cluster: Cluster) -> list[BrokerState]:
    """Return every broker, sorted by id, after connecting to it. Includes fenced ones where the cluster lists them."""
    first = cluster.any()
    api = DescribeClusterRequest.API_KEY
    fenced: dict[int, BrokerState] = {}
    if first.versions.get(api, (0, -1))[1] >= FENCED_VERSION:
        described = first.send(DescribeClusterRequest(include_fenced_brokers=True), DescribeClusterResponse)
        check("brokers", described.error_code, described.error_message)
        fenced = {each.broker_id: BrokerState(each.broker_id, f"{each.host}:{each.port}", each.rack, True, "fenced")
                  for each in described.brokers if each.is_fenced}
    found = dict(fenced)
    for node in cluster.nodes():
        problem = None
        try:
            cluster.node(node.node_id)
        except ConnectionFailedError as error:
            problem = str(error)
        found[node.node_id] = BrokerState(node.node_id, f"{node.host}:{node.port}", node.rack,
                                          node.node_id in fenced, problem)
    return [found[node_id] for node_id in sorted(found)]


def ended_leases(cluster: Cluster, nodes: Iterable[BrokerState]) -> dict[int, str]:
    """Return, in words and by id, the brokers that answer and whose lease has ended: no controller has answered them
    for longer. Apache Kafka's brokers do not report it."""
    found = {}
    for each in nodes:
        if each.problem is None:
            described = cluster.node(each.node_id).send(DescribeClusterRequest(), DescribeClusterResponse)
            if described.lease_ended_ms >= 0:
                found[each.node_id] = (f"its lease ended {described.lease_ended_ms / 1000:.0f} s ago: controllers may "
                                       "have fenced it")
    return found


def metadata_faults(cluster: Cluster, nodes: Iterable[BrokerState]) -> dict[int, list[str]]:
    """Return, by id, the committed metadata that the brokers that answer cannot apply, one line each. Apache Kafka's
    brokers do not report it."""
    return {each.node_id: recorder.metadata_faults(cluster, each.node_id) for each in nodes if each.problem is None}


class Storage(NamedTuple):
    """Reports of brokers about their disks, in words."""

    lost_records: list[str]
    strays: list[str]


def storage(cluster: Cluster, nodes: Iterable[BrokerState]) -> Storage:
    """Return the problems on the disks of the brokers that answer. Apache Kafka's brokers do not report them."""
    lost, strays = [], []
    for each in nodes:
        if each.problem is None:
            found = cluster.node(each.node_id).send(DescribeClusterRequest(), DescribeClusterResponse)
            lost += [f"broker {each.node_id}: {text}" for text in found.lost_records]
            if found.stray_partitions:
                many = "directory" if found.stray_partitions == 1 else "directories"
                strays.append(f"broker {each.node_id}: {found.stray_partitions} stray partition {many} "
                              "(kraft storage strays list)")
    return Storage(lost, strays)


def quorum(cluster: Cluster) -> Description | None:
    """Return the metadata quorum; None from a cluster that has none (one with ZooKeeper)."""
    return describe_quorum(cluster.any()) if DescribeQuorumRequest.API_KEY in cluster.any().versions else None


def partitions(metadata: MetadataResponse) -> Partitions:
    """Return the problems of the partitions of all topics."""
    without_leader = []
    under_replicated = []
    for topic in sorted(metadata.topics, key=lambda topic: topic.name or ""):
        for each in sorted(topic.partitions, key=lambda each: each.partition_index):
            name = f"{topic.name}-{each.partition_index}"
            if each.leader_id < 0:
                without_leader.append(name)
            if len(each.isr_nodes) < len(each.replica_nodes):
                under_replicated.append(name)
    return Partitions(len(metadata.topics), sum(len(topic.partitions) for topic in metadata.topics),
                      tuple(without_leader), tuple(under_replicated))


def log_directories(cluster: Cluster, node_ids: list[int]) -> list[LogDirectory]:
    """Return the log directories of these brokers."""
    found = []
    for node_id in node_ids:
        answer = cluster.node(node_id).send(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
        check(f"log directories of node {node_id}", answer.error_code)
        for each in answer.results:
            sizes = [partition.partition_size for topic in each.topics for partition in topic.partitions]
            problem = None if each.error_code == ErrorCode.NONE else text_of(each.error_code)
            found.append(LogDirectory(node_id, each.log_dir, problem, len(sizes), sum(sizes), each.total_bytes,
                                      each.usable_bytes))
    return found


def features(cluster: Cluster) -> dict[str, int]:
    """Return the finalized feature levels."""
    return {each.name: each.level for each in describe_features(cluster).features.values() if each.level}
