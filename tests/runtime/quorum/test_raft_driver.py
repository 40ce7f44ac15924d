"""Order in which the driver reports the core's results to a state machine."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from kraft.raft.messages import FetchRequest, FetchResponse, VoteResponse
from kraft.raft.ready import Answer, Leadership, OutgoingRequest, Ready
from kraft.raft.transitions import Role
from kraft.raft.types import NEVER_MS
from kraft.runtime.quorum.raft_driver import RaftDriver
from kraft.runtime.quorum.raft_log import Proposal, RaftLog
from kraft_native.base.errors import StorageError
from kraft_native.batch.records import BatchBuilder
from kraft_native.facade.log import Log
from kraft_native.replica.fetch_chain import FetchChain
from kraft_native.segment.config import LogConfig
from tests.native.gate import DATASYNC, Gate
from tests.raft.world import key

SECONDS = 20.0
DURABLE = LogConfig(durability="group-commit", flush_interval_us=0)
AHEAD = OutgoingRequest(2, None, -1, FetchRequest(replica=key(1), epoch=3, fetch_offset=1, last_fetched_epoch=3))
LEADS = Leadership(Role.LEADER, 3, 1, 10)
FOLLOWS = Leadership(Role.FOLLOWER, 4, 2, -1)


class Core:
    """A core whose results the test sets."""

    deadline_ms = NEVER_MS
    has_left = False
    awaits_flush = True

    def __init__(self) -> None:
        self.replica = SimpleNamespace(epoch=3, now_ms=0)
        self.last: Answer | None = None
        self.leadership = LEADS
        self.ready = Ready(leadership=LEADS)

    def step(self, _source: int, _correlation: int, message: Any, _now_ms: int) -> None:
        self.leadership, self.ready = message

    def resign(self, _epoch: int, _now_ms: int) -> None:
        self.leadership = FOLLOWS
        self.ready = Ready(leadership=FOLLOWS)

    def tick(self, _now_ms: int) -> None:
        pass

    def fetch_ahead(self) -> OutgoingRequest | None:
        return None

    def take_high_watermark(self) -> int | None:
        return None

    def take_ready(self) -> Ready:
        ready, self.ready = self.ready, Ready(messages=(self.last,) if self.last else ())
        self.last = None
        return ready


class Nobody:
    """A sender that sends nothing."""

    def send(self, outgoing: OutgoingRequest) -> None:
        pass

    def prepare(self, outgoing: OutgoingRequest) -> tuple[int, bytes] | None:
        pass

    def has_left(self, outgoing: OutgoingRequest) -> None:
        pass

    def follow(self, outgoing: OutgoingRequest, chain: FetchChain) -> None:
        pass

    def unfollow(self, outgoing: OutgoingRequest) -> None:
        pass


NOBODY = Nobody()


class Machine:
    def __init__(self) -> None:
        self.received: list[object] = []

    def installed(self, snapshot: object) -> None:
        self.received.append(snapshot)

    def committed(self, end_offset: int) -> None:
        self.received.append(end_offset)

    def leadership(self, leadership: Leadership) -> None:
        self.received.append(leadership)


def driver_of(core: Core, log: RaftLog, machine: Machine | None = None, *, sender: Any = NOBODY,
              answer: Callable[[Answer], object] = lambda _: None,
              on_failure: Callable[[BaseException], object] = lambda _: None) -> RaftDriver:
    """Build a driver without peers, without writes of the hard state and with a clock that stands still, unless the
    test says otherwise."""
    return RaftDriver(core, log, machine or Machine(), write_hard_state=lambda _: None, sender=sender, answer=answer,
                      clock=lambda: 0, on_failure=on_failure)


def driven(directory: Path, test: Callable[[RaftDriver, Machine], None]) -> None:
    async def run() -> None:
        machine = Machine()
        with Log(directory) as log:
            driver = driver_of(Core(), RaftLog(log), machine)
            driver.start()
            await asyncio.sleep(0)
            assert machine.received == [LEADS]
            test(driver, machine)
            driver.close()

    uvloop.run(run())


def test_the_end_of_a_leadership_is_reported_first(tmp_path: Path) -> None:
    """Requests of the same step, and listeners that learn of a commit, would propose to a core that does not lead."""
    def test(driver: RaftDriver, machine: Machine) -> None:
        driver.step(0, 0, (FOLLOWS, Ready(high_watermark=12, leadership=FOLLOWS)))
        assert machine.received == [LEADS, FOLLOWS, 12]
    driven(tmp_path, test)


def test_all_else_waits_for_the_end_of_the_iteration(tmp_path: Path) -> None:
    def test(driver: RaftDriver, machine: Machine) -> None:
        driver.step(0, 0, (LEADS, Ready(high_watermark=12)))
        assert machine.received == [LEADS]
    driven(tmp_path, test)


def test_work_done_since_is_not_repeated_at_the_end_of_the_iteration(tmp_path: Path) -> None:
    async def run() -> None:
        iterations: list[str] = []
        core = Core()
        with Log(tmp_path) as log:
            driver = driver_of(core, RaftLog(log))
            driver.start()
            await asyncio.sleep(0)
            driver.step(0, 0, (FOLLOWS, Ready(leadership=FOLLOWS)))
            driver.on_iteration = lambda: iterations.append("turn")
            driver.wake()
            driver.step(0, 0, (FOLLOWS, Ready(high_watermark=12)))      # a follower's answer, carried out at once
            await asyncio.sleep(0)
            assert iterations == ["turn"]
            driver.wake()
            await asyncio.sleep(0)
            assert iterations == ["turn", "turn"]
            driver.close()

    uvloop.run(run())


def test_a_flush_whose_end_comes_after_the_close_is_nobodys(tmp_path: Path) -> None:
    async def run() -> None:
        faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
        core = Core()
        with Log(tmp_path, DURABLE) as log:
            driver = driver_of(core, RaftLog(log))
            driver.start()
            await asyncio.sleep(0)
            core.ready = Ready(flush=0)     # it is durable already, which is reported in the next step
            driver.wake()
            await asyncio.sleep(0)
            driver.close()
        await asyncio.sleep(0)
        assert faults == []

    uvloop.run(run())


def test_the_last_request_is_answered_before_a_node_leaves(tmp_path: Path) -> None:
    """The last request is for a vote for the next leader, in the step in which the last voter learned that this node
    leads no more."""
    async def run() -> None:
        answers: list[Answer] = []
        core = Core()
        with Log(tmp_path) as log:
            driver = driver_of(core, RaftLog(log), answer=answers.append)
            driver.start()
            await asyncio.sleep(0)
            core.last = vote = Answer(7, 8, VoteResponse(granted=True))
            await driver.resign(timeout_seconds=0)
            assert answers == [vote]
            driver.close()

    uvloop.run(run())


class Received(list[object]):
    def __init__(self) -> None:
        self.flushed = asyncio.Event()
        self.stepped = asyncio.Event()


class Flushing(Core):
    """A core that waits for a flush, and then sends a request to the leader."""

    def __init__(self, received: Received) -> None:
        super().__init__()
        self.leadership = FOLLOWS
        self.ready = Ready(leadership=FOLLOWS, flush=1)
        self.received = received

    def fetch_ahead(self) -> OutgoingRequest | None:
        return None if self.received else AHEAD

    def withdraw(self, ahead: OutgoingRequest) -> None:
        assert ahead is AHEAD
        self.received.append("withdrawn")

    def log_flushed(self, end_offset: int, _now_ms: int, *, is_followed: bool = False) -> None:
        assert end_offset == 1
        self.received.append("flushed")
        self.received.flushed.set()

    def step(self, _source: int, _correlation: int, _message: Any, _now_ms: int) -> None:
        self.received.append("stepped")


class Carrier(Nobody):
    def __init__(self, received: Received) -> None:
        self.received = received
        self.ours, self.theirs = socket.socketpair()

    def prepare(self, outgoing: OutgoingRequest) -> tuple[int, bytes] | None:
        assert outgoing is AHEAD
        return self.ours.fileno(), b"fetch"

    def has_left(self, outgoing: OutgoingRequest) -> None:
        assert outgoing is AHEAD
        self.received.append("left")


@contextmanager
def flush_under_way(directory: Path, carrier: Carrier) -> Iterator[tuple[RaftLog, Gate]]:
    """Hold by a gate the flush of the one record of a log, which is of epoch 3."""
    with carrier.ours, carrier.theirs, Log(directory, DURABLE) as log, Gate(DATASYNC) as gate:
        carrier.theirs.settimeout(SECONDS)
        log.append_record(b"r", leader_epoch=3)
        log.flush_soon()
        gate.arrived()
        yield RaftLog(log), gate


@pytest.mark.parametrize("interrupted", ["never", "before", "after"])
def test_a_fetch_sent_ahead_is_reported_first(tmp_path: Path, interrupted: str) -> None:
    """The Fetch leaves with the end of the flush, without the loop, unless something else happened before."""
    async def run() -> None:
        received = Received()
        carrier = Carrier(received)
        with flush_under_way(tmp_path, carrier) as (log, gate):
            driver = driver_of(Flushing(received), log, sender=carrier, on_failure=received.append)
            driver.start()
            await asyncio.sleep(0)     # the iteration of the loop in which all of that is carried out
            if interrupted == "before":
                driver.step(0, 0, VoteResponse())
                assert received == ["withdrawn", "stepped"]
            gate.let_go()
            if interrupted == "before":
                async with asyncio.timeout(SECONDS):
                    await received.flushed.wait()
                assert received == ["withdrawn", "stepped", "flushed"]
                carrier.ours.shutdown(socket.SHUT_WR)
                assert carrier.theirs.recv(100) == b""
            else:
                assert carrier.theirs.recv(100) == b"fetch"
                if interrupted == "after":
                    driver.step(0, 0, VoteResponse())
                else:
                    driver.catch_up()
                    async with asyncio.timeout(SECONDS):
                        await received.flushed.wait()
                assert received == ["left", "flushed", "stepped"][:3 if interrupted == "after" else 2]
            driver.close()

    uvloop.run(run())


LIKE = FetchResponse(epoch=3, leader_id=2)
NEXT = OutgoingRequest(2, None, 9, FetchRequest(replica=key(1), epoch=3, fetch_offset=3, last_fetched_epoch=3))


class Following(Flushing):
    """A core that learns what has followed only from `step`."""

    def __init__(self, received: Received, log: RaftLog) -> None:
        super().__init__(received)
        self.log = log

    def step(self, source: int, correlation: int, message: Any, _now_ms: int) -> None:
        assert (source, correlation) == (AHEAD.node_id, AHEAD.correlation)
        assert self.log.append_fetched(message.records, 3) == ()
        self.received.append((message.epoch, message.leader_id, message.high_watermark, self.log.end.offset))
        self.received.stepped.set()

    def fetch_has_left(self) -> OutgoingRequest:
        return NEXT


class Chained(Carrier):
    """Stores the chain, and sends the next Fetch in a form that the test can read."""

    chain: FetchChain | None = None

    def follow(self, outgoing: OutgoingRequest, chain: FetchChain) -> None:
        assert outgoing is AHEAD
        self.chain = chain

    def next_fetch(self, end_offset: int, high_watermark: int) -> tuple[int, bytes]:
        return self.ours.fileno(), b"from %d hw %d" % (end_offset, high_watermark)

    def has_left(self, outgoing: OutgoingRequest) -> None:
        self.received.append("left" if outgoing is AHEAD else "next left")

    def answer(self, high_watermark: int, offset: int) -> bool:
        builder = BatchBuilder()
        builder.append(b"r")
        assert self.chain is not None
        return self.chain.take(self, LIKE, high_watermark, builder.build(offset, leader_epoch=3))


@pytest.mark.parametrize("moment", ["in time", "before something else", "before the next has left"])
def test_the_core_receives_several_answers_as_one(tmp_path: Path, moment: str) -> None:
    async def run() -> None:
        received = Received()
        carrier = Chained(received)
        with flush_under_way(tmp_path, carrier) as (log, gate):
            driver = driver_of(Following(received, log), log, sender=carrier, on_failure=received.append)
            driver.start()
            await asyncio.sleep(0)
            gate.let_go()
            assert carrier.theirs.recv(100) == b"fetch"
            assert carrier.answer(1, 1)
            gate.arrived()
            gate.let_go()
            assert carrier.theirs.recv(100) == b"from 2 hw 1"
            assert not carrier.answer(2, 7), "there would be a gap"
            assert carrier.answer(2, 2)
            gate.arrived()
            assert received == []
            if moment != "before the next has left":
                gate.let_go()
                assert carrier.theirs.recv(100) == b"from 3 hw 2"
            if moment == "in time":
                async with asyncio.timeout(SECONDS):
                    await received.stepped.wait()
            else:
                driver.catch_up()
            next_left = [] if moment == "before the next has left" else ["next left"]
            assert received == ["flushed", (3, 2, 2, 3), *next_left]
            assert not carrier.answer(3, 3), "the core knows what follows again"
            if moment == "before the next has left":
                gate.let_go()
            driver.close()

    uvloop.run(run())


def test_the_first_failure_is_reported_not_later_refusals(tmp_path: Path) -> None:
    async def run() -> None:
        failures: list[BaseException] = []
        with Log(tmp_path, DURABLE) as log, Gate(DATASYNC) as gate:
            raft_log = RaftLog(log)
            driver = driver_of(Core(), raft_log, on_failure=failures.append)
            driver.start()
            await asyncio.sleep(0)
            raft_log.append(Proposal([b"first"], 0), 1, 0)
            raft_log.flush_appended()
            gate.arrived()
            raft_log.append(Proposal([b"second"], 0), 1, 0)
            gate.let_go(-errno.EIO)
            while log.failure is None:
                os.sched_yield()
            driver.step(0, 0, (FOLLOWS, Ready(leadership=FOLLOWS)))     # carried out before the loop knows of the flush
            assert [type(failure) for failure in failures] == [StorageError]

    uvloop.run(run())
