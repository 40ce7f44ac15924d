"""Places of a load: which partitions each of its connections sends to or reads, and their leaders."""

from typing import Final, NamedTuple

from kraft.client import Cluster, Connection, RefusedError
from kraft.load.errors import InvalidWorkloadError
from kraft.load.workload import Place, Workload
from kraft.protocol.error_codes import ErrorCode


class Part(NamedTuple):
    """Share of one generator process: every `of`-th connection, from number `first` on."""

    first: int = 0
    of: int = 1


class Opened(NamedTuple):
    """A connection to the leader of its places. `share` is the part of the load's rate that is due on it."""

    connection: Connection
    places: tuple[Place, ...]
    share: float


class Wanted(NamedTuple):
    """A connection that is not open yet."""

    leader: int
    places: tuple[Place, ...]
    share: float


WHOLE = Part()
READERS_MAX: Final = 10_000


def producers(workload: Workload, cluster: Cluster) -> list[Wanted]:
    """Return the connections of a load, all processes together. Each has one partition, round robin.

    With `spread` each is a producer of one topic, round robin, as applications have them: a connection to every broker
    that leads partitions of the topic, for all of these. The brokers' shares of the rate are those of the partitions.
    """
    led = _led(workload, cluster)
    if not workload.spread:
        chosen = [led[number % len(led)] for number in range(workload.connections)]
        return [Wanted(leader, (place,), 1 / workload.connections) for place, leader in chosen]
    by_topic: dict[str, dict[int, list[Place]]] = {name: {} for name in workload.topic_names}
    for place, leader in led:
        by_topic[place.topic].setdefault(leader, []).append(place)
    chosen_topics = [workload.topic_names[number % workload.topics] for number in range(workload.connections)]
    return [Wanted(leader, tuple(places), len(places) / places[0].partitions / workload.connections)
            for topic in chosen_topics for leader, places in by_topic[topic].items()]


def readers(workload: Workload, cluster: Cluster) -> list[Wanted]:
    """Return one connection for each partition that is sent to and each group."""
    found: dict[Place, int] = {}
    for each in producers(workload, cluster):
        found.update(dict.fromkeys(each.places, each.leader))
    if workload.groups * len(found) > READERS_MAX:
        raise InvalidWorkloadError(f"groups: {workload.groups} of {len(found)} partitions are more than {READERS_MAX} "
                                   "readers")
    return [Wanted(leader, (place,), 0.0) for _ in range(workload.groups) for place, leader in found.items()]


def _led(workload: Workload, cluster: Cluster) -> list[tuple[Place, int]]:
    """Return the partitions of all topics with their leaders, one of each topic first. Raises `RefusedError` for one
    without a leader."""
    found: list[tuple[Place, int]] = []
    for name in workload.topic_names:
        partitions = sorted(cluster.topic(name).partitions, key=lambda each: each.partition_index)
        found += [(Place(name, each.partition_index, len(partitions)), each.leader_id) for each in partitions]
    return sorted(found, key=lambda each: each[0].partition)


def open_all(wanted: list[Wanted], cluster: Cluster, part: Part = WHOLE) -> list[Opened]:
    """Open the connections of one process. Raises `RefusedError` for a partition without a leader. No connection stays
    open after an error."""
    nodes = {node.node_id: node for node in cluster.nodes()}
    chosen = wanted[part.first::part.of]
    for each in chosen:
        if each.leader not in nodes:
            place = each.places[0]
            raise RefusedError(f"partition {place.topic}-{place.partition}", ErrorCode.LEADER_NOT_AVAILABLE)
    opened: list[Opened] = []
    try:
        for each in chosen:
            leader = nodes[each.leader]
            opened.append(Opened(cluster.connect(leader.host, leader.port), each.places, each.share))
    except BaseException:
        for done in opened:
            done.connection.close()
        raise
    return opened
