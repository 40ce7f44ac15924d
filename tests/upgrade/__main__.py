"""A cluster is upgraded and downgraded while clients use it: `make upgrade-check`.

    python -m tests.upgrade [--previous REVISION] [--rounds 1]

Three nodes, each broker and controller, run the previous release. Every connection has TLS and a login, and ACLs allow
one user what it does. Idempotent producers write, others by transactions, a reader reads along, and a consumer group
commits; another user is denied all the time. Then one node after the other is stopped, and started as the present
version; so they are mixed for most of the time. The same way leads back.

At the end everything is read: no acknowledged record is missing, twice, out of order or changed. The group continues
where it committed. Each transaction is in both of its partitions or in none, and none is open for longer than its
time-out.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.client import state
from kraft_native.base.errors import KraftError
from tests.integration.clients import librdkafka_settings
from tests.integration.load import PARTITIONS, Producer, Verdict, Watcher, judge
from tests.ports import free_ports
from tests.upgrade import previous, transfers
from tests.upgrade.cluster import (
    ADMIN,
    APP,
    OUTSIDER,
    PREFIX,
    Member,
    Servers,
    Version,
    add_users,
    certificates,
    installed_in,
)

NODES: Final = 3
TOPIC: Final = f"{PREFIX}-records"
GROUP: Final = PREFIX
WRITERS: Final = 2
IN_SYNC_SECONDS: Final = 60.0
LOAD_SECONDS: Final = 3.0


def is_in_sync(servers: Servers) -> bool:
    """Return whether every replica of every partition is in sync, and no broker is missing."""
    try:
        with servers.cluster() as cluster:
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


def roll(nodes: list[Member], servers: Servers, version: Version) -> list[str]:
    """Restart one node after the other as another version; return the transactions that were open for too long."""
    problems = []
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
        problems += [f"open for too long beside node {node.node_id}: {each}" for each in transfers.overdue(servers)]
    return problems


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


class Load:
    """All clients of the check."""

    def __init__(self, app: Servers, outsider: Servers) -> None:
        self.producers = [Producer(app, TOPIC, partition, idempotent=True) for partition in range(PARTITIONS)]
        self.writers = [transfers.Transfers(app, number) for number in range(WRITERS)]
        self.watcher, self.group = Watcher(app, TOPIC), Group(app)
        self.outsider = transfers.Outsider(outsider, TOPIC)
        self._app = app
        self._threads: list[Any] = [*self.producers, *self.writers, self.watcher, self.outsider]

    def start(self) -> None:
        """Start all of them."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """End all of them, and wait."""
        for thread in self._threads:
            thread.end()
        for thread in self._threads:
            thread.join()

    def judge(self) -> tuple[Verdict, list[str]]:
        """Return what the clients found."""
        self.group.read(2 * LOAD_SECONDS)
        wrong = [*self.group.problems(), *self.outsider.problems, *transfers.still_open(self._app)]
        self.group.consumer.close()
        if not self.outsider.denials:
            wrong.append("outsider: it was never denied anything")
        wrong += transfers.judge(transfers.read_committed(self._app), self.writers)
        for each in self.writers:
            print(f"  {each.name}: {len(each.committed)} committed, {len(each.aborted)} aborted, "
                  f"{len(each.unknown)} without an answer", flush=True)
            if not each.committed or not each.aborted:
                wrong.append(f"{each.name}: nothing was committed, or nothing aborted")
        print(f"  outsider: denied {self.outsider.denials} times", flush=True)
        return judge(self._app, TOPIC, self.producers, self.watcher), wrong


def run(directory: Path, old: Version, new: Version, rounds: int) -> tuple[Verdict, list[str]]:
    """Upgrade and downgrade `rounds` times; return what the clients found."""
    numbers = free_ports(2 * NODES)
    ports = list(zip(numbers[::2], numbers[1::2], strict=True))
    files = certificates(directory / "certificates")
    nodes = [Member(directory / f"node-{number}", files, number, ports) for number in range(1, NODES + 1)]
    servers, app, outsider = (Servers(nodes, files, user) for user in (ADMIN, APP, OUTSIDER))
    problems: list[str] = []
    try:
        for node in nodes:
            node.use(old)
            node.format()
            node.launch()
        for node in nodes:
            node.await_ready()
        admin = AdminClient(librdkafka_settings(servers, {}))
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3),
                                           NewTopic(transfers.TOPIC, transfers.PARTITIONS, 3)]).values():
            future.result(30)
        add_users(admin)
        await_in_sync(servers)
        load = Load(app, outsider)
        load.start()
        try:
            for turn in range(rounds):
                for version in (new, old):
                    print(f"round {turn + 1}: to {version.name}", flush=True)
                    problems += roll(nodes, servers, version)
                    load.group.read(LOAD_SECONDS)
        finally:
            load.end()
        verdict, wrong = load.judge()
        return verdict, [*problems, *wrong, *(line for node in nodes for line in node.alarms())]
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
