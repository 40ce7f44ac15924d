"""ProducerSnapshot, version 1, never flexible.

Made by tools/protocol.py from schemas/messages/ProducerSnapshot.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self

from kraft.protocol.message import Message, Struct
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class ProducerEntry(Struct):
    __slots__ = (
        "producer_id", "epoch", "last_sequence", "last_offset", "offset_delta", "timestamp", "coordinator_epoch",
        "current_txn_first_offset",
    )

    def __init__(
        self, *,
        producer_id: int = 0,
        epoch: int = 0,
        last_sequence: int = 0,
        last_offset: int = 0,
        offset_delta: int = 0,
        timestamp: int = 0,
        coordinator_epoch: int = 0,
        current_txn_first_offset: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.last_sequence = last_sequence
        self.last_offset = last_offset
        self.offset_delta = offset_delta
        self.timestamp = timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = current_txn_first_offset

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            producer_id=r.int64(),
            epoch=r.int16(),
            last_sequence=r.int32(),
            last_offset=r.int64(),
            offset_delta=r.int32(),
            timestamp=r.int64(),
            coordinator_epoch=r.int32(),
            current_txn_first_offset=r.int64(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int64(self.producer_id)
        w.int16(self.epoch)
        w.int32(self.last_sequence)
        w.int64(self.last_offset)
        w.int32(self.offset_delta)
        w.int64(self.timestamp)
        w.int32(self.coordinator_epoch)
        w.int64(self.current_txn_first_offset)


class ProducerSnapshot(Message):
    __slots__ = ("crc", "producer_entries")
    VERSIONS = range(1, 2)

    def __init__(
        self, *,
        crc: int = 0,
        producer_entries: Iterable[ProducerEntry] = (),
    ) -> None:
        self.crc = crc
        self.producer_entries = list(producer_entries)

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            crc=r.uint32(),
            producer_entries=r.structs(ProducerEntry.read, version),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            crc=r.uint32(),
            producer_entries=(yield from structs_steps(r, ProducerEntry.read, version)),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.uint32(self.crc)
        w.structs(self.producer_entries, version)
