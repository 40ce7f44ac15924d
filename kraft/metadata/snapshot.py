"""Conversion of an image to records, and to a snapshot file in Kafka's format (KIP-630).

A file is a run of record batches with offsets that count from 0 and the snapshot's epoch:

| batch | records |
|---|---|
| control | SnapshotHeader; at kraft.version 1 and above also KRaftVersion and Voters |
| data, any number | the image, every record at the version that its metadata.version writes |
| control | SnapshotFooter |

A file without footer is unfinished and ignored.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import field
from typing import Final, NamedTuple

from kraft.metadata.control_records import (
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    QuorumRecords,
    control_message,
    encode_control,
)
from kraft.metadata.errors import MetadataLogError
from kraft.metadata.image import BrokerRegistration, MetadataImage, PartitionRegistration, TopicImage
from kraft.metadata.replay import Replayer
from kraft.metadata.versions import METADATA_VERSION, MetadataVersion
from kraft.protocol.message import Message
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.client_quota_record import ClientQuotaRecord, EntityData
from kraft.protocol.messages.config_record import ConfigRecord
from kraft.protocol.messages.feature_level_record import FeatureLevelRecord
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.producer_ids_record import ProducerIdsRecord
from kraft.protocol.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from kraft.protocol.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from kraft.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from kraft.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.protocol.messages.zk_migration_state_record import ZkMigrationStateRecord
from kraft.protocol.record_frames import decode_record, encode_record
from kraft.steps import finish
from kraft.structs import mutable
from kraft_native.batch.batch import BASE_TIMESTAMP_AT, LAST_OFFSET_DELTA_AT, walk
from kraft_native.batch.control import control_batch, control_records
from kraft_native.batch.records import BatchBuilder, records

BATCH_RECORDS_MAX: Final = 1024
BATCH_BYTES_MAX: Final = 1 << 20
DECODED_STEP: Final = 64
"""Records that one step of `decode_snapshot_steps` decodes."""
REPLAYED_STEP: Final = 64
"""Records that one step of `SnapshotContent.image_steps` replays."""
FREED_STEP: Final = 256
"""Records that one step of `SnapshotContent.free_steps` frees."""


class Record(NamedTuple):
    """Metadata record and the version at which it is written."""

    message: Message
    version: int = 0


def partition_record(
    topic: TopicImage, index: int, partition: PartitionRegistration, version: MetadataVersion
) -> Record:
    """Return the record that creates this partition. Fields that the version does not have are omitted."""
    return Record(PartitionRecord(
        partition_id=index, topic_id=topic.topic_id, replicas=partition.replicas, isr=partition.isr,
        removing_replicas=partition.removing_replicas, adding_replicas=partition.adding_replicas,
        leader=partition.leader, leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch, partition_epoch=partition.partition_epoch,
        directories=partition.directories if version.directories else (),
        eligible_leader_replicas=(partition.elr or None) if version.elr else None,
        last_known_elr=(partition.last_known_elr or None) if version.elr else None,
    ), version.partition_record)


def broker_record(broker: BrokerRegistration, version: MetadataVersion) -> Iterator[Record]:
    """Yield the records that create this registration: one, and a second where the first has no field for all of it."""
    record = RegisterBrokerRecord(
        broker_id=broker.broker_id, incarnation_id=broker.incarnation_id, broker_epoch=broker.epoch,
        end_points=[BrokerEndpoint(**endpoint._asdict()) for endpoint in broker.endpoints],
        features=[BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                  for name, (low, high) in broker.features.items()],
        rack=broker.rack, fenced=broker.fenced,
    )
    if version.in_controlled_shutdown:
        record.in_controlled_shutdown = broker.in_controlled_shutdown
    if version.register_broker_record >= 2:
        record.is_migrating_zk_broker = broker.is_migrating_zk_broker
    if version.directories:
        record.log_dirs = list(broker.log_dirs)
    if version.cordoned_log_dirs and broker.cordoned_log_dirs is not None:
        record.cordoned_log_dirs = list(broker.cordoned_log_dirs)
    yield Record(record, version.register_broker_record)
    if broker.cordoned_log_dirs and not version.cordoned_log_dirs:
        yield Record(BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.epoch,
            cordoned_log_dirs=list(broker.cordoned_log_dirs)), 3)


def image_records(image: MetadataImage) -> Iterator[Record]:
    """Yield records whose replay on an empty image gives `image`; metadata.version comes first."""
    version = image.metadata_version
    if METADATA_VERSION in image.features:
        yield Record(FeatureLevelRecord(name=METADATA_VERSION, feature_level=version.level))
    for name, level in image.features.items():
        if name != METADATA_VERSION:
            yield Record(FeatureLevelRecord(name=name, feature_level=level))
    if image.zk_migration_state:
        yield Record(ZkMigrationStateRecord(zk_migration_state=image.zk_migration_state))
    for broker in image.brokers.values():
        yield from broker_record(broker, version)
    if version.controller_registration:
        for controller in image.controllers.values():
            yield Record(RegisterControllerRecord(
                controller_id=controller.controller_id, incarnation_id=controller.incarnation_id,
                zk_migration_ready=controller.zk_migration_ready,
                end_points=[ControllerEndpoint(**endpoint._asdict()) for endpoint in controller.endpoints],
                features=[ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
                          for name, (low, high) in controller.features.items()],
            ))
    for topic in image.topics.values():
        yield Record(TopicRecord(name=topic.name, topic_id=topic.topic_id))
        for index, partition in topic.partitions.items():
            yield partition_record(topic, index, partition, version)
    yield from _setting_records(image)


def _setting_records(image: MetadataImage) -> Iterator[Record]:
    version = image.metadata_version
    for resource, values in image.configs.items():
        for name, value in values.items():
            yield Record(ConfigRecord(
                resource_type=resource.type, resource_name=resource.name, name=name, value=value))
    for entity, limits in image.quotas.items():
        for key, limit in limits.items():
            yield Record(ClientQuotaRecord(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                key=key, value=limit))
    if image.next_producer_id >= 0:
        yield Record(ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id))
    for acl in image.acls.values():
        yield Record(acl)
    if version.scram:
        for credential in image.scram.values():
            yield Record(credential)
    if version.delegation_tokens:
        for token in image.delegation_tokens.values():
            yield Record(token)


def record_batches(
    payloads: Iterable[bytes], base_offset: int, leader_epoch: int, timestamp_ms: int
) -> Iterator[bytes]:
    """Yield data batches that hold these record values, with offsets from `base_offset` on."""
    builder = BatchBuilder()
    for payload in payloads:
        if len(builder) >= BATCH_RECORDS_MAX or (
                len(builder) and builder.size_in_bytes + len(payload) > BATCH_BYTES_MAX):
            count = len(builder)
            yield builder.build(base_offset, leader_epoch=leader_epoch)
            base_offset += count
            builder.clear()
        builder.append(payload, timestamp_ms=timestamp_ms)
    if len(builder):
        yield builder.build(base_offset, leader_epoch=leader_epoch)


def encode_snapshot(
    content: Iterable[Record], *, epoch: int, now_ms: int, last_timestamp_ms: int, quorum: QuorumRecords | None = None
) -> Iterator[bytes]:
    """Yield the batches of a snapshot file, in order.

    `last_timestamp_ms`: time of the last log record that the content includes. `quorum`: the state that the control
    records before that record gave; None, or a kraft.version of 0, writes none.
    """
    header: list[Message] = [SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_timestamp_ms)]
    if quorum is not None and quorum.kraft_version > 0:
        header += quorum.messages()
    yield control_batch([encode_control(message) for message in header], timestamp_ms=now_ms, leader_epoch=epoch)
    offset = len(header)
    payloads = (encode_record(record.message, record.version) for record in content)
    for batch in record_batches(payloads, offset, epoch, now_ms):
        offset += batch_count(batch)
        yield batch
    yield control_batch([encode_control(SnapshotFooterRecord(version=0))],
                        timestamp_ms=now_ms, base_offset=offset, leader_epoch=epoch)


def batch_count(batch: bytes) -> int:
    """Return the number of offsets that one encoded batch occupies."""
    return int.from_bytes(batch[LAST_OFFSET_DELTA_AT:BASE_TIMESTAMP_AT], "big") + 1


@mutable
class SnapshotContent:
    """Content of a snapshot file."""

    last_timestamp_ms: int = -1
    quorum: QuorumRecords = field(default_factory=QuorumRecords)
    messages: list[Record] = field(default_factory=list)

    def image(self, end_offset: int, epoch: int) -> MetadataImage:
        """Return the image that the records give; it includes the log up to `end_offset`, exclusive."""
        return finish(self.image_steps(end_offset, epoch))

    def image_steps(self, end_offset: int, epoch: int) -> Generator[None, None, MetadataImage]:
        """Do the same as `image`, with a pause after some records."""
        replayer = Replayer()
        for offset, record in enumerate(self.messages):
            if offset % REPLAYED_STEP == REPLAYED_STEP - 1:
                yield
            replayer.replay(record.message, offset, epoch, self.last_timestamp_ms)
        replayer.take()
        image = replayer.image
        return MetadataImage(**{
            **{name: getattr(image, name) for name in MetadataImage.__dataclass_fields__},
            "offset": end_offset - 1, "epoch": epoch, "timestamp_ms": self.last_timestamp_ms,
        })

    def free_steps(self) -> Generator[None, None, None]:
        """Drop the records, with a pause after some: all at once takes as long as a hundred steps."""
        while self.messages:
            del self.messages[-FREED_STEP:]
            yield


def decode_snapshot(data: bytes) -> SnapshotContent:
    """Read a whole snapshot file. Raise `CorruptRecordError` for a damaged batch, and `MetadataLogError` for a file
    that does not begin with a header and end with a footer."""
    return finish(decode_snapshot_steps(data))


def decode_snapshot_steps(data: bytes) -> Generator[None, None, SnapshotContent]:
    """Do the same as `decode_snapshot`, with a pause after some records."""
    content = SnapshotContent()
    kinds: list[int] = []
    for batch in walk(data):
        if batch.is_control:
            for control in control_records(bytes(batch)):
                kinds.append(control.type)
                message = control_message(control.type, control.value or b"")
                if isinstance(message, SnapshotHeaderRecord):
                    content.last_timestamp_ms = message.last_contained_log_timestamp
                else:
                    content.quorum.apply(message, control.offset)
        else:
            for record in records(bytes(batch)):
                content.messages.append(Record(*decode_record(record.value or b"")))
                if len(content.messages) % DECODED_STEP == 0:
                    yield
    if kinds[:1] != [SNAPSHOT_HEADER] or kinds[-1] != SNAPSHOT_FOOTER:
        raise MetadataLogError(f"a snapshot begins with a header and ends with a footer; control records here: {kinds}")
    return content
