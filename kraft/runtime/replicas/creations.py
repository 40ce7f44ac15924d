"""Replicas of new topics, and of all topics after a start, are created between requests, in short slices.

A request for a thousand topics is answered when their metadata is durable, as in Kafka. Their logs, which take some
hundreds of microseconds each, follow once no more topics come. A node serves as soon as it has its metadata and the
logs that take long to recover. A lookup of a partition first creates the replicas of its topic. So a request finds a
partition missing that the metadata has only in a topic of very many partitions.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from kraft.broker.internal_topics import OFFSETS_TOPIC
from kraft.broker.replica_plan import Action, Step
from kraft_native.partition.table import PartitionTable

# A client that creates topics one after the other waits for the metadata of each, not for the logs of those before it.
# The first slice waits until nothing new has come for this long.
QUIET_SECONDS: Final = 0.005
# Longest wait of the first slice altogether.
LATE_SECONDS: Final = 0.25
SLICE_SECONDS: Final = 0.001
APPLIED_MAX: Final = 32
"""Replicas that one look-up creates at most: about ten milliseconds."""


class CreationQueue:
    """Queue of replicas to create. Loop thread only. `create(step)` creates one whose turn has come. `on_failure` is
    called with what it raises in a slice."""

    def __init__(self, table: PartitionTable, create: Callable[[Step], None],
                 on_failure: Callable[[BaseException], object]) -> None:
        self._table = table
        self._create = create
        self._on_failure = on_failure
        self._due: dict[str, deque[Step]] = {}
        """Steps by topic, in order of arrival: a topic that waits has all its steps here."""
        self._names: dict[bytes, str] = {}
        self._arrived = False          # a topic that no slice waits for
        self._making: str | None = None
        self._closed = False
        self._late = 0.0               # time at which the slices begin, whatever comes
        self._timer: asyncio.Handle | None = None

    def add(self, step: Step) -> bool:
        """Queue the step when its replica is new, or when other steps of its topic are queued. Return whether it is;
        the caller executes any other step now. `schedule` is due after one or more calls."""
        if step.topic in self._due:
            self._due[step.topic].append(step)
            return True
        if not self._is_new(step):
            return False
        if not self._closed:
            if not self._due:
                self._late = asyncio.get_running_loop().time() + LATE_SECONDS
                self._table.expect(self.apply)
            self._due[step.topic] = deque((step,))
            self._names[step.topic_id.bytes] = step.topic
            self._arrived = True
        return True

    @property
    def waiting_count(self) -> int:
        """Number of queued steps."""
        return sum(map(len, self._due.values()))

    def schedule(self) -> None:
        """Start the wait after new topics."""
        if self._arrived and self._due:
            if self._timer is not None:
                self._timer.cancel()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(min(loop.time() + QUIET_SECONDS, self._late), self._run_slice)
        self._arrived = False

    def apply(self, key: bytes | None, by_id: bool) -> None:
        """Create the due replicas of one topic, given by name or id; those of any topic for None.

        One call creates `APPLIED_MAX` of them at most. A client that meets a partition of a larger topic too early
        receives NOT_LEADER_OR_FOLLOWER and tries again, as with Kafka.
        """
        if key is None:
            left = APPLIED_MAX
            while self._due and left > 0:
                topic = next(iter(self._due))
                count = min(left, len(self._due[topic]))
                self._make(topic, count)
                left -= count
        elif (topic := self._names.get(key, "") if by_id else key.decode()) in self._due and topic != self._making:
            self._make(topic, APPLIED_MAX)

    def close(self) -> None:
        """Create nothing more, even for metadata that still arrives; the next start does. May be called again."""
        self._closed = True
        self._due.clear()
        self._done()

    def _is_new(self, step: Step) -> bool:
        # The coordinator's own topic is led as soon as it is known: its groups are loaded from it.
        return (step.action is not Action.REMOVE and step.topic != OFFSETS_TOPIC
                and self._table.get(step.topic, step.number) is None)

    def _run_slice(self) -> None:
        until = time.monotonic() + SLICE_SECONDS
        self._timer = None
        try:
            while self._due and time.monotonic() < until:
                self._make(next(iter(self._due)), 1)
        except Exception as error:  # noqa: BLE001 - no work continues with an unexplained missing replica
            self._on_failure(error)
            return
        if self._due:
            self._timer = asyncio.get_running_loop().call_soon(self._run_slice)

    def _make(self, topic: str, steps_max: int) -> None:
        steps = self._due[topic]
        before, self._making = self._making, topic     # creating looks its partitions up, and perhaps those of others
        try:
            while steps and steps_max > 0:
                self._create(steps.popleft())
                steps_max -= 1
        finally:
            self._making = before
        if not steps:
            del self._due[topic]
            if not self._due:
                self._done()

    def _done(self) -> None:
        self._names.clear()
        self._table.expect(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
