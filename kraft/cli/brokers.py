"""`kraft brokers`: the brokers of a cluster, and the removal of one."""

import time
from collections.abc import Iterable
from typing import Final

import click

from kraft.cli.cluster import size_text
from kraft.cli.command import kraft
from kraft.cli.number_types import IntRange
from kraft.cli.options import Fields, Seconds, count_of, on_cluster, print_json, print_rows
from kraft.cli.partition_names import chosen, complete_partition, partition_text
from kraft.cli.reassign import NO_WAIT, THROTTLE, assignments, concerned, start
from kraft.cli.reassign_status import wait
from kraft.cli.stall import Stall
from kraft.client import Cluster, RefusedError, state
from kraft.client.connection import ConnectionFailedError
from kraft.client.log_dirs import PlacedReplica, move_replicas, placed_replicas
from kraft.client.partitions import Partition
from kraft.client.placement import Placement, changes
from kraft.client.quorum import QuorumClient
from kraft.client.reassignments import unthrottle
from kraft.client.refusals import check
from kraft.config.errors import InvalidConfigError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from kraft.protocol.messages.unregister_broker_response import UnregisterBrokerResponse

ROUNDS_MAX: Final = 5
"""Number of passes over a broker that is drained: topics that are created meanwhile may be placed on it."""
CHECK_SECONDS: Final = 0.2
BROKER: Final = click.argument("broker", type=IntRange(0))


@kraft.group("brokers")
def brokers_group() -> None:
    """List brokers and their directories, drain a broker, remove one from the cluster."""


@brokers_group.command("list")
@on_cluster
def list_command(cluster: Cluster, as_json: bool) -> None:
    """List the brokers with their replicas, leaderships and bytes. Includes fenced ones."""
    rows = broker_rows(cluster)
    print_rows(as_json, rows, ("broker", "address", "rack", "state", "replicas", "leads", "size"),
               [(row["broker"], row["address"], row["rack"], row["state"], row["replicas"], row["leads"],
                 size_text(row["log_bytes"])) for row in rows])


@brokers_group.command("replicas")
@BROKER
@on_cluster
def replicas_command(cluster: Cluster, broker: int, as_json: bool) -> None:
    """List the replicas in each log directory of a broker, and its moves with the records that they still lack."""
    rows = [{"directory": each.path, "partition": partition_text(each.partition), "log_bytes": each.size_bytes,
             "state": "moves here" if each.is_future else "here", "lag": each.offset_lag}
            for each in placed_replicas(cluster, broker)]
    print_rows(as_json, rows, ("directory", "partition", "size", "state", "lag"),
               [(row["directory"], row["partition"], size_text(int(row["log_bytes"])), row["state"], row["lag"])
                for row in rows])


@brokers_group.command("move")
@BROKER
@click.argument("directory")
@click.argument("names", metavar="TOPIC[/PARTITION]...", nargs=-1, required=True, shell_complete=complete_partition)
@NO_WAIT
@on_cluster
def move_command(cluster: Cluster, broker: int, directory: str, names: tuple[str, ...], no_wait: bool,
                 as_json: bool) -> None:
    """Move replicas into another log directory of the same broker, and wait for completion.

    To cancel a move, name the current directory of the replica. The broker's setting
    replica.alter.log.dirs.io.max.bytes.per.second is the throttle.
    """
    topics = cluster.metadata().topics
    replicas = assignments(topics, chosen(names, topics))
    wanted = [partition for partition, nodes in replicas.items() if broker in nodes]
    if not wanted:
        raise InvalidConfigError(f"broker {broker}: it has no replica of {', '.join(names)}")
    for partition, code in move_replicas(cluster, broker, directory, wanted).items():
        check(f"partition {partition_text(partition)}", code)
    if not no_wait:
        wait_for_moves(cluster, broker, wanted)
    if as_json:
        print_json([{"partition": partition_text(each), "directory": directory,
                     "result": "started" if no_wait else "done"} for each in wanted])
    else:
        click.echo(f"{count_of(len(wanted), 'replica')}: {'started' if no_wait else 'done'}")


@brokers_group.command("drain")
@BROKER
@THROTTLE
@on_cluster
def drain_command(cluster: Cluster, broker: int, throttle_bytes: int | None, as_json: bool) -> None:
    """Move every replica off a broker, to the brokers with the fewest, and wait for completion.

    The broker stays in the cluster: new topics may be placed on it.
    """
    moved = drain(cluster, broker, throttle_bytes)
    _print_result(as_json, broker, f"drained, {count_of(len(moved), 'partition')} moved", "drained")


@brokers_group.command("decommission")
@BROKER
@THROTTLE
@click.option("--wait", "wait_seconds", type=Seconds(zero=True), default=600.0, show_default=True,
              help="Seconds to wait until the broker has been stopped.")
@on_cluster
def decommission_command(cluster: Cluster, broker: int, throttle_bytes: int | None, wait_seconds: float,
                         as_json: bool) -> None:
    """Drain a broker, wait until it has been stopped, and remove it from the cluster.

    Stop its process yourself: a running broker would register itself again. A node that is also a voter of the metadata
    quorum must leave that first: kraft quorum remove.
    """
    voters = [each.node_id for each in QuorumClient(cluster).describe().voters]
    if voters == [broker]:
        raise InvalidConfigError(f"BROKER: node {broker} is the last voter of the metadata quorum, which cannot do "
                                 "without it; first add another voter: kraft quorum add")
    if broker in voters:
        raise InvalidConfigError(f"BROKER: node {broker} is a voting controller, and would never come back; "
                                 f"first remove it from the voters: kraft quorum remove {broker}")
    drain(cluster, broker, throttle_bytes)
    deadline = time.monotonic() + wait_seconds
    if is_up(cluster, broker):
        click.echo(f"broker {broker} has no replicas any more; stop it now", err=True)
    while is_up(cluster, broker):
        if time.monotonic() > deadline:
            raise RefusedError(f"broker {broker}", ErrorCode.REQUEST_TIMED_OUT,
                               f"it still runs after {wait_seconds:.0f} s; it is drained and was not unregistered")
        time.sleep(CHECK_SECONDS)
    answer = cluster.send(UnregisterBrokerRequest(broker_id=broker), UnregisterBrokerResponse)
    check(f"broker {broker}", answer.error_code, answer.error_message)
    _print_result(as_json, broker, "taken out of the cluster", "decommissioned")


def broker_rows(cluster: Cluster) -> list[Fields]:
    """Return a row for each registered broker."""
    found = state.brokers(cluster)
    partitions = [each for topic in cluster.metadata().topics for each in topic.partitions]
    directories = state.log_directories(cluster, [each.node_id for each in found if each.problem is None])
    return [{
        "broker": each.node_id, "address": each.address, "rack": each.rack,
        "state": "fenced" if each.fenced else "up" if each.problem is None else each.problem,
        "replicas": sum(each.node_id in one.replica_nodes for one in partitions),
        "leads": sum(each.node_id == one.leader_id for one in partitions),
        "log_bytes": sum(one.log_bytes for one in directories if one.node_id == each.node_id)
        if each.problem is None else -1,
    } for each in found]


def drain(cluster: Cluster, broker: int, throttle_bytes: int | None) -> list[Partition]:
    """Move all replicas off a broker, running or fenced, and return the partitions. Raises `InvalidConfigError` for an
    unknown broker and `RefusedError` when it keeps receiving new replicas."""
    if broker not in [each.node_id for each in state.brokers(cluster)]:
        raise InvalidConfigError(f"broker {broker}: the cluster has none of that id")
    moved: dict[Partition, None] = {}
    for _ in range(ROUNDS_MAX):
        topics = cluster.metadata().topics
        now = assignments(topics, [(topic.name or "", each.partition_index) for topic in topics
                                   for each in topic.partitions if broker in each.replica_nodes])
        if not now:
            return list(moved)
        racks = {node.node_id: node.rack for node in cluster.nodes() if node.node_id != broker}
        if not racks:
            raise InvalidConfigError(f"broker {broker}: no other broker is up that could have its replicas")
        placement = Placement(racks)
        for each in (one for topic in topics for one in topic.partitions if broker not in one.replica_nodes):
            placement.replicas.update(each.replica_nodes)
        then = changes(now, placement.plan(now))
        start(cluster, then, throttle_bytes)
        wait(cluster, then)
        if throttle_bytes is not None:
            unthrottle(cluster, *concerned(cluster, then))
        moved |= dict.fromkeys(then)
    raise RefusedError(f"broker {broker}", ErrorCode.REASSIGNMENT_IN_PROGRESS,
                       f"it got new replicas {ROUNDS_MAX} times while it was drained")


def wait_for_moves(cluster: Cluster, broker: int, partitions: Iterable[Partition]) -> None:
    """Wait until none of them is being moved to another directory of the broker. Raises `RefusedError` when there is no
    progress for `STALL_SECONDS`."""
    stall = Stall(f"the moves within broker {broker}")
    wanted = dict.fromkeys(partitions)

    def moving() -> list[PlacedReplica]:
        return [each for each in placed_replicas(cluster, broker) if each.is_future and each.partition in wanted]

    while found := moving():
        stall.check(found)
        time.sleep(CHECK_SECONDS)


def is_up(cluster: Cluster, broker: int) -> bool:
    """Return whether the cluster lists the broker as up. Queries another node if the connected one is this broker."""
    try:
        return broker in [node.node_id for node in cluster.nodes()]
    except ConnectionFailedError:
        cluster.close()
        return broker in [node.node_id for node in cluster.nodes()]


def _print_result(as_json: bool, broker: int, text: str, result: str) -> None:
    if as_json:
        print_json([{"broker": broker, "result": result}])
    else:
        click.echo(f"broker {broker}: {text}")
