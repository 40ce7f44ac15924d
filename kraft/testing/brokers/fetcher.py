"""A follower's connection to one leader: the model of `kraft_native.replica.replica_fetch`, and of the pauses and
retries of `kraft.runtime.replicas.replication`."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from kraft.broker.isr import Key
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft.testing.brokers.messages import Bounds, BoundsAre, Fetch, Fetched, FetchedPart, FetchPart
from kraft.testing.brokers.partition import GROUP_COMMIT, Partition
from kraft.testing.brokers.wire import Answered

PAUSE_MS: Final = 20
BACKOFF_MS: Final = 400


class Follower(Protocol):
    """The broker that follows."""

    @property
    def id(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def following(self) -> dict[Key, tuple[int, Partition]]: ...

    def send_to_peer(self, target_id: int, lane: str, body: object, answered: Answered) -> None: ...
    def later(self, delay_ms: int, function: Callable[..., None], *arguments: Any) -> None: ...
    def count(self, name: str) -> None: ...


class Followed:
    """A partition's place in a fetcher."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch


class Fetcher:
    """A follower's fetches from one leader. `followed` by key. One request names all partitions. A partition that is
    added while that request is parked gets a request of its own."""

    def __init__(self, broker: Follower, leader_id: int) -> None:
        self._broker = broker
        self._leader_id = leader_id
        self.followed: dict[Key, Followed] = {}
        self._pauses: dict[Key, int] = {}
        self._request_number = 0
        self._pause_ms = 0
        self._is_pausing = False
        self._is_working = False
        self._unflushed: list[tuple[Partition, int]] = []

    def follow(self, key: Key, partition: Partition) -> None:
        """Fetch for the partition from its log end on, in its leader epoch."""
        self.followed[key] = followed = Followed(partition)
        if self._is_working or self._is_pausing or self._unflushed:
            return
        if self._request_number:
            self._send({key: followed}, only_new=True)
        else:
            self.send_next()

    def unfollow(self, key: Key) -> None:
        """Stop fetching for the partition. An answer that is under way is not appended."""
        self.followed.pop(key, None)

    def send_next(self) -> None:
        if self.followed and not self._request_number and not self._is_pausing and not self._unflushed:
            self._send(dict(self.followed), only_new=False)

    def _send(self, requested: dict[Key, Followed], *, only_new: bool) -> None:
        self._request_number += 1
        parts = tuple(self.part_of(key, followed) for key, followed in requested.items())
        self._broker.send_to_peer(self._leader_id, "fetch", Fetch(self._broker.id, self._broker.epoch, parts, only_new),
                                  partial(self._answered, requested))

    @staticmethod
    def part_of(key: Key, followed: Followed) -> FetchPart:
        partition = followed.partition
        return FetchPart(key, followed.leader_epoch, partition.log.end_offset, partition.last_epoch)

    def _answered(self, requested: dict[Key, Followed], answer: object) -> None:
        self._request_number -= 1
        if answer is None:
            self._lost()
            return
        assert isinstance(answer, Fetched)
        self._pause_ms = 0
        self._is_working = True
        for part in answer.parts:
            followed = self.followed.get(part.key)
            # A partition that was removed, or added after the request left, cannot use this answer.
            if followed is not None and followed is requested.get(part.key):
                self.take_part(part, followed)
        self._is_working = False
        self.flushed()

    def flushed(self) -> None:
        """Send the next request. With group commit it waits until the records of the last answer are durable."""
        self._unflushed = [(partition, end_offset) for partition, end_offset in self._unflushed
                           if not partition.is_removed
                           and partition.log.durable_end < min(end_offset, partition.log.end_offset)]
        self.send_next()

    def _lost(self) -> None:
        """Handle a broken connection: open it again after a growing pause."""
        self._pause_ms = min(max(PAUSE_MS, 2 * self._pause_ms), BACKOFF_MS)
        self._is_pausing = True
        self._broker.later(self._pause_ms, self._paused)

    def _paused(self) -> None:
        self._is_pausing = False
        self.send_next()

    def take_part(self, part: FetchedPart, followed: Followed) -> None:
        partition = followed.partition
        if partition.is_removed or partition.is_leader or partition.leader_epoch != followed.leader_epoch:
            self.unfollow(part.key)
            return
        if part.error != ErrorCode.NONE:
            self.unfollow(part.key)
            self._failed(part.key, part.error)
            return
        if part.diverging is not None:
            self._broker.count("replica truncated")
            partition.cut_to_epoch(*part.diverging)
            return
        if partition.replicate(part.batches):
            self._pauses.pop(part.key, None)
            if partition.home.durability == GROUP_COMMIT:
                self._unflushed.append((partition, partition.log.end_offset))
        partition.follow_marks(part.high_watermark, part.log_start)

    # --- failed attempts ----------------------------------------------------------------------------------------------

    def _failed(self, key: Key, error: int) -> None:
        """Stop fetching for a partition, and try again after a pause."""
        self._broker.count(f"fetch answered: {name_of(error)}")
        if key in self._broker.following:
            pause_ms = self._pauses.get(key, PAUSE_MS)
            self._pauses[key] = min(2 * pause_ms, BACKOFF_MS)
            self._broker.later(pause_ms, self._retry, key, error)

    def _retry(self, key: Key, error: int) -> None:
        known = self._broker.following.get(key)
        if known is None or known[0] != self._leader_id or key in self.followed:
            return
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._broker.send_to_peer(self._leader_id, "bounds", Bounds(key, known[1].leader_epoch),
                                      partial(self._placed, key, known[1]))
        else:
            self.follow(key, known[1])

    def _placed(self, key: Key, partition: Partition, answer: object) -> None:
        """Place the log end inside the leader's log. Records past the leader's log end are dropped. A log that ends
        before the leader's log start is restarted there."""
        if self._broker.following.get(key) != (self._leader_id, partition) or key in self.followed:
            return
        if not isinstance(answer, BoundsAre) or answer.error != ErrorCode.NONE:
            self._failed(key, ErrorCode.OFFSET_OUT_OF_RANGE)
            return
        if answer.end < partition.log.end_offset:
            partition.cut_to(answer.end)
        elif answer.start > partition.log.end_offset:
            partition.restart_at(answer.start, answer.start_chain)
        self.follow(key, partition)
