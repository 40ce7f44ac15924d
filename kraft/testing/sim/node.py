"""One simulated node: its disk, which outlives its process, and the process with its driver.

The driver is what a real node's does: a `Ready` is carried out in its order, and none overtakes an earlier one.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from kraft.raft.config import RaftConfig
from kraft.raft.messages import VoteResponse
from kraft.raft.ports import Event
from kraft.raft.raft import Raft
from kraft.raft.ready import Answer, Ask, HardState, Ready
from kraft.raft.replica import Ports
from kraft.raft.voters import VoterSet
from kraft.testing.memory_log import formatted
from kraft.testing.sim.invariants import Checker
from kraft.testing.sim.options import SimOptions

SLOW_FLUSH_MS: Final = 15_000


class Surroundings(Protocol):
    """What a node knows of the world."""

    now_ms: int
    random: Random
    checker: Checker
    options: SimOptions

    def later(self, node: "SimNode", delay_ms: int, action: Callable[[], None]) -> None:
        """Does something at a node that is still in this life then, and drives it."""

    def send(self, node: "SimNode", message: Ask | Answer) -> None: ...

    def trace(self, node: "SimNode", text: str) -> None: ...


class SimNode:
    """`life` counts processes: what an earlier one had under way does not reach the next. `rate`: how fast its clock
    runs."""

    def __init__(self, config: RaftConfig, voters: VoterSet, world: Surroundings) -> None:
        self.config = config
        self.node_id = config.node_id
        self.key = config.key
        self.world = world
        self.log, self.snapshots = formatted(voters)
        self.hard_state = HardState()
        self.raft: Raft | None = None
        self.life = 0
        self.rate = 1.0
        self.paused_until_ms = 0
        self.high_watermark = 0
        self._flush_free_ms = 0
        self._waiting: deque[Ready] = deque()
        self._is_saving = False

    @property
    def up(self) -> Raft:
        assert self.raft is not None, f"node {self.node_id} is down"
        return self.raft

    @property
    def clock_ms(self) -> int:
        return int(self.world.now_ms * self.rate)

    # --- its process

    def start(self) -> None:
        self.life += 1
        self._waiting.clear()
        self._is_saving = False
        self._flush_free_ms = 0
        self.paused_until_ms = 0

        def trace(event: Event) -> None:
            self.world.trace(self, str(event))

        ports = Ports(self.log, self.snapshots, self.world.random, trace)
        self.raft = Raft(self.config, self.hard_state, ports, self.clock_ms)
        self.high_watermark = self.raft.replica.high_watermark

    def crash(self, *, loses_all: bool) -> None:
        """Of what was being written, a part is there. A quorum-state under way is the old one or the new one."""
        random = self.world.random
        self.raft = None
        self.life += 1
        if self._is_saving and random.random() < 0.5:
            state = self._waiting[0].hard_state
            assert state is not None
            self.hard_state = state
        unwritten = self.log.end.offset - self.log.durable_end_offset
        self.log.crash(0 if loses_all else random.randint(0, max(0, unwritten)))
        self.snapshots.crash()
        self.world.trace(self, f"crashes, log to {self.log.end}")

    # --- its driver

    def drive(self) -> None:
        """After any call of the core."""
        self._waiting.append(self.up.take_ready())
        self._carry_out()
        self.world.checker.check_node(self)

    def _carry_out(self) -> None:
        while self._waiting and not self._is_saving:
            if self._waiting[0].hard_state is None:
                self._finish(self._waiting.popleft())
            else:
                self._is_saving = True
                self.world.later(self, self._disk_ms(), self._saved)

    def _saved(self) -> None:
        ready = self._waiting.popleft()
        self._is_saving = False
        assert ready.hard_state is not None
        self.hard_state = ready.hard_state
        self.world.checker.saved(self, ready.hard_state.epoch)
        self._finish(ready)

    def _disk_ms(self) -> int:
        options, random = self.world.options, self.world.random
        if random.random() < options.slow_flushes:
            return random.randint(1, SLOW_FLUSH_MS)
        return random.randint(1, options.flush_ms)

    def _finish(self, ready: Ready) -> None:
        for message in ready.messages:
            if isinstance(message, Answer) and isinstance(message.response, VoteResponse):
                self._note_vote(message.response)
            self.world.send(self, message)
        if ready.flush is not None:
            flush, now_ms = ready.flush, self.world.now_ms
            self.log.start_flush(flush)
            self._flush_free_ms = max(self._flush_free_ms, now_ms) + self._disk_ms()

            def flushed() -> None:
                self.log.finish_flush(flush)
                self.up.log_flushed(flush, self.clock_ms)

            self.world.later(self, self._flush_free_ms - now_ms, flushed)
        if ready.installed is not None:
            self.world.checker.installed(self, ready.installed)
            self.high_watermark = max(self.high_watermark, ready.installed.offset)
        if ready.high_watermark is not None and ready.high_watermark > self.high_watermark:
            self.world.checker.high_watermark_moved(self, self.high_watermark, ready.high_watermark)
            self.high_watermark = ready.high_watermark

    def _note_vote(self, response: VoteResponse) -> None:
        """Whom a vote was for is in the hard state, which is durable by now, or the vote would not leave."""
        if response.granted and response.pre_vote is False and response.epoch == self.hard_state.epoch:
            assert self.hard_state.voted is not None
            self.world.checker.voted(self.key, response.epoch, self.hard_state.voted)
