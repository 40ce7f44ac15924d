"""Quorums of controllers of both kinds, ours and Kafka's, and the queries that both answer."""

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kraft.client import Cluster
from kraft.client.connection import Connection, ConnectionFailedError
from kraft.client.quorum import Description, QuorumClient, Replica
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.ids import id_text
from kraft.runtime.storage.formatting import random_id
from tests.integration.admin import wait_until
from tests.integration.history import check_same_logs, log_batches, propose, proposed
from tests.integration.quorum import CLUSTER_ID, ControllerProcess
from tests.peer.kafka import QUICK_START, KafkaProcess, java
from tests.ports import free_ports

SECONDS: Final = 60.0
OURS: Final = "o"
JAVA: Final = "j"


class JavaController(KafkaProcess):
    """A controller of Kafka's, of the same form as a `ControllerProcess`: both can be members of one quorum."""

    def __init__(self, directory: Path, node_id: int, port: int, settings: dict[str, str]) -> None:
        self.directory = directory
        self.node_id = node_id
        self.controller_port = port
        self.controller_address = f"127.0.0.1:{port}"
        self.directory_id = random_id(uuid.uuid4)
        self.voter = f"{node_id}@{self.controller_address}:{id_text(self.directory_id)}"
        super().__init__(directory.with_name(f"{directory.name}-home"), {
            "process.roles": "controller", "node.id": str(node_id), "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://{self.controller_address}", "log.dirs": str(directory), **settings},
            "256m", QUICK_START)

    def format(self, *options: str, cluster_id: str = CLUSTER_ID) -> None:
        super().format(*options, cluster_id=cluster_id)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def log(self) -> str:
        return "".join(self.output)

    def alarms(self) -> list[str]:
        """Lines in which Kafka reports that it must stop. Some of its errors are ordinary: a refused request."""
        return [line for line in self.output if "fatal" in line.lower()]


Controller = ControllerProcess | JavaController


class MixedQuorum:
    """Controllers 1, 2, ... of the given kinds, "o" for ours and "j" for Kafka's; the first `voters` of them vote."""

    def __init__(self, directory: Path, kinds: str, *, voters: int | None = None, **settings: str) -> None:
        ports = free_ports(len(kinds))
        self.directory = directory
        self.settings = {
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports),
            **{name.replace("_", "."): value for name, value in settings.items()}}
        self.nodes: dict[int, Controller] = {}
        for node_id, (kind, port) in enumerate(zip(kinds, ports, strict=True), 1):
            home = directory / str(node_id)
            self.nodes[node_id] = (
                ControllerProcess(home, node_id, port, self.settings, is_broker=False) if kind == OURS
                else JavaController(home, node_id, port, self.settings))
        first = list(self.nodes.values())[:voters]
        for node in self.nodes.values():
            if node in first:
                node.format("--initial-controllers", ",".join(each.voter for each in first))
            else:
                node.format("--no-initial-controllers")
        self.names: list[str] = []
        """Committed proposals."""

    def launch(self, node_ids: Iterable[int] | None = None) -> None:
        for node_id in node_ids or self.nodes:
            self.nodes[node_id].launch()

    @property
    def running(self) -> list[Controller]:
        return [node for node in self.nodes.values() if node.running]

    def client(self, nodes: Iterable[Controller] | None = None) -> QuorumClient:
        """A client of the running nodes, or only of `nodes`."""
        addresses = ",".join(node.controller_address for node in nodes or self.running)
        return QuorumClient(Cluster(addresses, timeout=SECONDS))

    def describe(self) -> Description:
        return self.client().describe()

    @property
    def leader(self) -> Controller:
        return self.nodes[self.describe().leader]

    def voters(self) -> list[int]:
        return [each.node_id for each in self.describe().voters]

    def replica(self, node_id: int) -> Replica:
        """Return a replica as the leader knows it, once it fetches."""
        def known() -> list[Replica]:
            return [each for each in self.describe().replicas if each.node_id == node_id and each.fetch_ms >= 0]
        wait_until(lambda: bool(known()), f"node {node_id} fetches", SECONDS)
        return known()[0]

    def add(self, node_id: int) -> None:
        """Send AddRaftVoter for a controller that follows."""
        self.client().add(node_id, self.replica(node_id).directory_id,
                          [("CONTROLLER", "127.0.0.1", self.nodes[node_id].controller_port)])

    def commit(self, count: int = 5) -> None:
        """Propose until `count` more are committed; repeat while there is no leader."""
        for _ in range(count):
            name = f"name-{len(self.names)}"
            attempts = iter(range(10**6))
            wait_until(lambda name=name, attempts=attempts: self._commit(f"{name}.{next(attempts)}"),
                       f"{name} is committed", SECONDS)

    def _commit(self, name: str) -> bool:
        try:
            leader = self.leader
            with Connection("127.0.0.1", leader.controller_port, timeout=5.0) as connection:
                done = propose(connection, name) is ErrorCode.NONE
        except ConnectionFailedError:
            return False
        if done:
            self.names.append(name)
        return done

    def await_all(self) -> int:
        """Wait until every running node has everything that is committed; return their high watermark."""
        committed = 0

        def reached() -> bool:
            nonlocal committed
            found = self.describe()
            committed = found.high_watermark
            have = {each.node_id for each in found.replicas if each.log_end_offset >= committed}
            return have >= {node.node_id for node in self.running}
        wait_until(reached, "all nodes have what is committed", SECONDS)
        return committed

    def check_logs(self) -> int:
        """Check that all nodes have the same log with everything that was committed; return the number of batches."""
        committed = self.await_all()
        nodes = self.running
        for node in nodes:
            offsets = proposed(log_batches(node.directory, committed))
            assert [name for name in self.names if name not in offsets] == []
            order = [offsets[name] for name in self.names]
            assert order == sorted(order)
        return check_same_logs([node.directory for node in nodes], committed)

    def close(self) -> None:
        for node in self.nodes.values():
            node.kill()


@contextmanager
def mixed_quorum(directory: Path, kinds: str, *, voters: int | None = None,
                 **settings: str) -> Iterator[MixedQuorum]:
    """Controllers that are formatted, not started; killed at the end."""
    quorum = MixedQuorum(directory, kinds, voters=voters, **settings)
    try:
        yield quorum
    finally:
        quorum.close()


def metadata_quorum(controller: str, *arguments: str) -> str:
    """Run `kafka-metadata-quorum --bootstrap-controller`."""
    return java("org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-controller", controller, *arguments)
