"""State of one broker that its handlers read: the cluster's metadata, its partitions, its coordinators."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from kraft.broker.api import Answer, RequestContext, Steps
from kraft.broker.apply_faults import ApplyFaults
from kraft.broker.client_telemetry import ClientTelemetry
from kraft.broker.groups.coordinator import GroupCoordinator
from kraft.broker.leader_checks import LeaderChecks
from kraft.broker.ports import (
    ControllerPort,
    LogDirPort,
    LoggerPort,
    MovePort,
    RecorderPort,
    SharePersister,
    StoragePort,
)
from kraft.broker.producer_ids import ProducerIds
from kraft.broker.request_parts import serve_in_parts
from kraft.broker.topic_creations import TopicCreations
from kraft.broker.transactions.coordinator import TransactionCoordinator
from kraft.config.effective import BrokerLayers, Source, broker_value, topic_value
from kraft.config.node_config import CORDONED, EVERY_DIRECTORY, Endpoint, NodeConfig
from kraft.config.setting import Value
from kraft.metadata.delta import MetadataDelta, PartitionChange
from kraft.metadata.image import (
    BROKER_RESOURCE,
    CLUSTER_DEFAULT,
    NO_LEADER,
    MetadataImage,
    PartitionRegistration,
    Resource,
)
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from kraft.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from kraft.security.audit.sink import AccessAudit
from kraft.security.authorizer import Authorizer
from kraft.security.principal import Client
from kraft_native.partition.cold_read import ColdReader
from kraft_native.partition.partition import Partition
from kraft_native.partition.table import PartitionTable

if TYPE_CHECKING:
    from kraft.broker.share_state.coordinator import ShareCoordinator

ALLOCATE_PRODUCER_IDS_VERSION: Final = 0


class Led(NamedTuple):
    """Epoch of a broker and the time when this broker learned that a leadership moved away from it."""

    epoch: int
    until_ms: int


class _Settings(NamedTuple):
    """Cache of the values of broker settings, under one image."""

    image: MetadataImage
    values: dict[str, Value]


@dataclass
class Broker:
    """One broker. Loop thread only. `image` is the committed metadata that this broker has applied."""

    config: NodeConfig
    cluster_id: str
    table: PartitionTable
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    controller: ControllerPort
    log_dirs: LogDirPort
    image: MetadataImage
    telemetry: ClientTelemetry
    cold_reader: ColdReader
    loggers: LoggerPort
    leaders: LeaderChecks
    """Checks of leaders before an answer names them."""
    authorizer: Authorizer | None = None
    """Decides what clients may do; None: everything is allowed."""
    access_audit: AccessAudit | None = None
    """Receives what the authorizer decides; None: nothing does."""
    share_state: "ShareCoordinator | None" = None
    """Coordinator of the states of share partitions; None before their topic exists."""
    share_persister: SharePersister | None = None
    """The way to the share coordinators of all brokers; None while there is none."""
    moves: MovePort = field(init=False)
    recorder: RecorderPort = field(init=False)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    """Endpoints that clients of each listener are given, with real ports."""
    epoch: int = -1
    """The epoch of this broker's registration; -1 before it."""
    producer_ids: ProducerIds = field(init=False)
    topic_creations: TopicCreations = field(init=False)
    """Creations of topics that clients wait for."""
    led: dict[int, Led] = field(default_factory=dict)
    """Last time that a leadership was moved away from each broker, by id."""
    faults: ApplyFaults = field(default_factory=ApplyFaults)
    """Committed metadata that cannot be applied here."""
    storage: StoragePort = field(init=False)
    check_security: Callable[[BrokerLayers], None] = field(default=lambda _layers: None)
    """Raises a `KraftError` for settings of TLS and SASL that the listeners could not use."""
    unserved: Container[tuple[str, int]] = ()
    """Replicas here whose log cannot be opened, or failed."""

    _settings: _Settings = field(init=False)

    def __post_init__(self) -> None:
        self._settings = _Settings(self.image, {})
        self.producer_ids = ProducerIds(self._request_producer_ids)
        self.topic_creations = TopicCreations(self)

    def attach_replicas(self, storage: StoragePort, moves: MovePort, recorder: RecorderPort,
                        unserved: Container[tuple[str, int]]) -> None:
        """Connect the broker to the manager of its replicas, which needs the broker to be created."""
        self.storage, self.moves, self.recorder, self.unserved = storage, moves, recorder, unserved

    def _request_producer_ids(self, now_ms: int) -> None:
        def allocated(response: Message) -> None:
            assert isinstance(response, AllocateProducerIdsResponse)
            if response.error_code == ErrorCode.NONE:
                self.producer_ids.refill(response.producer_id_start, response.producer_id_len, now_ms)
            else:
                self.producer_ids.refused()

        request = AllocateProducerIdsRequest(broker_id=self.node_id, broker_epoch=self.epoch)
        self.submit(request, ALLOCATE_PRODUCER_IDS_VERSION, now_ms, allocated)

    @property
    def node_id(self) -> int:
        return self.config.node_id

    def note_led(self, delta: MetadataDelta, now_ms: int, changes: Iterable[PartitionChange] | None = None) -> None:
        """Remember the brokers that lead fewer partitions after one committed change. `changes`: some of the delta's
        changes; None: all."""
        for change in delta.partition_changes() if changes is None else changes:
            before, after = change.before, change.after
            if before is not None and after is not None and before.leader not in (NO_LEADER, after.leader):
                leader = delta.image.brokers.get(before.leader)
                if leader is not None:
                    self.led[leader.broker_id] = Led(leader.epoch, now_ms)

    def submit(self, request: Message, version: int, now_ms: int, answer: Callable[[Message], None],
               client: Client | None = None) -> None:
        """Pass a request on to the active controller. See `ControllerPort`."""
        self.controller.submit(request, version, now_ms, answer, client)

    def submit_steps(self, request: Message, context: RequestContext, answer: Answer,
                     version: int | None = None) -> Steps:
        """Submit a client's request in steps; one with many elements is sent in parts. `version` replaces the client's
        version of the request."""
        def send(part: Message, answer_part: Answer) -> None:
            self.submit(part, context.version if version is None else version, context.now_ms, answer_part,
                        context.client)

        return serve_in_parts(request, send, answer, context.run, self._too_many, self.image)

    def _too_many(self, request: Message, why: str) -> Message:
        return self.controller.refuse(request, ErrorCode.POLICY_VIOLATION, why)

    def layers(self) -> BrokerLayers:
        """Return this broker's settings in force, dynamic ones over the node's file."""
        return self.config.layers(self.image.config(Resource(BROKER_RESOURCE, str(self.node_id))),
                                  self.image.config(CLUSTER_DEFAULT))

    def setting(self, name: str) -> Value:
        """Return the value in force of a broker setting."""
        if self._settings.image is not self.image:
            self._settings = _Settings(self.image, {})
        values = self._settings.values
        if name not in values:
            values[name] = broker_value(name, self.layers()).value
        return values[name]

    def integer(self, name: str) -> int:
        """Return the value in force of a whole-number setting."""
        value = self.setting(name)
        assert isinstance(value, int), f"{name} is not a whole number"
        return value

    def own_integer(self, name: str) -> int | None:
        """Return the value of a whole-number setting that is set for this broker; None where it has the default."""
        found = broker_value(name, self.layers())
        if found.source is Source.DEFAULT:
            return None
        assert isinstance(found.value, int), f"{name} is not a whole number"
        return found.value

    def is_cordoned(self, path: str) -> bool:
        """Return whether the log directory gets no new replicas (KIP-1066). None is cordoned below the metadata.version
        that supports this."""
        if not self.image.metadata_version.cordoned_log_dirs:
            return False
        names = self.setting(CORDONED)
        return isinstance(names, list) and (EVERY_DIRECTORY in names or Path(path).absolute() in
                                            [Path(name).absolute() for name in names])

    def topic_setting(self, topic: str, name: str) -> Value:
        """Return the value in force of a topic's setting."""
        return topic_value(name, self.image.topic_config(topic), self.layers()).value

    def partition(self, topic: str, index: int) -> Partition | None:
        """Return the local replica of a partition; None when this broker has none."""
        return self.table.get(topic, index)

    def absence(self, topic: str, index: int) -> ErrorCode:
        """Return why `partition` returns None: the replica is elsewhere, it cannot be served, or the partition does not
        exist."""
        known = self.image.partition(topic, index)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else self._why_unserved(topic, index, known)

    def _why_unserved(self, topic: str, index: int, known: PartitionRegistration) -> ErrorCode:
        """Return the error for a replica that this broker does not serve. A failed log is a storage error until another
        replica leads, which clients find in the metadata."""
        failed = known.leader in (NO_LEADER, self.node_id) and (topic, index) in self.unserved
        return ErrorCode.KAFKA_STORAGE_ERROR if failed else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def absence_by_key(
        self, key: bytes, by_id: bool
    ) -> tuple[ErrorCode, str, Mapping[int, PartitionRegistration] | None, Container[tuple[str, int]], int]:
        """Return the same for all partitions of a topic, by the bytes of its id or name as requests carry it. See
        `PartitionTable.explain`."""
        topic = (self.image.topics.get(UUID(bytes=key)) if by_id
                 else self.image.topic(key.decode(errors="replace")))
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return code, "", None, (), self.node_id
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic.name, topic.partitions, self.unserved, self.node_id

    def topic_overrides(self, topic: str) -> Mapping[str, str]:
        """Return the settings that are set for a topic itself."""
        return self.image.topic_config(topic)
