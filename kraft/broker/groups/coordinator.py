"""Group coordinator: receives requests, sends answers, with one shard per partition of `__consumer_offsets`.

The driver does the following:

- It reports the partitions: `partition_count`, `shards.start_load` ... `finish_load`, `resign`.
- It passes every request to `handle`.
- It reports commits with `committed`.
- It calls `tick` no later than `deadline_ms`.

Everything runs on one thread, with the time as an argument: milliseconds since 1970, which never decrease. An answer is
passed to the `respond` of its request, during one of these calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from kraft.broker.coordinator.answer import Answer
from kraft.broker.coordinator.coordinator import Coordinator, Handlers
from kraft.broker.coordinator.shard import AppendPort, Shard
from kraft.broker.coordinator.shards import Shards
from kraft.broker.groups.config import GroupCoordinatorConfig
from kraft.broker.groups.ports import Environment, SharePort, TopicView, TransactionPort

if TYPE_CHECKING:
    from kraft.broker.groups.served import ServedGroups

M = TypeVar("M")


class GroupCoordinator(Coordinator["ServedGroups"]):
    """Coordinator that serves JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, TxnOffsetCommit, OffsetFetch,
    OffsetDelete, ListGroups, DescribeGroups, DeleteGroups, ConsumerGroupHeartbeat and ConsumerGroupDescribe in the
    versions of their schemas. `share.requests` and `streams.requests` serve those of share and streams groups with it.
    What decides is imported with the first request or the first shard.
    """

    def __init__(self, config: GroupCoordinatorConfig, port: AppendPort, topics: TopicView,
                 new_uuid: Callable[[], UUID], transactions: TransactionPort | None = None,
                 share: SharePort | None = None) -> None:
        """`new_uuid` creates the random part of member ids. Without `transactions`, TxnOffsetCommit is not served.
        Without `share`, share groups are not assigned partitions."""
        self._environment = Environment(config, topics, new_uuid, share)
        self._transactions = transactions
        super().__init__(Shards(port, self._make_shard, config.offset_commit_timeout_ms))

    def _make_handlers(self) -> Handlers:
        from kraft.broker.groups.requests import handlers_of
        return handlers_of(self, self._environment.topics, self._transactions)

    def _make_shard(self, shard: Shard) -> ServedGroups:
        from kraft.broker.groups.served import ServedGroups
        return ServedGroups(shard, self._environment)

    @property
    def config(self) -> GroupCoordinatorConfig:
        """Settings; assign new ones to change them at runtime. Running timers are not changed."""
        return self._environment.config

    @config.setter
    def config(self, config: GroupCoordinatorConfig) -> None:
        self._environment.config = config

    # ---------------------------------------------------------------- the driver's calls

    def marker_appended(self, partition: int, producer_id: int, committed: bool, end_offset: int, now_ms: int) -> None:
        """Apply the marker of a transaction that was appended to a partition of `__consumer_offsets` and ends at
        `end_offset`. The pending offsets of the producer become committed, or are dropped."""
        self.shards.marker_appended(partition, producer_id, committed, end_offset, now_ms)

    def partitions_deleted(self, partitions: Iterable[tuple[str, int]], now_ms: int) -> None:
        """Delete the offsets that groups committed for these deleted (topic, partition) pairs, during the next ticks.

        A shard that cannot write keeps them; they expire like others. Share groups drop the states of the partitions.
        """
        deleted = dict.fromkeys(partitions)
        for _, state in self.shards.active(now_ms):
            state.partitions_deleted(deleted)

    def in_shard(self, group_id: str, answer: Answer[M], now_ms: int, act: Callable[[ServedGroups], None]) -> None:
        """Run `act` in the shard of a group and turn a refusal into the answer."""
        def checked(state: ServedGroups) -> None:
            state.check_not_deleting(group_id)
            act(state)

        self.shards.run_for_key(group_id, answer, now_ms, checked)
