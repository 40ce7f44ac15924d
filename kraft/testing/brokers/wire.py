"""Connections between processes. Messages over one connection arrive in order and once, or the connection breaks.

A cut link holds back its messages until it is healed. Single connections may be slow too (`Hold`). Messages that a
process sent before it died may still arrive. A process that waits for an answer over a broken connection is notified,
at once or later.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final, Protocol

from kraft.controller.sessions import Found
from kraft.testing.sim.chance import below, happens
from kraft.testing.sim.loop import Loop
from kraft.testing.sim.network import CLIENT_ID, Network
from kraft.testing.sim.options import MILLISECOND, SECOND

RETRANSMIT_US: Final = 40 * MILLISECOND
LONG_RETRANSMIT_US: Final = SECOND
"""The same in a run of hours, whose links are cut for longer."""
NOTICED_LATE_US: Final = 2 * SECOND

END: Final = object()
"""Last message that the other end reads after a connection was closed."""

Answered = Callable[[object], None]


class Process(Protocol):
    """One end of connections. `life` changes when it starts and when it dies."""

    @property
    def id(self) -> int: ...
    @property
    def life(self) -> int: ...
    @property
    def is_up(self) -> bool: ...

    def call(self, function: Callable[..., None], *arguments: object) -> None:
        """Deliver an event to the process."""

    def serve(self, body: object, source_id: int, reply: "Reply") -> None:
        """Handle a request of another process. `reply` is called now, later or never."""


@dataclass(slots=True)
class Hold:
    """Requests, or else answers, are held back until then."""

    until_us: int
    requests: bool = False


class Connection:
    """Connection from the process that opened it to the process that ran there then.

    `on_lost` is called in the process that opened it when the other end breaks it. `on_left` is called in the other
    process when the one that opened it closes it or dies.
    """

    def __init__(self, wire: "Wire", source: Process, target: Process) -> None:
        self._wire = wire
        self.source = source
        self.target = target
        self.source_life = source.life
        self.target_life = target.life
        self.is_open = True
        self.holds: list[Hold] = []
        self.on_lost: Callable[[], None] | None = None
        self.on_left: Callable[[], None] | None = None
        self.end: object = None
        """The object that serves the connection in the process that accepted it; None until that process needs one."""
        self._out: deque[tuple[int, object]] = deque()
        self._back: deque[tuple[int, object]] = deque()
        self._pending: dict[int, Answered] = {}
        self._request_number = 0

    @property
    def is_under_way(self) -> bool:
        """True while something that was sent may still arrive at the process that accepted the connection."""
        return bool(self._out) and self._is_target_up()

    def request(self, body: object, answered: Answered) -> None:
        self._request_number += 1
        self._pending[self._request_number] = answered
        self._out.append((self._request_number, body))
        self._wire.later(self._deliver)

    def _deliver(self) -> None:
        if (self.holds and self._is_held(requests=True)) or self._wire.is_cut(self.source.id, self.target.id):
            self._wire.again(self._deliver)
            return
        if not self._out:
            return                     # the connection was reset
        number, body = self._out.popleft()
        if not self._is_target_up():
            self.lost()
        elif body is END:
            self._report_left()
        else:
            self.target.call(self.target.serve, body, self.source.id, Reply(self, number))

    def _is_target_up(self) -> bool:
        return self.target.is_up and self.target.life == self.target_life

    def _report_left(self) -> None:
        if self.on_left is not None:
            self.target.call(self.on_left)

    def _is_held(self, *, requests: bool) -> bool:
        return any(hold.requests is requests and self._wire.now_us < hold.until_us for hold in self.holds)

    def reply(self, number: int, body: object) -> None:
        self._back.append((number, body))
        self._wire.later(self._deliver_back)

    def _deliver_back(self) -> None:
        if (self.holds and self._is_held(requests=False)) or self._wire.is_cut(self.target.id, self.source.id):
            self._wire.again(self._deliver_back)
            return
        number, body = self._back.popleft()
        if self.is_open and self.source.is_up and self.source.life == self.source_life:
            answered = self._pending.pop(number, None)
            if answered is not None:
                self.source.call(answered, body)

    def close(self) -> None:
        """Close the connection from the side that opened it: no answer is delivered any more. Messages already sent may
        still arrive, and after them the end."""
        if self.is_open:
            self.is_open = False
            self._pending.clear()
            self._out.append((0, END))
            self._wire.later(self._deliver)

    def reset(self) -> None:
        """Break the connection between two live processes. Both are notified at once, and messages under way do not
        arrive."""
        self._out.clear()
        self.lost()
        if self._is_target_up():
            self._report_left()

    def reset_soon(self) -> None:
        """Break the connection in an event of its own."""
        self._wire.soon(self.reset)

    def lost(self) -> None:
        """Break the connection: each pending request is answered with None."""
        if not self.is_open:
            return
        self.is_open = False
        pending, self._pending = list(self._pending.values()), {}
        if self.source.is_up and self.source.life == self.source_life:
            for answered in pending:
                self.source.call(answered, None)
            if self.on_lost is not None:
                self.source.call(self.on_lost)


@dataclass(slots=True, eq=False)
class Reply:
    """Callable that answers one request of a connection."""

    connection: Connection
    number: int

    def __call__(self, body: object) -> None:
        self.connection.reply(self.number, body)


class Wire:
    """All connections of a run. `processes` by id."""

    def __init__(self, loop: Loop, network: Network, random: Random, counts: Counter[str]) -> None:
        self._loop = loop
        self._network = network
        self._random = random
        self._counts = counts
        self.processes: dict[int, Process] = {}
        self._connections: dict[tuple[int, int, str], Connection] = {}
        self._holds: dict[tuple[int, int, str], list[Hold]] = {}
        self._refusing: dict[tuple[int, int], int] = {}
        self._refused: dict[tuple[int, int], int] = {}

    def request(
        self, source: Process, target_id: int, lane: str, body: object, answered: Answered
    ) -> Connection | None:
        """Send a request over the open connection of that lane, or over a new one. Return None when the target cannot
        be connected to."""
        known = self._connections.get((source.id, target_id, lane))
        if known is None or not known.is_open or known.source_life != source.life:
            known = self.open(source, target_id, lane, partial(answered, None))
        if known is not None:
            known.request(body, answered)
        return known

    def open(self, source: Process, target_id: int, lane: str, refused: Callable[[], None]) -> Connection | None:
        """Open another connection of that lane. When the target cannot be connected to, return None, and call
        `refused` in the source later."""
        target = self.processes[target_id]
        if not target.is_up or self._is_refusing(source.id, target_id):
            self._refuse(source, refused)
            return None
        opened = self._connections[source.id, target_id, lane] = Connection(self, source, target)
        opened.holds += self._holds.pop((source.id, target_id, lane), ())
        return opened

    @staticmethod
    def watch(connection: Connection, on_left: Callable[[], None]) -> None:
        """Call back in the process that accepted the connection when the other side closes it or dies."""
        connection.on_left = on_left

    def reset(self, source_id: int, target_id: int, lane: str) -> None:
        """Break the open connection of that lane, if one exists."""
        known = self._connections.get((source_id, target_id, lane))
        if known is not None and known.is_open:
            known.reset()

    def hold(self, source_id: int, target_id: int, lane: str, hold: Hold) -> None:
        """Hold back messages over the connection of that lane; without an open one, over the next one."""
        known = self._connections.get((source_id, target_id, lane))
        if known is not None and known.is_open:
            known.holds.append(hold)
        else:
            self.hold_next(source_id, target_id, lane, hold)

    def hold_next(self, source_id: int, target_id: int, lane: str, hold: Hold) -> None:
        """Hold back messages over the next connection of that lane."""
        self._holds.setdefault((source_id, target_id, lane), []).append(hold)

    def refuse(self, source_id: int, target_id: int, until_us: int) -> None:
        """Refuse new connections between these two until then, although the target may run."""
        self._refusing[source_id, target_id] = until_us

    def _is_refusing(self, source_id: int, target_id: int) -> bool:
        return self._refusing.get((source_id, target_id), -1) > self.now_us

    def refused_since(self, source_id: int, target_id: int, moment_us: int) -> bool:
        """Return whether a probe between these two was refused since then."""
        return self._refused.get((source_id, target_id), -1) >= moment_us

    def release(self) -> None:
        """End all holds and refusals."""
        self._holds.clear()
        self._refusing.clear()
        for connection in self._connections.values():
            connection.holds.clear()

    def _refuse(self, source: Process, on_refused: Callable[[], None]) -> None:
        life = source.life

        def refused() -> None:
            if source.is_up and source.life == life:
                source.call(on_refused)

        is_noticed = self._chance(self._network.options.refuse_per_mille)
        self._loop.after(self._delay_us() if is_noticed else SECOND, refused)

    def died(self, process: Process, *, power: bool) -> None:
        """React to the death of a process. Its operating system notifies the others, unless the power failed."""
        for connection in self._connections.values():
            if not connection.is_open:
                continue
            if connection.source is process and connection.source_life != process.life and not power:
                connection.close()
            elif connection.target is process and connection.target_life != process.life:
                delay_us = self._delay_us()
                if power or not self._chance(self._network.options.refuse_per_mille):
                    delay_us += self._random.randrange(NOTICED_LATE_US)
                self._loop.after(delay_us, connection.lost)

    # --- probes -------------------------------------------------------------------------------------------------------

    def probe(self, source: Process, target_id: int, timeout_us: int, accepts: Callable[[], bool],
              report: Callable[[Found], None]) -> None:
        """Connect and close again. `accepts`: whether a process listens when the probe arrives. Without a listener the
        operating system refuses, or sends no answer."""
        life, end_us = source.life, self.now_us + timeout_us

        def finish(found: Found) -> None:
            if found is Found.REFUSED:
                self._refused[source.id, target_id] = self.now_us
            if source.is_up and source.life == life:
                source.call(report, found)

        def arrive() -> None:
            refuses = self._is_refusing(source.id, target_id) or not accepts()
            found = Found.REFUSED if refuses else Found.ACCEPTED
            is_noticed = found is Found.ACCEPTED or self._chance(self._network.options.refuse_per_mille)
            back_us = self.now_us + self._delay_us()
            if is_noticed and back_us < end_us and not self.is_cut(source.id, target_id):
                self._loop.at(back_us, come_back, found)
            else:
                self._loop.at(end_us, finish, Found.UNANSWERED)

        def come_back(found: Found) -> None:
            if self.is_cut(target_id, source.id):
                self._loop.at(end_us, finish, Found.UNANSWERED)
            else:
                finish(found)

        self._loop.after(self._delay_us(), arrive)

    # --- time ---------------------------------------------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        return self._loop.now_us

    def later(self, deliver: Callable[[], None]) -> None:
        self._counts["messages"] += 1
        self._loop.after(self._delay_us(), deliver)

    def soon(self, function: Callable[[], None]) -> None:
        self._loop.after(0, function)

    def again(self, deliver: Callable[[], None]) -> None:
        self._counts["message cut"] += 1
        self._loop.after(LONG_RETRANSMIT_US if self._network.options.quiet_seconds else RETRANSMIT_US, deliver)

    def is_cut(self, source: int, target: int) -> bool:
        return source < CLIENT_ID and target < CLIENT_ID and self._network.is_cut(source, target)

    def _chance(self, per_mille: int) -> bool:
        return happens(self._random, per_mille)

    def _delay_us(self) -> int:
        """Random delay of a message. A dropped message is sent again, so it is late."""
        options = self._network.options
        delay_us = options.delay_ms * MILLISECOND + below(self._random, options.jitter_ms * MILLISECOND + 1)
        if self._chance(options.drop_per_mille):
            self._counts["message dropped"] += 1
            delay_us += RETRANSMIT_US
        if self._chance(options.late_per_mille):
            self._counts["message late"] += 1
            delay_us += self._random.randrange(options.late_ms * MILLISECOND + 1)
        return delay_us
