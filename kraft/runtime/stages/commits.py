"""Committed changes of the metadata, applied to a broker one after the other: its view, its replicas, its settings."""

from collections.abc import Callable, Generator
from functools import partial
from itertools import islice

from kraft.broker.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from kraft.broker.replica_plan import PLANNED_STEP
from kraft.config.effective import broker_faults
from kraft.config.node_config import NodeConfig
from kraft.controller.local_broker import LocalBroker, State
from kraft.metadata.delta import MetadataDelta, PartitionChange
from kraft.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, BrokerRegistration, MetadataImage
from kraft.runtime.net.requests import now_ms
from kraft.runtime.quorum.broker_registration import ReplacedError
from kraft.runtime.quorum.control_plane import ControlPlane
from kraft.runtime.stages.broker_core import BrokerCore, group_config, transaction_config
from kraft.runtime.stages.data_path import DataPath
from kraft.runtime.stages.serving import Serving
from kraft.runtime.upkeep.housekeeping import Housekeeping


class Commits:
    """Application of committed changes to this node's broker. Loop thread only. `on_failure` is called when another
    process is this broker."""

    def __init__(self, config: NodeConfig, path: DataPath, control: ControlPlane, core: BrokerCore, serving: Serving,
                 housekeeping: Housekeeping, on_failure: Callable[[BaseException], object]) -> None:
        self._config = config
        self._path = path
        self._control = control
        self._core = core
        self._broker = core.broker
        self._serving = serving
        self._housekeeping = housekeeping
        self._on_failure = on_failure

    def start(self) -> None:
        """Apply the known image, then every later change. The changes wait until the logs are opened."""
        image = self._control.image
        self.show(image)
        attempt = self._broker.faults.attempt
        attempt("addresses of brokers", partial(self._learn_endpoints, image))
        attempt("client quotas", partial(self._path.limit_clients, image, image.quotas))
        self._apply_broker_settings()
        self._core.replicas.sort_out(image)
        self._core.changes.add(self._open_logs(image))
        self._control.subscribe(self._changed)

    def show(self, image: MetadataImage) -> None:
        """Switch what the handlers of requests and the coordinator read to this image."""
        self._broker.image = image
        registration = image.brokers.get(self._config.node_id)
        local = self._control.broker
        if (registration is not None and local is not None and local.is_own(registration)
                and registration.epoch != self._broker.epoch):
            self._broker.epoch = registration.epoch    # this node was unregistered and registered again
            self._core.replicas.replication.renew()
        self._core.image_topics.image = image
        self._broker.groups.partition_count = self._core.image_topics.partition_count(OFFSETS_TOPIC)
        self._broker.transactions.partition_count = self._core.image_topics.partition_count(TRANSACTION_TOPIC)
        self._core.share_groups.show()
        if self._broker.epoch >= 0:
            self._broker.producer_ids.follow(image.next_producer_id, now_ms())

    def _open_logs(self, image: MetadataImage) -> Generator[None]:
        yield from self._core.replicas.open_all(image)
        self._broker.leaders.applied(image)
        self._control.applied(MetadataDelta(image), image)

    def _changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply one committed change, after those before it. One of few partitions is applied at once."""
        local = self._control.broker
        assert local is not None
        if local.state is not State.REPLACED and (successor := local.successor(image)) is not None:
            self._make_way_for(local, successor)
        if local.state is not State.REPLACED:
            self._core.changes.add(self.apply(delta, image))

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> Generator[None]:
        """Apply one change in steps, replica by replica. What the brokers know of each other and what clients receive
        changes at once, before the first replica does. So a request may meet a replica whose change is still to come,
        as on a broker that learns of it a moment later."""
        found = delta.partition_changes()
        changes: list[PartitionChange] = []
        while part := list(islice(found, PLANNED_STEP)):
            self._broker.note_led(delta, now_ms(), part)
            changes += part
            yield
        self.show(image)
        yield from self._core.replicas.apply(delta, changes)
        deleted = [(topic.name, index) for topic in delta.removed_topics() for index in sorted(topic.partitions)]
        if deleted:
            self._broker.groups.partitions_deleted(deleted, now_ms())
            self._core.share_groups.applied(delta)
            self._core.schedule()
        self._apply_settings(delta, image)
        # Last: a client that learns of a new leader finds it leading.
        self._broker.leaders.applied(image)
        self._control.applied(delta, image)

    def _apply_settings(self, delta: MetadataDelta, image: MetadataImage) -> None:
        touched = list(delta.configs.touched)
        if any(resource.type == BROKER_RESOURCE for resource in touched):
            self._reconfigure_broker()
        else:
            self._core.replicas.reconfigure(sorted(each.name for each in touched if each.type == TOPIC_RESOURCE))
        attempt = self._broker.faults.attempt
        if self._core.share_delivery is not None and (touched or delta.features.touched):
            attempt("share groups", self._core.share_delivery.reconfigure)
        if delta.quotas.touched:
            attempt("client quotas", partial(self._path.limit_clients, image, delta.quotas.touched))
        if delta.features.touched:
            attempt("features", self._serving.publish_versions)
            attempt("cordoned log directories", self._cordon)    # none below the metadata.version that has them
        if delta.brokers.touched:
            attempt("addresses of brokers", partial(self._learn_endpoints, image))

    def _make_way_for(self, local: LocalBroker, successor: BrokerRegistration) -> None:
        """Stop, because another process is this broker now. It leads and follows the replicas; this process
        acknowledges nothing more."""
        local.give_up()
        self._core.changes.close()
        self._core.replicas.give_up_all()
        self._on_failure(ReplacedError(
            f"broker {successor.broker_id} is another process now: incarnation {successor.incarnation_id} has epoch "
            f"{successor.epoch}, this one is incarnation {local.incarnation_id} of epoch {self._broker.epoch}"))

    def _learn_endpoints(self, image: MetadataImage) -> None:
        """Install the address of each broker, for clients that send a request to the wrong one (KIP-951). The addresses
        are those of one listener. Where there are several listeners, clients request the metadata of theirs instead."""
        table, name = self._path.table, self._config.inter_broker_listener
        table.reports_endpoints = len(self._config.broker_listeners) == 1
        for broker in image.brokers.values():
            for endpoint in broker.endpoints:
                if endpoint.name == name:
                    table.set_endpoint(broker.broker_id, endpoint.host, endpoint.port, broker.rack)

    def _reconfigure_broker(self) -> None:
        """Apply a change of a broker setting. Every topic that may fall back to it is resolved again."""
        self._apply_broker_settings()
        self._core.replicas.reconfigure(sorted(self._broker.image.topic_ids))

    def _apply_broker_settings(self) -> None:
        """Apply the broker's settings. A feature that cannot follow its new settings keeps the current ones."""
        layers, faults = self._broker.layers(), self._broker.faults
        faults.note("broker settings", tuple(map(str, broker_faults(layers))))
        faults.attempt("settings of the coordinators", self._configure_coordinators)
        faults.attempt("limits of connections", partial(self._path.limit_connections, layers))
        faults.attempt("users and mechanisms of SASL", partial(self._serving.gates.reconfigure, layers))
        faults.attempt("TLS of the listeners", partial(self._path.configure_tls, layers))
        faults.attempt("cordoned log directories", self._cordon)
        faults.attempt("replication throttles", self._core.replicas.reconfigure_throttles)
        faults.attempt("rate of the log cleaner", self._housekeeping.cleaner.reconfigure)
        faults.attempt("verification of transactions", self._verify_transactions)

    def _verify_transactions(self) -> None:
        self._path.produce.verifies = self._core.checks.are_due

    def _configure_coordinators(self) -> None:
        self._broker.groups.config = group_config(self._broker.setting)
        self._broker.transactions.config = transaction_config(self._broker.setting)
        self._core.share_groups.reconfigure()

    def _cordon(self) -> None:
        self._control.cordon([each.directory_id for each in self._core.replicas.logs.directories
                              if self._broker.is_cordoned(str(each.path.absolute()))])
