"""A cluster is upgraded and downgraded while clients use it: `make upgrade-check`.

    python -m tests.upgrade [--previous REVISION] [--rounds 1]

Three nodes, each broker and controller, run the previous release. Idempotent producers write, a reader reads along, and
a consumer group commits. Then one node after the other is stopped, and started as the present version; so they are
mixed for most of the time. The same way leads back. At the end everything is read: no acknowledged record is missing,
twice, out of order or changed, and the group continues where it committed.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.client import Cluster, state
from kraft_native.base.errors import KraftError
from tests.integration.clients import librdkafka_settings
from tests.integration.load import PARTITIONS, Producer, Verdict, Watcher, judge
from tests.integration.process import NodeProcess
from tests.integration.quorum import CLUSTER_ID
from tests.ports import free_ports
from tests.upgrade import previous

NODES: Final = 3
TOPIC: Final = "upgraded"
GROUP: Final = "upgraded"
IN_SYNC_SECONDS: Final = 60.0
LOAD_SECONDS: Final = 3.0


class Version(NamedTuple):
    """A version of the node: its name, the Python of its environment, and where its modules are installed."""

    name: str
    python: Path
    modules: Path


def installed_in(name: str, python: Path) -> Version:
    """Return the version that a Python imports."""
    program = "import pathlib, kraft_native; print(pathlib.Path(kraft_native.__file__).parent.resolve())"
    found = subprocess.run([python, "-P", "-c", program], check=True, capture_output=True, text=True).stdout
    return Version(name, python, Path(found.strip()))


class Member(NodeProcess):
    """A node of the cluster, of one version or the other."""

    def __init__(self, directory: Path, node_id: int, ports: list[tuple[int, int]]) -> None:
        port, controller_port = ports[node_id - 1]
        super().__init__(directory, {
            "node.id": str(node_id), "process.roles": "broker,controller", "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.quorum.voters": ",".join(f"{number}@127.0.0.1:{each}"
                                                 for number, (_, each) in enumerate(ports, 1)),
            "offsets.topic.replication.factor": "3", "min.insync.replicas": "2", "default.replication.factor": "3"})
        self.node_id, self.port = node_id, port

    def format(self) -> None:
        """Format the data directory by the version in use: with the features that it knows."""
        subprocess.run([*self.launcher, self.python, "-m", "kraft", "storage", "format", f"--data={self.data}",
                        f"--cluster-id={CLUSTER_ID}", *(f"--set={name}={value}" for name, value in
                                                        self.settings.items())], check=True, stdout=subprocess.DEVNULL)

    def _options(self) -> list[str]:
        return []

    def use(self, version: Version) -> None:
        """Start as another version from now on."""
        self.launcher, self.python = ["env", "PYTHONSAFEPATH=1"], str(version.python)

    def loaded_from(self) -> set[Path]:
        """Return where the compiled modules of the running process lie: directories named `kraft_native`."""
        paths = {Path(line.split(maxsplit=5)[5].strip())
                 for line in Path(f"/proc/{self.pid}/maps").read_text().splitlines() if "/kraft_native/" in line}
        return {parent for path in paths for parent in path.parents if parent.name == "kraft_native"}


class Servers:
    """The addresses of all nodes, in the form that the clients of tests expect."""

    def __init__(self, nodes: list[Member]) -> None:
        self.address = ",".join(node.address for node in nodes)


def is_in_sync(servers: Servers) -> bool:
    """Return whether every replica of every partition is in sync, and no broker is missing."""
    try:
        with Cluster(servers.address, timeout=5) as cluster:
            metadata = cluster.metadata()
    except KraftError:
        return False
    found = state.partitions(metadata)
    return len(metadata.brokers) == NODES and not found.under_replicated and not found.without_leader


def await_in_sync(servers: Servers) -> None:
    """Wait until the next node may be stopped. `SystemExit` when that takes too long."""
    until = time.monotonic() + IN_SYNC_SECONDS
    while not is_in_sync(servers):
        if time.monotonic() > until:
            raise SystemExit(f"replicas are not in sync after {IN_SYNC_SECONDS:.0f} s")
        time.sleep(0.2)


def roll(nodes: list[Member], servers: Servers, version: Version) -> None:
    """Restart one node after the other as another version."""
    for node in nodes:
        began = time.monotonic()
        node.stop()
        node.use(version)
        node.start()
        await_in_sync(servers)
        if node.loaded_from() != {version.modules}:
            raise SystemExit(f"node {node.node_id} is not of {version.name}: it runs {node.loaded_from()}")
        print(f"  node {node.node_id} runs {version.name}, in sync after {time.monotonic() - began:.1f} s", flush=True)
        time.sleep(LOAD_SECONDS)


class Group:
    """A consumer group of one member, which remembers the offsets that it was given."""

    def __init__(self, servers: Servers) -> None:
        self.consumer = Consumer(librdkafka_settings(servers, {
            "group_id": GROUP, "enable_auto_commit": False, "auto_offset_reset": "earliest",
            "metadata_recovery_strategy": "none"}))
        self.consumer.subscribe([TOPIC])
        self.seen: dict[int, list[int]] = {}

    def read(self, seconds: float) -> None:
        """Read and commit for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            messages = self.consumer.consume(1_000, 0.2)
            for message in messages:
                if message.error() is None:
                    self.seen.setdefault(message.partition() or 0, []).append(message.offset() or 0)
            if any(message.error() is None for message in messages):
                self.consumer.commit(asynchronous=False)

    def problems(self) -> list[str]:
        """Return what is wrong: offsets that the group was given twice, or never."""
        found = []
        for partition, offsets in sorted(self.seen.items()):
            if offsets != list(range(offsets[0], offsets[0] + len(offsets))) or offsets[0] != 0:
                found.append(f"group: partition {partition}: {len(offsets)} offsets are not 0, 1, 2, ...")
            committed, = self.consumer.committed([TopicPartition(TOPIC, partition)], 30)
            if committed.offset != offsets[-1] + 1:
                found.append(f"group: partition {partition}: {committed.offset} committed, {offsets[-1]} read last")
        return found if len(self.seen) == PARTITIONS else [f"group: it read {len(self.seen)} partitions"]


def run(directory: Path, old: Version, new: Version, rounds: int) -> tuple[Verdict, list[str]]:
    """Upgrade and downgrade `rounds` times; return what the clients found."""
    numbers = free_ports(2 * NODES)
    ports = list(zip(numbers[::2], numbers[1::2], strict=True))
    nodes = [Member(directory / f"node-{number}", number, ports) for number in range(1, NODES + 1)]
    servers = Servers(nodes)
    try:
        for node in nodes:
            node.use(old)
            node.format()
            node.launch()
        for node in nodes:
            node.await_ready()
        admin = AdminClient(librdkafka_settings(servers, {}))
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)
        await_in_sync(servers)
        producers = [Producer(servers, TOPIC, partition, idempotent=True) for partition in range(PARTITIONS)]
        watcher, group = Watcher(servers, TOPIC), Group(servers)
        for thread in (*producers, watcher):
            thread.start()
        try:
            for turn in range(rounds):
                for version in (new, old):
                    print(f"round {turn + 1}: to {version.name}", flush=True)
                    roll(nodes, servers, version)
                    group.read(LOAD_SECONDS)
        finally:
            clients: list[Producer | Watcher] = [*producers, watcher]
            for client in clients:
                client.end()
                client.join()
        group.read(2 * LOAD_SECONDS)
        wrong = group.problems()
        group.consumer.close()
        return judge(servers, TOPIC, producers, watcher), [*wrong, *(line for node in nodes for line in node.alarms())]
    finally:
        for node in nodes:
            node.kill()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.upgrade", description=__doc__)
    parser.add_argument("--previous", metavar="REVISION", help="the previous release [default: its tag]")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    revision = options.previous or previous.default_revision()
    print(f"the previous release: {revision}", flush=True)
    old = installed_in("the previous version", previous.environment_of(revision) / "bin" / "python")
    new = installed_in("this version", Path(sys.executable))
    if old.modules == new.modules:
        raise SystemExit(f"both versions are the one in {new.modules}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kraft-upgrade-") as directory:
        verdict, problems = run(Path(directory), old, new, options.rounds)
    print(f"{verdict}, {time.monotonic() - began:.0f} s")
    for problem in (*verdict.problems, *problems):
        print(f"  {problem}")
    is_whole = not (verdict.lost or verdict.reordered or verdict.duplicated or verdict.changed or verdict.problems)
    return 0 if is_whole and not problems and verdict.acknowledged else 1


if __name__ == "__main__":
    sys.exit(main())
