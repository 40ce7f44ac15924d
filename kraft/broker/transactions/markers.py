"""Markers that are due, by broker, and the requests that carry them.

    add --> queue of the leader --take--> in flight --answered--> written
                 ^------- back-off <-- failed, or no leader -----'

**Lanes.** A broker answers WriteTxnMarkers once all its markers are committed, and answers come in order on a
connection. So one partition whose followers are slow would delay the markers of all others. Three rules prevent that:

- A broker has up to `LANES` requests in flight, each in a lane (connection) of its own.
- Markers of a partition with an unanswered one wait. So a slow partition occupies one lane, and the markers of each
  producer keep their order.
- A partition that was not committed in time is *slow*. One of its markers at a time is sent, in a lane of the slow
  partitions, until it is written.

A broker that cannot be reached, or does not answer, is *silent*: it has one request at a time until it answers one. Its
partitions are not slow for that.

Partitions of this node need no request: `take_own` returns their markers, and each has its own outcome.

A marker is also done when its partition is deleted. A broker that starts may not know a partition yet, which is no
deletion. And it is done when the partition refuses it for its producer epoch: then it has a later marker of this
producer. All other failures are retried indefinitely, with the present leader.
The transaction stays in its *Prepare* state meanwhile, so nothing is lost by waiting.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from kraft.broker.coordinator.deadlines import Deadlines
from kraft.broker.transactions.events import MarkerDelayed, MarkerWritten, OnEvent, ignore
from kraft.broker.transactions.state import TopicPartition
from kraft.metadata.image import NO_LEADER
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kraft.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse

MARKERS_PER_REQUEST: Final = 256
LANES: Final = 4
"""Requests in flight to one broker, in addition to the one of slow partitions."""
SLOW_LANE: Final = LANES
RETRY_MS: Final = 100
DONE: Final = (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)


class Leaders(Protocol):
    """Leaders of partitions, from the committed metadata."""

    def leader_of(self, topic: str, partition: int) -> int | None:
        """Return the id of the leader, NO_LEADER without one, None when the partition does not exist."""

    @property
    def is_current(self) -> bool:
        """False while a missing partition may only be unknown yet: soon after a start."""


class Decision(NamedTuple):
    """Part that all markers of one transaction have in common."""

    producer_id: int
    producer_epoch: int
    commits: bool
    transaction_version: int


class Marking:
    """Markers of one transaction that are not written yet. `missing` has the error of the last attempt of each. `done`
    is called after the last one. `coordinator_epoch` returns the present leader epoch of the partition of
    `__transaction_state`."""

    __slots__ = ("coordinator_epoch", "decision", "done", "is_cancelled", "missing")

    def __init__(self, decision: Decision, partitions: Iterable[TopicPartition], coordinator_epoch: Callable[[], int],
                 done: Callable[[], None]) -> None:
        self.decision = decision
        self.missing: dict[TopicPartition, int] = dict.fromkeys(partitions, ErrorCode.NONE)
        self.coordinator_epoch = coordinator_epoch
        self.done = done
        self.is_cancelled = False

    def cancel(self) -> None:
        """Drop the markers: this node no longer coordinates the transaction."""
        self.is_cancelled = True

    def written(self, partition: TopicPartition) -> None:
        """Remove a partition that needs no further marker."""
        if not self.is_cancelled and partition in self.missing:
            del self.missing[partition]
            if not self.missing:
                self.is_cancelled = True
                self.done()


class Marker(NamedTuple):
    """Marker of one transaction in one partition."""

    marking: Marking
    partition: TopicPartition


class Dispatch(NamedTuple):
    """Request in flight to a broker. At most one has the same broker and lane."""

    broker_id: int
    lane: int
    request: WriteTxnMarkersRequest
    markers: list[Marker]


class _Destination:
    """Markers for one broker that are not in flight, by partition. A partition with some is in `ready` or `slow`. While
    it has a marker in flight, it is `busy` instead."""

    __slots__ = ("busy", "lanes", "ready", "slow", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[TopicPartition, deque[Marker]] = {}
        self.ready: deque[TopicPartition] = deque()
        self.slow: deque[TopicPartition] = deque()
        self.busy: dict[TopicPartition, None] = {}
        self.lanes: dict[int, None] = {}

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.lanes

    def add(self, marker: Marker, is_slow: bool) -> None:
        waiting = self.waiting.get(marker.partition)
        if waiting is None:
            waiting = self.waiting[marker.partition] = deque()
            if marker.partition not in self.busy:
                (self.slow if is_slow else self.ready).append(marker.partition)
        waiting.append(marker)

    def release(self, partition: TopicPartition, is_slow: bool) -> None:
        """Handle the answer to the partition's marker in flight."""
        del self.busy[partition]
        if partition in self.waiting:
            (self.slow if is_slow else self.ready).append(partition)

    def free_lane(self, is_silent: bool) -> int | None:
        """Return a lane for the next request; None when none is free or nothing is due."""
        if is_silent and self.lanes:
            return None
        if self.slow and SLOW_LANE not in self.lanes:
            return SLOW_LANE
        if not self.ready:
            return None
        return next((lane for lane in range(LANES) if lane not in self.lanes), None)

    def take(self, partitions: deque[TopicPartition], count_max: int, per_partition: int) -> list[Marker]:
        """Remove and return markers of the first of `partitions`. `settle` is due for these partitions."""
        taken: list[Marker] = []
        while partitions and len(taken) < count_max:
            waiting = self.waiting[partitions[0]]
            taken += (waiting.popleft() for _ in range(min(per_partition, count_max - len(taken), len(waiting))))
            if not waiting:
                del self.waiting[partitions[0]]
            partitions.popleft()
        return taken

    def settle(self, taken: Iterable[Marker], sent: Iterable[Marker], partitions: deque[TopicPartition]) -> None:
        """Make the partitions of markers that are `sent` busy, and the others of `taken` due again."""
        self.busy.update(dict.fromkeys(marker.partition for marker in sent))
        for partition in dict.fromkeys(marker.partition for marker in taken):
            if partition in self.waiting and partition not in self.busy:
                partitions.append(partition)

    def drain(self) -> list[Marker]:
        """Remove and return all that are not in flight."""
        drained = [marker for waiting in self.waiting.values() for marker in waiting]
        self.waiting.clear()
        self.ready.clear()
        self.slow.clear()
        return drained


class MarkerQueue:
    """Markers of all transactions of this coordinator. The driver sends what `take` returns, and reports to `answered`;
    it appends what `take_own` returns, and reports to `settled`. `on_due` is called when a broker has markers to be
    sent. `deadlines` are those of the coordinator."""

    def __init__(self, leaders: Leaders, deadlines: Deadlines | None = None) -> None:
        self._leaders = leaders
        self._deadlines = Deadlines() if deadlines is None else deadlines
        self._destinations: dict[int, _Destination] = {}
        self._slow: dict[TopicPartition, None] = {}
        self._silent: dict[int, None] = {}
        self._delayed: list[tuple[int, int, Marker, bool]] = []
        self._sequence = 0
        self._count = 0
        self._leaderless_count = 0
        self.on_due: Callable[[int], None] = lambda _broker_id: None
        self.on_event: OnEvent = ignore

    def __len__(self) -> int:
        """Number of markers that are not written, including those of cancelled transactions."""
        return self._count

    @property
    def leaderless_count(self) -> int:
        """Number of those that wait for a leader of their partition."""
        return self._leaderless_count

    @property
    def slow_count(self) -> int:
        """Number of partitions that did not commit a marker in time, and have one that is not written."""
        return len(self._slow)

    def add(self, marking: Marking, now_ms: int) -> None:
        """Queue the markers of a transaction, at least one."""
        self._count += len(marking.missing)
        for partition in sorted(marking.missing):
            self._route(Marker(marking, partition), now_ms)

    # ---------------------------------------------------------------- other brokers

    def take(self, broker_id: int) -> Dispatch | None:
        """Return the next request for that broker; None when nothing is due, and while too much is in flight."""
        destination = self._destinations.get(broker_id)
        if destination is None:
            return None
        while (lane := destination.free_lane(broker_id in self._silent)) is not None:
            partitions, per_partition = ((destination.slow, 1) if lane == SLOW_LANE
                                         else (destination.ready, MARKERS_PER_REQUEST))
            taken = destination.take(partitions, MARKERS_PER_REQUEST, per_partition)
            markers = self._without_cancelled(taken)
            destination.settle(taken, markers, partitions)
            if markers:
                destination.lanes[lane] = None
                return Dispatch(broker_id, lane, _request(markers), markers)
        self._forget_idle(broker_id, destination)
        return None

    def answered(self, dispatch: Dispatch, response: WriteTxnMarkersResponse | None, now_ms: int) -> None:
        """Process the answer to a request; None: the broker cannot be reached, or does not answer."""
        destination = self._destinations[dispatch.broker_id]
        del destination.lanes[dispatch.lane]
        if response is None:
            self._silent[dispatch.broker_id] = None
        else:
            self._silent.pop(dispatch.broker_id, None)
        codes = {} if response is None else {
            (marker.producer_id, topic.name, each.partition_index): each.error_code
            for marker in response.markers for topic in marker.topics for each in topic.partitions}
        outcomes = [(marker, codes.get((marker.marking.decision.producer_id, *marker.partition),
                                       ErrorCode.REQUEST_TIMED_OUT)) for marker in dispatch.markers]
        late = dict.fromkeys(marker.partition for marker, code in outcomes if code == ErrorCode.REQUEST_TIMED_OUT)
        for partition in dict.fromkeys(marker.partition for marker in dispatch.markers):
            if response is not None:
                self._slow.pop(partition, None)
                if partition in late:
                    self._slow[partition] = None
            destination.release(partition, partition in self._slow)
        if response is None:
            for marker in destination.drain():
                self._delay(marker, now_ms, ErrorCode.REQUEST_TIMED_OUT)
        for marker, code in outcomes:
            self._settle(marker, code, now_ms)
        if destination.free_lane(dispatch.broker_id in self._silent) is not None:
            self.on_due(dispatch.broker_id)
        else:
            self._forget_idle(dispatch.broker_id, destination)

    # ---------------------------------------------------------------- partitions of this node

    def take_own(self, broker_id: int, count_max: int) -> list[Marker]:
        """Return markers of partitions that this node leads, at most `count_max`; `settled` is due for each, in any
        order. `on_due` is called when others are left.

        None of these partitions is slow: their markers delay no others. One may have become slow under the leader
        before this node."""
        destination = self._destinations.get(broker_id)
        if destination is None:
            return []
        destination.ready += destination.slow
        destination.slow.clear()
        taken = destination.take(destination.ready, count_max, count_max)
        destination.settle(taken, (), destination.ready)
        if destination.ready:
            self.on_due(broker_id)
        self._forget_idle(broker_id, destination)
        return self._without_cancelled(taken)

    def settled(self, marker: Marker, code: int, now_ms: int) -> None:
        """Process the outcome of one marker that `take_own` returned."""
        self._slow.pop(marker.partition, None)
        self._settle(marker, code, now_ms)

    # ---------------------------------------------------------------- time

    def tick(self, now_ms: int, steps_max: int) -> int:
        """Queue markers again whose back-off is over, at most `steps_max`. Return the remaining steps."""
        while steps_max > 0 and self._delayed and self._delayed[0][0] <= now_ms:
            steps_max -= 1
            _, _, marker, is_leaderless = heapq.heappop(self._delayed)
            self._leaderless_count -= is_leaderless
            self._route(marker, now_ms)
        return steps_max

    @property
    def deadline_ms(self) -> int | None:
        """Time when `tick` has something to do; None for never."""
        return self._delayed[0][0] if self._delayed else None

    # ---------------------------------------------------------------- the way of one marker

    def _settle(self, marker: Marker, code: int, now_ms: int) -> None:
        if code not in DONE:
            self._delay(marker, now_ms, code)
            return
        decision = marker.marking.decision
        self.on_event(MarkerWritten(decision.producer_id, decision.producer_epoch, *marker.partition, code))
        self._done(marker)

    def _route(self, marker: Marker, now_ms: int) -> None:
        if marker.marking.is_cancelled:
            self._drop(marker)
            return
        leader = self._leaders.leader_of(*marker.partition)
        if leader is None and self._leaders.is_current:
            self._slow.pop(marker.partition, None)
            self._done(marker)
        elif leader is None or leader == NO_LEADER:
            self._delay(marker, now_ms, ErrorCode.LEADER_NOT_AVAILABLE, is_leaderless=True)
        else:
            destination = self._destinations.get(leader)
            if destination is None:
                destination = self._destinations[leader] = _Destination()
            destination.add(marker, marker.partition in self._slow)
            if destination.free_lane(leader in self._silent) is not None:
                self.on_due(leader)

    def _delay(self, marker: Marker, now_ms: int, code: int, *, is_leaderless: bool = False) -> None:
        marking, partition = marker
        if marking.is_cancelled:
            self._drop(marker)
            return
        if marking.missing[partition] != code:
            marking.missing[partition] = code
            self.on_event(MarkerDelayed(marking.decision.producer_id, marking.decision.producer_epoch, *partition,
                                        code))
        self._sequence += 1
        self._leaderless_count += is_leaderless
        heapq.heappush(self._delayed, (now_ms + RETRY_MS, self._sequence, marker, is_leaderless))
        self._deadlines.note(self, now_ms + RETRY_MS)

    def _done(self, marker: Marker) -> None:
        """Remove a marker that is written, or needs not be."""
        self._count -= 1
        marker.marking.written(marker.partition)

    def _drop(self, marker: Marker) -> None:
        """Remove a marker of a transaction that this node does not coordinate any more."""
        self._count -= 1
        self._slow.pop(marker.partition, None)

    def _without_cancelled(self, markers: list[Marker]) -> list[Marker]:
        for marker in markers:
            if marker.marking.is_cancelled:
                self._drop(marker)
        return [marker for marker in markers if not marker.marking.is_cancelled]

    def _forget_idle(self, broker_id: int, destination: _Destination) -> None:
        if destination.is_idle:
            self._destinations.pop(broker_id, None)


def _request(markers: Iterable[Marker]) -> WriteTxnMarkersRequest:
    by_marking: dict[Marking, dict[str, list[int]]] = {}
    for marking, (topic, partition) in markers:
        by_marking.setdefault(marking, {}).setdefault(topic, []).append(partition)
    return WriteTxnMarkersRequest(markers=[
        WritableTxnMarker(
            producer_id=marking.decision.producer_id, producer_epoch=marking.decision.producer_epoch,
            transaction_result=marking.decision.commits, coordinator_epoch=marking.coordinator_epoch(),
            transaction_version=marking.decision.transaction_version,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()])
        for marking, topics in by_marking.items()])
