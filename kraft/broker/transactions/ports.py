"""Interfaces of the transaction coordinator to its node: the cluster's metadata, producer ids, and queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kraft.broker.transactions.config import TransactionCoordinatorConfig
from kraft.broker.transactions.events import OnEvent, ignore
from kraft.broker.transactions.markers import Leaders, MarkerQueue
from kraft.broker.transactions.state import Identity, TopicPartition


class ClusterView(Leaders, Protocol):
    """Queries of the coordinator to the cluster's metadata."""

    @property
    def transaction_version(self) -> int:
        """Finalised level of transaction.version."""

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions of a topic; None when it does not exist."""


class ProducerIdSource(Protocol):
    """Supply of new producer ids."""

    def take(self, now_ms: int, answer: Callable[[int | None], None]) -> None:
        """Give the next id to `answer`, at once or later; None when there is none now."""


class Environment:
    """Common parts of all shards of a coordinator. `config` and `on_event` may be replaced at runtime."""

    __slots__ = ("cluster", "config", "markers", "on_event", "producer_ids")

    def __init__(self, config: TransactionCoordinatorConfig, cluster: ClusterView, producer_ids: ProducerIdSource,
                 markers: MarkerQueue) -> None:
        self.config = config
        self.cluster = cluster
        self.producer_ids = producer_ids
        self.markers = markers
        self.on_event: OnEvent = ignore


class Query(NamedTuple):
    """Partitions that a client adds to its transaction, or of which a broker has to know that the transaction has them
    (without `adds`). `client_version` is the client's transaction.version."""

    transactional_id: str
    identity: Identity
    partitions: Sequence[TopicPartition]
    adds: bool
    client_version: int
