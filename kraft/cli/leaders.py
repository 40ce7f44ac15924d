"""`kraft leaders`: elections of partition leaders."""

from typing import Final

import click

from kraft.cli.command import kraft
from kraft.cli.options import Fields, on_cluster, print_json
from kraft.cli.partition_names import chosen, complete_partition
from kraft.client import Cluster, RefusedError
from kraft.client.refusals import check
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kraft.protocol.messages.elect_leaders_response import ElectLeadersResponse

PREFERRED: Final = 0
UNCLEAN: Final = 1


@kraft.group("leaders")
def leaders_group() -> None:
    """Elect leaders of partitions."""


@leaders_group.command("elect")
@click.argument("partitions", metavar="[TOPIC[/PARTITION]]...", nargs=-1, shell_complete=complete_partition)
@click.option("--all", "everything", is_flag=True, help="All partitions of the cluster.")
@click.option("--unclean", is_flag=True,
              help="Where nobody leads, let a replica lead that may have lost records: what it lacks is lost for good.")
@on_cluster
def elect_command(cluster: Cluster, partitions: tuple[str, ...], everything: bool, unclean: bool,
                  as_json: bool) -> None:
    """Elect the preferred replica, the first of its partition, where another one leads.

    Exit code 1 when an election failed. Partitions that need no election are skipped.
    """
    if everything == bool(partitions):
        raise click.UsageError("give either partitions or --all")
    if unclean:
        click.echo("kraft: an unclean election may lose acknowledged records", err=True)
    rows = elect(cluster, None if everything else list(partitions), UNCLEAN if unclean else PREFERRED)
    for row in rows:
        if row["error"]:
            click.echo(f"kraft: {row['error']}", err=True)
        elif as_json:
            print_json([{name: value for name, value in row.items() if name != "error"}])
        else:
            click.echo(f"{row['topic']}/{row['partition']}: {row['result']}")
    if not rows and not as_json:
        click.echo("every partition has the leader that it should have")
    if any(row["error"] for row in rows):
        raise click.exceptions.Exit(1)


def elect(cluster: Cluster, names: list[str] | None, kind: int) -> list[Fields]:
    """Hold the elections, in all partitions if `names` is None. Return a row for each attempt, with `error` where it
    failed."""
    topics: dict[str, list[int]] = {}
    if names is not None:
        for topic, index in chosen(names, cluster.metadata().topics):
            topics.setdefault(topic, []).append(index)
    answer = cluster.send(ElectLeadersRequest(
        election_type=kind, timeout_ms=int(cluster.timeout * 1000), topic_partitions=None if names is None else [
            TopicPartitions(topic=name, partitions=indexes) for name, indexes in topics.items()]), ElectLeadersResponse)
    check("election", answer.error_code)
    rows = []
    for topic_result in answer.replica_election_results:
        for each in topic_result.partition_result:
            name = f"partition {topic_result.topic}/{each.partition_id}"
            is_needless = each.error_code == ErrorCode.ELECTION_NOT_NEEDED
            failed = each.error_code != ErrorCode.NONE and not is_needless
            rows.append({"topic": topic_result.topic, "partition": each.partition_id,
                         "result": "was not needed" if is_needless else "elected",
                         "error": str(RefusedError(name, each.error_code, each.error_message)) if failed else None})
    return rows
