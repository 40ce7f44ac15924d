"""Changes that a run of metadata records makes to an image (KIP-631; Kafka's `MetadataDelta`).

    delta = MetadataDelta(image)
    delta.replay(record)                 # as often as needed
    image = delta.finish(offset, epoch, timestamp_ms)

`replay` of a record that contradicts the state raises `MetadataLogError`; then the delta must be discarded.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from kraft.metadata.errors import MetadataLogError
from kraft.metadata.image import (
    MIGRATING_DIRECTORY,
    TOPIC_RESOURCE,
    BrokerRegistration,
    ControllerRegistration,
    Endpoint,
    Levels,
    MetadataImage,
    PartitionRegistration,
    Resource,
    TopicImage,
    acl_content,
    collision_key,
)
from kraft.metadata.section import PersistentSection, Section
from kraft.metadata.versions import BY_LEVEL, LATEST, METADATA_VERSION, MINIMUM
from kraft.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.clear_elr_record import ClearElrRecord
from kraft.protocol.messages.client_quota_record import ClientQuotaRecord
from kraft.protocol.messages.config_record import ConfigRecord
from kraft.protocol.messages.delegation_token_record import DelegationTokenRecord
from kraft.protocol.messages.feature_level_record import FeatureLevelRecord
from kraft.protocol.messages.fence_broker_record import FenceBrokerRecord
from kraft.protocol.messages.no_op_record import NoOpRecord
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.producer_ids_record import ProducerIdsRecord
from kraft.protocol.messages.register_broker_record import RegisterBrokerRecord
from kraft.protocol.messages.register_controller_record import RegisterControllerRecord
from kraft.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kraft.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kraft.protocol.messages.remove_topic_record import RemoveTopicRecord
from kraft.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from kraft.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from kraft.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from kraft.protocol.messages.zk_migration_state_record import ZkMigrationStateRecord
from kraft.steps import finish
from kraft.structs import immutable

_SECTIONS: Final = ("features", "brokers", "controllers", "topics", "topic_ids", "colliding", "configs", "quotas",
                    "acls", "acl_ids", "scram", "delegation_tokens")
COMPARED_STEP: Final = 256
"""Entries that one step of a comparison has, a topic as many as its partitions and one more."""
LEADER_UNCHANGED: Final = -2
RECOVERY_UNCHANGED: Final = -1


@immutable
class PartitionChange:
    """Partition before and after; None where it did not exist."""

    topic: TopicImage
    index: int
    before: PartitionRegistration | None
    after: PartitionRegistration | None


def merge(partition: PartitionRegistration, record: PartitionChangeRecord) -> PartitionRegistration:
    """Return the partition after a change record. Every change raises the partition epoch. A change that names a
    leader, even the same one, raises the leader epoch."""
    led = record.leader != LEADER_UNCHANGED
    return PartitionRegistration(
        replicas=partition.replicas if record.replicas is None else tuple(record.replicas),
        directories=partition.directories if record.directories is None else tuple(record.directories),
        isr=partition.isr if record.isr is None else tuple(record.isr),
        leader=record.leader if led else partition.leader,
        leader_epoch=partition.leader_epoch + 1 if led else partition.leader_epoch,
        partition_epoch=partition.partition_epoch + 1,
        leader_recovery_state=(partition.leader_recovery_state if record.leader_recovery_state == RECOVERY_UNCHANGED
                               else record.leader_recovery_state),
        removing_replicas=(partition.removing_replicas if record.removing_replicas is None
                           else tuple(record.removing_replicas)),
        adding_replicas=(partition.adding_replicas if record.adding_replicas is None
                         else tuple(record.adding_replicas)),
        elr=partition.elr if record.eligible_leader_replicas is None else tuple(record.eligible_leader_replicas),
        last_known_elr=partition.last_known_elr if record.last_known_elr is None else tuple(record.last_known_elr),
    )


class MetadataDelta:
    """Changes to `image`, which stays as it is. The sections may be read at any time: they are the state so far."""

    def __init__(self, image: MetadataImage):
        self.image = image
        self.features = Section(image.features)
        self.brokers = Section(image.brokers)
        self.controllers = Section(image.controllers)
        self.topics = Section(image.topics)
        self.topic_ids = Section(image.topic_ids)
        self.colliding = Section(image.colliding)
        self.configs = Section(image.configs)
        self.quotas = Section(image.quotas)
        self.acls = PersistentSection(image.acls)
        self.acl_ids = PersistentSection(image.acl_ids)
        self.scram = Section(image.scram)
        self.delegation_tokens = Section(image.delegation_tokens)
        self.zk_migration_state = image.zk_migration_state
        self.next_producer_id = image.next_producer_id
        self.dropped: dict[tuple[UUID, int], tuple[str, tuple[int, ...]]] = {}
        """Replicas that records removed, by topic id and partition: the topic's name and the ids of the brokers that
        lost their replica. Includes topics that existed only within the delta. A difference between two images has
        none: it shows that something is missing, not that it was deleted."""
        # Partitions of topics that this delta changes: mappings owned by the delta, still writable.
        self._partitions: dict[UUID, dict[int, PartitionRegistration]] = {}

    def replay(self, record: object) -> None:
        """Apply one record. Records of metadata transactions belong to `Replayer`."""
        handler = _HANDLERS.get(type(record))
        if handler is None:
            raise MetadataLogError(f"{type(record).__name__} is not a record of the metadata log")
        handler(self, record)

    def finish(self, offset: int, epoch: int, timestamp_ms: int) -> MetadataImage:
        """Return the image after the changes; `offset` is that of the last record replayed. The delta accepts no more
        records afterwards."""
        return MetadataImage(
            offset=offset, epoch=epoch, timestamp_ms=timestamp_ms,
            features=self.features.now, zk_migration_state=self.zk_migration_state,
            brokers=self.brokers.now, controllers=self.controllers.now,
            topics=self.topics.now, topic_ids=self.topic_ids.now, colliding=self.colliding.now,
            configs=self.configs.now, quotas=self.quotas.now, next_producer_id=self.next_producer_id,
            acls=self.acls.now, acl_ids=self.acl_ids.now, scram=self.scram.now,
            delegation_tokens=self.delegation_tokens.now,
        )

    @classmethod
    def between(cls, before: MetadataImage, after: MetadataImage) -> "MetadataDelta":
        """Return the difference between two images whose intermediate records are no longer in the log."""
        return finish(cls.between_steps(before, after))

    @classmethod
    def between_steps(cls, before: MetadataImage, after: MetadataImage) -> Generator[None, None, "MetadataDelta"]:
        """Do the same as `between`, with a pause after some entries."""
        delta = cls(before)
        for name in _SECTIONS:
            section, wanted = getattr(delta, name), getattr(after, name)
            for key in [key for key in section.now if key not in wanted]:
                section.remove(key)
            weight = 0
            for key, value in wanted.items():
                weight += 1 + (len(value.partitions) if isinstance(value, TopicImage) else 0)
                if weight >= COMPARED_STEP:
                    weight = 0
                    yield
                if section.get(key) != value:
                    section.put(key, delta._with_unchanged(value) if isinstance(value, TopicImage) else value)
        delta.zk_migration_state = after.zk_migration_state
        delta.next_producer_id = after.next_producer_id
        return delta

    def _with_unchanged(self, topic: TopicImage) -> TopicImage:
        """Return a changed topic with the old objects of its unchanged partitions."""
        before = self.topics.before.get(topic.topic_id)
        old = before.partitions if before is not None else {}
        partitions = self._partitions[topic.topic_id] = {
            index: old[index] if old.get(index) == partition else partition
            for index, partition in topic.partitions.items()}
        return TopicImage(topic.name, topic.topic_id, partitions)

    # --- changes ----------------------------------------------------------------------------------------------------

    def removed_topics(self) -> Iterator[TopicImage]:
        """Yield the topics of the old image that were removed. A topic that existed only within the delta is not among
        them."""
        for topic_id in self.topics.touched:
            if topic_id not in self.topics.now and topic_id in self.topics.before:
                yield self.topics.before[topic_id]

    def created_topics(self) -> Iterator[TopicImage]:
        for topic_id in self.topics.touched:
            if topic_id in self.topics.now and topic_id not in self.topics.before:
                yield self.topics.now[topic_id]

    def partition_changes(self) -> Iterator[PartitionChange]:
        """Yield every partition that differs: first those of removed topics, then the others by topic."""
        for topic in self.removed_topics():
            for index, partition in topic.partitions.items():
                yield PartitionChange(topic, index, partition, None)
        for topic_id in self._partitions:
            after = self.topics.now.get(topic_id)
            if after is None:
                continue
            before = self.topics.before.get(topic_id)
            for index, partition in after.partitions.items():
                old = None if before is None else before.partitions.get(index)
                if old is not partition:
                    yield PartitionChange(after, index, old, partition)

    # --- topics and partitions --------------------------------------------------------------------------------------

    def _topic(self, topic_id: UUID, record: object) -> TopicImage:
        topic = self.topics.get(topic_id)
        if topic is None:
            raise MetadataLogError(f"{type(record).__name__} is for topic id {topic_id}, which does not exist")
        return topic

    def _open_partitions(self, topic: TopicImage) -> dict[int, PartitionRegistration]:
        partitions = self._partitions.get(topic.topic_id)
        if partitions is None:
            partitions = self._partitions[topic.topic_id] = dict(topic.partitions)
            self.topics.put(topic.topic_id, TopicImage(topic.name, topic.topic_id, partitions))
        return partitions

    def _replay_topic(self, record: TopicRecord) -> None:
        existing = self.topic_ids.get(record.name)
        if existing is not None:
            raise MetadataLogError(f"TopicRecord makes topic {record.name!r} with id {record.topic_id}, "
                                   f"but it exists with id {existing}")
        partitions = self._partitions[record.topic_id] = {}
        self.topics.put(record.topic_id, TopicImage(record.name, record.topic_id, partitions))
        self.topic_ids.put(record.name, record.topic_id)
        key = collision_key(record.name)
        if key is not None:
            self.colliding.put(key, (*(self.colliding.get(key) or ()), record.name))

    def _replay_remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self._topic(record.topic_id, record)
        self.topics.remove(topic.topic_id)
        self.topic_ids.remove(topic.name)
        self._partitions.pop(topic.topic_id, None)
        for index, partition in topic.partitions.items():
            self._drop(topic, index, partition.replicas)
        key = collision_key(topic.name)
        if key is not None:
            left = tuple(name for name in self.colliding.now[key] if name != topic.name)
            if left:
                self.colliding.put(key, left)
            else:
                self.colliding.remove(key)
        self.configs.remove(Resource(TOPIC_RESOURCE, topic.name))

    def _replay_partition(self, record: PartitionRecord) -> None:
        # Records from before KIP-858 name no directories.
        directories = tuple(record.directories) or (MIGRATING_DIRECTORY,) * len(record.replicas)
        if len(directories) != len(record.replicas):
            raise MetadataLogError(f"PartitionRecord of topic id {record.topic_id} has {len(directories)} directories "
                                   f"for {len(record.replicas)} replicas")
        partitions = self._partitions.get(record.topic_id)     # usual case: the topic is new, or open for another one
        if partitions is None:
            partitions = self._open_partitions(self._topic(record.topic_id, record))
        partitions[record.partition_id] = PartitionRegistration(
            replicas=tuple(record.replicas), directories=directories, isr=tuple(record.isr),
            leader=record.leader, leader_epoch=record.leader_epoch, partition_epoch=record.partition_epoch,
            leader_recovery_state=record.leader_recovery_state,
            removing_replicas=tuple(record.removing_replicas), adding_replicas=tuple(record.adding_replicas),
            elr=tuple(record.eligible_leader_replicas or ()), last_known_elr=tuple(record.last_known_elr or ()),
        )

    def _replay_partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id, record)
        partition = topic.partitions.get(record.partition_id)
        if partition is None:
            raise MetadataLogError(f"PartitionChangeRecord is for partition {record.partition_id} of topic "
                                   f"{topic.name!r}, which does not exist")
        merged = self._open_partitions(topic)[record.partition_id] = merge(partition, record)
        if record.replicas is not None:
            self._drop(topic, record.partition_id,
                       [each for each in partition.replicas if each not in merged.replicas])

    def _drop(self, topic: TopicImage, index: int, broker_ids: Sequence[int]) -> None:
        if broker_ids:
            _, known = self.dropped.get((topic.topic_id, index), ("", ()))
            self.dropped[topic.topic_id, index] = topic.name, (*known, *broker_ids)

    def _replay_clear_elr(self, record: ClearElrRecord) -> None:
        """Clear eligible leader replicas: of one topic, or of all when none is named."""
        if record.topic_name:
            topic_id = self.topic_ids.get(record.topic_name)
            if topic_id is None:
                raise MetadataLogError(f"ClearElrRecord is for topic {record.topic_name!r}, which does not exist")
            topics = [self.topics.now[topic_id]]
        else:
            topics = list(self.topics.now.values())
        for topic in topics:
            for index, partition in list(topic.partitions.items()):
                if partition.elr or partition.last_known_elr:
                    self._open_partitions(topic)[index] = replace(
                        partition, elr=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1)

    # --- nodes ------------------------------------------------------------------------------------------------------

    def _replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        cordoned = record.cordoned_log_dirs
        self.brokers.put(record.broker_id, BrokerRegistration(
            broker_id=record.broker_id, epoch=record.broker_epoch, incarnation_id=record.incarnation_id,
            endpoints=tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features={f.name: Levels(f.min_supported_version, f.max_supported_version) for f in record.features},
            rack=record.rack, fenced=record.fenced, in_controlled_shutdown=record.in_controlled_shutdown,
            is_migrating_zk_broker=record.is_migrating_zk_broker, log_dirs=tuple(record.log_dirs),
            cordoned_log_dirs=None if cordoned is None else tuple(cordoned),
        ))

    def _broker(self, broker_id: int, epoch: int, record: object) -> BrokerRegistration:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            have = "it is not registered" if broker is None else f"it has epoch {broker.epoch}"
            raise MetadataLogError(f"{type(record).__name__} is for broker {broker_id} in epoch {epoch}, but {have}")
        return broker

    def _replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch, record)
        self.brokers.remove(record.broker_id)

    def _replay_fence(self, record: FenceBrokerRecord) -> None:
        self.brokers.put(record.id, replace(self._broker(record.id, record.epoch, record), fenced=True))

    def _replay_unfence(self, record: UnfenceBrokerRecord) -> None:
        self.brokers.put(record.id, replace(self._broker(record.id, record.epoch, record), fenced=False))

    def _replay_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch, record)
        if record.fenced not in (-1, 0, 1) or record.in_controlled_shutdown not in (0, 1):
            raise MetadataLogError(f"BrokerRegistrationChangeRecord of broker {record.broker_id} has fenced "
                                   f"{record.fenced}, in controlled shutdown {record.in_controlled_shutdown}")
        self.brokers.put(record.broker_id, replace(
            broker,
            fenced=broker.fenced if record.fenced == 0 else record.fenced == 1,
            in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown == 1,
            log_dirs=tuple(record.log_dirs) or broker.log_dirs,
            cordoned_log_dirs=(broker.cordoned_log_dirs if record.cordoned_log_dirs is None
                               else tuple(record.cordoned_log_dirs)),
        ))

    def _replay_register_controller(self, record: RegisterControllerRecord) -> None:
        self.controllers.put(record.controller_id, ControllerRegistration(
            controller_id=record.controller_id, incarnation_id=record.incarnation_id,
            zk_migration_ready=record.zk_migration_ready,
            endpoints=tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features={f.name: Levels(f.min_supported_version, f.max_supported_version) for f in record.features},
        ))

    # --- settings and identities ------------------------------------------------------------------------------------

    def _replay_feature(self, record: FeatureLevelRecord) -> None:
        level = record.feature_level
        if record.name == METADATA_VERSION and level not in BY_LEVEL:
            raise MetadataLogError(f"metadata.version {level} is not one that this release knows: "
                                   f"{MINIMUM.level} to {LATEST.level}")
        if level == 0 and record.name != METADATA_VERSION:
            self.features.remove(record.name)
        else:
            self.features.put(record.name, level)

    def _replay_config(self, record: ConfigRecord) -> None:
        resource = Resource(record.resource_type, record.resource_name)
        values = dict(self.configs.get(resource) or {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            self.configs.put(resource, values)
        else:
            self.configs.remove(resource)

    def _replay_quota(self, record: ClientQuotaRecord) -> None:
        entity = tuple((part.entity_type, part.entity_name) for part in record.entity)
        values = dict(self.quotas.get(entity) or {})
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self.quotas.put(entity, values)
        else:
            self.quotas.remove(entity)

    def _replay_producer_ids(self, record: ProducerIdsRecord) -> None:
        if record.next_producer_id < self.next_producer_id:
            raise MetadataLogError(f"ProducerIdsRecord goes back from {self.next_producer_id} to "
                                   f"{record.next_producer_id}")
        self.next_producer_id = record.next_producer_id

    def _replay_acl(self, record: AccessControlEntryRecord) -> None:
        before = self.acls.get(record.id)
        if before is not None:
            self._forget_acl(before)
        self.acls.put(record.id, record)
        self.acl_ids.put(acl_content(record), record.id)

    def _replay_remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        before = self.acls.remove(record.id)
        if before is None:
            raise MetadataLogError(f"RemoveAccessControlEntryRecord is for id {record.id}, which does not exist")
        self._forget_acl(before)

    def _forget_acl(self, record: AccessControlEntryRecord) -> None:
        content = acl_content(record)
        if self.acl_ids.get(content) == record.id:
            self.acl_ids.remove(content)

    def _replay_scram(self, record: UserScramCredentialRecord) -> None:
        self.scram.put((record.mechanism, record.name), record)

    def _replay_remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self.scram.remove((record.mechanism, record.name))

    def _replay_token(self, record: DelegationTokenRecord) -> None:
        self.delegation_tokens.put(record.token_id, record)

    def _replay_remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self.delegation_tokens.remove(record.token_id)

    def _replay_zk_migration_state(self, record: ZkMigrationStateRecord) -> None:
        self.zk_migration_state = record.zk_migration_state

    def _replay_no_op(self, record: NoOpRecord) -> None:
        """Ignore the record: an idle leader writes it to show that it commits; the state stays."""


_HANDLERS: Final[dict[type, Callable[[MetadataDelta, Any], None]]] = {
    AccessControlEntryRecord: MetadataDelta._replay_acl,
    BrokerRegistrationChangeRecord: MetadataDelta._replay_registration_change,
    ClearElrRecord: MetadataDelta._replay_clear_elr,
    ClientQuotaRecord: MetadataDelta._replay_quota,
    ConfigRecord: MetadataDelta._replay_config,
    DelegationTokenRecord: MetadataDelta._replay_token,
    FeatureLevelRecord: MetadataDelta._replay_feature,
    FenceBrokerRecord: MetadataDelta._replay_fence,
    NoOpRecord: MetadataDelta._replay_no_op,
    PartitionChangeRecord: MetadataDelta._replay_partition_change,
    PartitionRecord: MetadataDelta._replay_partition,
    ProducerIdsRecord: MetadataDelta._replay_producer_ids,
    RegisterBrokerRecord: MetadataDelta._replay_register_broker,
    RegisterControllerRecord: MetadataDelta._replay_register_controller,
    RemoveAccessControlEntryRecord: MetadataDelta._replay_remove_acl,
    RemoveDelegationTokenRecord: MetadataDelta._replay_remove_token,
    RemoveTopicRecord: MetadataDelta._replay_remove_topic,
    RemoveUserScramCredentialRecord: MetadataDelta._replay_remove_scram,
    TopicRecord: MetadataDelta._replay_topic,
    UnfenceBrokerRecord: MetadataDelta._replay_unfence,
    UnregisterBrokerRecord: MetadataDelta._replay_unregister_broker,
    UserScramCredentialRecord: MetadataDelta._replay_scram,
    ZkMigrationStateRecord: MetadataDelta._replay_zk_migration_state,
}
