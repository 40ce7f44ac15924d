"""The blocks of producer ids that a broker hands out, requested from the controller (KIP-730).

The first is requested when the broker is registered, the next one when a tenth of a block is left: new producers need
no controller as long as ids are left.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

LEFT_SHARE: Final = 10
"""The next block is requested when one part of so many is left."""


class ProducerIds:
    """`request(now_ms)` requests a block from the controller; `refill` or `refused` is called with the answer."""

    def __init__(self, request: Callable[[int], None]) -> None:
        self._request = request
        self._blocks: deque[range] = deque()
        self._first_size = 0
        self._is_requested = False
        self._waiting: deque[Callable[[int | None], None]] = deque()

    def prepare(self, now_ms: int) -> None:
        """Requests a block unless enough ids are left or one is requested already."""
        has_enough = len(self._blocks) > 1 or (
            bool(self._blocks) and len(self._blocks[0]) > self._first_size // LEFT_SHARE)
        if not self._is_requested and not has_enough:
            self._is_requested = True
            self._request(now_ms)

    def take(self, now_ms: int, answer: Callable[[int | None], None]) -> None:
        """Gives the next id, at once or when a block has come; None when the controller gave none."""
        if self._blocks and not self._waiting:
            answer(self._next())
        else:
            self._waiting.append(answer)
        self.prepare(now_ms)

    def _next(self) -> int:
        block = self._blocks[0]
        if len(block) > 1:
            self._blocks[0] = block[1:]
        else:
            self._blocks.popleft()
            self._first_size = len(self._blocks[0]) if self._blocks else 0
        return block[0]

    def refill(self, start: int, count: int, now_ms: int) -> None:
        """A block came from the controller."""
        self._is_requested = False
        if not self._blocks:
            self._first_size = count
        self._blocks.append(range(start, start + count))
        while self._waiting and self._blocks:
            self._waiting.popleft()(self._next())
        self.prepare(now_ms)

    def refused(self) -> None:
        """The controller gave none: producers that wait for it get none, and the next one requests again."""
        self._is_requested = False
        waiting, self._waiting = self._waiting, deque()
        for answer in waiting:
            answer(None)
