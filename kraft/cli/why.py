"""`kraft why`: explains in sentences what the metadata quorum, a partition or a group waits for."""

import time
from pathlib import Path
from typing import Final

import click

from kraft.cli.client_config import implied_servers
from kraft.cli.command import kraft
from kraft.cli.options import ADDRESS_DEFAULT, JSON, print_json
from kraft.cli.partition_names import chosen, complete_partition, parse_partition
from kraft.cli.recordings import Found, find, query_options
from kraft.client import Cluster, ConnectionFailedError, RefusedError, state
from kraft.client.quorum import Description, QuorumClient
from kraft.client.recorder import NO_RECORDER
from kraft.protocol.error_codes import ErrorCode
from kraft.recorder.entry import STATE, Entry
from kraft.recorder.ring import CAPACITY
from kraft.recorder.why import Answer, Situation, answers
from kraft_native.base.errors import KraftError

GROUP: Final = "group"
"""First word of `kraft why group NAME`. Alone it is a topic."""


@kraft.command("why")
@click.argument("names", nargs=-1, metavar="[TOPIC[/PARTITION]]... [group NAME...] [DIRECTORY]...",
                shell_complete=complete_partition)
@click.option("--audit", "audits", multiple=True, metavar="FILE",
              type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Audit file of a node, in place of the topic __kraft_audit; may be given again.")
@query_options
@JSON
def why_command(names: tuple[str, ...], audits: tuple[Path, ...], bootstrap: str | None, timeout: float,
                as_json: bool) -> None:
    """Explain why there is no leader, why a voter is not caught up, why a change of the voters is pending.

    With TOPIC/PARTITION: the leader and its cause, why replicas are out of sync, what a reassignment waits for, and
    which transaction holds back the readers of committed records. A TOPIC alone means all of its partitions. Where the
    changes of the cluster are audited, also the users that changed the topic. In each case it also names the brokers
    that no controller has answered for too long.

    With group NAME...: the members of a consumer group with what each reads, and what a rebalance waits for.

    Queries running nodes (--bootstrap), reads files of controllers that need not run, or both. DIRECTORY is a data
    directory, or the metadata log's in it. Exit code 1 when there is a problem.
    """
    directories = tuple(Path(name) for name in names if Path(name).is_dir())
    partitions = [name for name in names if not Path(name).is_dir()]
    if len(partitions) > 1 and partitions[0] == GROUP:
        found_answers = _of_groups(partitions[1:], bootstrap, timeout)
    elif partitions:
        found_answers = _of_partitions(partitions, directories, audits, bootstrap, timeout)
    else:
        found_answers = _of_quorum(directories, bootstrap, timeout)
    if as_json:
        print_json([answer._asdict() for answer in found_answers])
    else:
        for answer in found_answers:
            click.echo(answer.text)
    if not all(answer.is_well for answer in found_answers):
        raise click.exceptions.Exit(1)


def _of_groups(names: list[str], bootstrap: str | None, timeout: float) -> list[Answer]:
    from kraft.cli.group_why import group_answers

    with Cluster(bootstrap or implied_servers(ADDRESS_DEFAULT), timeout=timeout) as cluster:
        return group_answers(cluster, names)


def _of_partitions(names: list[str], directories: tuple[Path, ...], audits: tuple[Path, ...], bootstrap: str | None,
                   timeout: float) -> list[Answer]:
    from kraft.cli.partition_why import partition_answers, stories_of_files
    from kraft.cli.topic_changes import TopicChanges, change_answers
    from kraft.cli.transaction_why import transaction_answers

    topics = list(dict.fromkeys(parse_partition(name)[0] for name in names))
    changes = TopicChanges(topics)
    if directories and bootstrap is None:
        found_answers = [answer for directory in directories for answer in stories_of_files(directory, names, changes)]
        return [*found_answers, *change_answers(changes, audits, None, timeout)]
    with Cluster(bootstrap or implied_servers(ADDRESS_DEFAULT), timeout=timeout) as cluster:
        wanted = chosen(names, (each for each in cluster.metadata(topics).topics
                                if each.error_code == ErrorCode.NONE))
        leases = lease_answers(cluster)
        found = find(directories, bootstrap, timeout, CAPACITY)
        situation = Situation(found.entries, found.running, found.silent)
        try:
            found_answers = [*partition_answers(cluster, wanted, situation, changes),
                             *transaction_answers(cluster, wanted), *leases]
            servers = bootstrap or implied_servers(ADDRESS_DEFAULT)
            return [*found_answers, *change_answers(changes, audits, servers, timeout)]
        except (RefusedError, ConnectionFailedError) as error:
            if not leases:
                raise
            return [*leases, Answer("leader", -1, False, f"The metadata log cannot be read: {error}.")]


def lease_answers(cluster: Cluster) -> list[Answer]:
    """Explain each broker that answers and whose lease has ended; none when no broker is found."""
    try:
        ended = state.ended_leases(cluster, state.brokers(cluster))
    except KraftError:
        return []
    return [Answer("lease", node_id, False, f"Broker {node_id} reaches no controller: {text}.")
            for node_id, text in ended.items()]


def _of_quorum(directories: tuple[Path, ...], bootstrap: str | None, timeout: float) -> list[Answer]:
    found = find(directories, bootstrap, timeout, CAPACITY)
    if bootstrap is None and directories:
        return _explained(found, Situation(found.entries, None, found.silent))
    address = bootstrap or implied_servers(ADDRESS_DEFAULT)
    with Cluster(address, timeout=timeout) as cluster:
        return [*quorum_answers(found, address, timeout), *lease_answers(cluster)]


def quorum_answers(found: Found, bootstrap: str, timeout: float) -> list[Answer]:
    """Explain the quorum from the recordings of running controllers. Queries its leader where these do not suffice."""
    situation = Situation(found.entries, found.running, found.silent)
    if situation.leader is None and _may_be_led(found, situation):
        _query_leader(found, bootstrap, timeout)
        situation = Situation(found.entries, found.running, found.silent)
    return _explained(found, situation)


def _explained(found: Found, situation: Situation) -> list[Answer]:
    return [*answers(situation),
            *(Answer("node", -1, False, f"{address}: {why}.") for address, why in found.unknown.items())]


def _may_be_led(found: Found, situation: Situation) -> bool:
    """Return whether a controller without a flight recorder, or one that did not answer, may be the leader."""
    return not found.running or NO_RECORDER in found.unknown.values() or any(
        state.leader_id >= 0 for state in situation.present)


def _query_leader(found: Found, bootstrap: str, timeout: float) -> None:
    """Add the answer to DescribeQuorum when not every controller's flight recorder could be read. Apache Kafka's
    controllers have none, and may be unreachable while the brokers answer. A missing recorder proves nothing."""
    try:
        with Cluster(bootstrap, timeout=timeout) as cluster:
            quorum = QuorumClient(cluster).describe()
    except KraftError as error:
        if not (found.running or found.silent or found.unknown):
            found.unknown[bootstrap] = str(error)
        return
    found.entries.append(state_of(quorum, time.time_ns() // 1_000_000))
    found.running = (*found.running, quorum.leader)
    found.unknown = {address: why for address, why in found.unknown.items() if why != NO_RECORDER}


def state_of(quorum: Description, now_ms: int) -> Entry:
    """Convert a leader's answer to DescribeQuorum to an entry of its flight recorder, as far as possible."""
    def ago(time_ms: int) -> int:
        return -1 if time_ms < 0 else max(0, now_ms - time_ms)

    def key(node_id: int, directory_hex: str) -> str:
        return f"{node_id}:{directory_hex[-4:]}" if int(directory_hex, 16) else str(node_id)

    replicas = {key(each.node_id, each.directory_id.hex): each for each in quorum.replicas}
    end = max((each.log_end_offset for each in quorum.voters), default=0)
    return Entry(now_ms, quorum.leader, 0, STATE, {
        "role": "Leader", "epoch": quorum.epoch, "leader": quorum.leader, "hw": quorum.high_watermark,
        "end": f"{end}@{quorum.epoch}", "voters": [disk for disk, each in replicas.items() if each.voter],
        "progress": [{"disk": disk, "end": each.log_end_offset, "fetched_ms": ago(each.fetch_ms),
                      "caught_up_ms": ago(each.caught_up_ms)} for disk, each in replicas.items()]})
