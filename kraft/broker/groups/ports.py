"""Interfaces of the group coordinator to its node: the cluster's metadata, and ways to other coordinators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from kraft.broker.coordinator.shard import Producer
from kraft.broker.groups.config import GroupCoordinatorConfig
from kraft.broker.groups.consumer.cluster import Topics
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message


class TopicView(Topics, Protocol):
    """Queries of the coordinator to the cluster's metadata."""

    def has_partition(self, name: str, partition: int) -> bool:
        """Return whether the topic exists and has that partition."""


class SharePort(Protocol):
    """Queries of share groups to other brokers. Each answer comes once, in a later call, with the time."""

    @property
    def is_ready(self) -> bool:
        """True once there is a way to the share coordinators."""

    def send(self, request: Message, answer: Callable[[Any, int], None]) -> None:
        """Send a request about the states of one group's partitions to the share coordinators (`SharePersister`)."""

    def ends(self, places: Sequence[tuple[str, int]], answer: Callable[[Mapping[tuple[str, int], int], int], None]
             ) -> None:
        """Find the ends of partitions, by topic and index, as consumers see them. `answer` gets those that were
        found."""


class Environment:
    """Common parts of all shards of a coordinator; its fields may be replaced at runtime."""

    __slots__ = ("_share", "config", "new_uuid", "topics")

    def __init__(self, config: GroupCoordinatorConfig, topics: TopicView, new_uuid: Callable[[], UUID],
                 share: SharePort | None) -> None:
        self.config = config
        self.topics = topics
        self.new_uuid = new_uuid
        self._share = share

    @property
    def share(self) -> SharePort | None:
        """Way to other brokers for share groups; None while there is no way to the share coordinators."""
        return self._share if self._share is not None and self._share.is_ready else None


class Transaction(NamedTuple):
    """Transaction of a request, by its producer."""

    transactional_id: str
    producer: Producer


class TransactionPort(Protocol):
    """Interface to the transaction coordinators of the cluster."""

    def verify(self, partition: int, transaction: Transaction, *, adds: bool, knows_abortable: bool,
               done: Callable[[ErrorCode, int], None]) -> None:
        """Find out whether the transaction is open and contains this partition of `__consumer_offsets`; with `adds`,
        add the partition to it.

        Calls `done` once, with NONE or the refusal, and the time: at once when the log has records of the open
        transaction, otherwise within a limited time. A refusal for a client that does not know TRANSACTION_ABORTABLE
        is INVALID_TXN_STATE.
        """
