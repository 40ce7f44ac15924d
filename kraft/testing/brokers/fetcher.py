"""A follower's fetches from one leader: the compiled `ReplicaFetcher` on a simulated connection, and a model of the
pauses and retries that `kraft.runtime.replicas.replication` puts around it."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from kraft.broker.isr import Key
from kraft.broker.replica_roles import key_of
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft.testing.brokers.ends import FetcherEnd
from kraft.testing.brokers.frames import ANSWER_BYTES, limit_of
from kraft.testing.brokers.messages import Bounds, BoundsAre
from kraft.testing.brokers.wire import Answered, Connection
from kraft_native.base.errors import KraftError
from kraft_native.partition.partition import Partition
from kraft_native.replica.replica_fetch import ReplicaFetcher

if TYPE_CHECKING:
    from kraft.testing.sim.options import Options

PAUSE_MS: Final = 20
BACKOFF_MS: Final = 400


class Follower(Protocol):
    """The broker that follows."""

    @property
    def id(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def options(self) -> "Options": ...
    @property
    def following(self) -> dict[Key, tuple[int, Partition]]: ...

    def open_to_peer(self, target_id: int, lane: str, refused: Callable[[], None]) -> Connection | None: ...
    def send_to_peer(self, target_id: int, lane: str, body: object, answered: Answered) -> None: ...
    def later(self, delay_ms: int, function: Callable[..., None], *arguments: Any) -> None: ...
    def count(self, name: str) -> None: ...
    def was_cut(self, partition: Partition) -> None: ...


class Fetcher:
    """Fetches from one leader. `followed`: the partitions that it leads and this broker follows."""

    def __init__(self, broker: Follower, leader_id: int) -> None:
        self._broker = broker
        self._leader_id = leader_id
        self.followed: dict[Key, Partition] = {}
        self._pauses: dict[Key, int] = {}
        self._retries: dict[Key, int] = {}
        self._retry_count = 0
        self._fetcher: ReplicaFetcher | None = None
        self._earlier_responses = 0
        self._pause_ms = 0
        self._is_pausing = False

    @property
    def responses(self) -> int:
        """Number of answers to its Fetches, over all connections."""
        return self._earlier_responses + (0 if self._fetcher is None else self._fetcher.responses_total)

    def follow(self, key: Key, partition: Partition) -> None:
        """Fetch the partition from its log end on, in its leader epoch."""
        self.followed[key] = partition
        if self._fetcher is not None:
            self._fetcher.follow(partition)
        elif not self._is_pausing:
            self._connect()

    def unfollow(self, key: Key) -> None:
        """Stop fetching the partition. An answer that is under way is not appended."""
        self._pauses.pop(key, None)
        self._retries.pop(key, None)
        partition = self.followed.pop(key, None)
        if partition is not None and self._fetcher is not None:
            self._fetcher.unfollow(partition)

    def close(self) -> None:
        """Close the connection, and follow nothing from here on."""
        self.followed.clear()
        if self._fetcher is not None:
            self._fetcher.close()
            self._fetcher = None

    # --- the connection -----------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        connection = self._broker.open_to_peer(self._leader_id, "fetch", self._pause)
        if connection is None:
            self._is_pausing = True    # until the refusal is noticed
            return
        options = self._broker.options
        self._fetcher = fetcher = ReplicaFetcher(
            node_id=self._broker.id, broker_epoch=self._broker.epoch, client_id=f"broker-{self._broker.id}",
            on_error=self._failed, on_lost=self._lost, on_cut=self._cut, max_wait_ms=options.fetch_wait_ms,
            bytes_max=ANSWER_BYTES, partition_bytes_max=limit_of(options.fetch_batches))
        FetcherEnd(connection, fetcher)
        for partition in self.followed.values():
            fetcher.follow(partition)

    def _lost(self, fetcher: ReplicaFetcher) -> None:
        """Handle a broken connection."""
        if fetcher is self._fetcher:
            self._earlier_responses = self.responses
            self._fetcher = None
            if fetcher.responses_total:
                self._pause_ms = 0
            self._pause()

    def _pause(self) -> None:
        """Connect again after a pause, which grows until the leader answers."""
        self._pause_ms = min(max(PAUSE_MS, 2 * self._pause_ms), BACKOFF_MS)
        self._is_pausing = True
        self._broker.later(self._pause_ms, self._paused)

    def _paused(self) -> None:
        self._is_pausing = False
        if self.followed and self._fetcher is None:
            self._connect()

    def _cut(self, partition: Partition, _before: int, _why: str) -> None:
        self._broker.count("replica truncated")
        self._broker.was_cut(partition)

    # --- failed attempts ----------------------------------------------------------------------------------------------

    def _failed(self, partition: Partition | None, code: int, cause: BaseException | None) -> None:
        """Stop fetching a partition, and try again after a pause."""
        if partition is None:
            raise AssertionError(f"broker {self._leader_id} sent an answer that cannot be read") from cause
        key = key_of(partition)
        self._broker.count(f"fetch answered: {name_of(code)}")
        if key in self._broker.following and partition.log.failure is None:
            pause_ms = self._pauses.get(key, PAUSE_MS)
            self._pauses[key] = min(2 * pause_ms, BACKOFF_MS)
            self._retry_count += 1
            self._retries[key] = self._retry_count
            self._broker.later(pause_ms, self._retry, key, self._retry_count, code)

    def _retry(self, key: Key, number: int, code: int) -> None:
        known = self._broker.following.get(key)
        if self._retries.get(key) != number or known is None:
            return                     # the partition was unfollowed since
        del self._retries[key]
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._broker.send_to_peer(self._leader_id, "bounds", Bounds(key, known[1].leader_epoch),
                                      partial(self._placed, key, known[1], _state(known[1])))
        else:
            self.follow(key, known[1])

    def _placed(self, key: Key, partition: Partition, before: tuple[int, ...], answer: object) -> None:
        """Place the log end inside the leader's log. Records past the leader's log end are dropped. A log that ends
        before the leader's log start is restarted there. A log whose directory failed meanwhile refuses that, which the
        real driver handles as a failed attempt. Nothing is done when `before`, the state at the time of the query, has
        changed."""
        if self._broker.following.get(key) != (self._leader_id, partition) or _state(partition) != before:
            return
        if not isinstance(answer, BoundsAre) or answer.error != ErrorCode.NONE:
            self._failed(partition, ErrorCode.OFFSET_OUT_OF_RANGE, None)
            return
        log = partition.log
        try:
            if answer.end < log.log_end_offset:
                log.truncate_to(answer.end)
            elif answer.start > log.log_end_offset:
                log.truncate_fully_and_start_at(answer.start)
        except KraftError as error:
            self._failed(partition, error.code, error)
            return
        partition.log_changed()
        self.follow(key, partition)


def _state(partition: Partition) -> tuple[int, ...]:
    if partition.log.closed:
        return ()
    return partition.leader_epoch, partition.log.log_end_offset, partition.log.truncation_generation
