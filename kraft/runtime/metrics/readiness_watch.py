"""Readiness of a node over time: its state, read every second and on request, and the verdict about it.

The decision is `kraft.broker.readiness`; here are the clock, and what the decision remembers.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, Protocol

from kraft.broker.readiness import CommitAges, NodeState, Phase, Verdict, is_settled, readiness
from kraft_native.partition.purgatory import now_ms as monotonic_ms

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 1.0
FRESH_MS: Final = 100
"""Age up to which a verdict answers further requests: their number costs the loop nothing."""
ANSWER_SECONDS_MAX: Final = 2.0


class ReadState(Protocol):
    """Reads the state of a node on the loop's thread. See `NodeState.was_ready`."""

    def __call__(self, *, was_ready: bool) -> Awaitable[NodeState]: ...


class ReadinessWatch:
    """The verdicts about one node, on the running loop. `on_period(verdict)` is called with the last one about every
    `period_seconds`, as long as the loop runs. `clock` is monotonic, in ms."""

    def __init__(self, read: ReadState, on_period: Callable[[Verdict], object] = lambda _verdict: None,
                 period_seconds: float = PERIOD_SECONDS, clock: Callable[[], int] = monotonic_ms) -> None:
        self._read = read
        self._on_period = on_period
        self._period_seconds = period_seconds
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._ages = CommitAges()
        self._led_ms = clock()
        self._state = NodeState(Phase.STARTING)
        self._verdict = readiness(self._state)
        self._read_ms = self._led_ms - FRESH_MS
        self._has_failed = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin the periodic checks."""
        self._task = self._loop.create_task(self._run())

    async def close(self) -> None:
        """End the periodic checks. May be called again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def verdict(self) -> Verdict:
        """Return the verdict about the present state. Loop thread only."""
        async with self._lock:
            now_ms = self._clock()
            if now_ms - self._read_ms >= FRESH_MS:
                state = self._remembered(await self._read(was_ready=self._state.was_ready), now_ms)
                verdict = readiness(state)
                self._state = replace(state, was_ready=is_settled(state, verdict))
                self._verdict, self._read_ms = verdict, now_ms
        return self._verdict

    def from_thread(self) -> Verdict:
        """Return the verdict, from any thread but the loop's. When the loop does not answer in time, that is a
        reason."""
        work = self.verdict()
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:               # the loop has ended meanwhile
            work.close()
            return readiness(NodeState(Phase.STOPPING))
        try:
            return future.result(ANSWER_SECONDS_MAX)
        except TimeoutError:
            future.cancel()
            return readiness(replace(self._state, unresponsive_ms=round(ANSWER_SECONDS_MAX * 1000)))

    def _remembered(self, state: NodeState, now_ms: int) -> NodeState:
        """Return the state with what earlier ones add."""
        quorum, behind_ms = state.quorum, 0
        if quorum is None or quorum.is_answered:
            self._led_ms = now_ms
        if quorum is not None:
            behind_ms = self._ages.note(quorum.committed_end, quorum.applied_end, now_ms)
        return replace(state, leaderless_ms=now_ms - self._led_ms, behind_ms=behind_ms,
                       was_ready=self._state.was_ready)

    async def _run(self) -> None:
        while True:
            try:
                await self.verdict()
            except Exception:
                # A node is not stopped because its state cannot be described. Each request reports the error again.
                if not self._has_failed:
                    log.exception("the state of the node cannot be read")
                self._has_failed = True
            self._on_period(self._verdict)
            await asyncio.sleep(self._period_seconds)
