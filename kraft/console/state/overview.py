"""The cluster at a glance: brokers, partitions, quorum, log directories."""

from typing import NamedTuple

from kraft.client import Cluster, state
from kraft.client.quorum import Description
from kraft.console.parts import Part, attempt
from kraft.console.state.topics import TopicTable


class Totals(NamedTuple):
    """Sums over all topics."""

    topics: int
    partitions: int
    without_leader: int
    under_replicated: int


class Overview(NamedTuple):
    """Parts of the first page; each was read by itself."""

    cluster_id: str
    controller: int
    brokers: Part[list[state.BrokerState]]
    quorum: Part[Description | None]
    directories: Part[list[state.LogDirectory]]
    totals: Totals

    @property
    def log_bytes(self) -> int:
        return sum(each.log_bytes for each in self.directories.otherwise([]))


def totals_of(rows: TopicTable) -> Totals:
    """Return the sums over these topics."""
    partitions = without_leader = under_replicated = 0
    for row in rows:
        partitions += row.partitions
        without_leader += row.without_leader
        under_replicated += row.under_replicated
    return Totals(len(rows), partitions, without_leader, under_replicated)


def overview(cluster: Cluster, rows: TopicTable) -> Overview:
    """Read the parts of the first page. Raises when no node answers at all."""
    metadata = cluster.metadata([])
    brokers = attempt(lambda: state.brokers(cluster))
    reachable = [each.node_id for each in brokers.otherwise([]) if each.problem is None]
    return Overview(metadata.cluster_id or "-", metadata.controller_id, brokers, attempt(lambda: state.quorum(cluster)),
                    attempt(lambda: state.log_directories(cluster, reachable)), totals_of(rows))
