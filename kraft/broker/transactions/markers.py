"""Markers that are due, by broker: one WriteTxnMarkers request at a time for each.

    add --> queue of the leader --take--> in flight --answered--> written
                 ^------- back-off <-- failed, or no leader -----'

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
    """Markers of one transaction that are not written yet. `done` is called after the last one. `coordinator_epoch`
    returns the present leader epoch of the partition of `__transaction_state`."""

    __slots__ = ("coordinator_epoch", "decision", "done", "is_cancelled", "missing")

    def __init__(self, decision: Decision, partitions: Iterable[TopicPartition], coordinator_epoch: Callable[[], int],
                 done: Callable[[], None]) -> None:
        self.decision = decision
        self.missing = dict.fromkeys(partitions)
        self.coordinator_epoch = coordinator_epoch
        self.done = done
        self.is_cancelled = False

    def cancel(self) -> None:
        """Drop the markers: this node is not the coordinator of the transaction any more."""
        self.is_cancelled = True

    def written(self, partition: TopicPartition) -> None:
        """Remove a partition that needs no marker any more."""
        if not self.is_cancelled and partition in self.missing:
            del self.missing[partition]
            if not self.missing:
                self.is_cancelled = True
                self.done()


class _Marker(NamedTuple):
    marking: Marking
    partition: TopicPartition


class MarkerQueue:
    """Markers of all transactions of this coordinator. The driver sends what `take` returns, and reports to
    `answered`. `on_due` is called when a broker has markers to be sent."""

    def __init__(self, leaders: Leaders) -> None:
        self._leaders = leaders
        self._due: dict[int, deque[_Marker]] = {}
        self._in_flight: dict[int, list[_Marker]] = {}
        self._delayed: list[tuple[int, int, _Marker]] = []
        self._sequence = 0
        self.on_due: Callable[[int], None] = lambda _broker_id: None

    def __len__(self) -> int:
        """Number of markers that are not written, including those of cancelled transactions."""
        return (sum(map(len, self._due.values())) + sum(map(len, self._in_flight.values())) + len(self._delayed))

    @property
    def delayed_count(self) -> int:
        """Number of those that wait for a leader, or for the next attempt."""
        return len(self._delayed)

    def add(self, marking: Marking, now_ms: int) -> None:
        """Queue the markers of a transaction, at least one."""
        for partition in sorted(marking.missing):
            self._route(_Marker(marking, partition), now_ms)

    def take(self, broker_id: int) -> WriteTxnMarkersRequest | None:
        """Return the next request for that broker; None while one is in flight, and when nothing is due."""
        due = self._due.get(broker_id)
        if not due or broker_id in self._in_flight:
            return None
        taken: list[_Marker] = []
        while due and len(taken) < MARKERS_PER_REQUEST:
            if not (marker := due.popleft()).marking.is_cancelled:
                taken.append(marker)
        if not due:
            del self._due[broker_id]
        if not taken:
            return None
        self._in_flight[broker_id] = taken
        return _request(taken)

    def answered(self, broker_id: int, response: WriteTxnMarkersResponse | None, now_ms: int) -> None:
        """Process the answer to the request in flight; None: the broker cannot be reached."""
        sent = self._in_flight.pop(broker_id, [])
        if response is None:
            sent += self._due.pop(broker_id, ())
        codes = {} if response is None else {
            (marker.producer_id, topic.name, each.partition_index): each.error_code
            for marker in response.markers for topic in marker.topics for each in topic.partitions}
        for marker in sent:
            code = codes.get((marker.marking.decision.producer_id, *marker.partition))
            if code in DONE:
                marker.marking.written(marker.partition)
            else:
                self._delay(marker, now_ms)
        if self._due.get(broker_id):
            self.on_due(broker_id)

    def tick(self, now_ms: int, steps_max: int) -> int:
        """Queue markers again whose back-off is over, at most `steps_max`. Return the remaining steps."""
        while steps_max > 0 and self._delayed and self._delayed[0][0] <= now_ms:
            steps_max -= 1
            self._route(heapq.heappop(self._delayed)[2], now_ms)
        return steps_max

    @property
    def deadline_ms(self) -> int | None:
        """Time when `tick` has something to do; None for never."""
        return self._delayed[0][0] if self._delayed else None

    def _route(self, marker: _Marker, now_ms: int) -> None:
        if marker.marking.is_cancelled:
            return
        leader = self._leaders.leader_of(*marker.partition)
        if leader is None and self._leaders.is_current:
            marker.marking.written(marker.partition)
        elif leader is None or leader == NO_LEADER:
            self._delay(marker, now_ms)
        else:
            self._due.setdefault(leader, deque()).append(marker)
            if leader not in self._in_flight:
                self.on_due(leader)

    def _delay(self, marker: _Marker, now_ms: int) -> None:
        if not marker.marking.is_cancelled:
            self._sequence += 1
            heapq.heappush(self._delayed, (now_ms + RETRY_MS, self._sequence, marker))


def _request(markers: Iterable[_Marker]) -> WriteTxnMarkersRequest:
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
