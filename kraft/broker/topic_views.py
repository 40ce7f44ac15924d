"""Brokers and partitions as clients of one listener see them."""

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kraft.log_dir import TopicPartition
from kraft.metadata.image import NO_LEADER, BrokerRegistration, PartitionRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft_native.errors import InvalidArgumentError

if TYPE_CHECKING:
    from kraft.broker.broker import Broker


FENCED_LISTED_MS: Final = 3_000


class ListedBroker(NamedTuple):
    """A broker with the address that a listener's clients are told."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


def listed_brokers(broker: "Broker", listener: str, *, fenced: bool = False) -> list[ListedBroker]:
    """The brokers that have the listener, by id; without `fenced` only those that may serve."""
    found = []
    for each in sorted(broker.image.brokers.values(), key=lambda each: each.broker_id):
        address = endpoint_of(each, listener)
        if address is not None and (fenced or not each.fenced):
            found.append(ListedBroker(each.broker_id, *address, each.rack, each.fenced))
    return found


def reachable_brokers(broker: "Broker", listener: str, now_ms: int) -> list[ListedBroker]:
    """The brokers that clients may connect to: those that may serve, and fenced ones that led a partition a moment ago.
    All that are registered, when there are none of those.

    In the one answer that names a new leader the old one must still be listed: librdkafka (2.16) ends the thread of a
    broker that is not, and with it, for a second, partitions that were about to move from there to the new leader. No
    client misses a broker that led nothing. And the list must not be empty: librdkafka drops all brokers then, those
    of its configuration too, and never asks again unless it may bootstrap again (KIP-899).
    """
    registered = listed_brokers(broker, listener, fenced=True)
    return [each for each in registered
            if not each.fenced or _led_a_moment_ago(broker, each.broker_id, now_ms)] or registered


def _led_a_moment_ago(broker: "Broker", broker_id: int, now_ms: int) -> bool:
    led = broker.led.get(broker_id)
    return (led is not None and led.epoch == broker.image.brokers[broker_id].epoch
            and now_ms - led.until_ms < FENCED_LISTED_MS)


def endpoint_of(registration: BrokerRegistration, listener: str) -> tuple[str, int] | None:
    """Host and port of a broker's listener; None when it has none of that name."""
    for endpoint in registration.endpoints:
        if endpoint.name == listener:
            return endpoint.host, endpoint.port
    return None


def absence_of(topic: str) -> ErrorCode:
    """Why there is no topic of that name: there cannot be one, or nobody made it."""
    try:
        TopicPartition.checked(topic, 0)
    except InvalidArgumentError:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def partition_error(broker: "Broker", partition: PartitionRegistration, listener: str) -> int:
    """LEADER_NOT_AVAILABLE without a live leader, LISTENER_NOT_FOUND when the leader has not this listener."""
    leader = broker.image.brokers.get(partition.leader)
    if partition.leader == NO_LEADER or leader is None or leader.fenced:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return ErrorCode.NONE if endpoint_of(leader, listener) is not None else ErrorCode.LISTENER_NOT_FOUND


def named_leader(broker: "Broker", partition: PartitionRegistration, listener: str,
                 ended: Container[int]) -> tuple[int, int]:
    """Error and leader of a partition in an answer; no leader whose process has ended (`LeaderChecks`)."""
    if partition.leader in ended:
        return ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    return partition_error(broker, partition, listener), partition.leader


def controller_of(broker: "Broker", live: Sequence[int]) -> int:
    """The broker that clients are told to send changes of the cluster to: each passes them on, so this one, or another
    of `live` while this one may not serve; -1: none."""
    return broker.node_id if broker.node_id in live else min(live, default=-1)


def offline_replicas(broker: "Broker", partition: PartitionRegistration) -> list[int]:
    """Replicas on brokers that are gone or fenced, or in directories that failed."""
    offline = []
    for replica, directory in zip(partition.replicas, partition.directories, strict=True):
        registration = broker.image.brokers.get(replica)
        if registration is None or registration.fenced or not registration.has_online_dir(directory):
            offline.append(replica)
    return offline
