"""`kraft transactions`: transactions of any Kafka cluster, and commands that end those that nothing else ends."""

from collections.abc import Iterable, Sequence
from typing import Final

import click

from kraft.cli.command import kraft
from kraft.cli.moments import now_ms, time_text
from kraft.cli.number_types import IntRange
from kraft.cli.options import Fields, Seconds, cluster_options, print_fields, print_json, print_table
from kraft.cli.partition_names import chosen, complete_partition, partition_text
from kraft.client import Cluster
from kraft.client import transaction_admin as client
from kraft.client.partitions import Partition, every
from kraft.client.recorder import NO_RECORDER, of_broker
from kraft.config.errors import InvalidConfigError
from kraft.protocol.messages.metadata_response import MetadataResponseTopic
from kraft.recorder.entry import Entry, parse
from kraft.recorder.ring import CAPACITY
from kraft.recorder.timeline import merged, text_lines
from kraft.recorder.transaction_words import NAMES, of_transactional_id
from kraft_native.base.errors import KraftError

AGE_SECONDS_DEFAULT: Final = 900.0
"""Default of `transaction.max.timeout.ms`: a coordinator lets no transaction without two-phase commit live longer."""
ABORTED: Final = "aborted"


@kraft.group("transactions")
def transactions_group() -> None:
    """List and describe transactions; find and abort those that hold back readers."""


@transactions_group.command("list")
@click.option("--state", "states", multiple=True, type=click.Choice(client.STATES, case_sensitive=False),
              help="Only in this state; may be given again.")
@click.option("--producer-id", "producer_ids", multiple=True, type=IntRange(0), metavar="ID",
              help="Only of this producer; may be given again.")
@click.option("--longer-than", type=Seconds(zero=True), help="Only transactions that are open for more seconds.")
@cluster_options
def list_command(states: tuple[str, ...], producer_ids: tuple[int, ...], longer_than: float | None, bootstrap: str,
                 timeout: float, as_json: bool) -> None:
    """List the transactional ids that the brokers coordinate."""
    with Cluster(bootstrap, timeout=timeout) as cluster:
        found = client.list_transactions(cluster, states=states, producer_ids=producer_ids,
                                         longer_than_ms=-1 if longer_than is None else round(longer_than * 1000))
    rows = [each._asdict() for each in found]
    if as_json:
        print_json(rows)
    else:
        print_table(("transactional id", "producer", "state", "coordinator"), [list(row.values()) for row in rows])


@transactions_group.command("describe")
@click.argument("names", metavar="TRANSACTIONAL_ID...", nargs=-1, required=True)
@cluster_options
def describe_command(names: tuple[str, ...], bootstrap: str, timeout: float, as_json: bool) -> None:
    """Show the state of transactional ids and the partitions of their open transactions."""
    with Cluster(bootstrap, timeout=timeout) as cluster:
        found = [client.describe_transaction(cluster, name) for name in dict.fromkeys(names)]
    rows = [_fields(each, now_ms()) for each in found]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        click.secho(row["transactional_id"], bold=True)
        print_fields([("state", row["state"]), ("producer", row["producer_id"]), ("epoch", row["producer_epoch"]),
                      ("coordinator", row["coordinator"]), ("started", row["started"]),
                      ("open for", _seconds_text(row["open_seconds"])),
                      ("time-out", "never, two-phase commit" if row["two_phase"] else
                       _seconds_text(row["timeout_seconds"])),
                      ("partitions", row["partitions"])])


@transactions_group.command("prepared")
@cluster_options
def prepared_command(bootstrap: str, timeout: float, as_json: bool) -> None:
    """List the open transactions of two-phase commit. They do not expire.

    Once such a transaction is prepared, only its owner can know how it has to end: its producer, or the next one of
    its transactional id. If the owner does not return, `abort --transactional-id` ends it.
    """
    with Cluster(bootstrap, timeout=timeout) as cluster:
        found = client.describe_transactions(cluster, client.list_transactions(cluster, states=(client.ONGOING,)))
    time_ms = now_ms()
    rows = [{**_fields(each, time_ms), "prepared": f"{each.producer_id}:{each.producer_epoch}"}
            for each in found if each.is_two_phase]
    if as_json:
        print_json(rows)
        return
    print_table(("transactional id", "state", "open for", "coordinator", "partitions"),
                [(row["transactional_id"], row["prepared"], _seconds_text(row["open_seconds"]), row["coordinator"],
                  row["partitions"]) for row in rows])


@transactions_group.command("find-hanging")
@click.argument("names", metavar="[TOPIC[/PARTITION]]...", nargs=-1, shell_complete=complete_partition)
@click.option("--older-than", default=AGE_SECONDS_DEFAULT, show_default=True, type=Seconds(zero=True),
              help="Only transactions whose last record is older than so many seconds.")
@cluster_options
def find_hanging_command(names: tuple[str, ...], older_than: float, bootstrap: str, timeout: float,
                         as_json: bool) -> None:
    """Find transactions that are open in partitions and that no coordinator knows; by default in all partitions.

    Nothing but `abort` ends them, and readers of committed records stop before them. Exit code 1 when one is found.
    """
    with Cluster(bootstrap, timeout=timeout) as cluster:
        topics = cluster.metadata().topics
        before_ms = now_ms() - round(older_than * 1000)
        candidates = [each for each in client.open_transactions(cluster, topics, _partitions(names, topics))
                      if each.last_ms <= before_ms]
        found = [each for each, owner in client.owners(cluster, topics, candidates) if client.is_hanging(each, owner)]
    rows = [{"topic": each.partition[0], "partition": each.partition[1], "producer_id": each.producer_id,
             "producer_epoch": each.producer_epoch, "coordinator_epoch": each.coordinator_epoch,
             "start_offset": each.start_offset, "last_record": time_text(each.last_ms)} for each in found]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(("topic", "partition", "producer", "epoch", "coordinator epoch", "start offset", "last record"),
                    [list(row.values()) for row in rows])
    else:
        click.echo("no transaction hangs")
    if rows:
        raise click.exceptions.Exit(1)


@transactions_group.command("timeline")
@click.option("--transactional-id", metavar="ID", help="Only of this transactional id.")
@cluster_options
def timeline_command(transactional_id: str | None, bootstrap: str, timeout: float, as_json: bool) -> None:
    """Show the last events of transactions, as the brokers that coordinate them recorded them.

    Brokers of Apache Kafka record none. Exit code 1 when a broker has no flight recorder, or did not answer.
    """
    lines: list[str] = []
    silent: dict[int, str] = {}
    with Cluster(bootstrap, timeout=timeout) as cluster:
        for node_id in [each.node_id for each in cluster.metadata([]).brokers]:
            try:
                recorded = of_broker(cluster, node_id, CAPACITY)
            except KraftError as error:
                silent[node_id] = str(error)
                continue
            lines += recorded
            if not recorded:
                silent[node_id] = NO_RECORDER
    entries: Sequence[Entry] = [each for each in merged(map(parse, lines)) if each.what in NAMES]
    if transactional_id is not None:
        entries = of_transactional_id(entries, transactional_id)
    if as_json:
        print_json([each._asdict() for each in entries])
    else:
        for line in text_lines(entries):
            click.echo(line)
    for node_id, why in silent.items():
        click.echo(f"broker {node_id}: {why}", err=True)
    if silent:
        raise click.exceptions.Exit(1)


@transactions_group.command("abort")
@click.argument("name", metavar="[TOPIC/PARTITION]", required=False, shell_complete=complete_partition)
@click.option("--start-offset", type=IntRange(0), help="Of the transaction in the partition, as find-hanging shows it.")
@click.option("--transactional-id", help="Instead of a partition: abort the open transaction of this id, prepared or "
                                         "not, and fence its producer.")
@cluster_options
def abort_command(name: str | None, start_offset: int | None, transactional_id: str | None, bootstrap: str,
                  timeout: float, as_json: bool) -> None:
    """Abort a transaction that hangs in a partition, or the open one of a transactional id.

    The first appends a marker to the partition alone; use it only for transactions that find-hanging shows.
    """
    if (name is None) == (transactional_id is None) or (name is None) != (start_offset is None):
        raise click.UsageError("give either TOPIC/PARTITION with --start-offset, or --transactional-id")
    with Cluster(bootstrap, timeout=timeout) as cluster:
        if transactional_id is not None:
            client.terminate(cluster, transactional_id)
            row: Fields = {"transactional_id": transactional_id, "result": ABORTED}
        else:
            assert name is not None
            found = _at(cluster, name, start_offset)
            client.abort_open(cluster, found)
            row = {"topic": found.partition[0], "partition": found.partition[1], "producer_id": found.producer_id,
                   "result": ABORTED}
    if as_json:
        print_json([row])
    else:
        click.echo(f"{transactional_id or name}: {ABORTED}")


def _at(cluster: Cluster, name: str, start_offset: int | None) -> client.OpenTransaction:
    """Return the open transaction of a partition that begins at an offset."""
    topics = cluster.metadata().topics
    for each in client.open_transactions(cluster, topics, chosen((name,), topics)):
        if each.start_offset == start_offset:
            return each
    raise InvalidConfigError(f"--start-offset: no open transaction of {name} begins at {start_offset}")


def _partitions(names: Sequence[str], topics: Sequence[MetadataResponseTopic]) -> Iterable[Partition]:
    """Return the named partitions; all for no names."""
    return chosen(names, topics) if names else every(topics, 0)


def _fields(found: client.Transaction, time_ms: int) -> Fields:
    is_open = found.started_ms >= 0
    return {"transactional_id": found.transactional_id, "state": found.state, "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch, "coordinator": found.coordinator,
            "timeout_seconds": found.timeout_ms / 1000, "two_phase": found.is_two_phase,
            "started": time_text(found.started_ms) if is_open else None,
            "open_seconds": max(0, time_ms - found.started_ms) / 1000 if is_open else None,
            "partitions": [partition_text(each) for each in found.partitions]}


def _seconds_text(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:.1f} s"
