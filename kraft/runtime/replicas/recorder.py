"""Flight recorder of a broker's replicas: wanted changes of the in-sync replicas, failed Fetches, unreachable leaders,
cut logs. The metadata log has only their results."""

from collections.abc import Callable
from typing import Any

from kraft.broker.replica_events import ReplicaEvent
from kraft.recorder.entry import STATE
from kraft.recorder.replica_words import described
from kraft.recorder.ring import CAPACITY, Ring


class ReplicaRecorder:
    """Entries in memory, for `DescribeRecorder` on the brokers' listeners. Loop thread only. `clock` is the wall clock
    in milliseconds; `state` returns the broker's current state."""

    def __init__(self, node_id: int, clock: Callable[[], int], state: Callable[[], dict[str, Any]]) -> None:
        self._ring = Ring(node_id)
        self._clock = clock
        self._state = state

    def partition(self, topic: str, index: int, event: ReplicaEvent) -> None:
        """Record an event of a partition's replica here. A repetition adds no entry; `replica` distinguishes the
        followers of one leader."""
        what, values = described(event)
        self._ring.note(self._clock(), what, {"topic": topic, "partition": index, **values},
                        (what, topic, index, values.get("replica")))

    def connection(self, leader: int, event: ReplicaEvent) -> None:
        """Record an event of the connection to a broker that leads partitions."""
        what, values = described(event)
        self._ring.note(self._clock(), what, {"leader": leader, **values}, (what, leader))

    def lines(self, count: int = CAPACITY) -> list[str]:
        """The last `count` entries, oldest first, and the broker's current state."""
        entries = (*self._ring.entries(count), self._ring.unstored(self._clock(), STATE, self._state()))
        return [entry.line for entry in entries]
