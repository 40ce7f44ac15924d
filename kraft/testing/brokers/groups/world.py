"""A run with groups: the world of brokers, with group coordinators, consumers, and their judges."""

from collections.abc import Callable
from typing import TextIO
from uuid import UUID

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.hashing import partition_of
from kraft.broker.groups.consumer import assigning
from kraft.broker.groups.consumer.serving import cluster_of
from kraft.broker.groups.shard import GroupShard
from kraft.broker.internal_topics import OFFSETS_TOPIC
from kraft.metadata.image import NO_LEADER
from kraft.metadata.versions import GROUP_VERSION
from kraft.raft.events import Event
from kraft.steps import finish
from kraft.testing.brokers.admin import GROUP_TOPICS
from kraft.testing.brokers.groups.ledger import NO_OFFSET, Ledger
from kraft.testing.brokers.groups.members import Setting
from kraft.testing.brokers.groups.population import Population
from kraft.testing.brokers.groups.stability import unmet
from kraft.testing.brokers.groups.states import judge_log
from kraft.testing.brokers.node import BrokerNode
from kraft.testing.brokers.transactional.client_world import ClientWorld
from kraft.testing.sim.options import SECOND, Options
from kraft.testing.sim.violation import ViolationError
from kraft.testing.transactions.history import History


class GroupWorld(ClientWorld):
    """The world of a run with groups."""

    def __init__(self, seed: int, options: Options, trace: TextIO | None = None,
                 listen: Callable[[int, float, Event], None] | None = None) -> None:
        super().__init__(seed, options, History([], []), trace, listen)
        self.group_ledger = Ledger(lambda: self.loop.now_us / SECOND, self.counts)
        self.populations = [self._population(f"group-{number}") for number in range(options.groups)]

    def _population(self, group: str) -> Population:
        setting = Setting(group, self.group_ledger, self._async, self._leader_of, self._is_known, self._topic_names,
                          cooperates=self.cluster.options.cooperates)
        return Population(setting, self.cluster.random(f"population {group}"), self._new_number, self._random)

    # --- the truth ----------------------------------------------------------------------------------------------------

    def _partition(self, group: str) -> int:
        """Return the partition of `__consumer_offsets` that has a group."""
        return partition_of(group, self.cluster.options.partitions)

    def _leader_of(self, group: str) -> tuple[int, int]:
        """Return the leader of the partition that has a group, and its epoch."""
        found = self.metadata.image.partition(OFFSETS_TOPIC, self._partition(group))
        return (NO_LEADER, -1) if found is None else (found.leader, found.leader_epoch)

    def _is_known(self, topic_id: UUID) -> bool:
        return topic_id in self.metadata.image.topics

    def _topic_names(self) -> list[str]:
        return [f"{GROUP_TOPICS}{number}" for number in range(self.cluster.options.group_topics)]

    def _coordinator_of(self, group: str) -> tuple[BrokerNode, GroupShard] | None:
        """Return the broker that leads the partition of a group, and the state of its coordinator once it serves."""
        leader_id, _ = self._leader_of(group)
        node = next((each for each in self._nodes() if each.id == leader_id), None)
        if node is None or node.broker is None or node.broker.coordinators is None:
            return None
        try:
            return node, node.broker.coordinators.groups.shards.serving(self._partition(group), 0)[1]
        except RefusedError:
            return None

    # --- the run ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        for population in self.populations:
            population.begin()
        try:
            super().run()
        finally:
            self._end_clients()

    def begin_phase(self, number: int) -> None:
        """Begin another phase with faults, after a quiet one."""
        super().begin_phase(number)
        for population in self.populations:
            population.resume()

    def _heal(self) -> None:
        super()._heal()
        if self.cluster.options.group_level_every_ms:
            self.admin.set_level(GROUP_VERSION, 1)
        for population in self.populations:
            population.heal()

    def also_missing(self) -> ViolationError | None:
        missing = super().also_missing()
        if missing is not None:
            return missing
        if self.metadata.image.features.get(GROUP_VERSION, 0) == 0:
            self.admin.set_level(GROUP_VERSION, 1)
        for population in self.populations:
            population.refill()
            found = self._coordinator_of(population.group)
            missing = unmet(population.group, population.alive, None if found is None else found[1],
                            self.metadata.image)
            if missing is not None:
                return missing
        return None

    def converged(self) -> None:
        """Judge the logs of the coordinators, and the offsets that they have at the end."""
        judged: dict[int, None] = {}
        for population in self.populations:
            found = self._coordinator_of(population.group)
            assert found is not None, f"{population.group} has lost its coordinator"
            node, state = found
            index = self._partition(population.group)
            if index not in judged:
                judged[index] = None
                self.counts["bytes of coordinators compacted"] += judge_log(
                    f"{OFFSETS_TOPIC}-{index}", state, node.broker_disk.path_of((OFFSETS_TOPIC, index)),
                    node.broker_disk.scratch)
            self._judge_offsets(population.group, state)
            _judge_assignor(population.group, state)

    def _judge_offsets(self, group: str, state: GroupShard) -> None:
        image = self.metadata.image
        for key in self.group_ledger.registers:
            topic = image.topics.get(key.topic_id)
            if key.group == group and topic is not None:
                offset = state.offsets.get(group, topic.name, key.partition)
                if offset is None or offset.topic_id != key.topic_id:
                    self.group_ledger.read(key, NO_OFFSET, "", self.loop.now_us / SECOND)
                else:
                    self.group_ledger.read(key, offset.offset, offset.metadata, self.loop.now_us / SECOND)


def _judge_assignor(group_id: str, state: GroupShard) -> None:
    """Check AssignorIsStable: the target of a stable group stays the same when it is computed again (KAFKA-18688)."""
    group = state.consumer_group(group_id)
    if group is not None:
        changes = finish(assigning.target_steps(group, cluster_of(state, group_id), {}, {}))
        if changes:
            raise ViolationError("AssignorIsStable", f"{group_id}: {changes}, the targets were {group.targets}")
