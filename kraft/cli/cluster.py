"""`kraft cluster`: health and components of a cluster."""

from collections.abc import Iterable
from typing import Final

import click

from kraft.cli.cluster_up import up_command
from kraft.cli.command import kraft
from kraft.cli.options import Fields, on_cluster, print_fields, print_json, print_table
from kraft.client import Cluster, ConnectionFailedError, RefusedError, state

NAMED_MAX: Final = 10
UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


@kraft.group("cluster")
def cluster_group() -> None:
    """Start a cluster on this machine; show nodes, controller, quorum, partitions and log directories."""


cluster_group.add_command(up_command)

@cluster_group.command("status")
@on_cluster
def status_command(cluster: Cluster, as_json: bool) -> None:
    """Show whether the cluster is healthy; exit code 1 when it is not.

    Problems of brokers: fenced, no answer, no contact with a controller for too long, committed settings that cannot be
    applied. Problems of partitions: no leader, replicas that are not in sync, replicas that lost records. Other
    problems: failed log directories, a quorum without a leader. Strays are shown but are not a problem.
    """
    found = status(cluster)
    if as_json:
        print_json([found])
    else:
        _print_status(found)
    if found["problems"]:
        raise click.exceptions.Exit(1)


@cluster_group.command("describe")
@on_cluster
def describe_command(cluster: Cluster, as_json: bool) -> None:
    """Show the nodes, the quorum, the features and the log directories."""
    found = description(cluster)
    if as_json:
        print_json([found])
        return
    print_fields([("cluster", found["cluster_id"]), ("controller", found["controller"]),
                  ("features", ", ".join(f"{name} {level}" for name, level in found["features"].items()))])
    _print_part("brokers", ("node", "address", "rack", "fenced", "problem"), found["brokers"])
    if found["quorum"]:
        _print_part("quorum", ("node", "log end", "lag", "voter"), found["quorum"]["replicas"])
    _print_part("log directories", ("node", "directory", "problem", "logs", "size", "disk", "free"),
                [{**each, **{name: size_text(each[name]) for name in ("log_bytes", "total_bytes", "usable_bytes")}}
                 for each in found["log_directories"]])


def status(cluster: Cluster) -> Fields:
    """Return the figures that describe the health of a cluster, and `problems`, one line each."""
    metadata = cluster.metadata()
    nodes = state.brokers(cluster)
    partitions = state.partitions(metadata)
    directories = state.log_directories(cluster, [node.node_id for node in nodes if node.problem is None])
    problems = [f"broker {node.node_id}: {node.problem}" for node in nodes if node.problem]
    problems += [f"broker {node_id}: {text}" for node_id, text in state.ended_leases(cluster, nodes).items()]
    problems += [f"broker {node_id} cannot apply committed metadata: {text}"
                 for node_id, texts in state.metadata_faults(cluster, nodes).items() for text in texts]
    on_disk = state.storage(cluster, nodes)
    problems += on_disk.lost_records
    quorum = None
    try:
        quorum = state.quorum(cluster)      # last: without a controller it uses all of the time-out
        if quorum is not None and quorum.leader < 0:
            problems.append("the quorum has no leader")
    except (RefusedError, ConnectionFailedError) as error:
        problems.append(f"the quorum does not answer: {error}")
    problems += _named("partitions without a leader", partitions.without_leader)
    problems += _named("partitions with replicas that are not in sync", partitions.under_replicated)
    problems += [f"node {each.node_id}, {each.path}: {each.problem}" for each in directories if each.problem]
    return {
        "cluster_id": metadata.cluster_id, "controller": metadata.controller_id,
        "brokers": len(nodes), "quorum": None if quorum is None else {
            "leader": quorum.leader, "epoch": quorum.epoch, "high_watermark": quorum.high_watermark,
            "voters": [each.node_id for each in quorum.replicas if each.voter]},
        "topics": partitions.topics, "partitions": partitions.partitions,
        "partitions_without_leader": list(partitions.without_leader),
        "partitions_under_replicated": list(partitions.under_replicated),
        "log_bytes": sum(each.log_bytes for each in directories), "strays": on_disk.strays,
        "problems": problems,
    }


def description(cluster: Cluster) -> Fields:
    """Return all components of a cluster except its topics."""
    metadata = cluster.metadata([])
    nodes = state.brokers(cluster)
    quorum = state.quorum(cluster)
    directories = state.log_directories(cluster, [node.node_id for node in nodes if node.problem is None])
    return {
        "cluster_id": metadata.cluster_id, "controller": metadata.controller_id, "features": state.features(cluster),
        "brokers": [each._asdict() for each in nodes],
        "quorum": None if quorum is None else {
            "leader": quorum.leader, "epoch": quorum.epoch, "high_watermark": quorum.high_watermark, "replicas": [
                {"node_id": each.node_id, "log_end_offset": each.log_end_offset, "lag": each.lag, "voter": each.voter}
                for each in quorum.replicas]},
        "log_directories": [each._asdict() for each in directories],
    }


def size_text(size_bytes: int) -> str:
    """Format a size in the largest unit in which it is above 1; `-` when it is unknown."""
    if size_bytes < 0:
        return "-"
    size = float(size_bytes)
    unit = 0
    while size >= 1000 and unit < len(UNITS) - 1:
        size /= 1000
        unit += 1
    return f"{size:.1f} {UNITS[unit]}" if unit else f"{size_bytes} B"


def _named(what: str, names: tuple[str, ...]) -> list[str]:
    if not names:
        return []
    more = "" if len(names) <= NAMED_MAX else f" and {len(names) - NAMED_MAX:,} more"
    return [f"{len(names):,} {what}: {', '.join(names[:NAMED_MAX])}{more}"]


def _print_status(found: Fields) -> None:
    quorum = found["quorum"]
    print_fields([
        ("cluster", found["cluster_id"]),
        ("controller", found["controller"]),
        ("quorum", quorum and f"leader {quorum['leader']}, epoch {quorum['epoch']}, high watermark "
                              f"{quorum['high_watermark']}, voters {','.join(map(str, quorum['voters']))}"),
        ("brokers", found["brokers"]),
        ("topics", f"{found['topics']:,}, {found['partitions']:,} partitions, {size_text(found['log_bytes'])}"),
        ("state", "well" if not found["problems"] else "not well"),
    ])
    for line in found["strays"]:
        click.echo(f"  {line}")
    for problem in found["problems"]:
        click.echo(f"  {problem}")


def _print_part(title: str, columns: tuple[str, ...], rows: Iterable[Fields]) -> None:
    click.echo()
    print_table(columns, [list(row.values()) for row in rows], title)
