"""View of brokers and partitions for the clients of one listener."""

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kraft.log_dir import TopicPartition
from kraft.metadata.image import NO_LEADER, BrokerRegistration, PartitionRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import InvalidArgumentError

if TYPE_CHECKING:
    from kraft.broker.broker import Broker


FENCED_LISTED_MS: Final = 3_000


class ListedBroker(NamedTuple):
    """A broker with its address for a listener's clients."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


def listed_brokers(broker: "Broker", listener: str, *, fenced: bool = False) -> list[ListedBroker]:
    """Return the brokers that have the listener, by id; without `fenced` only those that may serve."""
    found = []
    for each in sorted(broker.image.brokers.values(), key=lambda each: each.broker_id):
        address = endpoint_of(each, listener)
        if address is not None and (fenced or not each.fenced):
            found.append(ListedBroker(each.broker_id, *address, each.rack, each.fenced))
    return found


def reachable_brokers(broker: "Broker", listener: str, now_ms: int) -> list[ListedBroker]:
    """Return the brokers that clients may connect to: those that may serve, and fenced ones that led a partition a
    moment ago. Without any of those, return all registered ones.

    The one answer that names a new leader must still list the old one. librdkafka (2.16) ends the thread of a broker
    that is not listed. For a second it thereby also stops partitions that were about to move from there to the new
    leader. No client misses a broker that led nothing.

    The list must not be empty: librdkafka then drops all brokers, including those of its configuration. It never
    requests metadata again unless it may bootstrap again (KIP-899).
    """
    registered = listed_brokers(broker, listener, fenced=True)
    return [each for each in registered
            if not each.fenced or _led_a_moment_ago(broker, each.broker_id, now_ms)] or registered


def _led_a_moment_ago(broker: "Broker", broker_id: int, now_ms: int) -> bool:
    led = broker.led.get(broker_id)
    return (led is not None and led.epoch == broker.image.brokers[broker_id].epoch
            and now_ms - led.until_ms < FENCED_LISTED_MS)


def endpoint_of(registration: BrokerRegistration, listener: str) -> tuple[str, int] | None:
    """Return host and port of a broker's listener; None when it has none of that name."""
    for endpoint in registration.endpoints:
        if endpoint.name == listener:
            return endpoint.host, endpoint.port
    return None


def absence_of(topic: str) -> ErrorCode:
    """Return why no topic of that name exists: the name is invalid, or the topic was not created."""
    try:
        TopicPartition.checked(topic, 0)
    except InvalidArgumentError:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def partition_error(broker: "Broker", partition: PartitionRegistration, listener: str) -> int:
    """Return LEADER_NOT_AVAILABLE without a live leader, LISTENER_NOT_FOUND when the leader lacks this listener."""
    leader = broker.image.brokers.get(partition.leader)
    if partition.leader == NO_LEADER or leader is None or leader.fenced:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return ErrorCode.NONE if endpoint_of(leader, listener) is not None else ErrorCode.LISTENER_NOT_FOUND


def named_leader(broker: "Broker", partition: PartitionRegistration, listener: str,
                 ended: Container[int]) -> tuple[int, int]:
    """Return error and leader of a partition for an answer, without a leader whose process has ended
    (`LeaderChecks`)."""
    if partition.leader in ended:
        return ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    return partition_error(broker, partition, listener), partition.leader


def controller_of(broker: "Broker", live: Sequence[int]) -> int:
    """Return the broker to which clients send changes of the cluster; -1: none. Every broker passes them on, so it is
    this one, or another of `live` while this one may not serve."""
    return broker.node_id if broker.node_id in live else min(live, default=-1)


def offline_replicas(broker: "Broker", partition: PartitionRegistration) -> list[int]:
    """Return replicas on brokers that are removed or fenced, or in directories that failed."""
    offline = []
    for replica, directory in zip(partition.replicas, partition.directories, strict=True):
        registration = broker.image.brokers.get(replica)
        if registration is None or registration.fenced or not registration.has_online_dir(directory):
            offline.append(replica)
    return offline
