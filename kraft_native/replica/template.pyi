from collections.abc import Iterable
from typing import final

from typing_extensions import Buffer

@final
class Template:
    """A message `blank` with big-endian numbers at `places`: the position of each and its byte count, 4 or 8; in order,
    and at most eight. `InvalidArgumentError` for anything else."""

    def __init__(self, blank: bytes, places: Iterable[tuple[int, int]]) -> None: ...
    def __len__(self) -> int: ...
    def write(self, *numbers: int) -> bytes:
        """The bytes with these numbers. `OverflowError` for one that does not fit its place."""

    def read(self, data: Buffer) -> tuple[int, ...] | None:
        """The numbers in data that begins with these bytes; None when anything but the numbers differs."""

    def read_bytes(self, data: Buffer, tail: bytes) -> tuple[tuple[int, ...], int, int] | None:
        """The numbers in data that begins with these bytes, and the range of bytes that follow in Kafka's compact form.
        None when anything else differs, when those bytes are null, or when anything but `tail` follows them."""
