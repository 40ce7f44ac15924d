"""An operator that creates and deletes topics, moves replicas, requests elections and deletes old records."""

from collections.abc import Callable
from random import Random

from kraft.broker.isr import Key
from kraft.controller.features import SAFE_DOWNGRADE, UPGRADE
from kraft.metadata.image import GROUP_RESOURCE, NO_LEADER, MetadataImage, PartitionRegistration, TopicImage
from kraft.metadata.versions import FEATURES, GROUP_VERSION, TRANSACTION_VERSION
from kraft.protocol.message import Message
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kraft.testing.brokers.guard import Guard
from kraft.testing.brokers.metadata import MetadataTruth
from kraft.testing.brokers.node import BrokerNode
from kraft.testing.brokers.replica import Replica
from kraft.testing.sim.cluster import Cluster
from kraft.testing.sim.options import MILLISECOND

LATEST_VERSION = 99
PLAIN_TOPICS = "t"
"""First letter of the topics that idempotent producers use."""
TRANSACTIONAL_TOPIC = "x0"
GROUP_TOPICS = "g"
"""First letter of the topics that groups consume. They have no records: a member only counts."""
GROUP_PARTITIONS_MAX = 6
SET_SETTING = 0
DELETE_SETTING = 1
RETRY_MS = 150
PREFERRED = 0
UNCLEAN = 1


class Admin:
    """The operator of a run. `safe_start(key)`: records of a partition may be deleted below this offset."""

    def __init__(self, cluster: Cluster, truth: MetadataTruth, random: Random,
                 safe_start: Callable[[Key], int], guard: Guard) -> None:
        self._cluster = cluster
        self._guard = guard
        self._truth = truth
        self._random = random
        self._safe_start = safe_start
        self.deleted: dict[Key, int] = {}
        """Highest log start of any leader after a deletion, by partition."""
        self._chosen_us = 0

    @property
    def _image(self) -> MetadataImage:
        return self._truth.image

    def _count(self, name: str) -> None:
        self._cluster.counts[name] += 1

    def _submit_request(self, request: Message) -> None:
        self._call_controller(self._submit, request)

    def _call_controller(self, function: Callable[..., None], *arguments: object) -> None:
        """Call back with any node that believes itself to be the controller."""
        nodes = [node for node in self._cluster.up()
                 if isinstance(node, BrokerNode) and not node.is_paused and node.is_controller]
        if nodes:
            node = nodes[self._random.randrange(len(nodes))]
            node.call(function, node, *arguments)

    def _submit(self, node: BrokerNode, request: Message) -> None:
        node.decides(request, LATEST_VERSION, self._answered)

    def _answered(self, response: Message) -> None:
        self._count(f"{type(response).__name__} to the administrator")

    # --- topics -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Create the topics of the run as soon as enough brokers are registered."""
        options = self._cluster.options
        names = self._names() + ([TRANSACTIONAL_TOPIC] if options.transactions else []) + self._group_topics()
        missing = [name for name in names if name not in self._image.topic_ids]
        active = [broker for broker in self._image.brokers.values() if broker.active]
        if missing and len(active) >= min(options.replication, options.brokers):
            self._create(missing[0])
        if missing:
            self._cluster.loop.after(RETRY_MS * MILLISECOND, self.start)

    def _names(self) -> list[str]:
        return [f"{PLAIN_TOPICS}{number}" for number in range(self._cluster.options.topics)]

    def _group_topics(self) -> list[str]:
        options = self._cluster.options
        return [f"{GROUP_TOPICS}{number}" for number in range(options.group_topics)] if options.groups else []

    def _create(self, name: str) -> None:
        options = self._cluster.options
        count = options.group_partitions if name.startswith(GROUP_TOPICS) else options.partitions
        configs = [CreatableTopicConfig(name="min.insync.replicas", value=str(options.min_insync))]
        if options.unclean:
            configs.append(CreatableTopicConfig(name="unclean.leader.election.enable", value="true"))
        self._submit_request(CreateTopicsRequest(topics=[CreatableTopic(
            name=name, num_partitions=count, replication_factor=min(options.replication, options.brokers),
            assignments=[], configs=configs)], timeout_ms=1000))

    def change_topic(self) -> None:
        """Delete a topic, or create a missing one."""
        names = self._names()
        if not names:
            return
        name = names[self._random.randrange(len(names))]
        if name in self._image.topic_ids:
            self._count("topic deleted")
            self._submit_request(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000))
            self._cluster.loop.after(self._random.randrange(2 * RETRY_MS) * MILLISECOND, self.start)
        else:
            self.start()

    def change_group_topic(self) -> None:
        """Delete a topic that groups consume, give it one more partition, or create a missing one."""
        name = self._random.choice(self._group_topics())
        topic_id = self._image.topic_ids.get(name)
        if topic_id is None:
            self.start()
            return
        count = len(self._image.topics[topic_id].partitions)
        if count < GROUP_PARTITIONS_MAX and self._random.random() < 0.5:
            self._count("partition added")
            self._submit_request(CreatePartitionsRequest(timeout_ms=1000, topics=[
                CreatePartitionsTopic(name=name, count=count + 1, assignments=None)]))
        else:
            self._count("topic deleted")
            self._submit_request(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000))
            self._cluster.loop.after(self._random.randrange(2 * RETRY_MS) * MILLISECOND, self.start)

    def change_group_setting(self) -> None:
        """Change how often a group gets a target, or remove that setting of its own."""
        group = f"group-{self._random.randrange(self._cluster.options.groups)}"
        value = self._random.choice((None, "0", "100", "500"))
        self._count("setting of a group changed")
        self._submit_request(IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=group, configs=[AlterableConfig(
                name="consumer.assignment.interval.ms", value=value,
                config_operation=DELETE_SETTING if value is None else SET_SETTING)])]))

    def change_level(self) -> None:
        """Raise or lower transaction.version."""
        self.set_level(TRANSACTION_VERSION, self._random.randrange(FEATURES[TRANSACTION_VERSION].latest + 1))

    def change_group_level(self) -> None:
        """Raise or lower group.version."""
        self.set_level(GROUP_VERSION, self._random.randrange(FEATURES[GROUP_VERSION].latest + 1))

    def set_level(self, feature: str, level: int) -> None:
        """Request that level of a feature."""
        is_lower = level < self._image.features.get(feature, 0)
        self._count(f"{feature} changed")
        update = FeatureUpdateKey(feature=feature, max_version_level=level,
                                  upgrade_type=SAFE_DOWNGRADE if is_lower else UPGRADE)
        self._submit_request(UpdateFeaturesRequest(feature_updates=[update], timeout_ms=1000))

    # --- replicas -----------------------------------------------------------------------------------------------------

    def any_partition(self) -> tuple[TopicImage, int] | None:
        found = [(topic, index) for topic, index, _ in self._image.partitions()]
        return found[self._random.randrange(len(found))] if found else None

    def move(self) -> None:
        """Reassign a partition to a random set of brokers, or cancel a reassignment that is under way."""
        chosen = self.any_partition()
        if chosen is None:
            return
        topic, index = chosen
        partition = topic.partitions[index]
        if partition.reassigning and self._random.random() < 0.4:
            self._call_controller(self._cancel, topic, index)
            return
        self._count("reassignment")
        self._reassign(topic.name, index, self._targets(partition))

    def move_by_newest(self) -> None:
        """Reassign a partition through the controller that was elected last. Others that believe to be controllers do
        not receive the request. A reassignment under way stays as it is."""
        chosen, node = self.any_partition(), self._newest()
        if chosen is not None and node is not None:
            topic, index = chosen
            partition = topic.partitions[index]
            if not partition.reassigning:
                self._count("reassignment")
                node.call(self._submit, node, self._reassignment(topic.name, index, self._targets(partition)))

    def _newest(self) -> BrokerNode | None:
        node = self._cluster.leader()
        return node if isinstance(node, BrokerNode) and not node.is_paused and node.is_controller else None

    def _targets(self, partition: PartitionRegistration) -> list[int]:
        """Choose the target replicas. With `resize` their number may change, or the same target is requested again.
        There are never fewer than the minimum: no rule promises that a sole replica survives."""
        options, brokers = self._cluster.options, list(self._image.brokers)
        if options.resize and partition.reassigning and self._random.random() < 0.4:
            return [each for each in partition.replicas if each not in partition.removing_replicas]
        wanted = options.replication + (self._random.choice((-1, 0, 1)) if options.resize else 0)
        return self._random.sample(brokers, min(len(brokers), max(options.min_insync, wanted)))

    def _cancel(self, node: BrokerNode, topic: TopicImage, index: int) -> None:
        """Cancel a reassignment. It is put off in runs in which a broker may lose records (`guard`), where a sole
        replica in sync or eligible would be left. That one may have lost its records, which the controller does not
        know yet. The replicas are those of the controller at its decision. If none would be left, it refuses.
        """
        controller = node.machine.controller
        found = controller.decided.topics.get(topic.topic_id)
        partition = None if found is None else found.partitions.get(index)
        left = () if partition is None else [
            each for each in (*partition.isr, *partition.elr) if each not in partition.adding_replicas]
        if self._guard.allows_losses and (controller.is_working or len(left) == 1):
            self._count("cancellation put off")
            return
        self._count("reassignment cancelled")
        self._submit(node, self._reassignment(topic.name, index, None))

    def _reassign(self, topic: str, index: int, replicas: list[int]) -> None:
        self._submit_request(self._reassignment(topic, index, replicas))

    @staticmethod
    def _reassignment(topic: str, index: int, replicas: list[int] | None) -> AlterPartitionReassignmentsRequest:
        return AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=[ReassignableTopic(name=topic, partitions=[
            ReassignablePartition(partition_index=index, replicas=replicas)])])

    def lead(self, topic: TopicImage, index: int, broker_id: int) -> None:
        """Make that replica the preferred leader, and elect it."""
        partition = self._truth.registration_of((topic.topic_id, index))
        if partition is None or partition.reassigning or broker_id not in partition.replicas:
            return
        others = [each for each in partition.replicas if each != broker_id]
        node = self._newest()
        if node is not None:
            node.call(self._lead, node, topic.name, index, [broker_id, *others])

    def _lead(self, node: BrokerNode, topic: str, index: int, replicas: list[int]) -> None:
        self._submit(node, self._reassignment(topic, index, replicas))
        self._submit(node, ElectLeadersRequest(election_type=PREFERRED, timeout_ms=1000, topic_partitions=[
            TopicPartitions(topic=topic, partitions=[index])]))

    def elect(self) -> None:
        """Elect the preferred leaders everywhere. In unclean runs sometimes elect any leader where a partition has
        none."""
        if self._cluster.options.unclean and self._random.random() < 0.5:
            for topic, index, partition in self._image.partitions():
                if partition.leader == NO_LEADER:
                    self._truth.unclean_requested[topic.topic_id, index] = None
            self._count("unclean election requested")
            self._submit_request(ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=None, timeout_ms=1000))
        else:
            self._count("preferred election requested")
            self._submit_request(ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None, timeout_ms=1000))

    def choose_leaders(self) -> None:
        """Elect a leader where only an operator may choose one: the log of the last leader was lost, and several other
        replicas may have the records."""
        now_us = self._cluster.loop.now_us
        chosen = [(topic, index) for topic, index, partition in self._image.partitions()
                  if partition.leader == NO_LEADER and len(partition.last_known_elr) > 1]
        if not chosen or now_us < self._chosen_us + RETRY_MS * MILLISECOND:
            return
        self._chosen_us = now_us
        self._count("leader chosen by the operator")
        for topic, index in chosen:
            self._truth.unclean_requested[topic.topic_id, index] = None
        self._submit_request(ElectLeadersRequest(election_type=UNCLEAN, timeout_ms=1000, topic_partitions=[
            TopicPartitions(topic=topic.name, partitions=[index]) for topic, index in chosen]))

    def delete_records(self) -> None:
        """Delete records up to a random offset, at most to `safe_start` and the leader's high watermark."""
        chosen = self.any_partition()
        if chosen is None:
            return
        topic, index = chosen
        key = topic.topic_id, index
        partition = topic.partitions[index]
        node = next((each for each in self._cluster.up() if each.id == partition.leader), None)
        if isinstance(node, BrokerNode) and node.broker is not None and not node.is_paused:
            replica = node.broker.replicas.get((topic.name, index))
            if replica is not None and replica.is_leader and replica.key == key:
                limit = min(self._safe_start(key), replica.high_watermark)
                start = replica.log.start_offset
                if limit > start:
                    self._count("records deleted")
                    node.call(self._delete, replica, start + self._random.randrange(limit - start + 1))

    def _delete(self, replica: Replica, before_offset: int) -> None:
        if replica.is_leader:
            start = replica.partition.delete_records(before_offset)
            self.deleted[replica.key] = max(self.deleted.get(replica.key, 0), start)
