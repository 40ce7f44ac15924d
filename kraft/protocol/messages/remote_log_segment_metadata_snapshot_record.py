"""RemoteLogSegmentMetadataSnapshotRecord, version 0, flexible from 0.

Made by tools/protocol.py from schemas/messages/RemoteLogSegmentMetadataSnapshotRecord.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import structs_steps


class SegmentLeaderEpochEntry(Struct):
    __slots__ = ("leader_epoch", "offset", "unknown_tags")

    def __init__(
        self, *,
        leader_epoch: int = 0,
        offset: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.leader_epoch = leader_epoch
        self.offset = offset
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            leader_epoch=r.int32(),
            offset=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.leader_epoch)
        w.int64(self.offset)
        w.tags(self.unknown_tags)


class RemoteLogSegmentMetadataSnapshotRecord(Message):
    __slots__ = (
        "segment_id", "start_offset", "end_offset", "broker_id", "max_timestamp_ms", "event_timestamp_ms",
        "segment_leader_epochs", "segment_size_in_bytes", "custom_metadata", "remote_log_segment_state",
        "txn_index_empty", "unknown_tags",
    )
    API_KEY = 3
    VERSIONS = range(1)
    FLEXIBLE_FROM = 0

    def __init__(
        self, *,
        segment_id: UUID = ZERO_UUID,
        start_offset: int = 0,
        end_offset: int = 0,
        broker_id: int = 0,
        max_timestamp_ms: int = 0,
        event_timestamp_ms: int = 0,
        segment_leader_epochs: Iterable[SegmentLeaderEpochEntry] = (),
        segment_size_in_bytes: int = 0,
        custom_metadata: bytes | None = None,
        remote_log_segment_state: int = 0,
        txn_index_empty: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.segment_id = segment_id
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.broker_id = broker_id
        self.max_timestamp_ms = max_timestamp_ms
        self.event_timestamp_ms = event_timestamp_ms
        self.segment_leader_epochs = list(segment_leader_epochs)
        self.segment_size_in_bytes = segment_size_in_bytes
        self.custom_metadata = custom_metadata
        self.remote_log_segment_state = remote_log_segment_state
        self.txn_index_empty = txn_index_empty
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            segment_id=r.uuid(),
            start_offset=r.int64(),
            end_offset=r.int64(),
            broker_id=r.int32(),
            max_timestamp_ms=r.int64(),
            event_timestamp_ms=r.int64(),
            segment_leader_epochs=r.structs(SegmentLeaderEpochEntry.read, version),
            segment_size_in_bytes=r.int32(),
            custom_metadata=r.nullable_blob(),
            remote_log_segment_state=r.int8(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.txn_index_empty = value.boolean()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            segment_id=r.uuid(),
            start_offset=r.int64(),
            end_offset=r.int64(),
            broker_id=r.int32(),
            max_timestamp_ms=r.int64(),
            event_timestamp_ms=r.int64(),
            segment_leader_epochs=(yield from structs_steps(r, SegmentLeaderEpochEntry.read, version)),
            segment_size_in_bytes=r.int32(),
            custom_metadata=r.nullable_blob(),
            remote_log_segment_state=r.int8(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.txn_index_empty = value.boolean()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.uuid(self.segment_id)
        w.int64(self.start_offset)
        w.int64(self.end_offset)
        w.int32(self.broker_id)
        w.int64(self.max_timestamp_ms)
        w.int64(self.event_timestamp_ms)
        w.structs(self.segment_leader_epochs, version)
        w.int32(self.segment_size_in_bytes)
        w.nullable_blob(self.custom_metadata)
        w.int8(self.remote_log_segment_state)
        tags = list(self.unknown_tags)
        if self.txn_index_empty:
            value = WireWriter(True)
            value.boolean(self.txn_index_empty)
            tags.append((0, value.finish()))
        w.tags(tags)
