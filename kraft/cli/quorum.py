"""`kraft quorum`: the controllers that keep the metadata log, and its voters."""

import time
from typing import Final
from uuid import UUID

import click

from kraft.cli.command import kraft
from kraft.cli.number_types import IntRange
from kraft.cli.options import Fields, on_cluster, print_fields, print_json, print_table
from kraft.cli.quorum_change import cancel_command, plan_command, reassign_command
from kraft.cli.quorum_log import log_command
from kraft.cli.quorum_timeline import timeline_command
from kraft.client import Cluster
from kraft.client.quorum import Description, QuorumClient, Replica
from kraft.config.errors import InvalidConfigError
from kraft.config.node_config import parse_endpoint

NO_DIRECTORY: Final = UUID(int=0)
LAGS_MS: Final = 1000
MISSED_MS: Final = 3000


@kraft.group("quorum")
def quorum_group() -> None:
    """Show the metadata quorum, its log and its history; change its voters.

    --bootstrap may name controllers or brokers, of this program or of Apache Kafka.
    """


for command in (plan_command, reassign_command, cancel_command, log_command, timeline_command):
    quorum_group.add_command(command)


@quorum_group.command("status")
@on_cluster
def status_command(cluster: Cluster, as_json: bool) -> None:
    """Show the leader and the voters; exit code 1 when a voter is unresponsive or lags.

    A voter lags when it has not had the whole log for a second.
    """
    found = QuorumClient(cluster).describe()
    fields = status(found)
    if as_json:
        print_json([fields])
    else:
        print_fields([(name.replace("_", " "), value) for name, value in fields.items()])
    if fields["lagging"]:
        raise click.exceptions.Exit(1)


@quorum_group.command("describe")
@on_cluster
def describe_command(cluster: Cluster, as_json: bool) -> None:
    """Show every replica of the metadata log, voters first."""
    from kraft.protocol.ids import id_text

    found = QuorumClient(cluster).describe()
    if as_json:
        print_json([{**each._asdict(), "directory_id": id_text(each.directory_id),
                     "leader": each.node_id == found.leader, "epoch": found.epoch} for each in found.replicas])
        return
    now_ms = _now_ms()
    print_table(
        ("node", "role", "log end", "lag", "last fetch", "caught up", "directory id", "address"),
        [[each.node_id, _role(each, found), each.log_end_offset, each.lag, _age(each.fetch_ms, now_ms),
          _age(each.caught_up_ms, now_ms), id_text(each.directory_id), ",".join(each.addresses)]
         for each in found.replicas],
        f"epoch {found.epoch}, high watermark {found.high_watermark}")


@quorum_group.command("add")
@click.argument("node_id", type=IntRange(0))
@click.argument("directory_id")
@click.argument("listeners", nargs=-1, required=True, metavar="NAME://HOST:PORT...")
@on_cluster
def add_command(cluster: Cluster, node_id: int, directory_id: str, listeners: tuple[str, ...], as_json: bool) -> None:
    """Make a controller that follows the log a voter; wait until it is one.

    `kraft storage info` on the new controller's directory shows its directory id.
    """
    endpoints = [parse_endpoint("LISTENERS", text) for text in listeners]
    client = QuorumClient(cluster)
    client.add(node_id, _directory(directory_id), [(each.listener, each.host, each.port) for each in endpoints])
    _print_result(f"node {node_id} votes", client.describe(), as_json)


@quorum_group.command("remove")
@click.argument("node_id", type=IntRange(0))
@click.argument("directory_id", required=False)
@click.option("--force", is_flag=True, help="Also when those that are left lag behind, and may not be able to commit.")
@on_cluster
def remove_command(cluster: Cluster, node_id: int, directory_id: str | None, force: bool, as_json: bool) -> None:
    """Make a voter an observer; wait until it is one. Without DIRECTORY_ID it is the voter of that node.

    Refused when too few of the others are caught up: without this voter they could commit nothing.
    """
    client = QuorumClient(cluster)
    found = client.describe()
    voters = {each.node_id: each.directory_id for each in found.voters}
    if node_id not in voters:
        raise InvalidConfigError(f"NODE_ID: node {node_id} is not a voter; voters: {','.join(map(str, voters))}")
    if len(voters) == 1:
        raise InvalidConfigError(f"NODE_ID: node {node_id} is the last voter of the metadata quorum, which cannot "
                                 "do without it; first add another voter: kraft quorum add")
    if not force:
        _check_remaining_voters(found, node_id)
    directory = voters[node_id] if directory_id is None else _directory(directory_id)
    client.remove(node_id, directory)
    _print_result(f"node {node_id} votes no more", client.describe(), as_json)


def _check_remaining_voters(found: Description, leaving: int) -> None:
    staying = [each.node_id for each in found.voters if each.node_id != leaving]
    lagging = [each for each in _lagging(found, MISSED_MS) if each in staying]
    needed = len(staying) // 2 + 1
    if len(staying) - len(lagging) < needed <= len(staying):
        raise InvalidConfigError(f"NODE-ID: without {leaving} {needed} of the voters {', '.join(map(str, staying))} "
                                 f"are needed, but {', '.join(map(str, lagging))} cannot be reached or is behind; "
                                 "remove those first, or use --force")


def _lagging(found: Description, for_ms: int = LAGS_MS) -> list[int]:
    """Return the voters that did not have the whole log for that long."""
    now_ms = _now_ms()
    return [each.node_id for each in found.voters if each.node_id != found.leader
            and (each.caught_up_ms < 0 or now_ms - each.caught_up_ms > for_ms)]


def status(found: Description) -> Fields:
    """Return the figures of the quorum's health. `failures_survived` is the number of voters that may fail in addition
    to the missing ones."""
    spare = len(found.voters) - len(_lagging(found, MISSED_MS)) - (len(found.voters) // 2 + 1)
    return {
        "leader": found.leader, "epoch": found.epoch, "high_watermark": found.high_watermark,
        "voters": [each.node_id for each in found.voters], "observers": [each.node_id for each in found.observers],
        "targets": found.targets, "lagging": _lagging(found), "failures_survived": max(0, spare),
    }


def _print_result(what: str, found: Description, as_json: bool) -> None:
    if as_json:
        print_json([status(found)])
    else:
        click.echo(f"{what}; voters: {','.join(str(each.node_id) for each in found.voters)}")


def _role(replica: Replica, found: Description) -> str:
    if replica.node_id == found.leader:
        return "leader"
    return "follower" if replica.voter else "observer"


def _age(time_ms: int, now_ms: int) -> str:
    return "-" if time_ms < 0 else f"{max(0, now_ms - time_ms) / 1000:.1f} s ago"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _directory(text: str) -> UUID:
    from kraft.protocol.ids import id_of

    try:
        return id_of(text)
    except ValueError as error:
        raise InvalidConfigError(f"DIRECTORY_ID: {error}") from None
