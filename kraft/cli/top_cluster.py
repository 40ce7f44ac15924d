"""Load of a cluster as its protocol shows it: two samples, and the rates between them. Any Kafka cluster answers."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from kraft.cli.options import Fields
from kraft.client import Cluster
from kraft.client.groups import Member, committed_offsets, describe_group, list_groups
from kraft.client.log_dirs import placed_replicas
from kraft.client.partitions import LATEST, Partition, every, list_offsets
from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import KraftError


@dataclass(slots=True)
class Sample:
    """State at one moment. `time_s` is a monotonic clock's. Sizes are those of the leaders' replicas."""

    time_s: float
    controller: int
    addresses: dict[int, str]
    leaders: dict[Partition, int]
    under_replicated: set[Partition]
    replicas: dict[int, int]
    ends: dict[Partition, int]
    sizes: dict[Partition, int] = field(default_factory=dict)
    committed: dict[str, dict[Partition, int]] = field(default_factory=dict)
    members: dict[str, tuple[Member, ...]] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)


def take(cluster: Cluster, time_s: float) -> Sample:
    """Return the state now. A group or a node that cannot be read is omitted; a cluster that does not answer at all
    raises what `Cluster.metadata` raises."""
    metadata = cluster.metadata()
    topics = [topic for topic in metadata.topics if topic.error_code == ErrorCode.NONE]
    found = Sample(time_s, metadata.controller_id, {each.node_id: f"{each.host}:{each.port}"
                                                    for each in metadata.brokers}, {}, set(), {}, {})
    for topic in topics:
        for each in topic.partitions:
            partition = (topic.name or "", each.partition_index)
            if each.leader_id >= 0:
                found.leaders[partition] = each.leader_id
            if len(each.isr_nodes) < len(each.replica_nodes):
                found.under_replicated.add(partition)
            for node in each.replica_nodes:
                found.replicas[node] = found.replicas.get(node, 0) + 1
    with suppress(KraftError):
        found.ends = list_offsets(cluster, topics, every(topics, LATEST))
    for node in found.addresses:
        with suppress(KraftError):
            found.sizes |= {each.partition: each.size_bytes for each in placed_replicas(cluster, node)
                            if not each.is_future and found.leaders.get(each.partition) == node}
    with suppress(KraftError):
        for group in list_groups(cluster):
            with suppress(KraftError):
                _add_group(cluster, found, group.group)
    return found


def _add_group(cluster: Cluster, found: Sample, group: str) -> None:
    found.committed[group] = {partition: each.offset for partition, each in committed_offsets(cluster, group).items()}
    described = describe_group(cluster, group)
    found.members[group], found.states[group] = described.members, described.state


def brokers(before: Sample, now: Sample) -> list[Fields]:
    """Return one row for each broker: partitions, and what is written to those that it leads."""
    rows = []
    for node, address in sorted(now.addresses.items()):
        led = [partition for partition, leader in now.leaders.items() if leader == node]
        rows.append({"node": node, "address": address, "controller": node == now.controller, "leads": len(led),
                     "replicas": now.replicas.get(node, 0),
                     "under_replicated": sum(partition in now.under_replicated for partition in led),
                     **_written(before, now, led)})
    return rows


def topics(before: Sample, now: Sample) -> list[Fields]:
    """Return one row for each topic, the busiest first."""
    names: dict[str, list[Partition]] = {}
    for partition in {**now.ends, **now.leaders}:
        names.setdefault(partition[0], []).append(partition)
    rows: list[Fields] = [{
        "topic": name, "partitions": len(partitions),
        "under_replicated": sum(partition in now.under_replicated for partition in partitions),
        "bytes": sum(now.sizes.get(partition, 0) for partition in partitions), **_written(before, now, partitions),
    } for name, partitions in names.items()]
    return sorted(rows, key=lambda row: (-row["records_per_second"], -row["bytes"], row["topic"]))


def groups(before: Sample, now: Sample) -> list[Fields]:
    """Return one row for each group, the furthest behind first."""
    rows: list[Fields] = []
    for group, committed in now.committed.items():
        earlier = before.committed.get(group, {})
        rows.append({"group": group, "state": now.states.get(group), "members": len(now.members.get(group, ())),
                     "partitions": len(committed), "lag": _lag(now, committed, committed),
                     "records_per_second": _rate(before, now, (
                         offset - earlier[partition] for partition, offset in committed.items()
                         if partition in earlier))})
    return sorted(rows, key=lambda row: (-row["lag"], row["group"]))


def clients(before: Sample, now: Sample) -> list[Fields]:
    """Return one row for each member of a group, the furthest behind first."""
    rows: list[Fields] = []
    for group, members in now.members.items():
        committed, earlier = now.committed.get(group, {}), before.committed.get(group, {})
        for member in members:
            partitions = member.partitions or ()
            rows.append({"client": member.client_id, "host": member.client_host, "group": group,
                         "partitions": len(partitions), "lag": _lag(now, partitions, committed),
                         "records_per_second": _rate(before, now, (
                             committed[partition] - earlier[partition] for partition in partitions
                             if partition in committed and partition in earlier))})
    return sorted(rows, key=lambda row: (-row["lag"], row["client"], row["group"]))


def _lag(now: Sample, partitions: Iterable[Partition], committed: dict[Partition, int]) -> int:
    return sum(max(0, now.ends[partition] - committed[partition]) for partition in partitions
               if partition in now.ends and partition in committed)


def _written(before: Sample, now: Sample, partitions: list[Partition]) -> Fields:
    return {name: _rate(before, now, (later[partition] - earlier[partition] for partition in partitions
                                      if partition in later and partition in earlier))
            for name, earlier, later in (("records_per_second", before.ends, now.ends),
                                         ("bytes_per_second", before.sizes, now.sizes))}


def _rate(before: Sample, now: Sample, changes: Iterable[int]) -> float:
    """Return the changes per second. Falls, as by deletion, count as none."""
    seconds = now.time_s - before.time_s
    return round(sum(max(0, each) for each in changes) / seconds, 1) if seconds > 0 else 0.0
