"""The order in which the driver tells a state machine what the core says."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import uvloop

from kraft.raft.messages import VoteResponse
from kraft.raft.ready import Answer, Leadership, Ready
from kraft.raft.transitions import Role
from kraft.raft.types import NEVER_MS
from kraft.runtime.raft_driver import RaftDriver
from kraft_native.log import Log

LEADS = Leadership(Role.LEADER, 3, 1, 10)
FOLLOWS = Leadership(Role.FOLLOWER, 4, 2, -1)


class Core:
    """A core that says what the test says."""

    deadline_ms = NEVER_MS
    has_left = False

    def __init__(self) -> None:
        self.replica = SimpleNamespace(epoch=3)
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

    def take_high_watermark(self) -> int | None:
        return None

    def take_ready(self) -> Ready:
        ready, self.ready = self.ready, Ready(messages=(self.last,) if self.last else ())
        self.last = None
        return ready


class Machine:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def installed(self, snapshot: object) -> None:
        self.heard.append(snapshot)

    def committed(self, end_offset: int) -> None:
        self.heard.append(end_offset)

    def leadership(self, leadership: Leadership) -> None:
        self.heard.append(leadership)


def driven(directory: Path, test: Callable[[RaftDriver, Machine], None]) -> None:
    async def run() -> None:
        machine = Machine()
        with Log(directory) as log:
            driver = RaftDriver(
                Core(), log, machine, write_hard_state=lambda _: None, ask=lambda _: None,
                answer=lambda _: None, clock=lambda: 0, on_failure=lambda _: None)
            driver.start()
            await asyncio.sleep(0)
            assert machine.heard == [LEADS]
            test(driver, machine)
            driver.close()

    uvloop.run(run())


def test_the_end_of_a_leadership_is_told_at_once_and_first(tmp_path: Path) -> None:
    """Requests of the same turn, and those who hear of a commit, would propose to a core that does not lead."""
    def test(driver: RaftDriver, machine: Machine) -> None:
        driver.step(0, 0, (FOLLOWS, Ready(high_watermark=12, leadership=FOLLOWS)))
        assert machine.heard == [LEADS, FOLLOWS, 12]
    driven(tmp_path, test)


def test_all_else_waits_for_the_end_of_the_turn(tmp_path: Path) -> None:
    def test(driver: RaftDriver, machine: Machine) -> None:
        driver.step(0, 0, (LEADS, Ready(high_watermark=12)))
        assert machine.heard == [LEADS]
    driven(tmp_path, test)


def test_who_asked_last_is_answered_before_a_node_leaves(tmp_path: Path) -> None:
    """A vote for the next leader, given in the turn in which the last voter has heard that this one leads no more."""
    async def run() -> None:
        answers: list[Answer] = []
        core = Core()
        with Log(tmp_path) as log:
            driver = RaftDriver(
                core, log, Machine(), write_hard_state=lambda _: None, ask=lambda _: None,
                answer=answers.append, clock=lambda: 0, on_failure=lambda _: None)
            driver.start()
            await asyncio.sleep(0)
            core.last = vote = Answer(7, 8, VoteResponse(granted=True))
            await driver.resign(timeout_seconds=0)
            assert answers == [vote]
            driver.close()

    uvloop.run(run())
