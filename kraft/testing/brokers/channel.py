"""Requests of a broker to the active controller: the model of `kraft.runtime.net.controller_channel`.

One request at a time, in order, until it is answered. After a NOT_CONTROLLER answer or a broken connection, the request
is sent again to the current controller.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from kraft.controller.controller import HANDLERS
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.testing.brokers.messages import NotController, ToController
from kraft.testing.brokers.wire import Answered, Connection

PAUSE_MS: Final = 50

Answer = Callable[[Message], None]


class Requester(Protocol):
    """The node of the broker."""

    @property
    def now_ms(self) -> int: ...
    @property
    def controller_id(self) -> int: ...

    def decides(self, request: Message, version: int, answer: Answer) -> bool:
        """Decide the request here if the active controller is here; return whether it is."""

    def connect(self, target_id: int, lane: str, body: object, answered: Answered) -> Connection | None: ...
    def later(self, delay_ms: int, function: Callable[..., None], *arguments: Any) -> None: ...


class _Waiting(NamedTuple):
    request: Message
    version: int
    answer: Answer
    expires_ms: int


class Channel:
    """A broker's channel to the controller. `on_lost` is called when the controller's end of an open connection
    breaks."""

    def __init__(self, node: Requester, timeout_ms: int, on_lost: Callable[[], None]) -> None:
        self._node = node
        self._timeout_ms = timeout_ms
        self._on_lost = on_lost
        self._queue: deque[_Waiting] = deque()
        self._try = 0
        self._is_busy = False
        self._is_deciding = False
        self._connection: Connection | None = None
        self._target_id = -1

    def submit(self, request: Message, version: int, answer: Answer) -> None:
        """Send a request. `answer` gets the controller's response, or a refusal."""
        if not self._queue and self._node.decides(request, version, answer):
            return
        self._queue.append(_Waiting(request, version, answer, self._node.now_ms + self._timeout_ms))
        self._go()

    def changed(self) -> None:
        """React to a possible change of the controller: requests stop waiting for the old one."""
        if self._connection is not None and self._target_id != self._node.controller_id:
            self._abort()
        if not self._is_busy:
            self._go()

    def _abort(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._answered(self._try, None)

    def _go(self) -> None:
        while self._queue and not self._is_busy and not self._is_deciding:
            waiting = self._queue[0]
            self._is_deciding = True
            is_decided = self._node.decides(waiting.request, waiting.version, waiting.answer)
            self._is_deciding = False
            if is_decided:
                self._queue.popleft()
                continue
            self._is_busy = True
            self._try += 1
            self._target_id = self._node.controller_id
            if self._target_id < 0:
                self._node.later(PAUSE_MS, self._answered, self._try, None)
                return
            number = self._try
            self._connection = self._node.connect(
                self._target_id, "controller", ToController(waiting.request, waiting.version),
                partial(self._answered, number))
            if self._connection is not None:
                self._connection.on_lost = self._on_lost
            self._node.later(max(PAUSE_MS, waiting.expires_ms - self._node.now_ms), self._timed_out, number)

    def _timed_out(self, number: int) -> None:
        if self._is_busy and number == self._try:
            self._abort()

    def _answered(self, number: int, response: object) -> None:
        if not self._is_busy or number != self._try or not self._queue:
            return
        waiting = self._queue[0]
        if isinstance(response, Message) and getattr(response, "error_code", 0) != ErrorCode.NOT_CONTROLLER:
            answer: Message | None = response
        else:
            assert response is None or isinstance(response, (Message, NotController))
            is_late = self._node.now_ms > waiting.expires_ms
            answer = (HANDLERS[waiting.request.API_KEY].refuse(waiting.request, ErrorCode.REQUEST_TIMED_OUT, None)
                      if is_late else None)
        if answer is None:
            self._node.later(PAUSE_MS, self._again, number)
            return
        self._queue.popleft()
        self._is_busy = False
        waiting.answer(answer)
        self._go()

    def _again(self, number: int) -> None:
        if self._is_busy and number == self._try:
            self._is_busy = False
            self._go()
