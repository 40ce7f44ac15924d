"""The core's snapshot port on the simulated disk.

A snapshot is this header, all integers big-endian, and filling:

    offset  bytes  field
    0       4      magic, b"SIMS"
    4       4      checksum (CRC-32) of all bytes after it
    8       8      end offset
    16      4      epoch
    20      4      chain of the log prefix that it replaces
    24      8      handle of its control records
"""

from random import Random
from struct import Struct
from typing import Final
from zlib import crc32

from kraft.raft.ports import SnapshotPart
from kraft.raft.records import ControlRecord
from kraft.raft.types import OffsetAndEpoch
from kraft.testing.sim.batches import FILLING
from kraft.testing.sim.disk import Disk, StoredSnapshot
from kraft.testing.sim.log import SimLog
from kraft_native.base.errors import CorruptRecordError

HEADER: Final = Struct(">4sIqiIq")
CHECKED_FROM: Final = 8


class SnapshotContents:
    """Control records of snapshots by handle, once for all nodes."""

    def __init__(self) -> None:
        self._controls: list[tuple[ControlRecord, ...]] = []

    def encode(self, snapshot: OffsetAndEpoch, chain: int, controls: tuple[ControlRecord, ...],
               size: int) -> StoredSnapshot:
        self._controls.append(controls)
        body = HEADER.pack(b"SIMS", 0, snapshot.offset, snapshot.epoch, chain, len(self._controls) - 1)[CHECKED_FROM:]
        body += FILLING[:max(0, size - HEADER.size)]
        return StoredSnapshot(snapshot, chain, b"SIMS" + crc32(body).to_bytes(4, "big") + body)

    def decode(self, data: bytes) -> tuple[StoredSnapshot, tuple[ControlRecord, ...]]:
        if len(data) < HEADER.size or crc32(data[CHECKED_FROM:]) != int.from_bytes(data[4:CHECKED_FROM], "big"):
            raise CorruptRecordError("the bytes are not a snapshot")
        _, _, offset, epoch, chain, handle = HEADER.unpack_from(data)
        return StoredSnapshot(OffsetAndEpoch(offset, epoch), chain, data), self._controls[handle]


class SimSnapshots:
    """`SnapshotPort` of one node."""

    def __init__(self, disk: Disk, log: SimLog, contents: SnapshotContents) -> None:
        self._disk = disk
        self._log = log
        self._contents = contents
        self._expected: OffsetAndEpoch | None = None
        self._parts = bytearray()

    def latest(self) -> OffsetAndEpoch | None:
        return max(self._disk.snapshots, default=None)

    def earliest(self) -> OffsetAndEpoch | None:
        return min(self._disk.snapshots, default=None)

    def read(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> SnapshotPart | None:
        stored = self._disk.snapshots.get(snapshot)
        if stored is None:
            return None
        return SnapshotPart(len(stored.data), stored.data[position:position + max_bytes])

    def begin(self, snapshot: OffsetAndEpoch) -> None:
        self._expected = snapshot
        self._parts.clear()

    def append(self, data: bytes) -> None:
        self._disk.check_write()
        self._parts += data

    def abandon(self) -> None:
        self._expected = None
        self._parts.clear()

    def install(self) -> bool:
        data, expected = bytes(self._parts), self._expected
        self.abandon()
        stored, _ = self._contents.decode(data)
        if stored.id != expected:
            raise CorruptRecordError(f"the snapshot is {stored.id}, requested was {expected}")
        self._disk.snapshots[stored.id] = stored
        self._log.replace(stored)
        self._forget_before(stored.id)
        return True

    def controls(self, snapshot: OffsetAndEpoch) -> tuple[ControlRecord, ...]:
        return self._contents.decode(self._disk.snapshots[snapshot].data)[1]

    def trim_log(self, snapshot: OffsetAndEpoch) -> None:
        self._log.trim(self._disk.snapshots[snapshot])
        self._forget_before(snapshot)

    def _forget_before(self, snapshot: OffsetAndEpoch) -> None:
        for older in [each for each in self._disk.snapshots if each < snapshot]:
            del self._disk.snapshots[older]

    # --- for the state machine ---------------------------------------------------------------------------------------

    def store(self, snapshot: StoredSnapshot) -> None:
        """Store a snapshot that this node wrote; it is whole and durable."""
        self._disk.snapshots[snapshot.id] = snapshot


def drawn_size(random: Random, largest: int) -> int:
    """Draw the size of a snapshot, so that some take one request and some take many."""
    return random.randrange(HEADER.size, max(HEADER.size + 1, largest))
