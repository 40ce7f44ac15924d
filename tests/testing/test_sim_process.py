"""Parts of a simulated process that the real driver uses: its event loop, the flusher's thread, the sender to peers."""

from collections.abc import Callable
from typing import Any

import pytest

from kraft.raft.messages import FetchRequest, FetchResponse
from kraft.raft.ready import OutgoingRequest
from kraft.testing.sim.batches import Contents, Value
from kraft.testing.sim.clock import Clock
from kraft.testing.sim.disk import Disk, DiskError
from kraft.testing.sim.event_loop import EventLoop
from kraft.testing.sim.flusher import Flusher
from kraft.testing.sim.log import SimLog
from kraft.testing.sim.loop import Loop
from kraft.testing.sim.network import Envelope
from kraft.testing.sim.peer_sender import PeerSender
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
def test_what_is_sent_ahead_leaves_with_the_flush_or_never(taken_back: str) -> None:
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


class Core:
    """A driver that learns only on request whether the Fetch has left."""

    def __init__(self, *, leaves: bool = True) -> None:
        self.leaves = leaves
        self.received: list[object] = []
        self.clock = Clock(Loop())
        self.sender = PeerSender(envelope_of, self.sent, lambda name: None,
                                 EventLoop(Loop(), self.clock, lambda callback: callback()), lambda: self.clock.now_ms)
        self.network: list[Envelope] = []

    def sent(self, envelope: Envelope) -> None:
        self.network.append(envelope)
        self.sender.unanswered[envelope.correlation] = envelope

    def catch_up(self) -> None:
        if self.leaves:
            self.sender.has_left(AHEAD)

    def take_ahead(self, node_id: int, correlation: int, answer: object) -> None:
        self.received.append(("ahead", node_id, correlation, answer))

    def step(self, node_id: int, correlation: int, message: object) -> None:
        self.received.append((node_id, correlation, message))


def envelope_of(outgoing: OutgoingRequest, number: int) -> Envelope:
    return Envelope(1, 1, outgoing.node_id, outgoing.node_id, number, outgoing.request, is_answer=False)


FETCH = FetchRequest(replica=key(1), epoch=3, fetch_offset=1, last_fetched_epoch=3)
AHEAD = OutgoingRequest(2, None, 7, FETCH)
ANSWER = FetchResponse(epoch=3, leader_id=2)


def test_the_answer_to_what_left_ahead_may_come_before_the_loop_knows_that_it_left() -> None:
    core: Any = Core()
    assert core.sender.prepare(AHEAD) is not None
    left = core.sender.leave()
    core.sender.deliver(left._replace(message=ANSWER, is_answer=True), core)
    assert core.received == [("ahead", 2, 7, ANSWER), (2, 7, ANSWER)]
    assert core.sender.prepare(AHEAD) is not None


def test_an_answer_to_what_was_given_up_appends_nothing_ahead() -> None:
    core: Any = Core(leaves=False)
    core.sender.deliver(envelope_of(AHEAD, 6)._replace(message=ANSWER, is_answer=True), core)
    assert core.received == [(2, 6, ANSWER)]


def test_nothing_is_prepared_for_a_node_that_has_not_answered() -> None:
    core = Core()
    core.sender.send(OutgoingRequest(2, None, 5, FETCH))
    assert core.sender.prepare(AHEAD) is None
