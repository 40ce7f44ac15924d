"""A run with brokers: the world of the quorum, and the world of the brokers on top."""

import logging
from collections.abc import Callable
from random import Random
from typing import Final, TextIO
from uuid import UUID

from kraft.broker.isr import Key
from kraft.metadata.delta import PartitionChange
from kraft.metadata.image import MetadataImage, PartitionRegistration
from kraft.raft.config import RaftConfig
from kraft.raft.events import Event
from kraft.testing.brokers import liveness
from kraft.testing.brokers.admin import PLAIN_TOPICS, Admin
from kraft.testing.brokers.clients import Around
from kraft.testing.brokers.consumers import Consumer
from kraft.testing.brokers.disk import BrokerDisk, Storage
from kraft.testing.brokers.faults import BrokerFaults
from kraft.testing.brokers.fetcher import Fetcher
from kraft.testing.brokers.guard import Guard
from kraft.testing.brokers.metadata import MetadataTruth
from kraft.testing.brokers.node import BrokerNode, BrokerSurroundings
from kraft.testing.brokers.producers import Producer
from kraft.testing.brokers.replica import Replica
from kraft.testing.brokers.truth import PartitionTruth, Truth
from kraft.testing.brokers.wire import Wire
from kraft.testing.history import judge_log, judge_reads
from kraft.testing.sim.clock import Clock
from kraft.testing.sim.cluster import Cluster
from kraft.testing.sim.faults import Faults
from kraft.testing.sim.network import CLIENT_ID
from kraft.testing.sim.node import Node, Surroundings
from kraft.testing.sim.options import MILLISECOND, SECOND, Options
from kraft.testing.sim.violation import ViolationError
from kraft.testing.sim.world import World
from kraft_native.base.clock import use_system as use_system_clock

PRODUCERS_PER_PARTITION: Final = 2
QUIET_US: Final = 2 * SECOND
LOOKS_PER_QUIET_TIME: Final = 20
FAILED_FETCHES_MAX: Final = 20
"""Number of refused fetches allowed in a quiet time after everything has converged."""
EARLY_FETCHES_MAX: Final = 100
"""Number of Fetches of one fetcher in a quiet time that may be answered before the maximum wait."""


class BrokerCluster(Cluster):
    """Nodes that may be brokers, and the connections between them."""

    def __init__(self, world: "BrokerWorld", seed: int, options: Options) -> None:
        self._truth = world.truth
        self._look = world.look
        self._broker_disks = world.disks
        self._storage = world.storage
        self._chain_before = world.chain_before
        super().__init__(seed, options, world.loop, world.counts, world)

    def surroundings(self, around: Surroundings) -> BrokerSurroundings:
        wire = Wire(around.loop, around.network, Random(f"{self.seed}/wire"), around.counts)
        return BrokerSurroundings(around.loop, around.options, around.network, around.contents,
                                  around.snapshot_contents, around.counts, around.watcher, wire, self._truth, {},
                                  self._look, self._storage, self._chain_before)

    def new_node(self, config: RaftConfig, random: Random, clock: Clock) -> BrokerNode:
        assert isinstance(self.around, BrokerSurroundings)
        options = self.around.options
        node_id = config.node_id
        has_broker = node_id <= options.brokers if options.combined else node_id > options.voters
        node = BrokerNode(config, self.around, random, clock, has_broker=has_broker)
        self.around.wire.processes[node_id] = node
        self._broker_disks[node_id] = node.broker_disk
        return node

    @property
    def wire(self) -> Wire:
        assert isinstance(self.around, BrokerSurroundings)
        return self.around.wire

    def broker_nodes(self) -> list[BrokerNode]:
        return [node for node in self.nodes if isinstance(node, BrokerNode)]


class BrokerWorld(World):
    """The world of a run with brokers. `disks`: the disks of the brokers, by id."""

    def __init__(self, seed: int, options: Options, trace: TextIO | None = None,
                 listen: Callable[[int, float, Event], None] | None = None) -> None:
        self.disks: dict[int, BrokerDisk] = {}
        self.storage = Storage()
        self.metadata = MetadataTruth(self._partition_changed)
        self.guard = Guard(self._nodes, lambda: self.metadata.image,
                           lambda: self.cluster.options)
        self.truth = Truth(self.disks, self.metadata.registration_of, self.metadata.leader_in, self.guard.is_exempt,
                           self._add_to_trace)
        self._seen = 0
        self._looked_at: dict[int, MetadataImage] = {}
        super().__init__(seed, options, trace, listen)
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self._around = Around(self.loop, self.broker_cluster.wire, lambda: self.cluster.options, self.counts,
                              self._partition_of, self._find, self._is_lossy,
                              lambda key: key[0] not in self.metadata.image.topics)

    def new_cluster(self, seed: int, options: Options) -> BrokerCluster:
        cluster = self.broker_cluster = BrokerCluster(self, seed, options)
        self.admin = Admin(cluster, self.metadata, cluster.random("admin"), self._safe_start, self.guard)
        return cluster

    def _nodes(self) -> list[BrokerNode]:
        return self.broker_cluster.broker_nodes()

    def new_faults(self, random: Random) -> Faults:
        return BrokerFaults(self.cluster, self.operator, random, self.admin, self.guard, self.metadata,
                            self.broker_cluster.wire, lambda: self.producers)

    def run(self) -> None:
        disabled = logging.root.manager.disable
        logging.disable()              # what the log manager reports is expected here
        try:
            self.admin.start()
            super().run()
            self._judge_all()
        finally:
            use_system_clock()
            logging.disable(disabled)
            for disk in self.disks.values():
                disk.crash()
            self.storage.close()

    def _judge_all(self) -> None:
        image = self.metadata.image
        for key, truth in self.truth.partitions.items():
            if key[0] in image.topics and not truth.is_lossy and self._has_clients(truth.topic):
                self._judge_clients(key, truth)
        self.counts.update({
            "leader elections": self.metadata.elections, "unclean elections": self.metadata.unclean_elections,
            "changes of in-sync replicas": self.metadata.isr_changes,
            "reassignments ended": self.metadata.reassignments, "high watermarks checked": self.truth.exposures})

    # --- the quorum ---------------------------------------------------------------------------------------------------

    def applied(self, node: Node, high_watermark: int) -> None:
        super().applied(node, high_watermark)
        committed = self.ledger.committed
        if len(committed) > self._seen:
            fresh, self._seen = committed[self._seen:], len(committed)
            self.metadata.committed(fresh)
            self.guard.registered()

    def touched(self, node: Node) -> None:
        """Check a node after an event of its core, which reaches the broker as metadata only."""
        super().touched(node)
        assert isinstance(node, BrokerNode)
        image = node.machine.image
        if self._looked_at.get(node.id) is not image:
            self._looked_at[node.id] = image
            self.look(node)

    def look(self, node: BrokerNode) -> None:
        """Check VisibleWhenCommitted: no node shows metadata that is not committed. Then check by itself each replica
        that has changed."""
        shown = node.machine.image.offset
        if shown >= self.ledger.end_offset:
            raise ViolationError("VisibleWhenCommitted", f"{node} shows metadata up to {shown}, committed is "
                                                         f"{self.ledger.end_offset}")
        broker = node.broker
        if broker is not None and broker.replicas:
            image = self.metadata.image
            changed = [each for each in broker.replicas.values() if each.has_changed(image)]
            for replica in changed:
                replica.observe(node.judge)
            for replica in changed:
                self._check_replica(replica)

    def _check_thoroughly(self) -> None:
        super()._check_thoroughly()
        self.truth.somebody_has_everything(self.truth.partitions)

    # --- replicas -----------------------------------------------------------------------------------------------------

    def chain_before(self, name: tuple[str, int], topic_id: UUID, offset: int) -> int | None:
        """Return the chain of the committed records of a partition before an offset; None when it is unknown."""
        truth = self.truth.partitions.get((topic_id, name[1]))
        if offset == 0:
            return 0
        return None if truth is None or truth.is_lossy else truth.chain_at(offset)

    def _check_replica(self, replica: Replica) -> None:
        """Check HighWatermarkInLog and MonotonicHighWatermark. For a leader also check HighWatermarkIsMinimum (it waits
        for the maximal ISR only) and ReplicationQuorumSuperset (the leader counts every replica that the controller
        counts)."""
        log = replica.log
        high_watermark = replica.high_watermark
        if not log.start_offset <= high_watermark <= log.end_offset:
            raise ViolationError("HighWatermarkInLog", f"{replica}: {high_watermark}, the log has "
                                                       f"{log.start_offset} to {log.end_offset}")
        if replica.is_leader:
            self._check_leader(replica)
            if high_watermark < replica.shown and not self._is_lossy(replica.key):
                raise ViolationError("MonotonicHighWatermark", f"{replica}: {high_watermark} after {replica.shown}")
            replica.shown = high_watermark

    def _check_leader(self, replica: Replica) -> None:
        awaited = replica.awaited()
        minimum = min(awaited.values())
        if replica.high_watermark < minimum and replica.has_minimum:
            raise ViolationError("HighWatermarkIsMinimum", f"{replica}: {replica.high_watermark}, all in sync have "
                                                           f"{minimum}")
        registration = self.metadata.registration_of(replica.key)
        if (registration is not None and registration.leader == replica.broker_id
                and registration.leader_epoch == replica.leader_epoch
                and not all(each in awaited for each in registration.isr)):
            raise ViolationError("ReplicationQuorumSuperset", f"{replica} waits for {list(awaited)}: {registration}")

    def _partition_changed(self, key: Key, change: PartitionChange, is_unclean: bool) -> None:
        self._add_to_trace(f"{change.topic.name}-{change.index}: {change.after}")
        if change.before is None and change.after is not None and self._has_clients(change.topic.name):
            self._begin_producers(key)
            self._begin_consumer(key)
        truth = self.truth.of(key, change.topic.name)
        if is_unclean:
            truth.is_lossy = True
        if change.after is not None:
            self.truth.candidates_have_everything(key)

    # --- clients ------------------------------------------------------------------------------------------------------

    @staticmethod
    def _has_clients(topic: str) -> bool:
        """Return whether idempotent producers and plain consumers use the topic."""
        return topic.startswith(PLAIN_TOPICS)

    def _begin_producers(self, key: Key) -> None:
        for _ in range(PRODUCERS_PER_PARTITION):
            number = self._next_client()
            producer = Producer(number, key, self._around, self.cluster.random(f"producer {number}"))
            producer.is_on = self.clients.is_on
            self.producers.append(producer)
            producer.start()

    def _begin_consumer(self, key: Key) -> None:
        number = self._next_client()
        consumer = Consumer(number, key, self._around, self.cluster.random(f"consumer {number}"),
                            is_last=not self.clients.is_on)
        self.consumers.append(consumer)
        consumer.start()

    def _next_client(self) -> int:
        return CLIENT_ID + 1 + len(self.producers) + len(self.consumers)

    def _judge_clients(self, key: Key, truth: PartitionTruth) -> None:
        """Judge the answers that producers received and the records that consumers saw.

        Each consumer reads from the log start on, so it must see every record that is not deleted. Deleted records can
        reappear: a replica that does not know the deletion yet takes over as leader. The consumer must see these too,
        unless it already received the later log start.
        """
        name, log = f"{truth.topic}-{key[1]}", truth.codes()
        problems = judge_log(name, {each.id: each.sends for each in self.producers if each.key == key}, log)
        logs = [disk.found((truth.topic, key[1])) for disk in self.disks.values()]
        start = max((each.start_offset for each in logs if each is not None), default=0)
        for consumer in self.consumers:
            if consumer.key == key:
                start_of_reads = min(consumer.reported_start, self.admin.deleted.get(key, 0))
                problems += judge_reads(name, [consumer.reads], log, max(start, start_of_reads))
        if problems:
            raise ViolationError(problems[0].kind, problems[0].text)

    def _any_broker(self, random: Random) -> BrokerNode | None:
        """Return a random broker that runs, or None."""
        open_nodes = [node for node in self.broker_cluster.broker_nodes()
                      if node.broker is not None and node.broker.is_open and not node.is_paused]
        return open_nodes[random.randrange(len(open_nodes))] if open_nodes else None

    def _find(self, key: Key, random: Random, start_of_reads: Callable[[PartitionRegistration | None], None]) -> None:
        node = self._any_broker(random)
        if node is None or node.broker is None:
            start_of_reads(None)
        else:
            node.call(node.broker.leaders.find, key, start_of_reads)

    def _partition_of(self, key: Key, random: Random) -> PartitionRegistration | None:
        """Return the partition as a random running broker knows it. None: that broker does not know it, or no broker
        runs."""
        node = self._any_broker(random)
        if node is None:
            return None
        image: MetadataImage = node.machine.image
        topic = image.topics.get(key[0])
        return None if topic is None else topic.partitions.get(key[1])

    def _is_lossy(self, key: Key) -> bool:
        truth = self.truth.partitions.get(key)
        return truth is not None and truth.is_lossy

    def _safe_start(self, key: Key) -> int:
        """Return an offset below which records may be deleted.

        - It is below the first batch that a producer may send again: a deleted batch cannot be recognised as a
          duplicate.
        - The last acknowledged batch of each producer stays. A replica that is filled from the log start would not know
          the producer otherwise. As a leader it would accept any sequence, so it could accept a batch after one that
          another error kept out. Kafka reorders records in that way, too.
        """
        mine = [each for each in self.producers if each.key == key]
        acknowledged = [[operation for operation in each.operations if operation.end_offset >= 0] for each in mine]
        last = [max(each, key=lambda operation: operation.end_offset) for each in acknowledged if each]
        open_values = [(each.id, operation.value) for each in mine for operation in each.operations
                       if operation.end_offset < 0]
        truth = self.truth.partitions.get(key)
        if truth is None or not last:
            return 0
        kept = min(operation.end_offset - operation.count for operation in last)
        return min(kept, next((batch.base_offset for batch in truth.committed
                               if (batch.producer, batch.value) in open_values), kept))

    # --- healed -------------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        for producer in self.producers:
            producer.is_on = False
        for consumer in self.consumers:
            consumer.is_steady = True
        assert isinstance(self.faults, BrokerFaults)
        self.faults.repair_directories()
        super()._heal()
        self.admin.start()
        for topic, index, _ in self.metadata.image.partitions():
            if self._has_clients(topic.name):
                self._begin_consumer((topic.topic_id, index))

    def also_missing(self) -> ViolationError | None:
        self.admin.choose_leaders()
        return liveness.unmet(self.broker_cluster.broker_nodes(), self.metadata, self.producers, self.consumers)

    def stay_converged(self, for_us: int) -> None:
        """Let time pass, and check that everything that has converged still holds, or holds again soon: coordinators
        append records in quiet times too, when ids expire and transactions time out.

        Check NoUselessFetches: followers send few Fetches that their leaders answer before the maximum wait."""
        before = self._replica_fetches()
        self._run_until(self.loop.now_us + for_us)
        fetches = self._replica_fetches() - before
        waits = for_us // (self.cluster.options.fetch_wait_ms * MILLISECOND)
        if fetches > (waits + EARLY_FETCHES_MAX) * sum(len(each) for each in self._fetchers()):
            raise ViolationError("NoUselessFetches", f"followers send {fetches} Fetches in a quiet time, which has "
                                                     f"{waits} maximum waits")
        deadline_us = self.loop.now_us + self._quiet_us
        while (missing := self.also_missing()) is not None:
            if self.loop.now_us >= deadline_us:
                raise missing
            self._run_until(self.loop.now_us + self._quiet_us // LOOKS_PER_QUIET_TIME)

    def _fetchers(self) -> list[list[Fetcher]]:
        return [node.broker.fetchers for node in self._nodes() if node.broker is not None]

    def _replica_fetches(self) -> int:
        return sum(fetcher.responses for fetchers in self._fetchers() for fetcher in fetchers)

    def calm(self) -> None:
        """Check that the healed cluster works and is calm.

        - One more batch in each partition is acknowledged, and all consumers see it.
        - No replica keeps fetching a removed partition (NoUselessFetches, KAFKA-17190).
        - A clean stop ends soon (ControlledShutdownEnds, KAFKA-14292).
        """
        for producer in self.producers:
            if not producer.is_over:
                producer.add()
        failed = self._failed_fetches()
        self.stay_converged(self._quiet_us)
        if self._failed_fetches() - failed > FAILED_FETCHES_MAX:
            raise ViolationError("NoUselessFetches", f"{self._failed_fetches() - failed} fetches fail in a quiet time")
        self._stop_one()

    @property
    def _quiet_us(self) -> int:
        """Time for a few heartbeats, at least."""
        return max(QUIET_US, self.cluster.options.session_ms * MILLISECOND)

    def _failed_fetches(self) -> int:
        return sum(number for name, number in self.counts.items() if name.startswith("fetch answered"))

    def _stop_one(self) -> None:
        nodes = [node for node in self.broker_cluster.broker_nodes() if node.has_broker]
        if len(nodes) > 1 and self.cluster.options.voters != 2:
            node = nodes[self.loop.events % len(nodes)]
            life = node.life
            node.stop()
            self._run_until(self.loop.now_us + self._quiet_us)
            if node.life == life and node.broker is not None:
                raise ViolationError("ControlledShutdownEnds", f"broker {node.id} was not released")
