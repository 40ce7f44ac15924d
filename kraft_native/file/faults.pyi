from collections.abc import Collection
from os import PathLike
from types import TracebackType
from typing import Any, Final, Self, final

KINDS: Final[frozenset[str]]
MUTATIONS: Final[frozenset[str]]
FLUSHES_AND_WRITES: Final[frozenset[str]]

@final
class Event:
    kind: str
    path: str
    target: str
    fd: int
    offset: int
    size: int
    data: bytes
    created: bool
    flags: int
    begun: bool
    error: int
    thread: int
    mark: Any

@final
class Trace:
    active: bool
    def __new__(cls, under: str | bytes | PathLike[str] = ...) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def __len__(self) -> int: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def mark(self, label: object) -> None: ...
    def events(self) -> list[Event]: ...

@final
class Plan:
    active: bool
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    @property
    def seen(self) -> int: ...
    @property
    def fired(self) -> int: ...

def fail_at(
    k: int,
    *,
    error: int = ...,
    kinds: Collection[str] = ...,
    under: str | bytes | PathLike[str] = ...,
    suffix: str | bytes = ...,
    short_bytes: int = ...,
    persistent: bool = ...,
) -> Plan: ...
def delay(
    delay_ms: int,
    *,
    kinds: Collection[str] = ...,
    under: str | bytes | PathLike[str] = ...,
    suffix: str | bytes = ...,
) -> Plan: ...
def count_operations(
    *,
    kinds: Collection[str] = ...,
    under: str | bytes | PathLike[str] = ...,
    suffix: str | bytes = ...,
) -> Plan: ...
