"""Interface to the parts that read metadata logs and flight recorders.

The command passes them in, so that the pages depend on no command.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from kraft.client import Cluster
from kraft.client.partitions import Partition
from kraft.client.pushed_metrics import ClientInstance, Pushed
from kraft.metadata.image import MetadataImage
from kraft.recorder.entry import Entry
from kraft.recorder.why import Answer


class Moment(NamedTuple):
    """A point of the metadata log: an offset, or a time in milliseconds since 1970. Its end when neither is given."""

    offset: int | None = None
    time_ms: int | None = None


class Difference(NamedTuple):
    """One value that differs between two states; None on the side that lacks it."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Recordings:
    """Entries of all flight recorders in the order of time, and why nodes have none, by node or address."""

    entries: Sequence[Entry] = ()
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClientReports:
    """Metrics that clients pushed to the nodes whose listeners are known. `listeners`: their number; `missing`: why
    listeners did not answer, by their address."""

    instances: Sequence[ClientInstance] = ()
    values: Sequence[Pushed] = ()
    listeners: int = 0
    missing: Mapping[str, str] = field(default_factory=dict)


class Listener(Protocol):
    """Receiver of the records of a metadata log."""

    def starts(self, image: MetadataImage) -> None:
        """Start with the state of a snapshot."""

    def apply(self, timestamp_ms: int, record: object, offset: int) -> None:
        """Receive the next record."""


class Sources(Protocol):
    """Readers of metadata logs and flight recorders. All raise `KraftError` when the cluster does not answer."""

    def image(self, cluster: Cluster, moment: Moment, listener: Listener | None = None) -> MetadataImage:
        """Return the committed metadata at a moment. `listener` receives the records up to then."""

    def differences(self, before: MetadataImage, after: MetadataImage) -> list[Difference]:
        """Return every value that differs, in the order of paths."""

    def tree(self, image: MetadataImage) -> Mapping[str, Any]:
        """Return everything in the image by names."""

    def recordings(self, cluster: Cluster, count: int) -> Recordings:
        """Return the last `count` entries of each node's flight recorder."""

    def client_reports(self) -> ClientReports:
        """Return what clients have pushed to the nodes (KIP-714)."""

    def about_partitions(self, cluster: Cluster, partitions: Sequence[Partition]) -> list[tuple[Partition, Answer]]:
        """Explain the leaders and the in-sync replicas of partitions."""

    def about_quorum(self, cluster: Cluster) -> list[Answer]:
        """Explain the leader of the metadata quorum, its voters and its changes."""

    def about_transactions(self, cluster: Cluster, partitions: Sequence[Partition]) -> list[tuple[Partition, Answer]]:
        """Name the transactions that hold back readers of committed records."""
