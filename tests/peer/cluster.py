"""Clusters whose brokers and controllers are of both kinds, ours and Kafka's."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from kraft.client.cluster import Cluster
from kraft.client.configs import Change, Operation, alter_configs, setting
from kraft.client.security import current
from tests.integration.admin import metadata, wait_until
from tests.integration.process import DEFAULTS
from tests.integration.quorum import CLUSTER_ID, ControllerProcess, MemberProcess
from tests.integration.test_replication import segments
from tests.peer.kafka import QUICK_START, KafkaProcess
from tests.peer.quorum import OURS, SECONDS, JavaController, MixedQuorum
from tests.ports import free_ports

# Small clusters: their internal topics have few partitions, each on all brokers; a dead broker is noticed soon.
SETTINGS: Final = {
    "offsets.topic.num.partitions": "3", "broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "300",
    "group.initial.rebalance.delay.ms": "0", "share.coordinator.state.topic.num.partitions": "1",
}

MARK: Final = ("group", "mark", "consumer.session.timeout.ms")
"""A setting that no tool prints: kind and name of its resource, and its own name."""
MARK_VALUES: Final = ("45000", "45001")

PROTOCOLS: Final = {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"}


class JavaBroker(KafkaProcess):
    """A broker of Kafka's, of the same form as a `MemberProcess`."""

    def __init__(self, directory: Path, node_id: int, settings: dict[str, str]) -> None:
        self.directory = directory
        self.node_id = node_id
        self.port, = free_ports(1)
        self.address = f"127.0.0.1:{self.port}"
        directories = f"{directory},{directory}-more"       # so that it reports the directories of its replicas
        super().__init__(directory.with_name(f"{directory.name}-home"), {
            "process.roles": "broker", "node.id": str(node_id), "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address}", "log.dirs": directories, **PROTOCOLS, **settings},
            "384m", QUICK_START)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def format(self) -> None:  # type: ignore[override]  # a broker has one way
        super().format("--no-initial-controllers", cluster_id=CLUSTER_ID)

    def alarms(self) -> list[str]:
        """Lines in which Kafka reports that it must stop, or that it cannot interpret a record or an answer."""
        return [line for line in self.output if "fatal" in line.lower() or "Unexpected error" in line]

    def log(self) -> str:
        return "".join(self.output)


class JavaNode(JavaController):
    """A node of Kafka's of both roles, of the same form as a `ControllerProcess`."""

    def __init__(self, directory: Path, node_id: int, port: int, settings: dict[str, str]) -> None:
        self.port, = free_ports(1)
        self.address = f"127.0.0.1:{self.port}"
        super().__init__(directory, node_id, port, {
            "process.roles": "broker,controller", **PROTOCOLS,
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{port}", **settings})


Broker = MemberProcess | JavaBroker


class Replicas(NamedTuple):
    """Replicas of one partition, as a client sees them."""

    leader: int
    replicas: list[int]
    isr: list[int]


class MixedCluster:
    """Controllers 1, 2, ... and brokers 11, 12, ..., each "o" for ours or "j" for Kafka's."""

    def __init__(self, directory: Path, controllers: str, brokers: str, **settings: str) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.quorum = MixedQuorum(directory, controllers, **{**SETTINGS, **named})
        self.brokers: dict[int, Broker] = {}
        for node_id, kind in enumerate(brokers, 11):
            home, given = directory / str(node_id), self.quorum.settings
            broker = (MemberProcess(home, node_id, {"process.roles": "broker", **given}) if kind == OURS
                      else JavaBroker(home, node_id, given))
            broker.format()
            self.brokers[node_id] = broker
        self._admin: AdminClient | None = None

    def start(self) -> None:
        self.quorum.launch()
        self.start_brokers(self.brokers)

    def start_brokers(self, node_ids: Iterable[int]) -> None:
        """Start all nodes in parallel."""
        brokers = [self.brokers[node_id] for node_id in node_ids]
        for broker in brokers:
            broker.launch()
        for broker in brokers:
            broker.await_ready()

    @property
    def address(self) -> str:
        """Bootstrap address of clients."""
        return ",".join(each.address for each in self.brokers.values() if each.running)

    @property
    def admin(self) -> AdminClient:
        """A client that knows all brokers, so that it outlives each of them. Its security is the current one."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.address, "log_level": 2,
                                       **current().library_settings()})
        return self._admin

    def create(self, topic: str, assignments: list[list[int]], **config: str) -> None:
        made = self.admin.create_topics([NewTopic(topic, len(assignments), replica_assignment=assignments, config={
            name.replace("_", "."): value for name, value in config.items()})])
        made[topic].result(SECONDS)

    def replicas(self, topic: str, index: int = 0) -> Replicas:
        found = metadata(self.admin, topic).topics[topic].partitions[index]
        return Replicas(found.leader, sorted(found.replicas), sorted(found.isrs))

    def await_in_sync(self, topic: str) -> None:
        """Wait until every replica is in sync."""
        def in_sync() -> bool:
            partitions = metadata(self.admin, topic).topics[topic].partitions.values()
            return all(sorted(each.isrs) == sorted(each.replicas) for each in partitions)
        wait_until(in_sync, f"all replicas of {topic} are in sync", SECONDS)

    def end_of(self, topic: str, index: int = 0) -> int:
        """Offset that the next record gets."""
        where = TopicPartition(topic, index)
        return int(self.admin.list_offsets({where: OffsetSpec.latest()})[where].result(SECONDS).offset)

    def log_of(self, node_id: int, topic: str, index: int) -> bytes:
        """Bytes of a broker's replica, from any of its directories; empty when it has none."""
        directory = self.brokers[node_id].directory
        return b"".join(segments(each, topic, index) for each in (directory, Path(f"{directory}-more")))

    def check_logs(self, topic: str, index: int = 0) -> None:
        """Wait until every replica has the same log, byte for byte."""
        owners = self.replicas(topic, index).replicas
        def same() -> bool:
            logs = [self.log_of(node_id, topic, index) for node_id in owners]
            return bool(logs[0]) and all(log == logs[0] for log in logs)
        wait_until(same, f"the logs of {topic}-{index} are the same", SECONDS)

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
        self.quorum.close()


@contextmanager
def mixed_cluster(directory: Path, controllers: str, brokers: str, **settings: str) -> Iterator[MixedCluster]:
    """A cluster that is formatted, not started; killed at the end."""
    cluster = MixedCluster(directory, controllers, brokers, **settings)
    try:
        yield cluster
    finally:
        cluster.close()


def our_node(directories: list[Path], node_id: int, port: int, settings: dict[str, str]) -> ControllerProcess:
    """A node of ours of both roles, with exactly the settings of a `JavaNode`."""
    own, = free_ports(1)
    node = ControllerProcess(directories[0], node_id, port, {
        **PROTOCOLS, **settings, "listeners": f"PLAINTEXT://127.0.0.1:{own},CONTROLLER://127.0.0.1:{port}"},
        is_broker=True)
    node.port = own
    node.directories = directories
    return node


class ThreeNodes:
    """Nodes 1, 2, 3 of both roles and of one kind, each with so many log directories.

    Both kinds have the same settings.
    """

    def __init__(self, directory: Path, kind: str, directories: int = 1) -> None:
        ports = free_ports(3)
        settings = {"controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports),
                    **DEFAULTS, **SETTINGS}
        self.nodes: list[ControllerProcess | JavaNode] = []
        self._marks = 0
        for node_id, port in enumerate(ports, 1):
            homes = [directory / f"{node_id}{'-more' * number}" for number in range(directories)]
            self.nodes.append(
                our_node(homes, node_id, port, settings) if kind == OURS else JavaNode(
                    homes[0], node_id, port, {**settings, "log.dirs": ",".join(map(str, homes))}))
        for node in self.nodes:
            node.format("--initial-controllers", ",".join(each.voter for each in self.nodes))

    @property
    def address(self) -> str:
        """Bootstrap address of clients."""
        return ",".join(node.address for node in self.nodes)

    @property
    def controller_addresses(self) -> str:
        return ",".join(node.controller_address for node in self.nodes)

    def await_same_metadata(self) -> None:
        """Wait until each node has applied every change that the controller has answered.

        The controller answers when a change is committed, and a client may read from a node that has not applied it.
        Records are applied in their order: a node that has the last one has the others.
        """
        kind, resource, name = MARK
        self._marks += 1
        value = MARK_VALUES[self._marks % len(MARK_VALUES)]
        with Cluster(self.address) as cluster:
            alter_configs(cluster, kind, resource, [Change(name, Operation.SET, value)])
        for node in self.nodes:
            with Cluster(node.address) as cluster:
                wait_until(lambda cluster=cluster: setting(cluster, kind, resource, name) == value,
                           f"node {node.node_id} has applied all changes", SECONDS)


@contextmanager
def three_nodes(directory: Path, kind: str, directories: int = 1) -> Iterator[ThreeNodes]:
    """A cluster that serves; killed at the end."""
    directory.mkdir()
    made = ThreeNodes(directory, kind, directories)
    try:
        for node in made.nodes:
            node.launch()
        for node in made.nodes:
            node.await_ready()
        yield made
    finally:
        for node in made.nodes:
            node.kill()
