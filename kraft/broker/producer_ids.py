"""Blocks of producer ids that a broker assigns, requested from the controller (KIP-730).

The first producer of a new cluster gets the id 0 from any broker. From then on every broker holds ids ready:
it requests its first block when it is registered, the next one when a tenth of a block is left. So new producers need
no controller as long as ids are left.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

LEFT_SHARE: Final = 10
"""Divisor: the next block is requested when 1/10 of the first one is left."""


class ProducerIds:
    """Supply of producer ids. `request(now_ms)` requests a block from the controller; `refill` or `refused` is called
    with the answer."""

    def __init__(self, request: Callable[[int], None]) -> None:
        self._request = request
        self._blocks: deque[range] = deque()
        self._first_size = 0
        self._is_requested = False
        self._waiting: deque[Callable[[int | None], None]] = deque()

    def prepare(self, now_ms: int) -> None:
        """Request a block unless enough ids are left or a request is under way."""
        has_enough = len(self._blocks) > 1 or (
            bool(self._blocks) and len(self._blocks[0]) > self._first_size // LEFT_SHARE)
        if not self._is_requested and not has_enough:
            self._is_requested = True
            self._request(now_ms)

    def follow(self, next_producer_id: int, now_ms: int) -> None:
        """Learn the next id that the controller assigns. Once it has assigned a block, this broker needs one too."""
        if next_producer_id > 0:
            self.prepare(now_ms)

    def take(self, now_ms: int, answer: Callable[[int | None], None]) -> None:
        """Give the next id to `answer`, at once or when a block has arrived; None when the controller refused."""
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
        """Add a block from the controller."""
        self._is_requested = False
        if not self._blocks:
            self._first_size = count
        self._blocks.append(range(start, start + count))
        while self._waiting and self._blocks:
            self._waiting.popleft()(self._next())
        self.prepare(now_ms)

    def refused(self) -> None:
        """Process a refusal of the controller: waiting producers get None, and the next call requests again."""
        self._is_requested = False
        waiting, self._waiting = self._waiting, deque()
        for answer in waiting:
            answer(None)
