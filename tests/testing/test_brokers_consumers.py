"""Simulated consumers: the test answers them in place of brokers."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, cast
from uuid import UUID

import pytest

from kraft.metadata.image import PartitionRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.testing.brokers.clients import TIMEOUT_MS, Around
from kraft.testing.brokers.consumers import Consumer
from kraft.testing.brokers.log_view import Batch
from kraft.testing.brokers.messages import Bounds, BoundsAre, Fetch, Fetched, FetchedPart
from kraft.testing.sim.loop import Loop
from kraft.testing.sim.options import MILLISECOND, Options

KEY = UUID(int=1), 0
PRODUCER = 7
LEADER, FOLLOWER = 1, 2


class Wire:
    """Stores requests as (broker, question), and the callback that awaits the last answer."""

    def __init__(self) -> None:
        self.requested: list[tuple[int, Any]] = []
        self.answered: Any = None
        self.closed = 0

    def request(self, _source: Consumer, target_id: int, _lane: str, body: object, answered: Any) -> "Wire":
        self.requested.append((target_id, body))
        self.answered = answered
        return self

    def close(self) -> None:
        self.closed += 1


class Bench:
    """One steady consumer, and the metadata that it receives."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.loop = Loop()
        self.is_deleted = False
        self.lead(LEADER, epoch=3)
        around = Around(self.loop, cast(Any, self.wire), Options, Counter(), lambda _key, _random: self.partition,
                        lambda _key, _random, found: found(self.partition), lambda _key: False,
                        lambda _key: self.is_deleted)
        self.consumer = Consumer(1001, KEY, around, Random(1), is_last=True)
        self.consumer.start()

    def lead(self, leader: int, epoch: int) -> None:
        self.partition = PartitionRegistration((1, 2), (UUID(int=0),) * 2, (1, 2), leader, epoch)

    def question(self) -> tuple[int, Any]:
        """Return the next request, after the pause before it."""
        while not self.wire.requested:
            self.loop.step(self.loop.now_us + TIMEOUT_MS * MILLISECOND)
        return self.wire.requested.pop(0)

    def fetch(self) -> tuple[int, int, int]:
        """Return the next Fetch: the broker, the leader epoch, the offset."""
        target_id, fetch = self.question()
        assert isinstance(fetch, Fetch)
        [part] = fetch.parts
        return target_id, part.leader_epoch, part.fetch_offset

    def place(self, start: int = 0, end: int = 100) -> None:
        _target_id, bounds = self.question()
        assert isinstance(bounds, Bounds)
        self.wire.answered(BoundsAre(ErrorCode.NONE, start, end))

    def answer(self, *batches: Batch, error: ErrorCode = ErrorCode.NONE) -> None:
        self.wire.answered(Fetched((FetchedPart(KEY, error, 100, 0, batches),)))

    @property
    def kinds(self) -> list[str]:
        return [each.kind for each in self.consumer.reads.problems]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def batch(base_offset: int, count: int = 2) -> Batch:
    return Batch(base_offset, base_offset + count, 3, PRODUCER, 0, 0, base_offset, None, None, 0)


def test_a_consumer_continues_where_it_was_when_the_leader_changes(bench: Bench) -> None:
    bench.place(start=10)
    assert bench.fetch() == (LEADER, 3, 10)
    bench.answer(batch(10), batch(12))
    bench.lead(FOLLOWER, epoch=4)
    bench.fetch()
    bench.answer(error=ErrorCode.FENCED_LEADER_EPOCH)
    assert bench.fetch() == (FOLLOWER, 4, 14)
    bench.answer(batch(14))
    assert bench.consumer.reads.position == 16
    assert len(bench.consumer.reads.runs) == 1


def test_metadata_of_before_is_not_believed(bench: Bench) -> None:
    bench.place()
    bench.fetch()
    bench.lead(FOLLOWER, epoch=2)
    bench.answer(batch(0))
    bench.loop.step(bench.loop.now_us + TIMEOUT_MS * MILLISECOND)
    assert bench.wire.requested == []
    bench.lead(FOLLOWER, epoch=4)
    assert bench.fetch() == (FOLLOWER, 4, 2)


def test_of_a_batch_that_holds_the_position_only_the_rest_is_seen(bench: Bench) -> None:
    bench.place(start=11)
    bench.fetch()
    bench.answer(batch(10, 3))
    [run] = bench.consumer.reads.runs
    assert (run.start, run.end, bench.kinds) == (11, 13, [])


@pytest.mark.parametrize(("answers", "kind"), [
    ([[0, 2, 6]], "int-poll-skip"),
    ([[0, 2], [6]], "poll-skip"),
    ([[0, 2, 2]], "int-nonmonotonic-poll"),
    ([[0, 2], [2]], "nonmonotonic-poll"),
])
def test_a_wrong_answer_is_named(bench: Bench, answers: Sequence[Sequence[int]], kind: str) -> None:
    bench.place()
    for offsets in answers:
        bench.fetch()
        bench.answer(*(batch(each) for each in offsets))
    assert bench.kinds == [kind]


def test_a_position_that_was_deleted_is_given_up(bench: Bench) -> None:
    bench.place()
    bench.fetch()
    bench.answer(error=ErrorCode.OFFSET_OUT_OF_RANGE)
    bench.place(start=20)
    assert bench.fetch() == (LEADER, 3, 20)
    assert bench.kinds == []


def test_a_position_that_the_leader_does_not_have_is_a_problem(bench: Bench) -> None:
    bench.place()
    bench.fetch()
    bench.answer(batch(0))
    bench.fetch()
    bench.answer(error=ErrorCode.OFFSET_OUT_OF_RANGE)
    bench.place(end=1)
    assert bench.fetch() == (LEADER, 3, 0)
    assert bench.kinds == ["offset-reset"]


def test_a_consumer_does_not_restart_because_a_follower_lags(bench: Bench) -> None:
    bench.consumer._reads_from_leader = False
    bench.place()
    while bench.fetch()[0] == LEADER:
        bench.answer(batch(bench.consumer.reads.position))
    position = bench.consumer.reads.position
    bench.answer(error=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert bench.fetch() == (LEADER, 3, position)


def test_an_unanswered_consumer_sends_again(bench: Bench) -> None:
    bench.place()
    bench.fetch()
    late = bench.wire.answered
    assert bench.fetch() == (LEADER, 3, 0)
    assert bench.wire.closed == 1
    late(Fetched((FetchedPart(KEY, ErrorCode.NONE, 100, 0, (batch(0),)),)))
    assert bench.consumer.reads.position == 0


def test_a_consumer_seeks_and_is_replaced(bench: Bench) -> None:
    bench.place()
    lives, positions = [], []
    for _ in range(400):
        bench.fetch()
        position = bench.consumer.reads.position
        bench.consumer.is_steady = False
        bench.answer(batch(position, 1))
        lives.append(bench.consumer.life)
        positions.append(bench.consumer.reads.position - position)
    assert lives[-1] > 2
    assert min(positions) < 0
    assert bench.kinds == []


def test_a_deleted_topic_is_not_read_any_more(bench: Bench) -> None:
    bench.is_deleted = True
    bench.loop.step(TIMEOUT_MS * MILLISECOND)
    assert bench.consumer.is_over
