"""What a broker's replicas went through: changes of the in-sync replicas that were wanted, Fetches that failed, leaders
that were not reached, logs that were cut. The metadata log has only what became of it.
"""

from collections.abc import Callable
from typing import Any

from kraft.recorder.entry import STATE
from kraft.recorder.ring import CAPACITY, Ring


class ReplicaRecorder:
    """In memory, for `DescribeRecorder` on the brokers' listeners. Loop thread only. `clock` is the wall clock in
    milliseconds; `state` gives the particulars of the broker as it is now."""

    def __init__(self, node_id: int, clock: Callable[[], int], state: Callable[[], dict[str, Any]]) -> None:
        self._ring = Ring(node_id)
        self._clock = clock
        self._state = state

    def partition(self, what: str, topic: str, index: int, **values: Any) -> None:
        """Something happened to a partition's replica here. The same again makes no new entry; `replica` tells
        followers of one leader apart."""
        self._ring.note(self._clock(), what, {"topic": topic, "partition": index, **values},
                        (what, topic, index, values.get("replica")))

    def connection(self, what: str, leader: int, **values: Any) -> None:
        """Something happened on the way to the broker that leads partitions."""
        self._ring.note(self._clock(), what, {"leader": leader, **values}, (what, leader))

    def lines(self, count: int = CAPACITY) -> list[str]:
        """The last `count` entries, oldest first, and what the broker is now."""
        entries = (*self._ring.entries(count), self._ring.made(self._clock(), STATE, self._state()))
        return [entry.line for entry in entries]
