"""Three combined nodes (broker and controller) on loopback, ours and Kafka's, started and queried as one server."""

from __future__ import annotations

import subprocess
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.commit.quorums import CLUSTER_ID
from bench.macro.servers import (
    HEAP,
    HERE,
    STOP_SECONDS,
    Process,
    await_brokers,
    compile_kraft,
    kraft_command,
    launch_kraft,
    terminate,
)
from kraft.protocol.ids import id_text
from kraft.runtime.storage.formatting import random_id
from tests.peer.kafka import KafkaProcess
from tests.ports import free_ports

NODES: Final = 3
# For clusters that are stopped while others are measured: their nodes must not consider each other dead.
PATIENT: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "600000", "controller.quorum.fetch.timeout.ms": "600000",
    "replica.lag.time.max.ms": "600000",
}
SETTINGS: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class _Cluster(ABC):
    """Cluster whose `start` returns the seconds from the launch of all nodes until each lists all three. `settings` are
    for all nodes."""

    name: str

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        ports = free_ports(2 * NODES)
        self.addresses = [f"127.0.0.1:{port}" for port in ports[:NODES]]
        controllers = [f"127.0.0.1:{port}" for port in ports[NODES:]]
        self.bootstrap = ",".join(self.addresses)
        self.homes = {node_id: home / str(node_id) for node_id in range(1, NODES + 1)}
        self.data = home
        self._voters = ",".join(f"{node_id}@{address}:{id_text(random_id(uuid.uuid4))}"
                                for node_id, address in enumerate(controllers, 1))
        self._settings = {
            node_id: {**SETTINGS, **settings, "node.id": str(node_id),
                      "listeners": f"PLAINTEXT://{address},CONTROLLER://{controller}",
                      "controller.quorum.bootstrap.servers": ",".join(controllers)}
            for node_id, (address, controller) in enumerate(zip(self.addresses, controllers, strict=True), 1)}
        self._processes: dict[int, Process] = {}
        for each in self.homes.values():
            each.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def _launch(self, node_id: int) -> Process: ...

    def start(self) -> float:
        begin = time.monotonic()
        self._processes = {node_id: self._launch(node_id) for node_id in self.homes}
        return await_brokers(self.addresses, list(self._processes.values()), NODES, begin)

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self._processes.values()]

    def pid_of(self, node_id: int) -> int:
        return self._processes[node_id].pid

    def kill(self) -> None:
        for node_id in self.homes:
            self.kill_node(node_id)

    def kill_node(self, node_id: int) -> None:
        """Kill the node, as if its machine had failed; `restart_node` starts it again."""
        process = self._processes.pop(node_id)
        process.kill()
        process.wait(STOP_SECONDS)

    def stop_node(self, node_id: int) -> None:
        """Stop the node gracefully, if it runs."""
        if (process := self._processes.pop(node_id, None)) is not None:
            terminate(process)

    def restart_node(self, node_id: int) -> None:
        """Restart the node, gracefully if it runs. When this returns it is launched but need not serve yet."""
        self.stop_node(node_id)
        self._processes[node_id] = self._launch(node_id)

    def await_node(self, node_id: int) -> None:
        """Wait, after a restart, until the node serves and lists all three."""
        await_brokers([self.addresses[node_id - 1]], [self._processes[node_id]], NODES, time.monotonic())

    def stop(self) -> None:
        for each in self._processes.values():
            terminate(each)


class KraftCluster(_Cluster):
    """Our cluster, as `kraft storage format` and `kraft server start` of a built checkout create it; of this one by
    default. Each node's messages from `log_level` on are in its directory (`OUTPUT_FILE`)."""

    name = "kraft"

    def __init__(self, home: Path, settings: Mapping[str, str] = PATIENT, checkout: Path = HERE,
                 log_level: str = "warning") -> None:
        super().__init__(home, settings)
        self._checkout = checkout
        self._log_level = log_level
        compile_kraft(checkout)
        for node_id in self.homes:
            subprocess.run([*kraft_command(checkout), "storage", "format", f"--cluster-id={CLUSTER_ID}",
                            f"--initial-controllers={self._voters}", *self._options(node_id)],
                           check=True, stdout=subprocess.DEVNULL, cwd=checkout)

    def _options(self, node_id: int) -> list[str]:
        return [f"--data={self.homes[node_id] / 'data'}",
                *(f"--set={name}={value}" for name, value in self._settings[node_id].items())]

    def _launch(self, node_id: int) -> subprocess.Popen[bytes]:
        return launch_kraft(self.homes[node_id], [*self._options(node_id), f"--log-level={self._log_level}"],
                            self._checkout)


class KafkaCluster(_Cluster):
    """Kafka's nodes with their defaults and 1 GiB of heap each. Their directories are formatted beforehand."""

    name = "kafka"

    def __init__(self, home: Path, settings: Mapping[str, str] = PATIENT) -> None:
        super().__init__(home, settings)
        self._nodes = {
            node_id: KafkaProcess(directory, {
                **self._settings[node_id], "log.dirs": str(directory / "data"),
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"}, HEAP)
            for node_id, directory in self.homes.items()}
        for node in self._nodes.values():
            node.format("--initial-controllers", self._voters, cluster_id=CLUSTER_ID)

    def _launch(self, node_id: int) -> subprocess.Popen[str]:
        return self._nodes[node_id].launch()

    def stop(self) -> None:
        for node in self._nodes.values():
            node.kill()
