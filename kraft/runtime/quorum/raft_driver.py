"""The glue around the consensus core: it reports events to the core, and carries out the results in the core's order.

    driver = RaftDriver(raft, ports...)
    driver.start()
    driver.step(source, correlation, message)      # a message from the network
    driver.propose(records, epoch)                 # records of the state machine
    await driver.resign(); driver.close()

Everything that happens in one iteration of the loop is carried out once, at its end: proposals of one iteration share
one flush and one answer to each follower. The flush runs in a thread without the interpreter lock, while the answers
are sent. Only the end of a leadership is carried out at once: the next request of that iteration must not meet a state
machine that still believes that it may propose.

The longest part of a commit is a follower's path from the leader's answer to its next Fetch. The core therefore leases
that path to the driver: a `LeasedFollower` appends records, and the flusher's thread sends the Fetch that acknowledges
them the moment they are durable. Before any event, and every few milliseconds, the driver revokes the lease. To the
core it is as if the leader had sent all these records together (docs/internals/raft.md).
"""

import asyncio
import os
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, Final, Protocol

from kraft.deadlines import NEVER_MS
from kraft.raft.messages import Message, Request
from kraft.raft.raft import Raft
from kraft.raft.ready import Answer, FollowLease, HardState, Leadership, Outcome, OutgoingRequest, Ready
from kraft.raft.transitions import Role
from kraft.raft.types import UNKNOWN_OFFSET, OffsetAndEpoch
from kraft_native.replica.leased_follower import LeasedFollower

TIMER_SECONDS_MAX: Final = 60.0
CHECK_MS: Final = 5
LEASE_SECONDS: Final = 0.003
"""Time for which the core may not know of an accepted answer."""
NEVER_OFFSET: Final = (1 << 63) - 1


class SteadyClock:
    """Milliseconds since 1970 that never go back: set by the wall clock once, then advanced by the monotonic clock."""

    def __init__(self) -> None:
        self._base_ns = time.time_ns() - time.monotonic_ns()

    def __call__(self) -> int:
        return (self._base_ns + time.monotonic_ns()) // 1_000_000


class Timer(Protocol):
    """The subset of `asyncio.TimerHandle` that the driver uses."""

    def cancel(self) -> None: ...


class Future(Protocol):
    """The subset of `asyncio.Future` that the driver uses."""

    def done(self) -> bool: ...
    def set_result(self, result: None, /) -> None: ...
    def __await__(self) -> Generator[Any, None, None]: ...


class Loop(Protocol):
    """The subset of an `asyncio` event loop that the driver uses; the simulator has its own."""

    def call_soon(self, callback: Callable[[], object], /) -> object: ...
    def call_later(self, delay: float, callback: Callable[[], object], /) -> Timer: ...
    def add_reader(self, fd: int, callback: Callable[[], object], /) -> object: ...
    def remove_reader(self, fd: int, /) -> object: ...
    def create_future(self) -> Future: ...


class FlushedLog(Protocol):
    """The subset of `kraft_native.facade.log.Log` that the driver uses: how far the log is durable."""

    @property
    def flush_eventfd(self) -> int: ...
    @property
    def durable_end_offset(self) -> int: ...
    @property
    def failure(self) -> BaseException | None: ...
    def poll(self) -> int: ...
    def send_when_durable(self, end_offset: int, fd: int, message: bytes) -> bool: ...
    def take_back(self) -> bool: ...
    def notify_flushes_from(self, end_offset: int) -> bool: ...


class DrivenLog(Protocol):
    """The subset of `RaftLog` that the driver uses. Fetched records are flushed without a call, proposed ones by
    `flush_appended`."""

    @property
    def log(self) -> FlushedLog: ...
    def append_leased(self, records: object) -> int: ...
    def flush_appended(self) -> None: ...


class StateMachine(Protocol):
    """The state machine that applies committed records. Called in the order of `Ready`; may propose."""

    def installed(self, snapshot: OffsetAndEpoch) -> None: ...

    def committed(self, end_offset: int) -> None: ...

    def leadership(self, leadership: Leadership) -> None: ...


class PeerSender(Protocol):
    """Sender of requests to other nodes (see `Peers`). Each call returns at once."""

    def send(self, outgoing: OutgoingRequest) -> None:
        """Send a request."""

    def follow(self, lease: FollowLease, follower: LeasedFollower) -> bool:
        """Let the follower begin. Return False, and do nothing, when that is not possible.

        Until `unfollow`, it may receive the answers to the Fetch of the lease and to those that follow it. They may
        differ from the leader's last answer of that epoch only in high watermark and records.
        """

    def unfollow(self, lease: FollowLease, outstanding: OutgoingRequest | None) -> None:
        """Note that the follower has ended. `outstanding`: the Fetch whose answer is delivered as any other."""


class RaftDriver:
    """One core on one loop, by default the running one.

    `write_hard_state` returns when the state is durable; `answer` returns at once. `read_event` clears the descriptor
    with which the log reports flushes. `on_failure` receives the first error of the disk or of a broken invariant;
    nothing is done or sent after it.
    """

    def __init__(
        self, raft: Raft, log: DrivenLog, machine: StateMachine, *, write_hard_state: Callable[[HardState], None],
        sender: PeerSender, answer: Callable[[Answer], None], clock: Callable[[], int],
        on_failure: Callable[[BaseException], object], loop: Loop | None = None,
        read_event: Callable[[int], object] = os.eventfd_read,
    ) -> None:
        self.raft = raft
        self._raft_log = log
        self._log = log.log
        self.machine = machine
        """May be replaced before the first iteration."""
        self._eventfd = self._log.flush_eventfd          # after a failed flush the log does not return it
        self._write_hard_state = write_hard_state
        self._sender = sender
        self._answer = answer
        self._clock = clock
        self._on_failure = on_failure
        self._loop: Loop = loop or asyncio.get_running_loop()
        self._read_event = read_event
        self._flushing: int | None = None
        """Offset up to which the core waits for the log to be durable."""
        self._lease: FollowLease | None = None
        self._follower = LeasedFollower(self._log, self._append_leased, self._accepted)
        self._lease_timer: Timer | None = None
        self._wakes_from = 0
        """Durable end from which on the flusher's thread wakes the loop."""
        self._scheduled = False
        self._stopped = True
        self._timer: Timer | None = None
        self._timer_ms = NEVER_MS
        self._checked_ms = 0
        self._leadership: Leadership | None = None
        """Leadership that the state machine knows."""
        self._is_leading = False
        """True if the state machine believes that it leads."""
        self._left: Future | None = None
        self.on_iteration: Callable[[], None] = lambda: None
        """Called after each run: more may be committed and known."""
        self.on_answers: Callable[[], None] = lambda: None
        """Called when answers were given outside of any request: they may be sent now."""

    @property
    def is_running(self) -> bool:
        """Return whether the driver carries out calls: from `start` until `close` or a failure."""
        return not self._stopped

    def start(self) -> None:
        """Start to carry out what the core decides; nothing is sent before."""
        self._stopped = False
        self._loop.add_reader(self._eventfd, self._flushed)
        self._schedule()

    def close(self) -> None:
        """Stop all work. May be called again."""
        if not self._stopped:
            self._loop.remove_reader(self._eventfd)
        if self._lease is not None:
            self._follower.end()
            self._sender.unfollow(self._lease, None)
            self._lease = None
        self._stopped = True
        for timer in (self._timer, self._lease_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._lease_timer = None

    async def resign(self, timeout_seconds: float) -> None:
        """Give up the leadership, if it is held, and wait until the others know it, for at most the time-out."""
        if self._stopped:
            return
        self._left = self._loop.create_future()
        timer = self._loop.call_later(timeout_seconds, self._end_resignation)
        self.hand_over()
        await self._left
        timer.cancel()
        self._run()                    # the last requests are answered: a vote for the next leader must not be lost

    def _end_resignation(self) -> None:
        if self._left is not None and not self._left.done():
            self._left.set_result(None)

    def hand_over(self) -> None:
        """Give up the leadership, if it is held, and continue as a follower of the next leader."""
        try:
            self._settle()
            self.raft.resign(self.raft.replica.epoch, self._clock())
        except Exception as error:  # noqa: BLE001 - as in `step`
            self._fail(error)
            return
        self._stepped()

    # --- events

    def step(self, source: int, correlation: int, message: Message) -> None:
        """Process a received message; see `Raft.step`."""
        if self._stopped:
            return
        try:
            self._settle()
            self.raft.step(source, correlation, message, self._clock())
        except Exception as error:  # noqa: BLE001 - a core that failed half-way must not answer
            self._fail(error)
            return
        self._stepped(is_answer=not isinstance(message, Request))

    # --- the lease

    def _grant(self) -> None:
        """Follow the leader without the core, if both the core and the connection allow that."""
        lease = self.raft.lease()
        if lease is None:
            return
        if self._sender.follow(lease, self._follower):
            self._lease = lease
        else:
            self.raft.revoke(Outcome(lease.from_offset, UNKNOWN_OFFSET, lease.is_sent), self._clock())

    def _append_leased(self, records: object) -> int:
        try:
            return self._raft_log.append_leased(records)
        except Exception as error:  # noqa: BLE001 - as in `step`
            self._fail(error)
            return -1

    def _accepted(self, sends: bool) -> None:
        """Pass accepted answers to the core soon; at once, if the next Fetch has to be sent by the core."""
        if not sends:
            self._schedule()
        elif self._lease_timer is None:
            self._lease_timer = self._loop.call_later(LEASE_SECONDS, self._lease_ends)

    def _lease_ends(self) -> None:
        self._lease_timer = None
        self._run()

    def end_lease(self) -> None:
        """Revoke the lease, if there is one: the sender has received what the follower does not accept, or its
        connection is lost."""
        if self._lease is None:
            return
        try:
            self._revoke()
        except Exception as error:  # noqa: BLE001 - as in `step`
            self._fail(error)
            return
        self._schedule()

    def _revoke(self) -> None:
        """End the lease, if there is one. Comes before any event."""
        if self._lease is None:
            return
        lease, self._lease = self._lease, None
        outcome = Outcome(*self._follower.end())
        self._flushing = None if outcome.is_outstanding else outcome.end_offset
        self._sender.unfollow(lease, self.raft.revoke(outcome, self._clock()))

    def _stepped(self, *, is_answer: bool = False) -> None:
        """Schedule a run after a step, or run now: a follower has one answer in an iteration, and its effects need not
        wait for the next."""
        if self.raft.leadership != self._leadership if self._is_leading else is_answer:
            self._run()
        else:
            self._schedule()

    def propose(self, records: object, epoch: int) -> int:
        """Append records as the leader of `epoch`; return the log end. Raises `NotLeaderError` when this node does not
        lead."""
        self.end_lease()
        end = self.raft.propose(records, self._clock(), epoch)
        self._schedule()
        return end.offset

    def upgrade(self, level: int, epoch: int) -> int:
        """Raise kraft.version as the leader of `epoch`; return the log end. See `Raft.upgrade`."""
        self.end_lease()
        end_offset = self.raft.upgrade(level, epoch, self._clock())
        self._schedule()
        return end_offset

    def wake(self) -> None:
        """Schedule a run, because the core has received another request."""
        self._schedule()

    def _flushed(self) -> None:
        """Handle progress of the log's flusher."""
        if self._stopped:
            return                     # its descriptor may belong to another file by now
        with suppress(BlockingIOError):
            self._read_event(self._eventfd)
        if self._log.failure is not None:
            self._fail(self._log.failure)  # data that may not be durable is no base to continue from
            return
        try:
            self._log.poll()
            self._settle()
        except Exception as error:  # noqa: BLE001 - as in `step`
            self._fail(error)
            return
        self._run(is_iteration=True)

    def _settle(self) -> None:
        """Report to the core first what happened in the flusher's thread: what was sent, and what is durable."""
        self._revoke()
        if self._flushing is not None and self._flushing <= self._log.durable_end_offset:
            end_offset, self._flushing = self._flushing, None
            self._log.poll()
            self.raft.log_flushed(end_offset, self._clock())

    def _tick(self) -> None:
        self._timer = None
        try:
            self._settle()
            self.raft.tick(self._clock())
        except Exception as error:  # noqa: BLE001 - as in `step`
            self._fail(error)
            return
        self._run()

    # --- carrying out

    def tick_soon(self) -> None:
        """Call the core soon, because something that it waits for has ended. May be called while the core runs."""
        self._loop.call_soon(self._tick_now)

    def _tick_now(self) -> None:
        if self._stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._tick()

    def _schedule(self) -> None:
        if not self._scheduled and not self._stopped:
            self._scheduled = True
            self._loop.call_soon(self._run_scheduled)

    def _run_scheduled(self) -> None:
        if self._scheduled:            # else a later call has already run it with something else
            self._run(is_iteration=True)

    def _run(self, *, is_iteration: bool = False) -> None:
        """Carry out the core's decisions. `is_iteration`: the loop called, and no request is being served."""
        self._scheduled = False
        if self._stopped:
            return
        try:
            self._settle()
            committed = self.raft.take_high_watermark()
            if committed is not None:
                self.machine.committed(committed)
            ready = self.raft.take_ready()
            self._carry_out(ready, is_iteration=is_iteration)
            self._grant()
            self._set_wakeup()
        except Exception as error:  # noqa: BLE001 - as in `step`
            self._fail(error)
            return
        if self._left is not None and self.raft.has_left:
            self._end_resignation()
        self._arm()
        self.on_iteration()

    def _carry_out(self, ready: Ready, *, is_iteration: bool) -> None:
        if ready.hard_state is not None:
            self._write_hard_state(ready.hard_state)
        self._raft_log.flush_appended()
        for message in ready.messages:
            if isinstance(message, OutgoingRequest):
                self._sender.send(message)
            else:
                self._answer(message)
        if is_iteration and ready.messages:
            self.on_answers()
        if ready.flush is not None:
            self._flushing = ready.flush
        ends = self._is_leading
        if ends:
            self._report_leadership(ready.leadership)
        if ready.installed is not None:
            self.machine.installed(ready.installed)
        if ready.high_watermark is not None:
            self.machine.committed(ready.high_watermark)
        if not ends:
            self._report_leadership(ready.leadership)

    def _report_leadership(self, leadership: Leadership | None) -> None:
        if leadership is not None:
            self._leadership = leadership
            self._is_leading = leadership.role is Role.LEADER
            self.machine.leadership(leadership)

    def _set_wakeup(self) -> None:
        """Wake the loop at the end of the flush only where something waits for it. During a lease the Fetch is sent by
        the flush, and a leader whose followers have less does not wait. They learn of the flush before the next
        event."""
        wakes_from = NEVER_OFFSET
        if self._lease is None:
            if self._flushing is None:
                return
            if self.raft.awaits_flush:
                wakes_from = self._flushing
        if wakes_from != self._wakes_from:
            self._wakes_from = wakes_from
            if not self._log.notify_flushes_from(wakes_from):
                self._loop.call_soon(self._flushed)  # the flush was faster than this call

    def _arm(self) -> None:
        """Schedule `_tick` in time. In a series of iterations the deadlines are read only once in `CHECK_MS`."""
        if self._timer is not None and self._timer_ms <= self.raft.replica.now_ms + CHECK_MS:
            return  # `_tick` reads them again
        now_ms = self._clock()
        if now_ms - self._checked_ms < CHECK_MS:
            deadline_ms = now_ms + CHECK_MS
        else:
            self._checked_ms = now_ms
            deadline_ms = self.raft.deadline_ms
            if self._timer is not None and self._timer_ms <= deadline_ms:
                return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay = min(max(0, deadline_ms - now_ms) / 1000, TIMER_SECONDS_MAX)
        self._timer = self._loop.call_later(delay, self._tick)

    def _fail(self, error: BaseException) -> None:
        """Stop with an error. A log that cannot be written reports what failed first, not its refusals since."""
        if not self._stopped:
            self.close()
            self._on_failure(self._log.failure or error)
