"""Flight recorder of a broker: of its replicas, and of the transactions that it coordinates.

Of replicas these are wanted changes of the in-sync replicas, failed Fetches, unreachable leaders, cut logs. The
metadata log has only their results. Events of transactions are frequent, so words are made of them when they are read.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kraft.broker.replica_events import ReplicaEvent
from kraft.broker.transactions.events import TransactionEvent
from kraft.recorder import transaction_words
from kraft.recorder.entry import STATE, Entry
from kraft.recorder.replica_words import described
from kraft.recorder.ring import CAPACITY, Ring

TRANSACTION_CAPACITY: Final = 1024


class ReplicaRecorder:
    """Entries in memory, for `DescribeRecorder` on the brokers' listeners. Loop thread only. `clock` is the wall clock
    in milliseconds; `state` returns the broker's current state."""

    def __init__(self, node_id: int, clock: Callable[[], int], state: Callable[[], dict[str, Any]]) -> None:
        self._ring = Ring(node_id)
        self._clock = clock
        self._state = state
        self._transactions: deque[tuple[int, int, TransactionEvent]] = deque(maxlen=TRANSACTION_CAPACITY)
        self._transaction_number = 0

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

    def transaction(self, event: TransactionEvent) -> None:
        """Record an event of a transaction."""
        self._transaction_number += 1
        self._transactions.append((self._clock(), self._transaction_number, event))

    def lines(self, count: int = CAPACITY) -> list[str]:
        """The last `count` entries of replicas and of transactions, oldest first, and the broker's current state."""
        node_id = self._ring.node_id
        transactions = [Entry(time_ms, node_id, number, *transaction_words.described(event))
                        for time_ms, number, event in tuple(self._transactions)[-count:] if count > 0]
        entries = sorted((*self._ring.entries(count), *transactions), key=lambda each: each.time_ms)
        return [entry.line for entry in (*entries, self._ring.unstored(self._clock(), STATE, self._state()))]
