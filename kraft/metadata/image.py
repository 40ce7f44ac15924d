"""State of the cluster at one offset of the metadata log. An image never changes: a delta creates a new image.

Mappings are plain dicts that are not written after they became part of an image. Their order is the order in which
replay met the keys, which is the same on every replica. ACLs, of which there may be very many, are in a persistent map;
their order follows from their ids.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Final, NamedTuple
from uuid import UUID

from kraft.metadata.versions import BY_LEVEL, ELR_VERSION, METADATA_VERSION, MINIMUM, MetadataVersion
from kraft.persistent_map import PersistentMap
from kraft.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from kraft.protocol.messages.delegation_token_record import DelegationTokenRecord
from kraft.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from kraft.structs import immutable

NO_LEADER: Final = -1

# LeaderRecoveryState of a partition: whether its leader was elected cleanly, or may have lost records.
RECOVERED: Final = 0
RECOVERING: Final = 1

ZERO_ID: Final = UUID(int=0)
# Directory ids with a meaning of their own (KIP-858).
MIGRATING_DIRECTORY: Final = ZERO_ID
UNASSIGNED_DIRECTORY: Final = UUID(int=1)
LOST_DIRECTORY: Final = UUID(int=2)
RESERVED_IDS: Final = 100  # ids with a lower value are Kafka's own

# Resource types of configs (Kafka's ConfigResource.Type).
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
BROKER_LOGGER_RESOURCE: Final = 8
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32
RESOURCE_NAMES: Final = {TOPIC_RESOURCE: "topic", BROKER_RESOURCE: "broker", BROKER_LOGGER_RESOURCE: "broker-logger",
                         CLIENT_METRICS_RESOURCE: "client-metrics", GROUP_RESOURCE: "group"}


def collision_key(name: str) -> str | None:
    """Return the same key for any two topic names that may not exist together; None for a name that collides with no
    other."""
    return name.replace(".", "_") if "." in name or "_" in name else None


class Resource(NamedTuple):
    """Owner of a config. The cluster-wide broker settings have the type BROKER_RESOURCE and the name ""."""

    type: int
    name: str


CLUSTER_DEFAULT: Final = Resource(BROKER_RESOURCE, "")


class Endpoint(NamedTuple):
    """Listener of a node. `security_protocol` is Kafka's id (0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL)."""

    name: str
    host: str
    port: int
    security_protocol: int


class Levels(NamedTuple):
    """Levels of a feature that a node supports, both inclusive."""

    minimum: int
    maximum: int


@immutable
class BrokerRegistration:
    """Broker as it registered, with the controller's changes since."""

    broker_id: int
    epoch: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, Levels]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    is_migrating_zk_broker: bool
    log_dirs: tuple[UUID, ...]
    cordoned_log_dirs: tuple[UUID, ...] | None

    @property
    def active(self) -> bool:
        """Return whether it may lead and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown

    def has_online_dir(self, directory: UUID) -> bool:
        """Return whether replicas in that directory can be served, as far as the controller knows."""
        if not self.log_dirs or directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
            return True
        return directory in self.log_dirs

    def lacks(self, directory: UUID) -> bool:
        """Return whether a log in that directory cannot be among those of the broker: the broker registered other
        directories, or this one has failed since. A placeholder names no directory."""
        return bool(self.log_dirs) and directory.int >= RESERVED_IDS and directory not in self.log_dirs

    def default_directory(self) -> UUID:
        """Return the directory of a new replica: the only one of the broker, else a placeholder until the broker
        assigns one."""
        if not self.log_dirs:
            return MIGRATING_DIRECTORY
        return self.log_dirs[0] if len(self.log_dirs) == 1 else UNASSIGNED_DIRECTORY


@immutable
class ControllerRegistration:
    """Controller as it registered (KIP-919)."""

    controller_id: int
    incarnation_id: UUID
    zk_migration_ready: bool
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, Levels]


@immutable
class PartitionRegistration:
    """One partition. `leader` is NO_LEADER when there is none; `directories` is parallel to `replicas`.

    `elr`: replicas outside the ISR that have all committed records. `last_known_elr`: the leader of the time when the
    ISR became empty. When the log of that replica was lost since: the replicas that may have the records instead.
    """

    replicas: tuple[int, ...]
    directories: tuple[UUID, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    leader_recovery_state: int = RECOVERED
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def reassigning(self) -> bool:
        return bool(self.removing_replicas or self.adding_replicas)

    def directory_of(self, broker_id: int) -> UUID:
        """Return the directory of the replica of that broker."""
        return self.directories[self.replicas.index(broker_id)]


@immutable
class TopicImage:
    """Topic with its partitions by index."""

    name: str
    topic_id: UUID
    partitions: Mapping[int, PartitionRegistration]


# Entity of a client quota: (type, name) pairs as written in the record; name None is the default entity.
QuotaEntity = tuple[tuple[str, str | None], ...]


# Everything in the record of an ACL but its id: type, pattern type and name of the resource, principal, host,
# operation, permission. `kraft.security.acls.Acl` is one.
AclContent = tuple[int, int, str, str, str, int, int]


def acl_content(record: AccessControlEntryRecord) -> AclContent:
    """Return what the record of an ACL says."""
    return (record.resource_type, record.pattern_type, record.resource_name, record.principal, record.host,
            record.operation, record.permission_type)


@immutable
class MetadataImage:
    """State of the cluster after all records up to and including `offset` (-1: before any).

    ACLs, SCRAM credentials and delegation tokens are stored as their records. `acl_ids` finds ACLs by what they say: no
    two say the same, unless another program wrote the log. `colliding`: names that have a "." or a "_", by the name
    with every "." as "_", because metrics cannot distinguish such names.
    """

    offset: int = -1
    epoch: int = -1
    timestamp_ms: int = -1
    features: Mapping[str, int] = field(default_factory=dict)
    zk_migration_state: int = 0
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    controllers: Mapping[int, ControllerRegistration] = field(default_factory=dict)
    topics: Mapping[UUID, TopicImage] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    colliding: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    configs: Mapping[Resource, Mapping[str, str]] = field(default_factory=dict)
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    next_producer_id: int = -1
    acls: PersistentMap[UUID, AccessControlEntryRecord] = field(default_factory=PersistentMap)
    acl_ids: PersistentMap[AclContent, UUID] = field(default_factory=PersistentMap)
    scram: Mapping[tuple[int, str], UserScramCredentialRecord] = field(default_factory=dict)
    delegation_tokens: Mapping[str, DelegationTokenRecord] = field(default_factory=dict)

    @property
    def metadata_version(self) -> MetadataVersion:
        """Level in force; a log that names none is of the oldest."""
        return BY_LEVEL[self.features.get(METADATA_VERSION, MINIMUM.level)]

    @property
    def elr_enabled(self) -> bool:
        return self.features.get(ELR_VERSION, 0) > 0

    def topic(self, name: str) -> TopicImage | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def topic_name(self, topic_id: UUID) -> str | None:
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.name

    def partition(self, name: str, index: int) -> PartitionRegistration | None:
        topic = self.topic(name)
        return None if topic is None else topic.partitions.get(index)

    def partitions(self) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
        """Yield all partitions of all topics, in the image's order."""
        for topic in self.topics.values():
            for index, partition in topic.partitions.items():
                yield topic, index, partition

    def config(self, resource: Resource) -> Mapping[str, str]:
        """Return the values set for a resource; empty when none is."""
        return self.configs.get(resource, {})

    def topic_config(self, name: str) -> Mapping[str, str]:
        return self.config(Resource(TOPIC_RESOURCE, name))

    def state(self) -> "MetadataImage":
        """Return the image without its position in the log: equal states compare as equal, whatever led to them."""
        return replace(self, offset=-1, epoch=-1, timestamp_ms=-1)


EMPTY: Final = MetadataImage()
