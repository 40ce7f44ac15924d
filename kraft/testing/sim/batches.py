"""The records of the simulated log, and the bytes that represent them on the simulated disk.

A batch is this header, all integers big-endian, and filling up to `size` bytes:

    offset  bytes  field
    0       4      magic, b"SIMB"
    4       4      size of the batch
    8       4      checksum (CRC-32) of all bytes after it
    12      8      base offset
    20      4      number of records
    24      4      leader epoch
    28      8      handle of the content

The bytes do not contain the content: `Contents` keeps it, once for all nodes. Lost, torn and flipped bytes affect these
batches as they affect Kafka's, and a reader detects the damage by the same checks.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from kraft.raft.ports import AppendedControl
from kraft.raft.records import ControlRecord

HEADER: Final = Struct(">4sIIqiiq")
BODY: Final = Struct(">qiiq")
BODY_AT: Final = HEADER.size - BODY.size
MAGIC: Final = b"SIMB"
FILLING: Final = bytes(range(256)) * 16


class Value(NamedTuple):
    """Value proposed by a client, unique in a run, so that a history can be checked. `size`: that of its batch in
    bytes."""

    client: int
    number: int
    size: int

    def __str__(self) -> str:
        return f"v{self.client}.{self.number}"


class Payloads:
    """Records of a state machine in one batch: `count` records of `size` bytes in all."""

    def __init__(self, count: int, size: int) -> None:
        self.count = count
        self.size = size


Content = Value | Payloads | tuple[ControlRecord, ...]


class Batch(NamedTuple):
    """A batch of records. `chain` is a checksum over this batch and all before it in its log: two logs with equal
    chains are equal."""

    base_offset: int
    end_offset: int
    epoch: int
    content: Content
    data: bytes
    chain: int

    @property
    def controls(self) -> tuple[AppendedControl, ...]:
        if isinstance(self.content, (Value, Payloads)):
            return ()
        return tuple(AppendedControl(offset, record) for offset, record in enumerate(self.content, self.base_offset))


class Records(NamedTuple):
    """Records that a Fetch carries. `is_damaged`: bytes were damaged on the way, and the receiver detects that."""

    batches: tuple[Batch, ...]
    is_damaged: bool = False


class Contents:
    """Contents by handle."""

    def __init__(self) -> None:
        self._contents: list[Content] = []

    def encode(self, base_offset: int, epoch: int, content: Content, chain: int) -> Batch:
        """Create a batch that follows the one with this `chain`."""
        self._contents.append(content)
        count = 1 if isinstance(content, Value) else content.count if isinstance(content, Payloads) else len(content)
        size = content.size if isinstance(content, (Value, Payloads)) else 100
        body = BODY.pack(base_offset, count, epoch, len(self._contents) - 1) + FILLING[:size - HEADER.size]
        checksum = crc32(body)
        data = HEADER.pack(MAGIC, BODY_AT + len(body), checksum, base_offset, count, epoch,
                           len(self._contents) - 1) + body[BODY.size:]
        return Batch(base_offset, base_offset + count, epoch, content, data, next_chain(chain, data))

    def decode(self, data: bytes | bytearray, position: int, chain: int) -> Batch | None:
        """Return the batch that begins at byte `position`, or None when there is no whole one."""
        if len(data) - position < HEADER.size:
            return None
        magic, size, checksum, base_offset, count, epoch, handle = HEADER.unpack_from(data, position)
        if magic != MAGIC or not HEADER.size <= size <= len(data) - position:
            return None
        batch = bytes(data[position:position + size])
        if crc32(batch[BODY_AT:]) != checksum:
            return None
        return Batch(base_offset, base_offset + count, epoch, self._contents[handle], batch, next_chain(chain, batch))


def next_chain(chain: int, data: bytes) -> int:
    """Return the chain of a batch with these bytes. The header is enough to distinguish batches: its checksum covers
    base offset, epoch and the handle of the content."""
    return crc32(data[:HEADER.size], chain)


def control_contents(batches: Sequence[Batch]) -> tuple[AppendedControl, ...]:
    """Return all control records among these batches, with their offsets."""
    return tuple(control for batch in batches for control in batch.controls)
