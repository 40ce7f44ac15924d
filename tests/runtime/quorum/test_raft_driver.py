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

from kraft.deadlines import NEVER_MS
from kraft.raft.errors import NotLeaderError
from kraft.raft.messages import FetchRequest, VoteResponse
from kraft.raft.ready import Answer, FollowLease, Leadership, Outcome, OutgoingRequest, Ready
from kraft.raft.transitions import Role
from kraft.runtime.quorum.raft_driver import RaftDriver
from kraft.runtime.quorum.raft_log import Proposal, RaftLog
from kraft_native.base.errors import StorageError
from kraft_native.batch.records import BatchBuilder
from kraft_native.facade.log import Log
from kraft_native.replica.leased_follower import LeasedFollower
from kraft_native.segment.config import LogConfig
from tests.native.gate import DATASYNC, Gate
from tests.raft.world import key

SECONDS = 20.0
DURABLE = LogConfig(durability="group-commit", flush_interval_us=0)
FETCH = OutgoingRequest(2, None, -1, FetchRequest(replica=key(1), epoch=3, fetch_offset=1, last_fetched_epoch=3))
LEASE = FollowLease(2, 3, 1, FETCH, is_sent=False)
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

    def lease(self) -> FollowLease | None:
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

    def follow(self, lease: FollowLease, follower: LeasedFollower) -> bool:
        return False

    def unfollow(self, lease: FollowLease, outstanding: OutgoingRequest | None) -> None:
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


class Leasing(Core):
    """A core that waits for a flush, and leases the Fetch that waits for it. What it gets is in `received`."""

    def __init__(self, *, is_sent: bool = False) -> None:
        super().__init__()
        self.leadership = FOLLOWS
        self.ready = Ready(leadership=FOLLOWS, flush=None if is_sent else 1)
        self.granted: FollowLease | None = LEASE._replace(is_sent=is_sent)
        self.received: list[object] = []
        self.happened = asyncio.Event()

    def lease(self) -> FollowLease | None:
        granted, self.granted = self.granted, None
        return granted

    def revoke(self, outcome: Outcome, _now_ms: int) -> OutgoingRequest | None:
        self.received.append(tuple(outcome))
        self.happened.set()
        return NEXT if outcome.is_outstanding else None

    def log_flushed(self, end_offset: int, _now_ms: int) -> None:
        self.received.append(f"flushed to {end_offset}")
        self.happened.set()

    def step(self, _source: int, _correlation: int, _message: Any, _now_ms: int) -> None:
        self.received.append("stepped")

    def propose(self, _records: object, _now_ms: int, _epoch: int) -> None:
        self.received.append("proposed")
        raise NotLeaderError("it follows")

    async def happens(self) -> None:
        async with asyncio.timeout(SECONDS):
            await self.happened.wait()


NEXT = OutgoingRequest(2, None, 9, FetchRequest(replica=key(1), epoch=3, fetch_offset=3, last_fetched_epoch=3))


class Line(Nobody):
    """Connection to the leader. The follower's Fetches go to `theirs` in a form that the test can read."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.refuses = refuses
        self.follower: LeasedFollower | None = None
        self.ended: list[OutgoingRequest | None] = []

    def follow(self, lease: FollowLease, follower: LeasedFollower) -> bool:
        fetch = None if lease.is_sent else self.next_fetch(lease.from_offset, 0)
        if self.refuses or not follower.begin(lease.from_offset, fetch):
            return False
        self.follower = follower
        return True

    def unfollow(self, lease: FollowLease, outstanding: OutgoingRequest | None) -> None:
        self.ended.append(outstanding)

    def next_fetch(self, end_offset: int, high_watermark: int) -> tuple[int, bytes]:
        return self.ours.fileno(), b"from %d hw %d" % (end_offset, high_watermark)

    def answer(self, high_watermark: int, offset: int) -> bool:
        builder = BatchBuilder()
        builder.append(b"r")
        assert self.follower is not None
        return self.follower.accept(self, high_watermark, builder.build(offset, leader_epoch=3))


@contextmanager
def followed(directory: Path, core: Leasing, line: Line) -> Iterator[tuple[RaftDriver, Gate]]:
    """Run a driver whose log has one record of epoch 3; a gate holds its flush."""
    with line.ours, line.theirs, Log(directory, DURABLE) as log, Gate(DATASYNC) as gate:
        line.theirs.settimeout(SECONDS)
        log.append_record(b"r", leader_epoch=3)
        log.flush_soon()
        gate.arrived()
        driver = driver_of(core, RaftLog(log), sender=line, on_failure=core.received.append)
        driver.start()
        yield driver, gate
        driver.close()


def propose_in_vain(driver: RaftDriver) -> None:
    with pytest.raises(NotLeaderError):
        driver.propose((), 3)


EVENTS: dict[str, Callable[[RaftDriver], object]] = {
    "step": lambda driver: driver.step(0, 0, VoteResponse()),
    "propose": propose_in_vain,
    "the leader's line": lambda driver: driver.end_lease(),
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("is_sent", [True, False])
def test_an_event_revokes_the_lease_first(tmp_path: Path, event: str, is_sent: bool) -> None:
    """The Fetch leaves with the end of the flush, without the loop, or never."""
    async def run() -> None:
        core, line = Leasing(), Line()
        with followed(tmp_path, core, line) as (driver, gate):
            await asyncio.sleep(0)     # the iteration of the loop in which the lease is granted
            if is_sent:
                gate.let_go()
                assert line.theirs.recv(100) == b"from 1 hw 0"
            EVENTS[event](driver)
            expected = {"step": ["stepped"], "propose": ["proposed"]}.get(event, [])
            assert core.received == [(1, -1, is_sent), *expected]
            assert line.ended == [NEXT if is_sent else None]
            assert not line.answer(1, 1), "it has ended"
            if not is_sent:
                core.happened.clear()
                gate.let_go()
                await core.happens()
                assert core.received[-1] == "flushed to 1", "the core sends the Fetch itself"
                line.ours.shutdown(socket.SHUT_WR)
                assert line.theirs.recv(100) == b""

    uvloop.run(run())


@pytest.mark.parametrize("moment", ["in time", "before an event", "before the next has left"])
def test_the_core_receives_several_answers_as_one(tmp_path: Path, moment: str) -> None:
    async def run() -> None:
        core, line = Leasing(), Line()
        with followed(tmp_path, core, line) as (driver, gate):
            await asyncio.sleep(0)
            gate.let_go()
            assert line.theirs.recv(100) == b"from 1 hw 0"
            assert line.answer(1, 1)
            gate.arrived()
            gate.let_go()
            assert line.theirs.recv(100) == b"from 2 hw 1"
            assert not line.answer(2, 7), "there would be a gap"
            assert line.answer(2, 2)
            gate.arrived()
            assert core.received == []
            has_left = moment != "before the next has left"
            if has_left:
                gate.let_go()
                assert line.theirs.recv(100) == b"from 3 hw 2"
            if moment == "in time":
                await core.happens()
            else:
                driver.end_lease()
            assert core.received == [(3, 2, has_left)]
            assert line.ended == [NEXT if has_left else None]
            assert not line.answer(3, 3), "the core knows what follows again"
            if not has_left:
                gate.let_go()

    uvloop.run(run())


def test_a_fetch_that_was_sent_is_followed(tmp_path: Path) -> None:
    async def run() -> None:
        core, line = Leasing(is_sent=True), Line()
        with followed(tmp_path, core, line) as (driver, gate):
            await asyncio.sleep(0)
            gate.let_go()
            assert line.answer(1, 1)
            gate.arrived()
            gate.let_go()
            assert line.theirs.recv(100) == b"from 2 hw 1"
            await core.happens()
            assert core.received == [(2, 1, True)]
            assert driver.is_running

    uvloop.run(run())


def test_a_lease_without_a_line_is_given_back(tmp_path: Path) -> None:
    async def run() -> None:
        core, line = Leasing(), Line(refuses=True)
        with followed(tmp_path, core, line) as (_driver, gate):
            await asyncio.sleep(0)
            assert core.received == [(1, -1, False)]
            core.happened.clear()
            gate.let_go()
            await core.happens()
            assert (core.received[-1], line.ended) == ("flushed to 1", [])

    uvloop.run(run())


def test_a_driver_that_closes_withdraws_the_fetch(tmp_path: Path) -> None:
    async def run() -> None:
        core, line = Leasing(), Line()
        with followed(tmp_path, core, line) as (driver, gate):
            await asyncio.sleep(0)
            driver.close()
            gate.let_go()
            line.ours.shutdown(socket.SHUT_WR)
            assert line.theirs.recv(100) == b""
            assert (core.received, line.ended, line.answer(1, 1)) == ([], [None], False)

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
