"""Facts about a cluster that the rules use. Each is read by itself; a fact that a cluster cannot give is missing."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from kraft.client import Cluster, state
from kraft.client.connection import ConnectionFailedError, UnreachableError
from kraft.client.groups import list_groups
from kraft.client.partitions import Partition
from kraft.client.quorum import Description
from kraft.client.reassignments import Ongoing, ongoing
from kraft.console.clock import now_ms
from kraft.console.parts import Part, attempt
from kraft.console.sources import Moment, Recordings, Sources
from kraft.console.state.groups import GroupDetail, group_detail
from kraft.console.state.what_if import Placed
from kraft.console.why.history import History
from kraft.metadata.image import MetadataImage
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.recorder.why import Answer

EXPLAINED_MAX: Final = 20
"""Partitions whose in-sync replicas are explained one by one."""
GROUPS_MAX: Final = 100
GROUPS_SECONDS: Final = 3.0
ENTRIES: Final = 300
PROBE_SECONDS: Final = 1.0
TRANSACTION_TOPICS_MAX: Final = 200

Answers = Sequence[tuple[Partition, Answer]]


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that is known. `unanswered` has the reasons why facts are missing, by their name.

    `probes`: what a connection to a fenced broker's address met: None when it answered. `red`: partitions without a
    leader or with replicas that are not in sync.
    """

    now_ms: int = 0
    brokers: Sequence[state.BrokerState] = ()
    probes: Mapping[int, str | None] = field(default_factory=dict)
    leases: Mapping[int, str] = field(default_factory=dict)
    faults: Mapping[int, Sequence[str]] = field(default_factory=dict)
    storage: state.Storage = field(default_factory=lambda: state.Storage([], []))
    directories: Sequence[state.LogDirectory] = ()
    placed: Sequence[Placed] = ()
    red: Sequence[Placed] = ()
    about_partitions: Answers = ()
    moves: Mapping[Partition, Ongoing] = field(default_factory=dict)
    quorum: Description | None = None
    about_quorum: Sequence[Answer] = ()
    image: MetadataImage | None = None
    history: History = field(default_factory=History)
    recordings: Recordings = field(default_factory=Recordings)
    groups: Sequence[GroupDetail] = ()
    transactions: Answers = ()
    unanswered: Mapping[str, str] = field(default_factory=dict)

    def broker(self, node_id: int) -> state.BrokerState | None:
        """Return the state of a broker; None for one that the cluster does not list."""
        return next((each for each in self.brokers if each.node_id == node_id), None)

    @property
    def offline(self) -> dict[int, state.BrokerState]:
        """Brokers that are fenced or do not answer, by id."""
        return {each.node_id: each for each in self.brokers if each.problem is not None}


class Collector:
    """Reader of all facts. `connect` opens connections that one thread uses."""

    def __init__(self, connect: Callable[[], Cluster], sources: Sources) -> None:
        self._connect = connect
        self._sources = sources
        self._missing: dict[str, str] = {}

    def collect(self) -> Facts:
        """Return the facts. Independent ones are read in parallel, because a node that does not answer delays its
        reader for the time-out."""
        with ThreadPoolExecutor(4, "kraft-console-why") as threads:
            jobs = [threads.submit(self._with_cluster, work) for work in (
                self._of_brokers, self._of_log, self._of_recorders, self._of_groups)]
            found = {name: value for job in jobs for name, value in job.result().items()}
        return Facts(now_ms=now_ms(), unanswered=dict(self._missing), **found)

    def _with_cluster(self, work: Callable[[Cluster], dict[str, Any]]) -> dict[str, Any]:
        with self._connect() as cluster:
            return work(cluster)

    def _value(self, name: str, part: Part[Any], otherwise: Any) -> Any:
        if part.problem is not None:
            self._missing[name] = part.problem
            return otherwise
        return part.value

    def _of_brokers(self, cluster: Cluster) -> dict[str, Any]:
        part = attempt(lambda: state.brokers(cluster))
        brokers = part.otherwise([])
        metadata = attempt(lambda: placed_of(cluster.metadata()))
        placed = metadata.otherwise([])
        reachable = [each.node_id for each in brokers if each.problem is None]
        probes = {each.node_id: probe(cluster, each) for each in brokers if each.fenced}
        self._value("brokers", part, None)
        self._value("partitions", metadata, None)
        return {
            "brokers": brokers, "placed": placed, "red": red_of(placed), "probes": probes,
            "leases": self._value("leases", attempt(lambda: state.ended_leases(cluster, brokers)), {}),
            "faults": self._value("settings that brokers cannot apply",
                                  attempt(lambda: state.metadata_faults(cluster, brokers)), {}),
            "storage": self._value("disks", attempt(lambda: state.storage(cluster, brokers)), state.Storage([], [])),
            "directories": self._value("log directories",
                                       attempt(lambda: state.log_directories(cluster, reachable)), []),
        }

    def _of_log(self, cluster: Cluster) -> dict[str, Any]:
        history = History()
        image = attempt(lambda: self._sources.image(cluster, Moment(), history))
        metadata = attempt(lambda: red_of(placed_of(cluster.metadata()))).otherwise([])
        names = [each.partition for each in sorted(metadata, key=lambda each: each.leader >= 0)[:EXPLAINED_MAX]]
        answers = attempt(lambda: self._sources.about_partitions(cluster, names) if names else [])
        return {
            "history": history, "image": self._value("metadata log", image, None),
            "about_partitions": self._value("explanations of partitions", answers, ()),
            "moves": self._value("reassignments", attempt(lambda: ongoing(cluster)), {}),
        }

    def _of_recorders(self, cluster: Cluster) -> dict[str, Any]:
        return {
            "quorum": self._value("quorum", attempt(lambda: state.quorum(cluster)), None),
            "about_quorum": self._value("explanations of the quorum",
                                        attempt(lambda: self._sources.about_quorum(cluster)), ()),
            "recordings": self._value("flight recorders",
                                      attempt(lambda: self._sources.recordings(cluster, ENTRIES)), Recordings()),
        }

    def _of_groups(self, cluster: Cluster) -> dict[str, Any]:
        groups = attempt(lambda: self._groups(cluster))
        transactions = attempt(lambda: self._transactions(cluster))
        return {"groups": self._value("groups", groups, ()),
                "transactions": self._value("transactions", transactions, ())}

    def _groups(self, cluster: Cluster) -> list[GroupDetail]:
        deadline = time.monotonic() + GROUPS_SECONDS
        found: list[GroupDetail] = []
        listed = list_groups(cluster)
        for each in listed[:GROUPS_MAX]:
            if time.monotonic() > deadline:
                break
            detail = attempt(lambda each=each: group_detail(cluster, each.group))  # type: ignore[misc]
            if detail.value is not None:
                found.append(detail.value)
        if len(found) < len(listed):
            self._missing["further groups"] = f"only {len(found):,} of {len(listed):,} groups were read"
        return found

    def _transactions(self, cluster: Cluster) -> Answers:
        topics = [topic for topic in cluster.metadata().topics if not topic.is_internal]
        wanted = [(topic.name or "", each.partition_index) for topic in topics[:TRANSACTION_TOPICS_MAX]
                  for each in topic.partitions if each.leader_id >= 0]
        if len(topics) > TRANSACTION_TOPICS_MAX:
            self._missing["further transactions"] = (f"only the first {TRANSACTION_TOPICS_MAX:,} of {len(topics):,} "
                                                     "topics were read")
        return self._sources.about_transactions(cluster, wanted) if wanted else ()


def placed_of(metadata: MetadataResponse) -> list[Placed]:
    """Return all partitions of an answer, sorted."""
    return sorted(Placed((topic.name or "", each.partition_index), each.leader_id, tuple(each.replica_nodes),
                         tuple(each.isr_nodes)) for topic in metadata.topics for each in topic.partitions)


def red_of(placed: Sequence[Placed]) -> list[Placed]:
    """Return the partitions without a leader or with replicas that are not in sync."""
    return [each for each in placed if each.leader < 0 or len(each.isr) < len(each.replicas)]


def probe(cluster: Cluster, broker: state.BrokerState) -> str | None:
    """Connect to a fenced broker, which metadata does not list. None when it answers."""
    host, _, port = broker.address.rpartition(":")
    try:
        cluster.connect(host.strip("[]"), int(port), PROBE_SECONDS, PROBE_SECONDS).close()
    except UnreachableError as error:
        return str(error)
    except (ConnectionFailedError, ValueError) as error:
        return f"no answer within {PROBE_SECONDS:g} s: {error}"
    return None
