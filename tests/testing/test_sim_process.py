"""Parts of a simulated process that the real driver uses: its event loop, the flusher's thread, the sender to peers."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kraft.raft.messages import FetchRequest, FetchResponse
from kraft.raft.ready import FollowLease, OutgoingRequest
from kraft.testing.sim.batches import Contents, Records, Value
from kraft.testing.sim.chance import below, happens
from kraft.testing.sim.clock import Clock
from kraft.testing.sim.disk import Disk, DiskError
from kraft.testing.sim.event_loop import EventLoop
from kraft.testing.sim.flusher import Flusher
from kraft.testing.sim.log import SimLog
from kraft.testing.sim.loop import Loop
from kraft.testing.sim.network import Envelope
from kraft.testing.sim.peer_sender import PeerSender
from kraft_native.replica.leased_follower import LeasedFollower
from tests.raft.world import key


class Thread:
    """A process whose flushes end on the test's request."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.log = SimLog(self.disk, Contents(), lambda batch: None)
        self.flushes: list[Callable[[], None]] = []
        self.received: list[str] = []
        self.flusher = Flusher(self.log, self, lambda: self.received.append("left"))

    def append(self) -> None:
        self.log.append(Value(0, self.log.end.offset, 200), 1, 0)
        self.flusher.flush_appended()

    def end_flush(self) -> None:
        self.flushes.pop(0)()

    def begin_flush(self, ended: Callable[[], None]) -> None:
        self.flushes.append(ended)

    def notify_loop(self) -> None:
        self.received.append("flushed")

    def send(self, function: Callable[..., None], *arguments: Any) -> None:
        function(*arguments)

    def count(self, name: str) -> None:
        pass


def test_one_flush_at_a_time_has_what_was_there_when_it_began() -> None:
    thread = Thread()
    thread.append()
    thread.append()
    assert len(thread.flushes) == 1
    thread.end_flush()
    assert thread.flusher.durable_end_offset == 1
    thread.end_flush()
    assert thread.flusher.durable_end_offset == 2
    assert (thread.flushes, thread.received) == ([], ["flushed", "flushed"])


@pytest.mark.parametrize("taken_back", ["before", "after"])
def test_a_message_sent_ahead_leaves_with_the_flush_or_never(taken_back: str) -> None:
    thread = Thread()
    thread.append()
    assert thread.flusher.send_when_durable(1, -1, b"")
    if taken_back == "before":
        assert not thread.flusher.take_back()
    thread.end_flush()
    assert thread.received == (["left", "flushed"] if taken_back == "after" else ["flushed"])
    assert thread.flusher.take_back() == (taken_back == "after")
    assert not thread.flusher.take_back()
    assert not thread.flusher.send_when_durable(1, -1, b"")


def test_a_failed_flush_is_final_and_sends_nothing() -> None:
    thread = Thread()
    thread.append()
    assert thread.flusher.send_when_durable(1, -1, b"")
    thread.disk.fail_flush = True
    thread.end_flush()
    thread.disk.repair()
    assert isinstance(thread.flusher.failure, DiskError)
    assert not thread.flusher.take_back()
    with pytest.raises(DiskError):
        thread.append()
    assert (thread.flushes, thread.received, thread.log.end.offset) == ([], ["flushed"], 1)


@pytest.mark.parametrize("fails", [False, True])
def test_the_loop_is_notified_of_awaited_flushes_and_of_failures(fails: bool) -> None:
    thread = Thread()
    thread.append()
    thread.append()
    assert thread.flusher.notify_flushes_from(2)
    thread.disk.fail_flush = fails
    thread.end_flush()
    assert thread.received == (["flushed"] if fails else [])
    if not fails:
        thread.end_flush()
        assert thread.received == ["flushed"]
        assert not thread.flusher.notify_flushes_from(2)


def test_wall_clocks_agree_when_a_run_begins_and_monotonic_ones_do_not() -> None:
    world = Loop()
    early, late = Clock(world, start_ms=5), Clock(world, start_ms=900_000)
    world.step(7000)
    assert (early.now_ms, late.now_ms) == (12, 900_007)
    assert early.passed_us == late.passed_us == 7000
    late.jump(30)
    assert late.passed_us == 37_000


def test_timers_go_by_the_clock_of_the_node() -> None:
    world, called = Loop(), []
    clock = Clock(world, 500_000, 70)
    loop = EventLoop(world, clock, lambda callback: callback())
    loop.call_later(0.010, lambda: called.append((world.now_us, clock.now_ms)))
    loop.call_later(0.005, lambda: called.append((0, 0))).cancel()
    while world.step(1_000_000) >= 0:
        pass
    assert called == [(20_000, 80)]
    loop.call_later(0.010, lambda: called.append((world.now_us, clock.now_ms)))
    clock.jump(100)
    loop.clock_jumped()
    world.step(2_000_000)
    assert called[1][0] == 1_000_000


def test_a_coroutine_continues_when_its_future_is_done() -> None:
    loop, received = EventLoop(Loop(), Clock(Loop()), lambda callback: callback()), []
    future = loop.create_future()

    async def wait() -> None:
        received.append("begun")
        await future
        received.append("over")

    loop.run(wait())
    loop.turn()
    assert received == ["begun"]
    future.set_result(None)
    loop.turn()
    assert received == ["begun", "over"]


class Around:
    """A driver around the sender of one process, whose log and flusher's thread the test sets."""

    def __init__(self) -> None:
        self.has_left = True
        self.received: list[object] = []
        self.counts: list[str] = []
        self.clock = Clock(Loop())
        self.sender = PeerSender(envelope_of, self.sent, self.counts.append,
                                 EventLoop(Loop(), self.clock, lambda callback: callback()), lambda: self.clock.now_ms)
        self.network: list[Envelope] = []
        self.follower = LeasedFollower(self, lambda _records: 2, lambda _sends: None)
        self.outstanding: OutgoingRequest | None = None

    def sent(self, envelope: Envelope) -> None:
        self.network.append(envelope)
        self.sender.unanswered[envelope.correlation] = envelope

    # --- log

    def send_when_durable(self, _end_offset: int, _fd: int, _message: bytes) -> bool:
        return True

    def take_back(self) -> bool:
        return self.has_left

    # --- driver

    def end_lease(self) -> None:
        self.received.append(self.follower.end())
        self.sender.unfollow(LEASE, self.outstanding)

    def step(self, node_id: int, correlation: int, message: object) -> None:
        self.received.append((node_id, correlation, message))

    def answer(self, envelope: Envelope, message: FetchResponse) -> None:
        driver: Any = self
        self.sender.deliver(envelope._replace(message=message, is_answer=True), driver)


def envelope_of(outgoing: OutgoingRequest, number: int) -> Envelope:
    return Envelope(1, 1, outgoing.node_id, outgoing.node_id, number, outgoing.request, is_answer=False)


FETCH = FetchRequest(replica=key(1), epoch=3, fetch_offset=1, last_fetched_epoch=3)
LEASE = FollowLease(2, 3, 1, OutgoingRequest(2, None, 7, FETCH), is_sent=False)
ANSWER = FetchResponse(epoch=3, leader_id=2)
RECORDS = replace(ANSWER, records=Records(()), high_watermark=9)


def test_the_answer_to_what_the_thread_sent_may_come_before_the_loop_knows_that() -> None:
    around = Around()
    assert around.sender.follow(LEASE, around.follower)
    around.outstanding = LEASE.fetch
    around.answer(around.sender.leave(), ANSWER)
    assert around.received == [(1, -1, True), (2, 7, ANSWER)]
    assert around.sender.follow(LEASE, around.follower), "nothing is waited for"


def test_answers_like_the_last_one_go_to_the_follower() -> None:
    around = Around()
    around.sender.send(LEASE.fetch._replace(correlation=6))
    around.answer(around.network[0], ANSWER)
    around.sender.send(LEASE.fetch)
    assert around.sender.follow(LEASE._replace(is_sent=True), around.follower)
    around.answer(around.network[1], RECORDS)
    left = around.sender.leave()
    assert isinstance(left.message, FetchRequest)
    assert (left.message.fetch_offset, left.message.high_watermark) == (2, 2)
    around.answer(around.network[1], RECORDS)      # it comes twice
    around.outstanding = LEASE.fetch._replace(correlation=8)
    assert around.received == [(2, 6, ANSWER), (2, 9, True), (2, 7, RECORDS)]
    around.received.clear()
    around.sender.unfollow(LEASE, around.outstanding)
    assert around.sender.follow(LEASE._replace(fetch=around.outstanding, is_sent=True), around.follower)
    around.answer(left, RECORDS)
    assert around.received == [], "the number by which it was sent is that of the outstanding Fetch"
    assert around.counts.count("fetch without the core") == 2


@pytest.mark.parametrize("last", [replace(ANSWER, epoch=2), replace(ANSWER, leader_id=3), None])
def test_other_answers_go_to_the_core(last: FetchResponse | None) -> None:
    around = Around()
    if last is not None:
        around.sender.send(LEASE.fetch._replace(correlation=6))
        around.answer(around.network[0], last)
    around.sender.send(LEASE.fetch)
    assert not around.sender.follow(LEASE._replace(is_sent=True), around.follower)
    around.answer(around.network[-1], RECORDS)
    assert around.received[-1] == (2, 7, RECORDS)


def test_nothing_is_sent_by_the_thread_while_an_answer_is_pending() -> None:
    around = Around()
    around.sender.send(OutgoingRequest(2, None, 5, FETCH))
    assert not around.sender.follow(LEASE, around.follower)


def test_quick_draws_are_those_of_the_library() -> None:
    quick, usual = Random(5), Random(5)
    for limit in (1, 2, 3, 7, 8, 1000, 1024, 1 << 40):
        assert [below(quick, limit) for _ in range(50)] == [usual.randrange(limit) for _ in range(50)], limit
    assert [happens(quick, 300) for _ in range(50)] == [usual.randrange(1000) < 300 for _ in range(50)]
    assert not happens(quick, 0)
    assert quick.getstate() == usual.getstate()
