"""Partition directories for tests: batches, indexes and checkpoints written by hand, byte for byte as Kafka's."""

import struct
from dataclasses import dataclass, field
from pathlib import Path

from kraft_native.batch.control import marker
from kraft_native.batch.records import BatchBuilder


@dataclass
class PartitionMaker:
    """Write segments one batch at a time. Every batch gets an entry in both indexes."""

    directory: Path
    next_offset: int = 0
    position: int = 0
    base: int = 0
    largest_ms: int = -1
    epochs: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.roll()

    def path(self, suffix: str, base: int | None = None) -> Path:
        return self.directory / f"{self.base if base is None else base:020d}{suffix}"

    def roll(self) -> None:
        self.base, self.position, self.largest_ms = self.next_offset, 0, -1
        for suffix in (".log", ".index", ".timeindex"):
            self.path(suffix).touch()

    def put(self, batch: bytes, count: int, timestamp_ms: int, leader_epoch: int) -> None:
        last_offset = self.next_offset + count - 1
        self.append(".log", batch)
        if self.position > 0:
            self.append(".index", struct.pack(">ii", last_offset - self.base, self.position))
        if timestamp_ms > self.largest_ms:
            self.largest_ms = timestamp_ms
            self.append(".timeindex", struct.pack(">qi", timestamp_ms, last_offset - self.base))
        if leader_epoch >= 0 and (not self.epochs or self.epochs[-1][0] != leader_epoch):
            self.epochs.append((leader_epoch, self.next_offset))
            lines = ["0", str(len(self.epochs)), *(f"{epoch} {start}" for epoch, start in self.epochs)]
            (self.directory / "leader-epoch-checkpoint").write_text("\n".join(lines) + "\n")
        self.position += len(batch)
        self.next_offset += count

    def records(self, *values: bytes | None, codec: str = "none", producer_id: int = -1, transactional: bool = False,
                leader_epoch: int = 0) -> None:
        builder = BatchBuilder(codec, transactional=transactional)
        for value in values:
            builder.append(value, b"k", 1_000 + self.next_offset)
        sequence = 0 if producer_id >= 0 else -1
        batch = builder.build(self.next_offset, leader_epoch=leader_epoch, producer_id=producer_id,
                              producer_epoch=min(producer_id, 0), base_sequence=sequence)
        self.put(batch, len(values), 1_000 + self.next_offset, leader_epoch)

    def marker(self, producer_id: int, *, commit: bool, leader_epoch: int = 0) -> None:
        batch = marker(commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0,
                       timestamp_ms=1_000 + self.next_offset, base_offset=self.next_offset, leader_epoch=leader_epoch)
        self.put(batch, 1, 1_000 + self.next_offset, leader_epoch)

    def aborted(self, producer_id: int, first: int, last: int) -> None:
        self.append(".txnindex", struct.pack(">hqqqq", 0, producer_id, first, last, last + 1))

    def append(self, suffix: str, data: bytes) -> None:
        with self.path(suffix).open("ab") as file:
            file.write(data)


def flip(path: Path, position: int) -> None:
    """Flip one bit of the file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)
