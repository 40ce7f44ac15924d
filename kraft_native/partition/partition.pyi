from collections.abc import Callable
from typing import Literal, final

from typing_extensions import Buffer

from kraft_native.base.errors import StorageError
from kraft_native.facade.log import Log
from kraft_native.log.append import AppendInfo
from kraft_native.partition.purgatory import Parked, Watched
from kraft_native.partition.watermark import ReplicaProgress
from kraft_native.request.replication_quota import ReplicationQuota
from kraft_native.segment.config import LogConfig
from kraft_native.segment.producer_snapshots import ProducerState

INTERNAL_TOPICS: frozenset[str]

@final
class Partition(Watched):
    log: Log
    topic: str
    topic_name: bytes
    topic_id: bytes
    index: int
    leader_epoch: int
    leader_id: int
    is_leader: bool
    removed: bool
    internal: bool
    min_insync_replicas: int
    epoch_start: int
    progress: ReplicaProgress
    leader_quota: ReplicationQuota | None
    follower_quota: ReplicationQuota | None
    produced_bytes: int
    produced_records: int
    fetched_bytes: int
    refused_produces: int
    refused_fetches: int
    replicated_bytes: int
    def __init__(
        self, log: Log, topic: str, topic_id: bytes, index: int, *, min_insync_replicas: int = 1
    ) -> None: ...
    @property
    def high_watermark(self) -> int: ...
    def become_leader(
        self,
        leader_epoch: int,
        *,
        node_id: int,
        replicas: tuple[int, ...] | list[int] | None = None,
        isr: tuple[int, ...] | list[int] | None = None,
        maximal: tuple[int, ...] | list[int] | None = None,
    ) -> None: ...
    def become_follower(self, leader_epoch: int, leader_id: int) -> None: ...
    def set_isr(
        self, isr: tuple[int, ...] | list[int], maximal: tuple[int, ...] | list[int] | None = None
    ) -> None: ...
    def watch_followers(self, on_caught_up: Callable[[Partition, int], bool] | None) -> None: ...
    def watch_failure(
        self, on_failure: Callable[[Partition], object], on_read_failure: Callable[[StorageError], object] | None = None
    ) -> None: ...
    def lagging(self, lag_max_ms: int) -> list[int]: ...
    def broker_epoch_of(self, node_id: int) -> int: ...
    def cut_to_epoch(self, epoch: int, end_offset: int) -> int: ...
    def set_min_insync_replicas(self, count: int) -> None: ...
    def throttle(self, leader: ReplicationQuota | None, follower: ReplicationQuota | None) -> None: ...
    def reconfigure(self, config: LogConfig) -> None: ...
    def replace_log(self, log: Log) -> None: ...
    def log_changed(self) -> None: ...
    def append(
        self, data: Buffer, *, origin: Literal["client", "coordinator"] = "client", now_ms: int = -1
    ) -> AppendInfo: ...
    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        *,
        transaction_version: int = 0,
        now_ms: int = -1,
    ) -> AppendInfo: ...
    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool: ...
    def call_when_committed(
        self, end_offset: int, callback: Callable[[int], object], *, timeout_ms: int = 30_000
    ) -> None: ...
    def earliest(self, *, current_leader_epoch: int = -1) -> tuple[int, int, int]: ...
    def latest(
        self,
        isolation: Literal["log_end", "read_uncommitted", "read_committed"] = "read_uncommitted",
        *,
        current_leader_epoch: int = -1,
    ) -> tuple[int, int, int]: ...
    def offset_for_time(
        self,
        timestamp_ms: int,
        isolation: Literal["log_end", "read_uncommitted", "read_committed"] = "read_uncommitted",
        *,
        current_leader_epoch: int = -1,
    ) -> tuple[int, int, int] | None: ...
    def max_timestamp(
        self,
        isolation: Literal["log_end", "read_uncommitted", "read_committed"] = "read_uncommitted",
        *,
        current_leader_epoch: int = -1,
    ) -> tuple[int, int, int] | None: ...
    def end_offset_for_epoch(self, epoch: int, *, current_leader_epoch: int = -1) -> tuple[int, int]: ...
    def delete_records(self, before_offset: int) -> int: ...
    def low_watermark(self, is_alive: Callable[[int], bool]) -> int: ...
    def call_when_deleted(
        self,
        before_offset: int,
        is_alive: Callable[[int], bool],
        callback: Callable[[int, int], object],
        *,
        timeout_ms: int,
    ) -> None: ...
    def producers(self) -> list[ProducerState]: ...

@final
class CommitWaiter(Parked): ...

@final
class DeletionWaiter(Parked): ...
