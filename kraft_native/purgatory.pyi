from collections.abc import Callable
from typing import final

from typing_extensions import disjoint_base

from kraft_native.reply import ReplyWaiter

def now_ms() -> int: ...

@disjoint_base
class Watched: ...

@disjoint_base
class Observer: ...

@disjoint_base
class Parked(ReplyWaiter): ...

@final
class Purgatory:
    parked_max: int
    parked_count: int
    parked_total: int
    expired_total: int
    def __init__(
        self,
        schedule: Callable[[Callable[[], None]], object] | None = None,
        arm: Callable[[int], object] | None = None,
        *,
        parked_max: int = 100_000,
    ) -> None: ...
    @property
    def deadline_ms(self) -> int: ...
    @property
    def parked_produces(self) -> int: ...
    @property
    def parked_fetches(self) -> int: ...
    def call_soon(self, callback: Callable[[], None]) -> None: ...
    def drain(self) -> None: ...
    def flush_done(self, eventfd: int = -1) -> None: ...
    def expire(self, now_ms: int) -> int: ...
