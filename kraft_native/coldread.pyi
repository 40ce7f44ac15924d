from typing import Self, final

from typing_extensions import disjoint_base

@disjoint_base
class Warming: ...

@final
class ColdRange: ...

@final
class ColdReader:
    pending_max: int
    pending_count: int
    ranges_total: int
    bytes_total: int
    def __new__(cls, *, pending_max: int = 10_000) -> Self: ...
    @property
    def eventfd(self) -> int: ...
    def poll(self) -> None: ...
    def close(self) -> None: ...
