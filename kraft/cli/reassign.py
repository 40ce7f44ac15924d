"""`kraft topics reassign`: moves of replicas between brokers."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from kraft.cli.cluster import size_text
from kraft.cli.number_types import IntRange
from kraft.cli.options import OUTPUT_FILE, Fields, count_of, on_cluster, print_json, print_table
from kraft.cli.partition_names import chosen, complete_partition, partition_text
from kraft.cli.reassign_status import Targets, status, under_way, wait
from kraft.client import Cluster, RefusedError
from kraft.client.partitions import Partition
from kraft.client.placement import Placement, changes
from kraft.client.reassignments import log_sizes, ongoing, reassign, throttle, unthrottle
from kraft.config.errors import InvalidConfigError
from kraft.protocol.messages.metadata_response import MetadataResponseTopic

PLAN_VERSION: Final = 1

PLAN: Final = click.argument("plan", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
NO_WAIT: Final = click.option("--no-wait", is_flag=True, help="Return once it has started.")
THROTTLE: Final = click.option("--throttle", "throttle_bytes", type=IntRange(1), metavar="BYTES",
                               help="Bytes per second that the moves may take on each broker, in and out.")


@click.group("reassign")
def reassign_group() -> None:
    """Move replicas between brokers: plan it, start it, watch it, cancel it."""


@reassign_group.command("plan")
@click.argument("names", metavar="[TOPIC[/PARTITION]]...", nargs=-1, shell_complete=complete_partition)
@click.option("--brokers", metavar="ID,...", help="Brokers that may have replicas [default: all that are up].")
@click.option("--replication-factor", type=IntRange(1), help="[default: as many replicas as now]")
@click.option("--out", type=OUTPUT_FILE, help="Write the plan there, for `start`.")
@on_cluster
def plan_command(cluster: Cluster, names: tuple[str, ...], brokers: str | None, replication_factor: int | None,
                 out: Path | None, as_json: bool) -> None:
    """Propose a placement of replicas: evenly spread, in separate racks, with as few moves as possible.

    Without names it plans all topics except internal ones. Changes nothing. With --json it prints the plan, in the
    format of Kafka's own tool.
    """
    topics = cluster.metadata().topics
    racks = {node.node_id: node.rack for node in cluster.nodes()}
    if brokers is not None:
        allowed = _ids(brokers)
        if unknown := [each for each in allowed if each not in racks]:
            raise InvalidConfigError(f"--brokers: {', '.join(map(str, unknown))}: not up; up are "
                                     f"{', '.join(map(str, sorted(racks)))}")
        racks = {each: racks[each] for each in allowed}
    now = assignments(topics, chosen(names, topics) if names else None)
    then = changes(now, Placement(racks).plan(now, replication_factor))
    rows = plan_rows(cluster, topics, now, then)
    if out is not None:
        out.write_text(json.dumps(plan_json(then), indent=1) + "\n", "utf-8")
    if as_json:
        print_json([plan_json(then)])
        return
    print_table(("partition", "now", "then", "to copy"),
                [(row["partition"], row["now"], row["then"], size_text(row["bytes"])) for row in rows])
    copied = sum(row["bytes"] for row in rows)
    click.echo(f"{count_of(len(rows), 'partition')} to change, {size_text(copied)} to copy")


@reassign_group.command("start")
@PLAN
@THROTTLE
@NO_WAIT
@on_cluster
def start_command(cluster: Cluster, plan: Path, throttle_bytes: int | None, no_wait: bool, as_json: bool) -> None:
    """Execute a plan and wait for completion; `-` reads the plan from standard input.

    The throttle is removed at the end; with --no-wait `kraft topics reassign status PLAN` does that. If a plan in
    progress is started again with another --throttle, it continues with that one.
    """
    then = read_plan(plan)
    start(cluster, then, throttle_bytes)
    if not no_wait:
        wait(cluster, then)
        unthrottle(cluster, *concerned(cluster, then))
    _print_result(as_json, "started" if no_wait else "done", then)


@reassign_group.command("status")
@click.argument("plan", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@click.option("--watch", is_flag=True, help="Wait for completion, with a progress bar.")
@on_cluster
def status_command(cluster: Cluster, plan: Path | None, watch: bool, as_json: bool) -> None:
    """Show reassignments with progress, throttle and remaining time; with a plan, the completed part of it.

    The remaining time is estimated from half a second of copying. The throttle of a completed plan is removed.
    """
    then = read_plan(plan) if plan else {each.partition: each.targets for each in ongoing(cluster).values()}
    if watch:
        wait(cluster, then)
    rows, seconds = status(cluster, then)
    if plan and all(row["state"] == "done" for row in rows):
        unthrottle(cluster, *concerned(cluster, then))
    if as_json:
        print_json(rows)
        return
    print_table(("partition", "state", "replicas", "adding", "removing", "copied", "of", "throttle", "left"),
                [(row["partition"], row["state"], row["replicas"], row["adding"], row["removing"],
                  size_text(row["done_bytes"]), size_text(row["total_bytes"]),
                  "" if row["throttle_bytes"] is None else f"{size_text(row['throttle_bytes'])}/s",
                  _seconds_text(row["seconds_left"])) for row in rows])
    if seconds is not None:
        click.echo(f"about {_seconds_text(seconds)} left at the rate of this moment")


@reassign_group.command("cancel")
@click.argument("names", metavar="[TOPIC[/PARTITION]]...", nargs=-1, shell_complete=complete_partition)
@click.option("--plan", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Those of a plan.")
@click.option("--all", "everything", is_flag=True, help="All ongoing reassignments.")
@on_cluster
def cancel_command(cluster: Cluster, names: tuple[str, ...], plan: Path | None, everything: bool,
                   as_json: bool) -> None:
    """Cancel reassignments: the replicas return to where they were. Throttles are removed."""
    if sum((bool(names), plan is not None, everything)) != 1:
        raise click.UsageError("give partitions, --plan or --all")
    if names:
        wanted = chosen(names, cluster.metadata().topics)
    else:
        wanted = list(read_plan(plan) if plan else ongoing(cluster))
    stopped = {each.partition: each.targets for each in under_way(cluster, wanted)}
    touched = concerned(cluster, wanted)
    if stopped:
        _refuse(reassign(cluster, dict.fromkeys(stopped)))
    unthrottle(cluster, *touched)
    _print_result(as_json, "cancelled", stopped)


# --- plans ------------------------------------------------------------------------------------------------------------


def read_plan(path: Path) -> Targets:
    """Read a plan of ours or of Kafka's tool. Raises `InvalidConfigError` for other files."""
    try:
        with click.open_file(str(path), encoding="utf-8") as file:
            found = json.load(file)
        return {(str(each["topic"]), int(each["partition"])): [int(broker) for broker in each["replicas"]]
                for each in found["partitions"]}
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidConfigError(f"{path}: no plan of a reassignment: {error!r}") from None


def plan_json(then: Mapping[Partition, Sequence[int]]) -> dict[str, Any]:
    """Return the plan in the format of Kafka's tool."""
    return {"version": PLAN_VERSION, "partitions": [
        {"topic": topic, "partition": index, "replicas": list(replicas), "log_dirs": ["any"] * len(replicas)}
        for (topic, index), replicas in then.items()]}


def assignments(topics: Iterable[MetadataResponseTopic], wanted: Sequence[Partition] | None) -> Targets:
    """Return the current replicas of `wanted`, or of all topics except internal ones."""
    found = {(topic.name or "", each.partition_index): list(each.replica_nodes)
             for topic in sorted(topics, key=lambda topic: topic.name or "")
             for each in sorted(topic.partitions, key=lambda each: each.partition_index)
             if wanted is not None or not topic.is_internal}
    return found if wanted is None else {each: found[each] for each in wanted}


def plan_rows(cluster: Cluster, topics: Iterable[MetadataResponseTopic], now: Targets, then: Targets) -> list[Fields]:
    """Return a row for each partition that changes, with the bytes that must be copied for it."""
    leaders = {(topic.name or "", each.partition_index): each.leader_id for topic in topics
               for each in topic.partitions}
    by_leader: dict[int, list[Partition]] = {}
    for partition in then:
        by_leader.setdefault(leaders[partition], []).append(partition)
    sizes = {partition: size for leader, partitions in by_leader.items() if leader >= 0
             for partition, size in log_sizes(cluster, leader, partitions).items()}
    return [{"partition": partition_text(partition), "now": now[partition], "then": replicas,
             "bytes": sizes.get(partition, 0) * len([each for each in replicas if each not in now[partition]])}
            for partition, replicas in then.items()]


# --- execution --------------------------------------------------------------------------------------------------------


def start(cluster: Cluster, then: Targets, throttle_bytes: int | None) -> None:
    """Set the throttle, if any, and only then start. Raises `RefusedError` for the first refused partition."""
    if throttle_bytes is not None:
        topics = cluster.metadata(sorted(dict.fromkeys(topic for topic, _ in then))).topics
        now = assignments(topics, list(then))
        for each in under_way(cluster, then):       # the added replicas are already in the list
            now[each.partition] = [broker for broker in now[each.partition] if broker not in each.adding]
        throttle(cluster, now, then, throttle_bytes)
    _refuse(reassign(cluster, then))


def _refuse(refused: Mapping[Partition, RefusedError]) -> None:
    for error in refused.values():
        raise error







def concerned(cluster: Cluster, then: Iterable[Partition]) -> tuple[list[str], list[int]]:
    """Return the topics and brokers whose throttles can be removed. Brokers are all that are up, or none while another
    reassignment is in progress, which needs their rates."""
    partitions = list(then)
    others = [each for each in ongoing(cluster) if each not in partitions]
    topics = sorted(dict.fromkeys(topic for topic, _ in partitions))
    return topics, [] if others else [node.node_id for node in cluster.nodes()]


def _ids(text: str) -> list[int]:
    parts = [each.strip() for each in text.split(",")]
    if not all(each.isdecimal() for each in parts):
        raise InvalidConfigError(f"--brokers: {text!r} is not ID,ID,...")
    return list(dict.fromkeys(map(int, parts)))


def _seconds_text(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.0f} s"


def _print_result(as_json: bool, result: str, then: Mapping[Partition, Sequence[int]]) -> None:
    if as_json:
        print_json([{"partition": partition_text(each), "result": result, "replicas": list(replicas)}
                    for each, replicas in then.items()])
    else:
        click.echo(f"{count_of(len(then), 'partition')}: {result}")
