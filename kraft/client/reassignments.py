"""Reassignments of replicas: start, cancel, watch and throttle, as Kafka's tool does it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kraft.client.cluster import Cluster
from kraft.client.configs import Change, Operation, alter_configs, settings
from kraft.client.partitions import Partition
from kraft.client.refusals import RefusedError, check
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from kraft.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from kraft.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kraft.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse

LEADERS: Final = "leader.replication.throttled"
FOLLOWERS: Final = "follower.replication.throttled"


class Ongoing(NamedTuple):
    """A partition that is being reassigned. `replicas` are all current ones, including those being added and removed.
    """

    partition: Partition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def targets(self) -> list[int]:
        return [each for each in self.replicas if each not in self.removing]


class Progress(NamedTuple):
    """Bytes that the added replicas have, and the bytes that they need, by their leaders' current sizes."""

    done_bytes: int
    total_bytes: int

    @property
    def left_bytes(self) -> int:
        return self.total_bytes - self.done_bytes


def ongoing(cluster: Cluster) -> dict[Partition, Ongoing]:
    """Return the reassignments in progress, by partition."""
    answer = cluster.send(ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse)
    check("reassignments", answer.error_code, answer.error_message)
    found = [Ongoing((topic.name, each.partition_index), tuple(each.replicas), tuple(each.adding_replicas),
                     tuple(each.removing_replicas)) for topic in answer.topics for each in topic.partitions]
    return {each.partition: each for each in sorted(found)}


def reassign(cluster: Cluster, targets: Mapping[Partition, Sequence[int] | None]) -> dict[Partition, RefusedError]:
    """Reassign partitions to these replicas; None cancels a partition's reassignment. Return the refused ones."""
    by_topic: dict[str, list[ReassignablePartition]] = {}
    for (topic, index), replicas in targets.items():
        by_topic.setdefault(topic, []).append(ReassignablePartition(partition_index=index, replicas=replicas))
    answer = cluster.send(AlterPartitionReassignmentsRequest(
        timeout_ms=int(cluster.timeout * 1000), topics=[
            ReassignableTopic(name=name, partitions=partitions) for name, partitions in by_topic.items()],
    ), AlterPartitionReassignmentsResponse)
    check("reassignment", answer.error_code, answer.error_message)
    return {(topic.name, each.partition_index): RefusedError(
                f"partition {topic.name}/{each.partition_index}", each.error_code, each.error_message)
            for topic in answer.responses for each in topic.partitions if each.error_code != ErrorCode.NONE}


def progress(cluster: Cluster, moving: Iterable[Ongoing]) -> dict[Partition, Progress]:
    """Return the progress of each. A replica that its broker does not report yet has 0 bytes."""
    moving = list(moving)
    topics = cluster.metadata(sorted(dict.fromkeys(each.partition[0] for each in moving))).topics if moving else []
    leaders = {(topic.name or "", each.partition_index): each.leader_id for topic in topics
               for each in topic.partitions}
    wanted: dict[int, list[Partition]] = {}
    for each in moving:
        for broker in dict.fromkeys((*each.adding, leaders.get(each.partition, -1))):
            if broker >= 0:
                wanted.setdefault(broker, []).append(each.partition)
    sizes = {broker: log_sizes(cluster, broker, partitions) for broker, partitions in wanted.items()}
    found = {}
    for each in moving:
        whole = sizes.get(leaders.get(each.partition, -1), {}).get(each.partition, 0)
        done = sum(min(whole, sizes[broker].get(each.partition, 0)) for broker in each.adding)
        found[each.partition] = Progress(done, whole * len(each.adding))
    return found


def total(of: Mapping[Partition, Progress]) -> Progress:
    """Return the sum of all."""
    return Progress(sum(each.done_bytes for each in of.values()), sum(each.total_bytes for each in of.values()))


def log_sizes(cluster: Cluster, broker: int, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Return the bytes of these partitions' logs on one broker."""
    by_topic: dict[str, list[int]] = {}
    for name, index in partitions:
        by_topic.setdefault(name, []).append(index)
    answer = cluster.node(broker).send(DescribeLogDirsRequest(topics=[
        DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in by_topic.items()],
    ), DescribeLogDirsResponse)
    check(f"log directories of node {broker}", answer.error_code)
    return {(topic.name, each.partition_index): each.partition_size for directory in answer.results
            for topic in directory.topics for each in topic.partitions if not each.is_future_key}


# --- throttles --------------------------------------------------------------------------------------------------------


def throttle(cluster: Cluster, now: Mapping[Partition, Sequence[int]], then: Mapping[Partition, Sequence[int]],
             bytes_per_second: int) -> None:
    """Limit the bandwidth of the moves from `now` to `then`. Throttles the current replicas as sources and the added
    ones as followers, and sets the rate of every broker that has one of them."""
    sources: dict[str, list[str]] = {}
    targets: dict[str, list[str]] = {}
    brokers: dict[int, None] = {}
    for (topic, index), replicas in then.items():
        before = now.get((topic, index), ())
        coming = [each for each in replicas if each not in before]
        if coming:
            sources.setdefault(topic, []).extend(f"{index}:{each}" for each in before)
            targets.setdefault(topic, []).extend(f"{index}:{each}" for each in coming)
            brokers |= dict.fromkeys((*before, *coming))
    for topic, replicas_there in sources.items():
        alter_configs(cluster, "topic", topic, [
            Change(f"{LEADERS}.replicas", Operation.SET, ",".join(replicas_there)),
            Change(f"{FOLLOWERS}.replicas", Operation.SET, ",".join(targets[topic]))])
    for broker in brokers:
        alter_configs(cluster, "broker", str(broker), [
            Change(f"{kind}.rate", Operation.SET, str(bytes_per_second)) for kind in (LEADERS, FOLLOWERS)])


def unthrottle(cluster: Cluster, topics: Iterable[str], brokers: Iterable[int]) -> None:
    """Remove the throttles unconditionally, without reading them first. Each node replays a change of settings a moment
    after it was made, so the throttles that a node reports may be out of date."""
    for kind, names, what in (("topic", list(topics), "replicas"), ("broker", list(map(str, brokers)), "rate")):
        for name in names:
            alter_configs(cluster, kind, name, [
                Change(f"{direction}.{what}", Operation.DELETE, None) for direction in (LEADERS, FOLLOWERS)])


def throttles(cluster: Cluster, followers: Mapping[Partition, Sequence[int]]) -> dict[Partition, int]:
    """Return, for each throttled partition, the bytes per second that the slowest of those brokers may fetch of all its
    throttled partitions together."""
    topics = dict.fromkeys(topic for topic, _ in followers)
    brokers = dict.fromkeys(str(broker) for each in followers.values() for broker in each)
    replicas = settings(cluster, "topic", topics, f"{FOLLOWERS}.replicas")
    rates = settings(cluster, "broker", brokers, f"{FOLLOWERS}.rate")
    found = {}
    for (name, index), each in followers.items():
        throttled = (replicas[name] or "").split(",")
        bounds = [rate for broker in each if "*" in throttled or f"{index}:{broker}" in throttled
                  if (rate := int(rates[str(broker)] or NO_RATE)) < NO_RATE]
        if bounds:
            found[name, index] = min(bounds)
    return found


NO_RATE: Final = (1 << 63) - 1
"""Kafka's default."""
