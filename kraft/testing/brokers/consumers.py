"""Clients that each read one partition, from its log start. `testing.history` judges the records that they see.

A consumer fetches from the leader, or for a while from a replica in sync (KIP-392). It continues at its position when
the leader changes. It remembers the latest leader epoch that it has seen, and ignores metadata of earlier epochs
(KIP-320). Now and then, while an answer is under way, it seeks back. Or another consumer continues at its position, as
in a group.
"""

from functools import partial
from random import Random
from typing import Final

from kraft.broker.isr import Key
from kraft.metadata.image import NO_LEADER
from kraft.protocol.error_codes import ErrorCode
from kraft.testing.brokers.clients import BACKOFF_MS, TIMEOUT_MS, Around, Client
from kraft.testing.brokers.messages import Bounds, BoundsAre, Fetch, Fetched, FetchedPart, FetchPart
from kraft.testing.brokers.wire import Connection
from kraft.testing.history import Problem, Reads, code_of
from kraft.testing.sim.chance import below
from kraft.testing.sim.options import MILLISECOND

CHANGES_PER_MILLE: Final = 50
FOLLOWER_PER_MILLE: Final = 250
SEEK_MAX: Final = 30
"""Maximum number of records to seek back."""


class Consumer(Client):
    """A client that reads one partition.

    `reads.position` is the next offset to read; -1 until the log start is requested. `is_last`: it begins after
    everything is healed, to see all remaining records. `is_steady`: it only reads on. `reported_start`: the highest log
    start that the leader reported to it when it had to move its position.
    """

    def __init__(self, number: int, key: Key, around: Around, random: Random, *, is_last: bool) -> None:
        super().__init__(number, key, around, random)
        self.is_last = self.is_steady = is_last
        self.reads = Reads(f"consumer {number}")
        self.reported_start = 0
        self._leader_epoch = -1
        self._polls = 0
        self._request_number = 0
        self._reads_from_leader = True
        self._is_lost = False
        self._connection: Connection | None = None

    def start(self) -> None:
        self._again(BACKOFF_MS)

    def _poll(self) -> None:
        if self._around.is_deleted(self.key):
            self.is_over = True
            return
        known = self._around.partition_of(self.key, self._random)
        if known is None or known.leader == NO_LEADER or known.leader_epoch < self._leader_epoch:
            self._again(BACKOFF_MS)
            return
        self._leader_epoch = known.leader_epoch
        position = self.reads.position
        if self._is_lost or position < 0:
            self._request(known.leader, Bounds(self.key, known.leader_epoch))
        else:
            part = FetchPart(self.key, known.leader_epoch, position)
            target_id = known.leader if self._reads_from_leader else self._random.choice(known.isr)
            self._request(target_id, Fetch((part,)))
        if not self.is_steady and below(self._random, 1000) < CHANGES_PER_MILLE:
            self._change()

    def _request(self, target_id: int, body: object) -> None:
        self._request_number += 1
        self._connection = self._around.wire.request(
                self, target_id, "consume", body, partial(self._answered, self._request_number))
        self._around.loop.after(TIMEOUT_MS * MILLISECOND, self._timed_out, self._request_number)

    def _change(self) -> None:
        """Seek back, or continue as another consumer. The answer that is under way is discarded."""
        self._request_number += 1
        if self.reads.position > 0 and self._random.random() < 0.5:
            self.reads.begin(max(0, self.reads.position - below(self._random, SEEK_MAX)))
        else:
            self.life += 1
        self._reads_from_leader = below(self._random, 1000) >= FOLLOWER_PER_MILLE
        self._again(BACKOFF_MS)

    def _again(self, within_ms: int) -> None:
        self._around.loop.after(1 + below(self._random, 2 * within_ms * MILLISECOND), self._poll)

    def _timed_out(self, request_number: int) -> None:
        if request_number == self._request_number:
            if self._connection is not None:
                self._connection.close()
            self._answered(request_number, None)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _answered(self, request_number: int, answer: object) -> None:
        if request_number != self._request_number:
            return
        self._request_number += 1
        if isinstance(answer, Fetched):
            [answer] = answer.parts
        if not isinstance(answer, FetchedPart | BoundsAre):
            self._again(BACKOFF_MS)
        elif answer.error != ErrorCode.NONE:
            self._refused(ErrorCode(answer.error))  # type: ignore[call-arg]
        elif isinstance(answer, BoundsAre):
            self._place(answer)
            self._poll()
        else:
            self._take(answer)

    def _refused(self, error: ErrorCode) -> None:
        """Handle an error. A follower may be behind, so the leader is queried before the position is given up."""
        self._around.counts[f"poll answered: {error.name}"] += 1
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._is_lost = self._reads_from_leader
        self._reads_from_leader = True
        self._again(BACKOFF_MS)

    def _place(self, bounds: BoundsAre) -> None:
        """Move the position into the log. Deleted records cannot be read, but a leader's log must not end before the
        position."""
        self._is_lost = False
        position = self.reads.position
        if position > bounds.end:
            self.reads.problems.append(Problem("offset-reset", f"{self.reads.reader}: was at {position}, the log ends "
                                                               f"at {bounds.end}"))
        if not bounds.start <= position <= bounds.end:
            self.reads.begin(bounds.start)
            self.reported_start = max(self.reported_start, bounds.start)

    def _take(self, part: FetchedPart) -> None:
        """Handle the answer of one poll. A batch is sent whole, so records of the first one before the position are
        skipped."""
        self._polls += 1
        for number, batch in enumerate(part.batches):
            first = batch.base_offset
            if number == 0 and first < self.reads.position < batch.end_offset:
                first = self.reads.position
            for offset in range(first, batch.end_offset):
                self.reads.see(offset, code_of(batch.producer, batch.value + offset - batch.base_offset), self._polls)
        self._around.counts["polls with records"] += bool(part.batches)
        if self.reads.position < part.high_watermark:
            self._poll()
        else:
            self._again(self._around.options.produce_every_ms)
