"""FetchResponse, versions 4 to 18, flexible from 12.

Made by tools/protocol.py from schemas/messages/FetchResponse.json: change that.
"""

from collections.abc import Generator, Iterable
from typing import Self
from uuid import UUID

from kraft.protocol.message import ZERO_UUID, Message, Struct, Tags, absent
from kraft_native.base.wire import WireReader, WireWriter
from kraft_native.base.wire_steps import nested_steps, nullable_structs_steps, structs_steps


class EpochEndOffset(Struct):
    __slots__ = ("epoch", "end_offset", "unknown_tags")

    def __init__(
        self, *,
        epoch: int = -1,
        end_offset: int = -1,
        unknown_tags: Tags = (),
    ) -> None:
        self.epoch = epoch
        self.end_offset = end_offset
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            epoch=r.int32(),
            end_offset=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.epoch)
        w.int64(self.end_offset)
        w.tags(self.unknown_tags)


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch", "unknown_tags")

    def __init__(
        self, *,
        leader_id: int = -1,
        leader_epoch: int = -1,
        unknown_tags: Tags = (),
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            leader_id=r.int32(),
            leader_epoch=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.leader_id)
        w.int32(self.leader_epoch)
        w.tags(self.unknown_tags)


class SnapshotId(Struct):
    __slots__ = ("end_offset", "epoch", "unknown_tags")

    def __init__(
        self, *,
        end_offset: int = -1,
        epoch: int = -1,
        unknown_tags: Tags = (),
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            end_offset=r.int64(),
            epoch=r.int32(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int64(self.end_offset)
        w.int32(self.epoch)
        w.tags(self.unknown_tags)


class AbortedTransaction(Struct):
    __slots__ = ("producer_id", "first_offset", "unknown_tags")

    def __init__(
        self, *,
        producer_id: int = 0,
        first_offset: int = 0,
        unknown_tags: Tags = (),
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            producer_id=r.int64(),
            first_offset=r.int64(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int64(self.producer_id)
        w.int64(self.first_offset)
        w.tags(self.unknown_tags)


class PartitionData(Struct):
    __slots__ = (
        "partition_index", "error_code", "high_watermark", "last_stable_offset", "log_start_offset", "diverging_epoch",
        "current_leader", "snapshot_id", "aborted_transactions", "preferred_read_replica", "records", "not_follower",
        "unknown_tags",
    )

    def __init__(
        self, *,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: EpochEndOffset | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        snapshot_id: SnapshotId | None = None,
        aborted_transactions: Iterable[AbortedTransaction] | None = (),
        preferred_read_replica: int = -1,
        records: bytes | None = b"",
        not_follower: bool = False,
        unknown_tags: Tags = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = EpochEndOffset() if diverging_epoch is None else diverging_epoch
        self.current_leader = LeaderIdAndEpoch() if current_leader is None else current_leader
        self.snapshot_id = SnapshotId() if snapshot_id is None else snapshot_id
        self.aborted_transactions = None if aborted_transactions is None else list(aborted_transactions)
        self.preferred_read_replica = preferred_read_replica
        self.records = records
        self.not_follower = not_follower
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            partition_index=r.int32(),
            error_code=r.int16(),
            high_watermark=r.int64(),
            last_stable_offset=r.int64(),
            log_start_offset=r.int64() if version >= 5 else -1,
            aborted_transactions=r.nullable_structs(AbortedTransaction.read, version),
            preferred_read_replica=r.int32() if version >= 11 else -1,
            records=r.nullable_blob(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.diverging_epoch = EpochEndOffset.read(value, version)
                value.finish()
            elif tag == 1:
                struct.current_leader = LeaderIdAndEpoch.read(value, version)
                value.finish()
            elif tag == 2:
                struct.snapshot_id = SnapshotId.read(value, version)
                value.finish()
            elif tag == 100:
                struct.not_follower = value.boolean()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            partition_index=r.int32(),
            error_code=r.int16(),
            high_watermark=r.int64(),
            last_stable_offset=r.int64(),
            log_start_offset=r.int64() if version >= 5 else -1,
            aborted_transactions=(yield from nullable_structs_steps(r, AbortedTransaction.read, version)),
            preferred_read_replica=r.int32() if version >= 11 else -1,
            records=r.nullable_blob(),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0:
                struct.diverging_epoch = EpochEndOffset.read(value, version)
                value.finish()
            elif tag == 1:
                struct.current_leader = LeaderIdAndEpoch.read(value, version)
                value.finish()
            elif tag == 2:
                struct.snapshot_id = SnapshotId.read(value, version)
                value.finish()
            elif tag == 100:
                struct.not_follower = value.boolean()
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.partition_index)
        w.int16(self.error_code)
        w.int64(self.high_watermark)
        w.int64(self.last_stable_offset)
        if version >= 5:
            w.int64(self.log_start_offset)
        w.nullable_structs(self.aborted_transactions, version)
        if version >= 11:
            w.int32(self.preferred_read_replica)
        elif self.preferred_read_replica != -1:
            raise absent(self, "preferred_read_replica", version)
        w.nullable_blob(self.records)
        tags = list(self.unknown_tags)
        if self.diverging_epoch != EpochEndOffset():
            if version < 12:
                raise absent(self, "diverging_epoch", version)
            value = WireWriter(True)
            self.diverging_epoch.write(value, version)
            tags.append((0, value.finish()))
        if self.current_leader != LeaderIdAndEpoch():
            if version < 12:
                raise absent(self, "current_leader", version)
            value = WireWriter(True)
            self.current_leader.write(value, version)
            tags.append((1, value.finish()))
        if self.snapshot_id != SnapshotId():
            if version < 12:
                raise absent(self, "snapshot_id", version)
            value = WireWriter(True)
            self.snapshot_id.write(value, version)
            tags.append((2, value.finish()))
        if version >= 12 and self.not_follower:
            value = WireWriter(True)
            value.boolean(self.not_follower)
            tags.append((100, value.finish()))
        w.tags(tags)


class FetchableTopicResponse(Struct):
    __slots__ = ("topic", "topic_id", "partitions", "unknown_tags")

    def __init__(
        self, *,
        topic: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: Iterable[PartitionData] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = list(partitions)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            topic=r.string() if version <= 12 else "",
            topic_id=r.uuid() if version >= 13 else ZERO_UUID,
            partitions=r.structs(PartitionData.read, version),
            unknown_tags=r.unknown_tags(),
        )

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        return cls(
            topic=r.string() if version <= 12 else "",
            topic_id=r.uuid() if version >= 13 else ZERO_UUID,
            partitions=(yield from nested_steps(r, PartitionData.read_steps, version)),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        if version <= 12:
            w.string(self.topic)
        if version >= 13:
            w.uuid(self.topic_id)
        w.structs(self.partitions, version)
        w.tags(self.unknown_tags)


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "rack", "unknown_tags")

    def __init__(
        self, *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        unknown_tags: Tags = (),
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        return cls(
            node_id=r.int32(),
            host=r.string(),
            port=r.int32(),
            rack=r.nullable_string(),
            unknown_tags=r.unknown_tags(),
        )

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.node_id)
        w.string(self.host)
        w.int32(self.port)
        w.nullable_string(self.rack)
        w.tags(self.unknown_tags)


class FetchResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "session_id", "responses", "node_endpoints", "unknown_tags")
    API_KEY = 1
    VERSIONS = range(4, 19)
    FLEXIBLE_FROM = 12

    def __init__(
        self, *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: Iterable[FetchableTopicResponse] = (),
        node_endpoints: Iterable[NodeEndpoint] = (),
        unknown_tags: Tags = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = list(responses)
        self.node_endpoints = list(node_endpoints)
        self.unknown_tags = unknown_tags

    @classmethod
    def read(cls, r: WireReader, version: int) -> Self:
        struct = cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16() if version >= 7 else 0,
            session_id=r.int32() if version >= 7 else 0,
            responses=r.structs(FetchableTopicResponse.read, version),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0 and version >= 16:
                struct.node_endpoints = value.structs(NodeEndpoint.read, version)
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    @classmethod
    def read_steps(cls, r: WireReader, version: int) -> Generator[None, None, Self]:
        struct = cls(
            throttle_time_ms=r.int32(),
            error_code=r.int16() if version >= 7 else 0,
            session_id=r.int32() if version >= 7 else 0,
            responses=(yield from nested_steps(r, FetchableTopicResponse.read_steps, version)),
        )
        unknown = []
        for tag, value in r.tags():
            if tag == 0 and version >= 16:
                struct.node_endpoints = (yield from structs_steps(value, NodeEndpoint.read, version))
                value.finish()
            else:
                unknown.append((tag, value.rest()))
        struct.unknown_tags = tuple(unknown)
        return struct

    def write(self, w: WireWriter, version: int) -> None:
        w.int32(self.throttle_time_ms)
        if version >= 7:
            w.int16(self.error_code)
        if version >= 7:
            w.int32(self.session_id)
        elif self.session_id != 0:
            raise absent(self, "session_id", version)
        w.structs(self.responses, version)
        tags = list(self.unknown_tags)
        if self.node_endpoints != []:
            if version < 16:
                raise absent(self, "node_endpoints", version)
            value = WireWriter(True)
            value.structs(self.node_endpoints, version)
            tags.append((0, value.finish()))
        w.tags(tags)
