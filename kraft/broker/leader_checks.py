"""Checks that find leaders whose process has ended, before an answer names them to a client. Sans-IO.

A client whose connection to a leader broke requests Metadata at once, from another broker. That broker may not know
yet: its own connections to the leader close later, and the controller fences later still. An answer with the dead
leader costs the client the wait until its next request, in librdkafka a second.

So an answer with leaders waits until each of them has answered a request that was sent *after* the client's
(`start_check`). A leader that the client saw end cannot answer it.

    check sent --- answered ---> the leader is named
        |  '------ refused ----> held until the leader is fenced; after a second it is left out (LEADER_NOT_AVAILABLE)
        '--------- limit ------> the leader is named: a hanging process and a cut link prove nothing

- One check of a leader is under way at a time. Requests that arrive meanwhile share the next one.
- After an unanswered check no request waits for that leader until it has answered one.
- A leader whose address refused for `DISPUTED_MS` and that is still not fenced is named. The controller still receives
  its heartbeats, so perhaps only the path from this broker is closed.

The metadata log alone decides which broker leads. This module only decides when a client learns it.
"""

from collections.abc import Callable, Iterable
from dataclasses import field
from enum import Enum
from typing import Final

from kraft.deadlines import NEVER_MS
from kraft.metadata.image import EMPTY, BrokerRegistration, MetadataImage
from kraft.structs import mutable

REFUSED_LIMIT_MS: Final = 1_000
"""Longest time for which an answer is held for a leader whose address refuses. It covers an election of the controller
and a fence of many partitions on a slow machine. A client that gets no leader waits for its own back-off instead, which
takes longer."""
DISPUTED_MS: Final = 3_000


class Checked(Enum):
    """Result of one check."""

    ANSWERED = "answered"
    REFUSED = "no process listens at its address"
    UNANSWERED = "no answer"


OnChecked = Callable[[tuple[int, ...]], None]
"""Receives the ids of the leaders that a client must not be sent to."""


@mutable(eq=False)
class _Held:
    """One held answer. `checks` counts the leaders that are not checked yet. `refused` holds the epochs of those that
    refused."""

    answer: OnChecked
    deadline_ms: int
    checks: int = 0
    refused: dict[int, int] = field(default_factory=dict)


@mutable(eq=False)
class _Leader:
    """One incarnation of a broker. `held` wait for the check under way, `queued` for the next one."""

    epoch: int
    requested_ms: int = NEVER_MS
    held: list[_Held] = field(default_factory=list)
    queued: list[_Held] = field(default_factory=list)
    is_unresponsive: bool = False
    refused_ms: int = NEVER_MS

    @property
    def is_being_checked(self) -> bool:
        return self.requested_ms != NEVER_MS


class LeaderChecks:
    """Checks of all leaders but this broker itself. `start_check(broker)` starts a check, whose result `checked`
    receives later, within a bounded time. `limit_ms`: the longest time for which an answer is held for checks; with 0
    nothing is checked. `clock` returns milliseconds that never fall."""

    def __init__(self, node_id: int, limit_ms: int, clock: Callable[[], int],
                 start_check: Callable[[BrokerRegistration], None]) -> None:
        self._node_id = node_id
        self._limit_ms = limit_ms
        self._clock = clock
        self._start_check = start_check
        self._image: MetadataImage = EMPTY
        self._leaders: dict[int, _Leader] = {}
        self._held: dict[_Held, None] = {}
        self._held_longer: dict[_Held, None] = {}
        """Answers past the limit, for a leader whose address refuses."""
        self.refusing: dict[int, int] = {}
        """Leaders whose last check was refused, each with the time until which answers leave it out. Answers that
        cannot wait for a check go by this: the leaders in refusals of Produce and Fetch (KIP-951)."""
        self.on_deadline: Callable[[int], None] = lambda _deadline_ms: None
        """Receives the time at which `tick` is due, after each answer that is held."""

    def submit(self, leaders: Iterable[int], answer: OnChecked) -> None:
        """Call `answer` exactly once: immediately when there is nothing to wait for, else within `limit_ms`, or within
        `REFUSED_LIMIT_MS` when the address of a leader refuses."""
        if not self._limit_ms:
            answer(())
            return
        now_ms = self._clock()
        held = _Held(answer, now_ms + self._limit_ms)
        for broker_id in dict.fromkeys(leaders):
            broker = self._image.brokers.get(broker_id)
            if broker_id != self._node_id and broker is not None and not broker.fenced:
                self._check(held, broker, now_ms)
        if not held.checks:
            answer(())
            return
        self._held[held] = None
        self.on_deadline(held.deadline_ms)

    def _check(self, held: _Held, broker: BrokerRegistration, now_ms: int) -> None:
        leader = self._leaders.get(broker.broker_id)
        if leader is None:
            leader = self._leaders[broker.broker_id] = _Leader(broker.epoch)
        if not leader.is_unresponsive:
            (leader.queued if leader.is_being_checked else leader.held).append(held)
            held.checks += 1
        if not leader.is_being_checked:
            leader.requested_ms = now_ms
            self._start_check(broker)

    def connection_lost(self, broker_id: int) -> None:
        """Check a leader that closed the connection of its checks: answers that cannot wait for a check should not name
        it if it has ended. A check under way finds that by itself."""
        leader = self._leaders.get(broker_id)
        if leader is None or not leader.is_being_checked:
            self.submit((broker_id,), lambda _ended: None)

    def checked(self, broker_id: int, broker_epoch: int, found: Checked) -> None:
        """Process the result of the check of that incarnation."""
        now_ms = self._clock()
        leader = self._leaders.get(broker_id)
        if leader is None or leader.epoch != broker_epoch:
            return
        leader.is_unresponsive = found is Checked.UNANSWERED
        leader.refused_ms = min(leader.refused_ms, now_ms) if found is Checked.REFUSED else NEVER_MS
        hides = found is Checked.REFUSED and now_ms - leader.refused_ms < DISPUTED_MS
        if hides:
            self.refusing[broker_id] = leader.refused_ms + DISPUTED_MS
        else:
            self.refusing.pop(broker_id, None)
            self._may_be_named(broker_id)
        held, leader.held, leader.queued = leader.held, leader.queued, []
        leader.requested_ms = NEVER_MS
        broker = self._image.brokers.get(broker_id)
        if leader.held and broker is not None:
            leader.requested_ms = now_ms
            self._start_check(broker)
        for each in held:
            each.checks -= 1
            if hides:
                each.refused[broker_id] = broker_epoch
            self._settle(each)

    def _may_be_named(self, broker_id: int) -> None:
        """Release the answers that wait for the fence of a leader which is taken for dead no longer."""
        for each in [each for each in (*self._held, *self._held_longer) if broker_id in each.refused]:
            del each.refused[broker_id]
            self._settle(each)

    def _release(self, leader: _Leader) -> None:
        """Release the answers that wait for an incarnation that leads nothing any more."""
        for each in (*leader.held, *leader.queued):
            each.checks -= 1
            self._settle(each)

    def applied(self, image: MetadataImage) -> None:
        """Note the metadata that the broker has applied."""
        before, self._image = self._image, image
        if image.brokers is before.brokers:
            return
        for broker_id in [each for each, leader in self._leaders.items() if not self._takes_part(each, leader.epoch)]:
            self.refusing.pop(broker_id, None)
            self._release(self._leaders.pop(broker_id))
        for held in (*self._held, *self._held_longer):
            self._settle(held)

    def _takes_part(self, broker_id: int, epoch: int) -> bool:
        broker = self._image.brokers.get(broker_id)
        return broker is not None and broker.epoch == epoch and not broker.fenced

    def _hidden(self, held: _Held) -> tuple[int, ...]:
        return tuple(broker_id for broker_id, epoch in held.refused.items() if self._takes_part(broker_id, epoch))

    def _settle(self, held: _Held) -> None:
        """Answer when nothing remains to wait for."""
        waits = held.checks if held in self._held else held not in self._held_longer
        if not waits and not self._hidden(held):
            self._finish(held)

    def _finish(self, held: _Held) -> None:
        del (self._held if held in self._held else self._held_longer)[held]
        held.answer(self._hidden(held))

    def _limit_reached(self, held: _Held) -> None:
        """Hold the answer longer for a leader whose address refuses; else finish it."""
        longer_ms = REFUSED_LIMIT_MS - self._limit_ms
        if longer_ms <= 0 or not self._hidden(held):
            self._finish(held)
            return
        del self._held[held]
        self._held_longer[held] = None
        held.deadline_ms += longer_ms
        self.on_deadline(held.deadline_ms)

    @property
    def deadline_ms(self) -> int:
        """Time when `tick` is due. The answers in one place are held for the same time, so the oldest is due first."""
        return min(next((held.deadline_ms for held in place), NEVER_MS) for place in (self._held, self._held_longer))

    def tick(self) -> None:
        """Finish the answers that were held for long enough."""
        now_ms = self._clock()
        due = [held for held in self._held if held.deadline_ms <= now_ms]
        for leader in self._leaders.values() if due else ():
            if leader.is_being_checked and now_ms - leader.requested_ms >= self._limit_ms:
                leader.is_unresponsive = True
        for held in due:
            self._limit_reached(held)
        for held in [each for each in self._held_longer if each.deadline_ms <= now_ms]:
            self._finish(held)
