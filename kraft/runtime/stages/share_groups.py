"""Share coordinator of a broker, and its way to those of other brokers. Both are imported and created when they are
needed: most nodes have no share groups."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kraft.broker.internal_topics import SHARE_STATE_TOPIC
from kraft.broker.share_state.config import ShareCoordinatorConfig
from kraft.config.setting import Value
from kraft.metadata.delta import MetadataDelta
from kraft.protocol.message import Message
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.net.requests import now_ms
from kraft.runtime.replicas.coordinator_driver import CoordinatorAppends, CoordinatorDriver
from kraft_native.base.errors import KraftError

if TYPE_CHECKING:
    from kraft.runtime.replicas.share_persister import StatePersister
    from kraft.runtime.stages.broker_core import BrokerCore

log = logging.getLogger(__name__)


class ShareGroups:
    """Parts of a broker for the states of share groups. Loop thread only. It is the broker's `SharePersister`."""

    def __init__(self, core: "BrokerCore", dialer: Dialer, on_failure: Callable[[BaseException], object]) -> None:
        self._core = core
        self._dialer = dialer
        self._on_failure = on_failure
        self._appends = CoordinatorAppends(
            SHARE_STATE_TOPIC, core.broker.table, now_ms,
            core.broker.config.integer("share.coordinator.state.topic.compression.codec"))
        self._persister: StatePersister | None = None
        self._driver: CoordinatorDriver | None = None

    def send(self, request: Message, answer: Callable[[Message], None]) -> None:
        """See `SharePersister`."""
        if self._persister is None:
            from kraft.runtime.replicas.share_persister import StatePersister
            self._persister = StatePersister(self._core.broker, self._dialer, self._serve_here, now_ms,
                                             self._on_failure)
        self._persister.send(request, answer)

    def close(self) -> None:
        """Stop the coordinator, and send nothing further."""
        if self._persister is not None:
            self._persister.close()
        if self._driver is not None:
            self._driver.close()

    def show(self) -> None:
        """Adapt to the broker's image: there is a coordinator once its topic exists."""
        broker = self._core.broker
        count = self._core.image_topics.partition_count(SHARE_STATE_TOPIC)
        if broker.share_state is None and count is not None:
            self._create_coordinator()
        if broker.share_state is not None:
            broker.share_state.partition_count = count

    def applied(self, delta: MetadataDelta) -> None:
        """Delete the states of deleted topics, after a committed change was applied."""
        coordinator = self._core.broker.share_state
        deleted = [] if coordinator is None else [topic.topic_id for topic in delta.removed_topics()]
        if coordinator is not None and deleted:
            coordinator.topics_deleted(deleted, now_ms())

    def reconfigure(self) -> None:
        """Apply the broker's settings."""
        if self._core.broker.share_state is not None:
            self._core.broker.share_state.config = share_config(self._core.broker.setting)

    def _create_coordinator(self) -> None:
        from kraft.broker.share_state.coordinator import ShareCoordinator
        broker = self._core.broker
        broker.share_state = self._appends.coordinator = ShareCoordinator(
            share_config(broker.setting), self._appends, self._core.image_topics, self._prune)
        self._driver = self._core.coordinators[SHARE_STATE_TOPIC] = CoordinatorDriver(
            broker.share_state, self._appends, now_ms, self._on_failure, broker.cold_reader,
            load_bytes=broker.integer("share.coordinator.load.buffer.size"))

    def _serve_here(self, request: Message, respond: Callable[[Message], None]) -> bool:
        """Serve a request of this node by its own coordinator. Return False when it has none."""
        from kraft.broker.share_state.coordinator import OWN_CONTEXT
        coordinator = self._core.broker.share_state
        if coordinator is None:
            return False
        coordinator.handle(request, OWN_CONTEXT, respond, now_ms())
        self._core.schedule()
        return True

    def _prune(self, partition: int, before_offset: int) -> None:
        """Remove records of the topic that nothing needs."""
        found = self._core.broker.table.get(SHARE_STATE_TOPIC, partition)
        if found is None or not found.is_leader or before_offset <= found.log.log_start_offset:
            return
        try:
            found.delete_records(before_offset)
        except KraftError as error:
            log.warning("%r cannot be pruned up to offset %d: %s", found, before_offset, error)


def share_config(setting: Callable[[str], Value]) -> ShareCoordinatorConfig:
    """Settings of the share coordinator, from those that `setting` returns by name."""
    def number(name: str) -> int:
        value = setting(name)
        assert isinstance(value, int), f"{name} is not a whole number"
        return value

    return ShareCoordinatorConfig(
        updates_per_snapshot=number("share.coordinator.snapshot.update.records.per.snapshot"),
        commit_timeout_ms=number("share.coordinator.write.timeout.ms"),
        cold_interval_ms=number("share.coordinator.cold.partition.snapshot.interval.ms"),
        prune_interval_ms=number("share.coordinator.state.topic.prune.interval.ms"))
