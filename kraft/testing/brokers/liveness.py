"""Conditions that must become true after everything is healed."""

from collections.abc import Sequence

from kraft.broker.isr import Key
from kraft.deadlines import NEVER_MS
from kraft.metadata.image import NO_LEADER, RECOVERED, PartitionRegistration
from kraft.testing.brokers.consumers import Consumer
from kraft.testing.brokers.metadata import MetadataTruth
from kraft.testing.brokers.node import BrokerNode
from kraft.testing.brokers.producers import Producer
from kraft.testing.sim.violation import ViolationError


def unmet(nodes: Sequence[BrokerNode], metadata: MetadataTruth, producers: Sequence[Producer],
          consumers: Sequence[Consumer]) -> ViolationError | None:
    """Return the first condition that does not hold yet; None when all hold."""
    image = metadata.image
    brokers = [node for node in nodes if node.has_broker]
    for node in brokers:
        registration = image.brokers.get(node.id)
        if node.broker is None or not node.broker.is_open or registration is None or not registration.active:
            return ViolationError("EventuallyUnfenced", f"broker {node.id} does not take part: {registration}")
    for node in nodes:
        if node.machine.image.state() != image.state():
            return ViolationError("MetadataConverges", f"{node} has other metadata at {node.machine.image.offset} than "
                                                       f"what is committed at {image.offset}")
    for topic, index, partition in image.partitions():
        missing = _partition(brokers, (topic.topic_id, index), topic.name, partition, consumers)
        if missing is not None:
            return missing
    for producer in producers:
        if not producer.is_over and not producer.has_everything_acknowledged:
            return ViolationError("ValuesEventuallyAcked", f"producer {producer.id} of {producer.key} waits")
    for node in brokers:
        missing = _strays(node, metadata)
        if missing is not None:
            return missing
    return None


def _partition(brokers: Sequence[BrokerNode], key: Key, topic: str, registration: PartitionRegistration,
               consumers: Sequence[Consumer]) -> ViolationError | None:
    name = f"{topic}-{key[1]}"
    if registration.reassigning:
        return ViolationError("ReassignmentCompletes", f"{name}: {registration}")
    if registration.leader == NO_LEADER:
        return ViolationError("EventuallyLed", f"{name}: {registration}")
    if registration.leader_recovery_state != RECOVERED:
        return ViolationError("EventuallyRecovered", f"{name}: {registration}")
    if sorted(registration.isr) != sorted(registration.replicas):
        return ViolationError("IsrBecomesFull", f"{name}: {registration}")
    replicas = []
    for node in brokers:
        broker = node.broker
        assert broker is not None
        replica = broker.replicas.get((topic, key[1]))
        if node.id in registration.replicas:
            if replica is None or replica.key != key or replica.leader_epoch != registration.leader_epoch:
                return ViolationError("MetadataConverges", f"{name}: broker {node.id} has {replica}: {registration}")
            if replica.is_leader and (broker.keeper.deadline_ms != NEVER_MS or broker.keeper.proposed(key) is not None
                                      or sorted(replica.awaited()) != sorted(registration.isr)):
                return ViolationError("AlterPartitionResolves",
                                      f"{replica} has {list(replica.awaited())}: {registration}")
            replicas.append(replica)
    log = next(replica.log for replica in replicas if replica.is_leader)
    for replica in replicas:
        is_known = None not in (replica.log.chain, log.chain)
        if replica.log.end_offset != log.end_offset or (is_known and replica.log.chain != log.chain):
            return ViolationError("LogsConverge", f"{replica} has {replica.log.end_offset}, the leader "
                                                  f"{log.end_offset}")
        if replica.high_watermark != log.end_offset:
            return ViolationError("HighWatermarkReachesFollowers", f"{replica} shows {replica.high_watermark} of "
                                                         f"{log.end_offset}")
    for consumer in consumers:
        if consumer.key == key and consumer.reads.position != log.end_offset:
            return ViolationError("unseen" if consumer.is_last else "worst-realtime-lag",
                                  f"{name}: consumer {consumer.id} is at {consumer.reads.position} of {log.end_offset}")
    return None


def _strays(node: BrokerNode, metadata: MetadataTruth) -> ViolationError | None:
    """Check NoStrayReplica: a broker that is not a replica keeps no log (KAFKA-13972)."""
    for (topic, index), log in node.broker_disk.kept():
        registration = metadata.registration_of((log.topic_id, index))
        if registration is None or node.id not in registration.replicas:
            return ViolationError("NoStrayReplica", f"broker {node.id} keeps {topic}-{index} of {log.topic_id}")
    return None
