"""`kraft groups`: consumer, share and streams groups of any Kafka cluster."""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import click

from kraft.cli.command import kraft
from kraft.cli.kafka_names import group_argument, groups_argument, reset_target
from kraft.cli.moments import time_ms, whole_number
from kraft.cli.options import Fields, on_cluster, print_fields, print_json, print_rows, print_table
from kraft.client import Cluster, RefusedError
from kraft.client import groups as client
from kraft.client.partitions import EARLIEST, LATEST, Partition, list_offsets
from kraft.client.refusals import check
from kraft.client.share_groups import StartOffset, set_start_offsets, share_group, start_offsets
from kraft.client.streams_groups import STREAMS, Task, streams_group
from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import InvalidArgumentError

if TYPE_CHECKING:
    from kraft.protocol.messages.metadata_response import MetadataResponseTopic

WITHOUT_MEMBERS: Final = ("Empty", "Dead")
STATES: Final = ("Assigning", "CompletingRebalance", "Dead", "Empty", "NotReady", "PreparingRebalance", "Reconciling",
                 "Stable")
_SHIFT: Final = re.compile(r"[+-][0-9]+")


@kraft.group("groups")
def groups_group() -> None:
    """List, describe and delete consumer, share and streams groups; show and set their offsets."""


@groups_group.command("list")
@click.option("--state", type=click.Choice(STATES, case_sensitive=False), help="Only groups in this state.")
@on_cluster
def list_command(cluster: Cluster, state: str | None, as_json: bool) -> None:
    """List the groups."""
    found = client.list_groups(cluster)
    rows = [each._asdict() for each in found if state is None or each.state.lower() == state.lower()]
    print_rows(as_json, rows, ("group", "kind", "state", "protocol", "coordinator"),
               [list(row.values()) for row in rows])


@groups_group.command("describe")
@groups_argument
@on_cluster
def describe_command(cluster: Cluster, names: tuple[str, ...], as_json: bool) -> None:
    """Show groups with their members and the partitions that each reads."""
    found = [client.describe_group(cluster, name) for name in dict.fromkeys(names)]
    if as_json:
        print_json({**each._asdict(), "members": [
            {**member._asdict(), "partitions": _partition_names(member.partitions)} for member in each.members]}
            for each in found)
        return
    for each in found:
        click.secho(each.group, bold=True)
        print_fields([("kind", each.kind), ("state", each.state), ("protocol", each.protocol_type),
                      ("assignor", each.protocol)])
        print_table(("member", "instance", "client", "host", "partitions"),
                    [(member.member_id, member.instance_id, member.client_id, member.client_host,
                      _partition_names(member.partitions)) for member in each.members])


@groups_group.command("members")
@group_argument
@on_cluster
def members_command(cluster: Cluster, group: str, as_json: bool) -> None:
    """List the members of a group and what each reads.

    Members of consumer, share and streams groups have an epoch, those of consumer groups a target too, and those of
    streams groups a process and tasks."""
    described = client.describe_group(cluster, group)
    rows: list[Fields]
    if described.kind == STREAMS:
        _print_streams_members(cluster, group, as_json)
        return
    if described.kind == client.CONSUMER:
        rows = [{"member": each.member_id, "client": each.client_id, "host": each.client_host, "epoch": each.epoch,
                 "partitions": _partition_names(each.assigned), "target": _partition_names(each.target)}
                for each in client.describe_progress(cluster, group).members]
    elif (shared := share_group(cluster.coordinator(group), group)) is not None:
        rows = [{"member": each.member_id, "client": each.client_id, "host": each.client_host, "epoch": each.epoch,
                 "partitions": _partition_names(each.assigned), "target": None} for each in shared.members]
    else:
        rows = [{"member": each.member_id, "client": each.client_id, "host": each.client_host, "epoch": None,
                 "partitions": _partition_names(each.partitions), "target": None} for each in described.members]
    print_rows(as_json, rows, ("member", "client", "host", "epoch", "partitions", "target"),
               [list(row.values()) for row in rows])


def _print_streams_members(cluster: Cluster, group: str, as_json: bool) -> None:
    found = streams_group(cluster.coordinator(group), group)
    rows: list[Fields] = [
        {"member": each.member_id, "client": each.client_id, "host": each.client_host, "epoch": each.epoch,
         "process": each.process_id, "active": _task_names(each.active), "standby": _task_names(each.standby),
         "warmup": _task_names(each.warmup), "target": _task_names(each.target)}
        for each in (found.members if found is not None else ())]
    print_rows(as_json, rows, ("member", "client", "host", "epoch", "process", "active", "standby", "warmup", "target"),
               [list(row.values()) for row in rows])


def _task_names(tasks: Iterable[Task]) -> list[str]:
    """Return tasks in the form of Kafka Streams: `0_3` is partition 3 of subtopology 0."""
    return [f"{subtopology}_{index}" for subtopology, index in tasks]


@groups_group.command("delete")
@groups_argument
@on_cluster
def delete_command(cluster: Cluster, names: tuple[str, ...], as_json: bool) -> None:
    """Delete groups that have no members, with their offsets."""
    refused = 0
    for name in dict.fromkeys(names):
        try:
            client.delete_group(cluster, name)
        except RefusedError as error:
            refused += 1
            click.echo(f"kraft: {error}", err=True)
            continue
        if as_json:
            print_json([{"group": name, "result": "deleted"}])
        else:
            click.echo(f"{name}: deleted")
    if refused:
        raise click.exceptions.Exit(1)


@groups_group.command("offsets")
@group_argument
@on_cluster
def offsets_command(cluster: Cluster, group: str, as_json: bool) -> None:
    """Show the committed offsets of a group, and its lag behind the end of each partition. Of a share group: where it
    starts, and how many records behind that are yet to be processed."""
    if share_group(cluster.coordinator(group), group) is not None:
        _show_starts(cluster, group, as_json)
        return
    committed = client.committed_offsets(cluster, group)
    if not committed:
        client.describe_group(cluster, group)       # raises for a missing group
        click.echo(f"kraft: group {group} has committed nothing", err=True)
    topics = _topics(cluster, (topic for topic, _ in committed))
    ends = list_offsets(cluster, topics, dict.fromkeys(committed, LATEST))
    rows: list[Fields] = []
    for (topic, index), found in committed.items():
        end = ends.get((topic, index))
        rows.append({"topic": topic, "partition": index, "committed": found.offset, "end": end,
                     "lag": None if end is None else max(0, end - found.offset), "metadata": found.metadata})
    print_rows(as_json, rows, ("topic", "partition", "committed", "end", "lag", "metadata"),
               [list(row.values()) for row in rows])


def _show_starts(cluster: Cluster, group: str, as_json: bool) -> None:
    rows: list[Fields] = [{"topic": topic, "partition": index, "start": found.offset, "lag": found.lag}
                          for (topic, index), found in start_offsets(cluster, group).items()]
    if not rows:
        click.echo(f"kraft: share group {group} has started nowhere", err=True)
    print_rows(as_json, rows, ("topic", "partition", "start", "lag"), [list(row.values()) for row in rows])


@groups_group.command("reset")
@group_argument
@reset_target
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:P,...]",
              help="Of these topics or partitions; may be given again [default: all that the group has committed].")
@click.option("--dry-run/--execute", "dry_run", help="Only show what would be set.")
@on_cluster
def reset_command(cluster: Cluster, group: str, to: str, topics: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Set the committed offsets of a group, or where a share group starts. It must have no members; a missing group is
    created, as a classic one."""
    _refuse_members(cluster, group)
    is_shared = share_group(cluster.coordinator(group), group) is not None
    known: Mapping[Partition, client.Committed | StartOffset] = (
        start_offsets(cluster, group) if is_shared else client.committed_offsets(cluster, group))
    committed = {partition: found.offset for partition, found in known.items()}
    if not topics and not committed:
        client.describe_group(cluster, group)
        raise InvalidArgumentError(f"group {group} has committed nothing: name what to set with --topic")
    partitions = _wanted(cluster, topics) if topics else list(committed)
    offsets = targets(cluster, to, partitions, committed)
    if offsets and not dry_run:
        (set_start_offsets if is_shared else client.commit_offsets)(cluster, group, offsets)
    rows = [{"topic": topic, "partition": index, "before": committed.get((topic, index)), "committed": offset}
            for (topic, index), offset in sorted(offsets.items())]
    print_rows(as_json, rows, ("topic", "partition", "before", "would be" if dry_run else "committed"),
               [list(row.values()) for row in rows])


def targets(cluster: Cluster, to: str, partitions: list[Partition],
            committed: dict[Partition, int]) -> dict[Partition, int]:
    """Return the offset that `to` means for each partition, limited to the offsets that the partition holds."""
    topics = _topics(cluster, (topic for topic, _ in partitions))
    starts = list_offsets(cluster, topics, dict.fromkeys(partitions, EARLIEST))
    ends = list_offsets(cluster, topics, dict.fromkeys(partitions, LATEST))
    if missing := [partition for partition in partitions if partition not in starts or partition not in ends]:
        check(f"partition {missing[0][0]}-{missing[0][1]}", ErrorCode.LEADER_NOT_AVAILABLE)
    if to == "earliest":
        wanted = starts
    elif to == "latest":
        wanted = ends
    elif (offset := whole_number(to)) is not None:
        wanted = dict.fromkeys(partitions, offset)
        for (topic, index), high in ends.items():
            if not (low := starts[topic, index]) <= offset <= high:
                click.echo(f"kraft: {topic}/{index}: offset {offset} is not in {low} to {high}; the nearest is taken",
                           err=True)
    elif _SHIFT.fullmatch(to):
        wanted = {partition: committed.get(partition, starts[partition]) + int(to) for partition in partitions}
    else:
        moment_ms = time_ms("--to", to, "earliest, latest, an offset, +N, -N")
        found = list_offsets(cluster, topics, dict.fromkeys(partitions, moment_ms))
        wanted = {partition: found[partition] if found[partition] >= 0 else ends[partition]
                  for partition in partitions}
    return {partition: min(max(wanted[partition], starts[partition]), ends[partition]) for partition in partitions}


def _refuse_members(cluster: Cluster, group: str) -> None:
    try:
        found = client.describe_group(cluster, group)
    except RefusedError as error:
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return
        raise
    if found.state not in WITHOUT_MEMBERS:
        raise RefusedError(f"group {group}", ErrorCode.NON_EMPTY_GROUP,
                           f"it is {found.state} with {len(found.members)} member(s); stop them first")


def _wanted(cluster: Cluster, texts: Iterable[str]) -> list[Partition]:
    """Return the partitions that `TOPIC` and `TOPIC:P,...` name."""
    found: dict[Partition, None] = {}
    for text in texts:
        name, separator, indexes = text.partition(":")
        known = [each.partition_index for each in cluster.topic(name).partitions]
        chosen = known
        if separator:
            parts = indexes.split(",")
            if not all(whole_number(part) in known for part in parts):
                raise InvalidArgumentError(f"--topic: {text!r}: {name} has partitions 0 to {max(known)}")
            chosen = [int(part) for part in parts]
        found |= dict.fromkeys((name, index) for index in sorted(chosen))
    return list(found)


def _topics(cluster: Cluster, names: Iterable[str]) -> "list[MetadataResponseTopic]":
    """Return the metadata of topics; deleted ones are omitted."""
    wanted = list(dict.fromkeys(names))
    return [topic for topic in cluster.metadata(wanted).topics if topic.error_code == ErrorCode.NONE]


def _partition_names(partitions: tuple[Partition, ...] | None) -> list[str] | None:
    return None if partitions is None else [f"{topic}-{index}" for topic, index in partitions]
