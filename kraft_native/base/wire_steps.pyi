"""Long messages read and written in steps, so that a loop can serve others between them.

A step is a few dozen elements of an array, some 50 microseconds. All functions are generators that yield after each
step. The readers return the results of `WireReader`'s methods of the same names. A writer leaves the elements of long
arrays for later, and `write_steps` inserts them at their places.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Protocol, TypeVar

from kraft_native.base.wire import WireReader, WireWriter

_T = TypeVar("_T")

class _Writable(Protocol):
    def write(self, w: WireWriter, version: int, /) -> None: ...

def array_steps(r: WireReader, read: Callable[[], _T]) -> Generator[None, None, list[_T]]: ...
def nullable_array_steps(r: WireReader, read: Callable[[], _T]) -> Generator[None, None, list[_T] | None]: ...
def structs_steps(
    r: WireReader, read: Callable[[WireReader, int], _T], version: int
) -> Generator[None, None, list[_T]]: ...
def nullable_structs_steps(
    r: WireReader, read: Callable[[WireReader, int], _T], version: int
) -> Generator[None, None, list[_T] | None]: ...
def nested_steps(
    r: WireReader, read_steps: Callable[[WireReader, int], Generator[None, None, _T]], version: int
) -> Generator[None, None, list[_T]]: ...
def nullable_nested_steps(
    r: WireReader, read_steps: Callable[[WireReader, int], Generator[None, None, _T]], version: int
) -> Generator[None, None, list[_T] | None]: ...
def write_steps(
    w: WireWriter, parts: list[bytes | bytearray], values: Iterable[_Writable], version: int
) -> Generator[None]:
    """Write `values`, structs of that version, to the end of `parts`. The writer is empty and has a list `later`."""

def write_later(w: WireWriter, parts: list[bytes | bytearray], version: int) -> Generator[None]:
    """Write each array that was left for later at its place."""

def free_steps(held: list[object]) -> Generator[None]:
    """Free the messages in `held`, and the long lists inside of them, a few hundred elements at a time: all at once
    takes tens of milliseconds. Objects with other references stay alive."""
