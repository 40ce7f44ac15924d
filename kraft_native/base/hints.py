"""Types of the core's annotations that are no class of it: what callers may pass."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from kraft_native.base.wire import WireWriter

FilePath: TypeAlias = "str | bytes | PathLike[str] | PathLike[bytes]"
# Arrays of NumPy count as buffers for type checkers from Python 3.12 on only.
Array: TypeAlias = Any
RecordHeaders: TypeAlias = Iterable[tuple[Any, Any]] | Mapping[str, Any]
Isolation: TypeAlias = Literal["log_end", "high_watermark", "read_uncommitted", "read_committed"]
Origin: TypeAlias = Literal["client", "coordinator"]
NodeIds: TypeAlias = tuple[int, ...] | list[int]
OffsetIsolation: TypeAlias = Literal["log_end", "read_uncommitted", "read_committed"]


class Writable(Protocol):
    """A message of the protocol, or a struct of one."""

    def write(self, w: WireWriter, version: int, /) -> None: ...


class TransportInfo(Protocol):
    """The part of an asyncio transport that shows its socket."""

    def get_extra_info(self, name: str, /) -> object: ...


class Transport(TransportInfo, Protocol):
    """The methods of an asyncio transport that connections use."""

    def set_write_buffer_limits(self, high: int) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def writelines(self, parts: list[bytes | memoryview], /) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class DurableLog(Protocol):
    """The subset of `kraft_native.facade.log.Log` that a follower with a lease uses."""

    def send_when_durable(self, end_offset: int, fd: int, message: bytes) -> bool: ...
    def take_back(self) -> bool: ...


class Sender(Protocol):
    """Sender of the Fetches of a follower with a lease."""

    def next_fetch(self, end_offset: int, high_watermark: int) -> tuple[int, bytes]:
        """Record that an answer was accepted; return the descriptor and the frame of the Fetch after it."""


class Led(Protocol):
    """The subset of a partition's registration that a refusal needs."""

    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...


# See `PartitionTable.explain`.
Absence: TypeAlias = "tuple[int, str, Mapping[int, Led] | None, Container[tuple[str, int]], int]"
