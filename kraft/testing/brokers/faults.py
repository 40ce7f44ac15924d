"""Faults that break brokers, besides those that break a quorum.

Some faults have several steps. Each makes an order of events likely that single faults produce only by chance. Their
victims, times and durations are still random.
"""

from collections.abc import Callable, Sequence
from itertools import permutations
from random import Random
from typing import Final

from kraft.metadata.image import NO_LEADER, PartitionRegistration, TopicImage
from kraft.testing.brokers.admin import Admin
from kraft.testing.brokers.clients import TIMEOUT_MS
from kraft.testing.brokers.guard import Guard
from kraft.testing.brokers.leaders import LANE
from kraft.testing.brokers.metadata import MetadataTruth
from kraft.testing.brokers.node import BrokerNode
from kraft.testing.brokers.producers import Producer
from kraft.testing.brokers.transactional.coordinators import CHECKS, COORDINATOR_LANES, SHARE_LANES
from kraft.testing.brokers.wire import Hold, Wire
from kraft.testing.sim.cluster import Cluster
from kraft.testing.sim.faults import Faults
from kraft.testing.sim.node import Node
from kraft.testing.sim.operator import Operator
from kraft.testing.sim.options import MILLISECOND, SECOND

LONG: Final = 4
"""Factor that limits how long something is held back, in multiples of its usual time."""
WATCH_MS: Final = 20
HELD_MAX_US: Final = 5 * SECOND


class BrokerFaults(Faults):
    """Faults of brokers. Deaths that no cluster could survive are left out (`guard`)."""

    def __init__(self, cluster: Cluster, operator: Operator, random: Random, admin: Admin, guard: Guard,
                 metadata: MetadataTruth, wire: Wire, producers: Callable[[], Sequence[Producer]]) -> None:
        super().__init__(cluster, operator, random)
        self._admin = admin
        self._guard = guard
        self._metadata = metadata
        self._wire = wire
        self._producers = producers

    def kinds(self) -> tuple[tuple[int, Callable[[], None]], ...]:
        options = self._cluster.options
        return (*super().kinds(), (options.shutdown_every_ms, self._shut_down),
                (options.topic_every_ms, self._admin.change_topic), (options.move_every_ms, self._admin.move),
                (options.elect_every_ms, self._admin.elect), (options.delete_every_ms, self._admin.delete_records),
                (options.shuffle_every_ms, self._shuffle), (options.reboot_every_ms, self._reboot),
                (options.zombie_every_ms, self._overtake), (options.stall_every_ms, self._stall),
                (options.reset_every_ms, self._reset), (options.directory_every_ms, self._fail_directory),
                (options.refusal_every_ms, self._refuse), (options.level_every_ms, self._admin.change_level),
                (options.group_topic_every_ms, self._admin.change_group_topic),
                (options.group_level_every_ms, self._admin.change_group_level),
                (options.group_setting_every_ms, self._admin.change_group_setting),
                (options.coordinate_every_ms, self._hold_coordinator), (options.checks_every_ms, self._hold_checks))

    def stop(self) -> None:
        super().stop()
        self._wire.release()

    def _stop(self, node: Node, *, power: bool, down_ms: int | None = None) -> None:
        assert isinstance(node, BrokerNode)
        if self._guard.may_die(node, power=power):
            super()._stop(node, power=power, down_ms=down_ms)
        else:
            self._count("death put off")

    def _shut_down(self) -> None:
        node = self._anyone_up()
        if isinstance(node, BrokerNode) and not node.is_leaving:
            node.stop()
            life = node.life

            def again() -> None:
                if not node.is_up:
                    self._operator.start(node)
                elif node.life == life:
                    self._cluster.loop.after(self._about_us(self._cluster.options.down_ms), again)

            self._cluster.loop.after(self._about_us(self._cluster.options.down_ms), again)

    def _fail_directory(self) -> None:
        """Fail a log directory of a broker, which continues without it. Some time later the broker is stopped, cleanly
        or not. It returns with the remaining data of the disk, or with a new disk."""
        nodes = [node for node in self._cluster.up() if isinstance(node, BrokerNode) and node.broker is not None
                 and node.broker.is_open and not node.is_halted and len(node.broker_disk.online) > 1]
        if not nodes:
            return
        node, replaced = self._random.choice(nodes), self._random.random() < 0.4
        if not self._guard.may_lose_directory(node, replaced=replaced):
            self._count("failure of a directory put off")
            return
        self._count("log directory failed")
        node.fail_directory(self._random.choice(node.broker_disk.online[1:]))
        down_ms = self._cluster.options.down_ms

        def stop() -> None:
            if node.is_up and self._random.random() < 0.5:
                node.stop()
            elif node.is_up:
                node.kill(power=False)
            self._then(self._about_us(down_ms), repair)

        def repair() -> None:
            if node.is_up and node.is_leaving:
                self._then(self._about_us(down_ms), repair)
                return
            self._repair(node, replaced=replaced)
            self._cluster.loop.after(self._about_us(down_ms), self._operator.start, node)

        self._then(self._about_us(4 * down_ms), stop)

    def _repair(self, node: BrokerNode, *, replaced: bool) -> None:
        if len(node.broker_disk.online) == len(node.broker_disk.directories):
            return
        if node.is_up:
            node.kill(power=False)
        self._count("log directory replaced" if replaced else "log directory repaired")
        lost = node.broker_disk.repair(self._random, replace=replaced)
        self._cluster.counts["batches lost with a directory"] += lost

    def repair_directories(self) -> None:
        """Repair all directories at the end. The processes are started again."""
        for node in self._cluster.nodes:
            assert isinstance(node, BrokerNode)
            self._repair(node, replaced=False)

    # --- of several steps ---------------------------------------------------------------------------------------------

    def _within_us(self, mean_ms: int) -> int:
        """Return a random time of about `mean_ms`, limited to `LONG` times that."""
        return min(self._about_us(mean_ms), LONG * mean_ms * MILLISECOND)

    def _then(self, delay_us: int, step: Callable[[], None]) -> None:
        self._cluster.loop.after(delay_us, lambda: step() if self._is_on else None)

    def _hold(self, for_us: int, *, requests: bool = False) -> Hold:
        return Hold(self._cluster.loop.now_us + for_us, requests)

    def _stall(self) -> None:
        """Delay a producer's requests. They arrive after the producer has sent them again, or later requests, over
        another connection."""
        producers = self._producers()
        if producers:
            self._count("requests of a producer held back")
            hold = self._hold(self._within_us(2 * TIMEOUT_MS), requests=True)
            self._random.choice(producers).stall(hold)

    def _reset(self) -> None:
        """Break a broker's connection to the controller while both live. If the link is cut at the same time, the
        broker cannot reconnect. It is taken for dead, and continues as the leader that it was."""
        controller = self._cluster.leader()
        nodes = [each for each in self._cluster.up()
                 if isinstance(each, BrokerNode) and each.has_broker and each is not controller]
        if controller is not None and nodes:
            self._count("connection to the controller broken")
            node = self._random.choice(nodes)
            self._wire.reset(node.id, controller.id, "controller")
            if self._random.random() < 0.5:
                self._cut_links([(node.id, controller.id), (controller.id, node.id)])

    def _hold_coordinator(self) -> None:
        """Hold back the markers or checks of transactions between two brokers, or their answers; or break the
        connection."""
        nodes = [each for each in self._cluster.nodes if isinstance(each, BrokerNode) and each.has_broker]
        if len(nodes) > 1:
            self._count("markers or checks of transactions held back")
            source, target = self._random.sample(nodes, 2)
            lane = self._random.choice(
                COORDINATOR_LANES + SHARE_LANES if self._cluster.options.share else COORDINATOR_LANES)
            if self._random.random() < 0.3:
                self._wire.reset(source.id, target.id, lane)
            else:
                for_us = self._within_us(self._cluster.options.hold_ms)
                self._wire.hold(source.id, target.id, lane, self._hold(for_us, requests=self._random.random() < 0.5))

    def _hold_checks(self) -> None:
        """Hold back the answers to checks of transactions between all brokers. A transaction that a coordinator has
        confirmed may end before the leader learns that."""
        nodes = [each for each in self._cluster.nodes if isinstance(each, BrokerNode) and each.has_broker]
        for source, target in permutations(nodes, 2):
            self._count("markers or checks of transactions held back")
            self._wire.hold(source.id, target.id, CHECKS, self._hold(self._within_us(self._cluster.options.hold_ms)))

    def _refuse(self) -> None:
        """Let a live broker refuse new connections from another node. Some existing connections between the two break
        or hang. It looks dead from that node only."""
        nodes = [each for each in self._cluster.up() if isinstance(each, BrokerNode) and each.has_broker]
        if len(nodes) < 2:
            return
        source, target = self._random.sample(nodes, 2)
        until_us = self._cluster.loop.now_us + self._within_us(self._cluster.options.cut_ms)
        kind = self._random.randrange(3)
        if kind < 2:
            self._count("connections refused by a live broker")
            self._wire.refuse(source.id, target.id, until_us)
            self._wire.reset(source.id, target.id, LANE)
        if kind == 1:
            self._wire.reset(target.id, source.id, "controller")
        if kind == 2:
            self._count("half-open connection to a broker")
            self._wire.hold(source.id, target.id, LANE, Hold(until_us, requests=self._random.random() < 0.5))

    def _shuffle(self) -> None:
        """Move the leadership of a partition around, while answers from and to leaders are delayed. Answers of one
        leadership arrive in another."""
        chosen = self._admin.any_partition()
        if chosen is not None:
            self._count("leadership goes round")
            kind = self._random.randrange(3)
            if kind == 0:
                self._pass_on(*chosen, 2 + self._random.randrange(4))
            elif kind == 1:
                self._there_and_back(*chosen)
            else:
                self._outdate(*chosen)

    def _there_and_back(self, topic: TopicImage, index: int) -> None:
        """Let a leader propose to remove a follower from the ISR. It learns the outcome after another leader has led in
        between and has added the follower again (KAFKA-12686)."""
        options, partition = self._cluster.options, topic.partitions[index]
        controller = self._cluster.leader()
        followers = [each for each in partition.isr if each != partition.leader]
        if controller is None or partition.leader == NO_LEADER or len(followers) < 2:
            return
        follower, successor = self._random.sample(followers, 2)
        away_us = self._lags(follower, partition.leader)
        back_us = away_us + (self._random.randrange(options.swap_ms) + 2 * options.delay_ms + 20) * MILLISECOND
        self._wire.hold(partition.leader, controller.id, "controller",
                        self._hold(back_us + self._random.randrange(options.swap_ms) * MILLISECOND))
        self._then(away_us, lambda: self._admin.lead(topic, index, successor))
        self._then(back_us, lambda: self._admin.lead(topic, index, partition.leader))

    def _outdate(self, topic: TopicImage, index: int) -> None:
        """Let a follower's Fetch arrive when its leader leads again. In between the follower has truncated its log,
        because it followed a leader that had less. Its leader has not (KIP-320)."""
        options, partition = self._cluster.options, topic.partitions[index]
        leader_id = partition.leader
        followers = [each for each in partition.isr if each != leader_id]
        if leader_id == NO_LEADER or len(followers) < 2:
            return
        follower, successor = self._random.sample(followers, 2)
        ahead_us = self._within_us(options.produce_every_ms)
        away_us = ahead_us + self._within_us(options.produce_every_ms)
        step_ms = 6 * options.delay_ms + 40
        back_us = away_us + (step_ms + self._random.randrange(options.swap_ms)) * MILLISECOND
        late_us = back_us + (step_ms + self._random.randrange(options.swap_ms)) * MILLISECOND
        late = self._hold(late_us, requests=True)
        self._count("requests held back")
        self._wire.hold(successor, leader_id, "fetch", self._hold(back_us))
        self._wire.hold(leader_id, successor, "fetch", self._hold(late_us))
        self._then(ahead_us, lambda: self._wire.hold(follower, leader_id, "fetch", late))
        self._then(away_us, lambda: self._admin.lead(topic, index, successor))
        self._then(back_us, lambda: self._admin.lead(topic, index, leader_id))

    def _lags(self, follower_id: int, leader_id: int) -> int:
        """Cut a follower off for about as long as its leader waits for it; return that time in microseconds."""
        for_us = self._cluster.options.lag_ms * (1000 + self._random.randrange(1500))
        self._count("answers held back")
        self._wire.hold(follower_id, leader_id, "fetch", self._hold(for_us))
        return for_us

    def _pass_on(self, topic: TopicImage, index: int, left: int) -> None:
        partition = self._metadata.registration_of((topic.topic_id, index))
        if partition is None or partition.leader == NO_LEADER:
            return
        others = [each for each in partition.isr if each != partition.leader]
        if others:
            target = self._random.choice(others)
            self._hold_answers(partition, target)
            swap_ms = self._cluster.options.swap_ms
            self._then(self._within_us(swap_ms // 3), lambda: self._admin.lead(topic, index, target))
            if left > 1:
                self._then(self._within_us(swap_ms), lambda: self._pass_on(topic, index, left - 1))

    def _hold_answers(self, partition: PartitionRegistration, successor: int) -> None:
        hold_ms = self._cluster.options.hold_ms
        for leader_id in (partition.leader, successor):
            if self._random.random() < 0.5:
                for follower_id in partition.replicas:
                    if follower_id != leader_id and self._random.random() < 0.7:
                        self._count("answers held back")
                        self._wire.hold(follower_id, leader_id, "fetch", self._hold(self._within_us(hold_ms)))
        controller = self._cluster.leader()
        if controller is not None and controller.id != partition.leader and self._random.random() < 0.5:
            self._count("answers held back")
            self._wire.hold(partition.leader, controller.id, "controller", self._hold(self._within_us(hold_ms)))

    def _reboot(self) -> None:
        """Let a follower lose power and return as another process. Then a Fetch of its previous life arrives
        (KAFKA-15221)."""
        chosen = self._admin.any_partition()
        if chosen is None:
            return
        partition = chosen[0].partitions[chosen[1]]
        followers = [each for each in partition.isr if each != partition.leader]
        if partition.leader == NO_LEADER or not followers:
            return
        node, options = self._cluster.node(self._random.choice(followers)), self._cluster.options
        registration = self._metadata.image.brokers.get(node.id)
        if registration is None:
            return
        route = node.id, partition.leader, "fetch"
        last, first = self._hold(HELD_MAX_US, requests=True), self._hold(HELD_MAX_US)
        self._wire.hold(*route, last)

        def strike() -> None:
            if node.is_up:
                self._count("follower rebooted")
                self._wire.hold_next(*route, first)
                self._stop(node, power=True, down_ms=1)
                watch()

        def watch() -> None:
            now = self._metadata.image.brokers.get(node.id)
            if now is None or now.epoch == registration.epoch or not now.active:
                self._then(WATCH_MS * MILLISECOND, watch)
                return
            last.until_us = self._cluster.loop.now_us + self._within_us(options.hold_ms)
            first.until_us = last.until_us + self._within_us(options.hold_ms)

        self._then(self._within_us(max(options.produce_every_ms, options.fetch_wait_ms)), strike)

    def _overtake(self) -> None:
        """Break the quorum connections of the active controller. New ones hang until another controller is elected, or
        longer. Brokers reach the old one all the time, and some of them know its successor (KAFKA-14154)."""
        controller, options = self._cluster.leader(), self._cluster.options
        if controller is None or options.voters < 3:
            return
        self._count("quorum connections hang")
        network, random = self._cluster.network, self._random
        others = [each.id for each in self._cluster.nodes
                  if each is not controller and (each.id <= options.voters or random.random() < 0.5)]

        def hang(change: int) -> None:
            for each in others:
                network.hang(controller.id, each, change)
                network.hang(each, controller.id, change)

        def watch() -> None:
            successor = self._cluster.leader()
            if successor is controller or not isinstance(successor, BrokerNode) or not successor.is_controller:
                self._then(WATCH_MS * MILLISECOND, watch)
                return
            self._count("controller overtaken")
            chosen = self._admin.any_partition()
            if chosen is not None:
                self._lead_and_lag(*chosen, (controller.id, successor.id))
            for _ in range(options.zombie_moves):
                self._admin.move_by_newest()

        hang(1)
        for each in others:
            node = self._cluster.node(each)
            if node.is_up and not node.is_paused:
                network.break_connections(controller.id, node.unanswered)
        self._cluster.loop.after(self._within_us(2 * options.fetch_timeout_ms), lambda: hang(-1))
        self._then(WATCH_MS * MILLISECOND, watch)

    def _lead_and_lag(self, topic: TopicImage, index: int, controllers: tuple[int, int]) -> None:
        """Elect another leader, which then proposes to remove a follower from the ISR."""
        partition = self._metadata.registration_of((topic.topic_id, index))
        if partition is None:
            return
        successors = [each for each in partition.isr if each != partition.leader and each not in controllers]
        if successors and len(partition.isr) > 1:
            successor = self._random.choice(successors)
            followers = [each for each in partition.isr if each != successor]
            self._admin.lead(topic, index, successor)
            self._lags(self._random.choice(followers), successor)
