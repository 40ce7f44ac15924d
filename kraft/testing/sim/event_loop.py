"""The event loop of one process, as the driver sees it: the interface of `asyncio`, on virtual time and the node's own
clock."""

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress

from kraft.testing.sim.clock import Clock
from kraft.testing.sim.loop import Loop

Callback = Callable[[], object]


class Timer:
    """A timer. `callback` is None after it was called or cancelled."""

    __slots__ = ("at_ms", "callback")

    def __init__(self, at_ms: int, callback: Callback) -> None:
        self.at_ms = at_ms
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        self.callback = None

    def fire(self) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class Future:
    """Future that one coroutine waits for."""

    def __init__(self, loop: "EventLoop") -> None:
        self._loop = loop
        self._is_done = False
        self.then: Callback | None = None
        """Callback of the waiting coroutine."""

    def done(self) -> bool:
        return self._is_done

    def set_result(self, result: None, /) -> None:  # noqa: ARG002 - only one exists
        self._is_done = True
        if self.then is not None:
            self._loop.call_soon(self.then)

    def __await__(self) -> "Generator[Future, None, None]":
        if not self._is_done:
            yield self


class EventLoop:
    """Event loop whose iterations its process begins and ends. The loop calls `enter(callback)` when a timer is due.
    The process calls `turn` to run the callbacks of `call_soon`."""

    def __init__(self, loop: Loop, clock: Clock, enter: Callable[[Callback], None]) -> None:
        self._loop = loop
        self._clock = clock
        self._enter = enter
        self.soon: deque[Callback] = deque()
        """Pending callbacks of `call_soon`."""
        self._timers: list[Timer] = []
        self.reader: Callback | None = None
        """Reader of flush events; the only descriptor that the driver watches."""

    # --- for the driver

    def call_soon(self, callback: Callback, /) -> None:
        self.soon.append(callback)

    def call_later(self, delay: float, callback: Callback, /) -> Timer:
        timer = Timer(self._clock.now_ms + round(delay * 1000), callback)
        self._timers = [each for each in self._timers if each.callback is not None]
        self._timers.append(timer)
        self._set(timer)
        return timer

    def add_reader(self, fd: int, callback: Callback, /) -> None:  # noqa: ARG002 - see `reader`
        self.reader = callback

    def remove_reader(self, fd: int, /) -> None:  # noqa: ARG002 - see `reader`
        self.reader = None

    def create_future(self) -> Future:
        return Future(self)

    # --- for the process

    def run(self, coroutine: Coroutine[Future, None, None]) -> None:
        """Run the coroutine until it waits, and resume it when its future is done."""
        with suppress(StopIteration):
            coroutine.send(None).then = lambda: self.run(coroutine)

    def turn(self) -> None:
        """Call all callbacks of `call_soon`."""
        while self.soon:
            self.soon.popleft()()

    def fire(self) -> None:
        """Call what is due by the clock, which may have jumped."""
        for timer in self._timers:
            if self._clock.now_ms >= timer.at_ms:
                timer.fire()

    def clock_jumped(self) -> None:
        """Schedule the timers again after a jump, so that due ones are noticed."""
        for timer in self._timers:
            self._set(timer)

    def close(self) -> None:
        """End the loop of a dead process: nothing is called any more."""
        self.soon.clear()
        for timer in self._timers:
            timer.cancel()

    def _set(self, timer: Timer) -> None:
        self._loop.at(self._clock.at_us(timer.at_ms), self._due, timer)

    def _due(self, timer: Timer) -> None:
        if timer.callback is not None:
            self._enter(timer.fire)
