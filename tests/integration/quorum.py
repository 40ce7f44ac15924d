"""Controllers in processes of their own, and requests to them."""

import socket
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kraft.cli.command import run
from kraft.client import Cluster
from kraft.client.connection import Connection
from kraft.client.quorum import Description, QuorumClient
from kraft.metadata.versions import SUPPORTED
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.ids import id_text
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from kraft.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.runtime.storage.formatting import random_id
from tests.integration.process import NodeProcess
from tests.ports import free_ports

CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
SECONDS: Final = 30.0
BROKER: Final = 100
DOOR: Final = socket.create_server(("127.0.0.1", 0))
"""Address of a broker that is only a registration: it accepts connections, which is what controllers probe."""


class MemberProcess(NodeProcess):
    """A node of a cluster of several; `settings` define its roles."""

    def __init__(self, directory: Path, node_id: int, settings: dict[str, str]) -> None:
        super().__init__(directory, {"node.id": str(node_id), "controller.listener.names": "CONTROLLER", **settings})
        self.node_id = node_id

    def format(self, *options: str, cluster_id: str = CLUSTER_ID) -> None:
        """Run `kraft storage format`; for an empty `cluster_id` the first leader creates the id."""
        given = [f"--cluster-id={cluster_id}"] if cluster_id else []
        code = run(["storage", "format", f"--data={self.data}", *given, *options,
                    *(f"--set={name}={value}" for name, value in self.settings.items())])
        assert code == 0, f"format {options} ended with {code}"


class ControllerProcess(MemberProcess):
    """A controller, and with `is_broker` a broker beside it."""

    def __init__(self, directory: Path, node_id: int, port: int, settings: dict[str, str], *, is_broker: bool) -> None:
        super().__init__(directory, node_id, {
            "process.roles": "broker,controller" if is_broker else "controller",
            "listeners": ("PLAINTEXT://127.0.0.1:0," if is_broker else "") + f"CONTROLLER://127.0.0.1:{port}",
            **settings})
        self.is_broker = is_broker
        self.controller_port = port
        self.directory_id = random_id(uuid.uuid4)

    def move(self, port: int) -> None:
        """Use another port from the next start on."""
        self.controller_port = port
        self.settings["listeners"] = ("PLAINTEXT://127.0.0.1:0," if self.is_broker else "") + (
            f"CONTROLLER://127.0.0.1:{port}")

    def _options(self) -> list[str]:
        return super()._options() if self.is_broker else []

    def _ready(self, message: dict[str, Any]) -> None:
        assert message["listeners"]["CONTROLLER"] == self.controller_address
        if self.is_broker:
            super()._ready(message)

    @property
    def controller_address(self) -> str:
        return f"127.0.0.1:{self.controller_port}"

    @property
    def voter(self) -> str:
        """Return the voter in the form of `--initial-controllers`."""
        return f"{self.node_id}@{self.controller_address}:{id_text(self.directory_id)}"


class Quorum:
    """Controllers that know each other by `controller.quorum.bootstrap.servers`, or with `static` by the voters named.
    `session_ms` is how long a broker may be unresponsive, and how long a killed one cannot come back."""

    def __init__(self, directory: Path, count: int, *, voters: int | None = None, static: bool = False,
                 is_broker: bool = False, session_ms: int = 60_000, directories: int = 1,
                 cluster_id: str = CLUSTER_ID) -> None:
        ports = free_ports(count)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        known = ",".join(f"{number}@{each}" for number, each in enumerate(addresses, 1))
        self.settings = ({"controller.quorum.voters": known} if static
                         else {"controller.quorum.bootstrap.servers": ",".join(addresses)})
        self.settings |= {"broker.session.timeout.ms": str(session_ms), "broker.heartbeat.interval.ms": "500"}
        self.directory = directory
        self.nodes = {node_id: ControllerProcess(directory / str(node_id), node_id, port, self.settings,
                                                 is_broker=is_broker)
                      for node_id, port in enumerate(ports, 1)}
        first = list(self.nodes.values())[:voters]
        for node in self.nodes.values():
            node.directories += [directory / f"{node.node_id}-{number}" for number in range(2, directories + 1)]
        for node in self.nodes.values():
            if static:
                node.format()
            elif node in first:
                node.format(f"--initial-controllers={','.join(each.voter for each in first)}", cluster_id=cluster_id)
            else:
                node.format("--no-initial-controllers")

    def start(self, node_ids: Iterable[int] | None = None) -> None:
        """Start the controllers side by side."""
        nodes = [self.nodes[node_id] for node_id in node_ids or self.nodes]
        for node in nodes:
            node.launch()
        for node in nodes:
            node.await_ready()

    @property
    def address(self) -> str:
        """Address that clients of its brokers bootstrap with."""
        return ",".join(node.address for node in self.nodes.values())

    def describe(self) -> Description:
        """Wait for a leader and return the quorum as the leader sees it."""
        return self.client().describe()

    def client(self, nodes: Iterable[ControllerProcess] | None = None, seconds: float = SECONDS) -> QuorumClient:
        """Return a client of all nodes, or only of `nodes`."""
        addresses = ",".join(node.controller_address for node in nodes or self.nodes.values())
        return QuorumClient(Cluster(addresses, timeout=seconds))

    def new_broker(self, node_id: int, *, cluster_id: str = CLUSTER_ID) -> MemberProcess:
        """Create a formatted broker beside the controllers."""
        broker = MemberProcess(self.directory / str(node_id), node_id, {"process.roles": "broker", **self.settings})
        broker.format(cluster_id=cluster_id)
        return broker

    @property
    def leader(self) -> ControllerProcess:
        return self.nodes[self.describe().leader]

    @property
    def others(self) -> list[ControllerProcess]:
        """Nodes that run and do not lead."""
        leader = self.leader
        return [node for node in self.nodes.values() if node.running and node is not leader]

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop()
            assert node.alarms() == []


MakeQuorum = Callable[..., Quorum]


def register_broker(node: ControllerProcess) -> None:
    """Register a broker that is nothing but its registration: topics need one to be placed on."""
    with Connection("127.0.0.1", node.controller_port) as connection:
        registered = connection.send(BrokerRegistrationRequest(
            broker_id=BROKER, cluster_id=CLUSTER_ID, incarnation_id=uuid.uuid4(), log_dirs=[random_id(uuid.uuid4)],
            listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=DOOR.getsockname()[1], security_protocol=0)],
            features=[Feature(name=name, min_supported_version=low, max_supported_version=high)
                      for name, (low, high) in SUPPORTED.items()],
        ), BrokerRegistrationResponse)
        assert registered.error_code == ErrorCode.NONE
        beaten = connection.send(BrokerHeartbeatRequest(
            broker_id=BROKER, broker_epoch=registered.broker_epoch, current_metadata_offset=registered.broker_epoch,
            want_fence=False), BrokerHeartbeatResponse)
        assert (beaten.error_code, beaten.is_fenced) == (ErrorCode.NONE, False)


def create_topic(node: ControllerProcess, name: str) -> tuple[int, UUID]:
    """Create a topic by a request to one controller. Return the error code and the topic's id."""
    request = CreateTopicsRequest(timeout_ms=10_000, topics=[
        CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
    with Connection("127.0.0.1", node.controller_port) as connection:
        found = connection.send(request, CreateTopicsResponse).topics[0]
    return found.error_code, found.topic_id


def topics_exist(node: ControllerProcess, names: Sequence[str]) -> bool:
    """Return whether a leader has all of these topics: it refuses to create them again."""
    return {create_topic(node, name)[0] for name in names} == {ErrorCode.TOPIC_ALREADY_EXISTS}
