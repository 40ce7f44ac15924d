"""Clusters that a campaign runs on: nodes of ours, and one node of Apache Kafka, the control. Clients reach each broker
by a relay, through a listener of their own."""

import os
import random
import signal
import time
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from kraft.local.addresses import ReservedPort
from kraft.local.cluster import LocalCluster
from kraft.local.errors import LocalNodeError
from tests.crash_cluster.faults import Faults, wait_until
from tests.crash_transactions.relay import Relay
from tests.integration.process import DEFAULTS
from tests.peer.kafka import QUICK_START, KafkaNode
from tests.ports import free_ports

CLIENTS: Final = "CLIENTS"
PROTOCOLS: Final = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT"
SETTINGS: Final = {
    "transaction.state.log.num.partitions": "3", "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "0",
}
CLUSTER_SETTINGS: Final = {
    **DEFAULTS, **SETTINGS, "min.insync.replicas": "2", "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2", "broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000", "controller.quorum.fetch.timeout.ms": "3000",
    "controller.quorum.election.timeout.ms": "1500", "leader.imbalance.check.interval.seconds": "5",
    "initial.broker.registration.timeout.ms": "600000",
}
KILL: Final = "kill -9"
PAUSE: Final = "pause"
PAUSE_SECONDS: Final = (0.2, 1.0, 5.0)


class Target(AbstractContextManager["Target"], Protocol):
    """A cluster with faults."""

    address: str
    """Bootstrap address of clients, through the relay."""
    direct: str
    """Bootstrap address without the relay."""
    replicas: int
    faults: Counter[str]
    relay: Relay

    def start(self) -> None: ...
    def strike(self, at_most: int) -> str:
        """Apply some faults, let time pass and heal them. Returns a description."""
        ...
    def check(self) -> None:
        """Raise when a node has ended by itself."""
        ...


class OurCluster:
    """Nodes of `kraft.local`, with the faults of `crash_cluster`. `address` is that of the clients."""

    def __init__(self, directory: Path, seed: int, *, brokers: int = 3, late_for_all: bool = False) -> None:
        self.cluster = LocalCluster(directory, brokers=brokers, controllers=0, settings={
            **CLUSTER_SETTINGS, **({} if brokers > 2 else {
                "min.insync.replicas": "1", "transaction.state.log.replication.factor": "1",
                "transaction.state.log.min.isr": "1"})})
        self.replicas = min(brokers, 3)
        self._ports = [ReservedPort(node.host) for node in self.cluster.brokers.values()]
        self.relay = Relay([(each.host, each.port) for each in self._ports], seed, late_for_all=late_for_all)
        for node, own, port in zip(self.cluster.brokers.values(), self._ports, self.relay.ports, strict=True):
            node.settings.update({
                "listeners": f"PLAINTEXT://{node.host}:{node.port},CONTROLLER://{node.controller_address},"
                             f"{CLIENTS}://{own.host}:{own.port}",
                "advertised.listeners": f"PLAINTEXT://{node.address},CONTROLLER://{node.controller_address},"
                                        f"{CLIENTS}://127.0.0.1:{port}",
                "listener.security.protocol.map": PROTOCOLS, "inter.broker.listener.name": "PLAINTEXT"})
        self.address = ",".join(f"127.0.0.1:{port}" for port in self.relay.ports)
        self.direct = self.cluster.bootstrap
        self.faults: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._faults = Faults(self.cluster, self._chance, self.faults)

    def start(self) -> None:
        self.cluster.start()

    def strike(self, at_most: int) -> str:
        faults = self._faults.draw(at_most)
        if faults:
            self._faults.inflict(faults)
            self._faults.hold()
            self._faults.heal(faults)
        brokers = list(self.cluster.brokers)
        wait_until(lambda: all(self.cluster.seen_by(each) >= set(brokers) for each in brokers), "all know each other")
        return "; ".join(map(str, faults))

    def check(self) -> None:
        for node in self.cluster.nodes.values():
            if not node.running:
                raise LocalNodeError(f"{node} ended by itself with {node.ended}:\n{node.log()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.cluster.close()
        self.relay.close()
        for each in self._ports:
            each.close()


class KafkaTarget:
    """One node of Apache Kafka, killed and paused."""

    def __init__(self, directory: Path, seed: int, *, late_for_all: bool = False) -> None:
        port, = free_ports(1)
        self.relay = Relay([("127.0.0.1", port)], seed, late_for_all=late_for_all)
        self._node = KafkaNode(directory / "kafka", **{name.replace(".", "_"): text for name, text in {
            **SETTINGS, "listener.security.protocol.map": PROTOCOLS, "inter.broker.listener.name": "PLAINTEXT",
        }.items()})
        text = self._node.properties.read_text()
        own = f"PLAINTEXT://{self._node.bootstrap}"
        controller = text.split("CONTROLLER://", 1)[1].split("\n", 1)[0]
        lines = [line for line in text.splitlines() if not line.startswith(("listeners=", "advertised.listeners="))]
        lines += [f"listeners={own},CONTROLLER://{controller},{CLIENTS}://127.0.0.1:{port}",
                  f"advertised.listeners={own},CONTROLLER://{controller},{CLIENTS}://127.0.0.1:{self.relay.ports[0]}"]
        self._node.properties.write_text("\n".join(lines) + "\n")
        self._node.java_options = QUICK_START
        self.address = f"127.0.0.1:{self.relay.ports[0]}"
        self.direct = self._node.bootstrap
        self.replicas = 1
        self.faults: Counter[str] = Counter()
        self._chance = random.Random(seed)

    def start(self) -> None:
        self._node.format()
        self._node.start()

    def strike(self, at_most: int) -> str:
        kind = self._chance.choice((KILL, PAUSE))
        self.faults[kind] += 1
        seconds = self._chance.choice(PAUSE_SECONDS) * self._chance.random()
        if kind == KILL:
            self._node.kill()
            self._node.start()
            return kind
        assert self._node.process is not None
        os.kill(self._node.process.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self._node.process.pid, signal.SIGCONT)
        return f"{kind} {seconds:.1f} s"

    def check(self) -> None:
        assert self._node.process is not None
        if self._node.process.poll() is not None:
            raise AssertionError("".join(self._node.output[-40:]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._node.kill()
        self.relay.close()
