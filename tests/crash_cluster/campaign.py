"""Chapters of a campaign: clients, moves and faults on topics of the chapter's own. At its end the cluster comes to
rest and is judged."""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.client.quorum import QuorumClient
from kraft.local.cluster import LocalCluster
from kraft.local.errors import LocalNodeError
from kraft.testing.history import NOT_ACKNOWLEDGED, Problem, judge_commits, judge_log, judge_reads
from tests.crash_cluster import logs
from tests.crash_cluster.clients import Client, Group, Producer, Watcher
from tests.crash_cluster.faults import CHECK_SECONDS, Faults, wait_until
from tests.crash_cluster.moves import OFFSETS_TOPIC, REPLICAS, Moves
from tests.integration.clients import librdkafka_consumer
from tests.integration.history import check_same_logs
from tests.integration.process import DEFAULTS

PARTITIONS: Final = 3
OFFSETS_PARTITIONS: Final = 3
PRODUCERS: Final = (("none", 5), ("zstd", 1))
"""Codec and largest number of requests in flight of each producer."""
MEMBERS: Final = 2
SETTINGS: Final = {
    **DEFAULTS, "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS), "min.insync.replicas": "2",
    "broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500", "replica.lag.time.max.ms": "4000",
    "controller.quorum.fetch.timeout.ms": "3000", "controller.quorum.election.timeout.ms": "1500",
    "leader.imbalance.check.interval.seconds": "5", "initial.broker.registration.timeout.ms": "600000",
}
"""Sessions longer than the faults, even on a machine that is busy with other work."""
TOPICS: Final = {
    "plain": {"segment.bytes": str(1 << 20)},
    "flushed": {"segment.bytes": str(1 << 20), "flush.ms": "1"},
}
"""Durability by the page cache, and by group commit."""
SECONDS: Final = 60.0
COMPARE_CHECKS: Final = 1_200
CHAPTER_FAULTS: Final = 40


@dataclass(slots=True)
class Totals:
    """Counts of what a campaign did."""

    faults: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    epoch: int = 0

    def __str__(self) -> str:
        lines = [f"faults: {self.faults.total()}", *(f"    {kind}: {count}" for kind, count in self.faults.items()),
                 *(f"{what}: {count}" for what, count in self.counts.items()),
                 f"epoch of the metadata quorum: {self.epoch}"]
        return "\n".join(lines)


class Anyone(NamedTuple):
    """All brokers, for a client that connects to any of them that answers."""

    address: str


class Load:
    """Producers and readers of one topic. `group` holds the members that commit."""

    def __init__(self, cluster: Anyone, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.readers: list[Watcher] = []
        self._cluster = cluster
        floors = [-1] * partitions
        self.producers = [Producer(cluster, topic, number, floors, codec, in_flight)
                          for number, (codec, in_flight) in enumerate(PRODUCERS)]
        self.watcher = Watcher(f"watcher of {topic}", cluster, topic, partitions)
        for each in (*self.producers, self.watcher):
            each.start()
        self.group = Group(cluster, topic, partitions, f"readers of {topic}", MEMBERS)

    def progress(self) -> Callable[[], bool]:
        """Return a function that checks whether each partition has acknowledged to each producer a record sent from now
        on."""
        sent = [each.sent for each in self.producers]
        return lambda: all(each.has_more_than(count) for each, count in zip(self.producers, sent, strict=True))

    @property
    def clients(self) -> list[Client]:
        return [*self.producers, self.watcher, *self.group.all]

    def finish_producers(self) -> None:
        """Wait until everything that was sent is answered."""
        for each in self.producers:
            each.end()
        for each in self.producers:
            each.await_end()

    def finish_readers(self, ends: list[int]) -> dict[int, int]:
        """Wait until all records are read, also by one more reader that starts at the beginning. Return what the group
        has committed."""
        last = Watcher(f"last reader of {self.topic}", self._cluster, self.topic, self.partitions)
        last.start()
        self.readers = [self.watcher, last]
        for each in self.readers:
            wait_until(lambda each=each: each.fault is not None or each.is_lost or each.is_at(ends),
                       f"{each.name} is at {ends}, not at", instead=lambda each=each: each.positions)
            each.await_end()
        wanted = {partition: end for partition, end in enumerate(ends) if end}
        wait_until(lambda: self.group.committed() == wanted, f"{self.group.name} has committed {wanted}, but",
                   instead=lambda: (self.group.committed(), self.group.standing))
        self.group.await_end()
        consumer = librdkafka_consumer(self._cluster, self.group.name)
        found = consumer.committed([TopicPartition(self.topic, partition) for partition in wanted], SECONDS)
        consumer.close()
        return {each.partition: each.offset for each in found}

    def judge(self, contents: list[list[int]], sent_again: list[set[int]], committed: dict[int, int]) -> list[Problem]:
        """Judge the clients' records. `contents` is the log of each partition as the files have it; `sent_again` are
        those of its records that a producer repeated."""
        problems = judge_commits(self.topic, self.group.commits, committed)
        for index, log in enumerate(contents):
            name = f"{self.topic}-{index}"
            sends = {each.number: each.sends[index] for each in self.producers}
            problems += judge_log(name, sends, log, sent_again[index])
            for reader in self.readers:
                problems += judge_reads(name, [reader.reads[index]], log)
            problems += judge_reads(name, [each.reads[index] for each in self.group.all], log)
        return problems


class Campaign:
    """A campaign; `report` receives a line of progress now and then."""

    def __init__(self, directory: Path, seed: int, report: Callable[[str], None], *, brokers: int = 3,
                 controllers: int = 0) -> None:
        self.cluster = LocalCluster(directory, brokers=brokers, controllers=controllers, settings=SETTINGS)
        self.totals = Totals()
        self._seed = seed
        self._report = report
        self._chance = random.Random(seed)
        self._faults = Faults(self.cluster, self._chance, self.totals.faults)
        self._chapter = 0
        self._changes = logs.Changes()

    def start(self) -> None:
        self.cluster.start()
        with self.cluster.client(seconds=SECONDS) as client:
            client.coordinator("somebody")          # creates the offsets topic

    def run(self, faults: int, seconds: float) -> list[Problem]:
        """Run chapters until the given number of faults were applied; start none after the given number of seconds.
        Return the problems of the first chapter that has some."""
        until = time.monotonic() + seconds
        while self.totals.faults.total() < faults and time.monotonic() < until:
            problems = self._run_chapter(min(faults, self.totals.faults.total() + CHAPTER_FAULTS))
            if problems:
                return problems
        return []

    def stop(self) -> None:
        """Stop the cluster cleanly."""
        self.cluster.stop()

    # --- one chapter

    def _run_chapter(self, until: int) -> list[Problem]:
        self._chapter += 1
        began, first = time.monotonic(), self.totals.faults.total()
        topics = self._create_topics()
        loads = [Load(Anyone(self.cluster.bootstrap), topic, PARTITIONS) for topic in topics]
        moves = Moves(self.cluster, {**dict.fromkeys(topics, PARTITIONS), OFFSETS_TOPIC: OFFSETS_PARTITIONS},
                      f"{self._seed}.{self._chapter}")
        self._await_progress(loads)
        moves.start()
        while self.totals.faults.total() < until:
            self._round(loads, moves, until)
        moves.await_end()
        for load in loads:
            load.finish_producers()
        moves.settle()
        problems = self._judge(loads)
        self._count(loads, moves)
        counts = self.totals.counts
        self._report(f"chapter {self._chapter}: faults {first + 1} to {self.totals.faults.total()}, "
                     f"{time.monotonic() - began:.0f} s; so far {counts['records acknowledged']} records acknowledged, "
                     f"{len(problems)} problems")
        if not problems:
            self._delete_topics(topics)
        return problems

    def _round(self, loads: list[Load], moves: Moves, until: int) -> None:
        faults = self._faults.draw(until - self.totals.faults.total())
        if not faults:
            return
        self._report(f"  {self.totals.faults.total() + 1}: {'; '.join(map(str, faults))}")
        self._faults.inflict(faults)
        self._faults.hold()
        self._faults.heal(faults)
        if self._chance.random() < 0.2:
            self._chance.choice(loads).group.replace_one(self._chance)
        if self._chance.random() < 0.7:
            self._await_progress(loads)
        self._faults.hold()
        self._check_alive(loads, moves)

    def _await_progress(self, loads: list[Load]) -> None:
        """Wait until each partition has acknowledged to each producer something that was sent from now on."""
        progress = [load.progress() for load in loads]

        def continues() -> bool:
            self._check_clients(loads)
            return all(each() for each in progress)

        wait_until(continues, "every producer continues in every partition")

    def _check_alive(self, loads: list[Load], moves: Moves) -> None:
        """Check that no node and no client has ended by itself."""
        for node in self.cluster.nodes.values():
            if not node.running:
                raise LocalNodeError(f"{node} ended by itself with {node.ended}:\n{node.log()}")
        self._check_clients(loads)
        if moves.fault is not None:
            raise moves.fault

    @staticmethod
    def _check_clients(loads: list[Load]) -> None:
        for client in [each for load in loads for each in load.clients]:
            if client.fault is not None:
                raise client.fault

    def _create_topics(self) -> list[str]:
        """Create the topics, each at a moment when all brokers are running."""
        brokers = list(self.cluster.brokers)
        wait_until(lambda: all(self.cluster.seen_by(each) >= set(brokers) for each in brokers), "all know each other")
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 2})
        names = {f"{name}-{self._chapter}": config for name, config in TOPICS.items()}
        for made in admin.create_topics([NewTopic(name, PARTITIONS, REPLICAS, config=config)
                                         for name, config in names.items()], request_timeout=SECONDS).values():
            made.result(SECONDS)
        return list(names)

    def _delete_topics(self, topics: list[str]) -> None:
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 2})
        for done in admin.delete_topics(topics, request_timeout=SECONDS).values():
            done.result(SECONDS)

    def _judge(self, loads: list[Load]) -> list[Problem]:
        """Judge the replicas of each topic's logs one after the other, then what clients did and saw."""
        problems: list[Problem] = []
        for load in loads:
            found = [self._compared(load.topic, index) for index in range(load.partitions)]
            contents = [logs.codes_in(log, index) for index, (log, _) in enumerate(found)]
            problems += [problem for _, different in found for problem in different]
            again = [logs.sent_again(log, index) for index, (log, _) in enumerate(found)]
            problems += load.judge(contents, again, load.finish_readers([len(each) for each in contents]))
            self.totals.counts["records stored"] += sum(map(len, contents))
            self.totals.counts["records that their client sent again under another epoch"] += sum(map(len, again))
        for index in range(OFFSETS_PARTITIONS):
            problems += self._compared(OFFSETS_TOPIC, index)[1]
        self._compare_metadata()
        return problems

    def _compared(self, topic: str, index: int) -> tuple[bytes, list[Problem]]:
        """Return the log of a partition once its replicas are the same; retry for a while."""
        directories = [node.directory for node in self.cluster.brokers.values()]
        directories = [each for each in directories if (each / f"{topic}-{index}").exists()]
        for _ in range(COMPARE_CHECKS):
            log, problems = logs.same_replicas(directories, topic, index)
            if not problems:
                break
            time.sleep(CHECK_SECONDS)
        return log, problems

    def _compare_metadata(self) -> None:
        """Check that the metadata logs agree as far as they are committed; followers learn that a moment later."""
        end = self._committed_metadata()

        def all_have_it() -> bool:
            with self.cluster.client(seconds=SECONDS) as client:
                return all(each.log_end_offset >= end for each in QuorumClient(client).describe().voters)

        wait_until(all_have_it, f"every controller has the metadata log up to {end}")
        check_same_logs([node.directory for node in self.cluster.controllers.values()], end)

    def _committed_metadata(self) -> int:
        with self.cluster.client(seconds=SECONDS) as client:
            found = QuorumClient(client).describe()
        self.totals.epoch = found.epoch
        return found.high_watermark

    def _count(self, loads: list[Load], moves: Moves) -> None:
        counts = self.totals.counts
        for load in loads:
            counts["records sent"] += sum(len(each.offsets) for one in load.producers for each in one.sends)
            counts["records acknowledged"] += sum(
                offset != NOT_ACKNOWLEDGED for one in load.producers for each in one.sends for offset in each.offsets)
            counts["records read"] += sum(len(run.codes) for one in (*load.readers, *load.group.all)
                                          for reads in one.reads for run in reads.runs)
            counts["commits of groups acknowledged"] += sum(each.answered is not None for each in load.group.commits)
            counts["assignments of members"] += load.group.rebalances
        counts["reassignments requested"] += moves.requested
        counts["reassignments cancelled"] += moves.cancelled
        counts["preferred elections held"] += moves.elections
        controller = next(iter(self.cluster.controllers.values()))
        counts.update(self._changes.read(controller.directory, self._committed_metadata()))
        counts["nodes ended by a full disk"] = self._faults.ended
