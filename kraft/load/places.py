"""Places of a load: which partitions each of its connections sends to or reads, and their leaders."""

from typing import NamedTuple

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


def producers(workload: Workload, cluster: Cluster) -> list[Wanted]:
    """Return the connections of a load, all processes together. Each has one partition, round robin. With `spread` each
    has all partitions of one leader, and the leaders' shares of the rate are those of their partitions."""
    led = _led(workload, cluster)
    if not workload.spread:
        chosen = [led[number % len(led)] for number in range(workload.connections)]
        return [Wanted(leader, (place,), 1 / workload.connections) for place, leader in chosen]
    by_leader: dict[int, list[Place]] = {}
    for place, leader in led:
        by_leader.setdefault(leader, []).append(place)
    if workload.connections < len(by_leader):
        raise InvalidWorkloadError(f"connections: {workload.connections} is below {len(by_leader)}, the number of "
                                   "brokers that lead partitions")
    leaders = list(by_leader)
    numbers = [leaders[number % len(leaders)] for number in range(workload.connections)]
    return [Wanted(leader, tuple(by_leader[leader]), len(by_leader[leader]) / len(led) / numbers.count(leader))
            for leader in numbers]


def readers(workload: Workload, cluster: Cluster) -> list[Wanted]:
    """Return one connection for each partition that is sent to and each group."""
    found: dict[Place, int] = {}
    for each in producers(workload, cluster):
        found.update(dict.fromkeys(each.places, each.leader))
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
