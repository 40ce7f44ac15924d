"""Event loop of one process as `asyncio` sees it, on virtual time. Tasks, futures, time-outs and timers of production
code run on it unchanged."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import Any, ClassVar, Protocol, cast

Later = Callable[[float, Callable[[], None]], None]


class SoonQueue(Protocol):
    """Queue of the callbacks that the process runs before its event ends."""

    def append(self, callback: Callable[[], object], /) -> None: ...


class AsyncLoop:
    """Event loop of one life of a process: the part of `asyncio.AbstractEventLoop` that needs no descriptors.

    `seconds` reads the clock of the process. `later(seconds, callback)` calls back in an event of its own. `soon` gets
    what is due in the present event; the process runs it. `failed` gets exceptions that no code handles.
    """

    _entered: "ClassVar[AsyncLoop | None]" = None
    """The running loop: to set it again takes longer than many an event."""

    def __init__(self, seconds: Callable[[], float], later: Later, soon: SoonQueue,
                 failed: Callable[[BaseException], object]) -> None:
        self._seconds = seconds
        self._later = later
        self._soon = soon
        self._failed = failed
        self._is_closed = False
        self._as_asyncio = cast("asyncio.AbstractEventLoop", self)

    def enter(self) -> None:
        """Make this the running loop, until another process handles an event."""
        if AsyncLoop._entered is not self:
            AsyncLoop._entered = self
            asyncio._set_running_loop(self._as_asyncio)

    @staticmethod
    def leave() -> None:
        """Let no loop run: the end of a simulation."""
        AsyncLoop._entered = None
        asyncio._set_running_loop(None)

    def close(self) -> None:
        """End the loop with its process: nothing is called any more."""
        self._is_closed = True

    # --- the loop of `asyncio` ----------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._seconds()

    def is_running(self) -> bool:
        return not self._is_closed

    def is_closed(self) -> bool:
        return self._is_closed

    def get_debug(self) -> bool:
        return False

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self._as_asyncio, context)
        if not self._is_closed:
            self._soon.append(partial(self._run, handle))
        return handle

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any,
                   context: Context | None = None) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any,
                context: Context | None = None) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self._as_asyncio, context)
        if not self._is_closed:
            self._later(max(0.0, when - self.time()), partial(self._run, timer))
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self._as_asyncio)

    def create_task(self, coro: Coroutine[Any, Any, Any], *, name: str | None = None,
                    context: Context | None = None) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self._as_asyncio, name=name, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not self._is_closed:
            self._failed(error)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer does nothing when it is due."""

    def _run(self, handle: asyncio.Handle) -> None:
        if not (self._is_closed or handle.cancelled()):
            handle._run()
