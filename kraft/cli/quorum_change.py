"""`kraft quorum plan`, `reassign` and `cancel`: from one set of voters to another, step by step."""

import time
from typing import Final

import click

from kraft.cli.number_types import IntRange
from kraft.cli.options import Fields, on_cluster, print_json, print_table
from kraft.client import Cluster
from kraft.client.connection import ConnectionFailedError
from kraft.client.quorum import Description, QuorumClient
from kraft.client.refusals import RefusedError
from kraft.config.errors import InvalidConfigError
from kraft.raft.planning import Change, PlannedStep, QuorumState, check_order, reassignment_steps
from kraft.raft.reassignment import Add, Remove
from kraft.raft.types import ReplicaKey

CAUGHT_UP_MS: Final = 2000
POLL_SECONDS: Final = 0.1
WAIT_SECONDS: Final = 600.0


@click.command("plan")
@click.argument("node_ids", nargs=-1, type=IntRange(0), metavar="NODE-ID...")
@click.option("--order", metavar="+ID,-ID,...", help="Check these steps instead: +4 adds node 4, -1 removes node 1.")
@on_cluster
def plan_command(cluster: Cluster, node_ids: tuple[int, ...], order: str | None, as_json: bool) -> None:
    """Show the steps to other voters, and how many failures the quorum survives before and after each.

    NODE-ID... are the final voters. Changes nothing. Exit code 1 when a step is unsafe: a majority would not be up
    after it, or the intermediate set would survive fewer failures than both ends.
    """
    if bool(node_ids) == (order is not None):
        raise click.UsageError("give either the nodes that shall vote, or --order")
    found = QuorumClient(cluster).describe()
    quorum_state = quorum_state_of(found)
    changes = parse_order(found, order) if order is not None else reassignment_steps(quorum_state,
                                                                                     _keys(found, node_ids))
    steps = check_order(quorum_state, changes)
    _print_steps(steps, as_json)
    if any(step.danger for step in steps):
        raise click.exceptions.Exit(1)


@click.command("reassign")
@click.argument("node_ids", nargs=-1, required=True, type=IntRange(0), metavar="NODE-ID...")
@click.option("--force", is_flag=True, help="Also when the plan has an unsafe step, or a node is not known.")
@click.option("--no-wait", is_flag=True, help="End when the leader has taken it on, not when it is done.")
@on_cluster
def reassign_command(cluster: Cluster, node_ids: tuple[int, ...], force: bool, no_wait: bool, as_json: bool) -> None:
    """Make exactly these nodes the voters; the leader changes one voter at a time.

    It adds a node once that is caught up, adds before it removes while nodes remain to be added, and removes itself
    last. `kraft quorum plan` shows the steps, `kraft quorum cancel` stops the change at its current step.
    """
    client = QuorumClient(cluster)
    if not force:
        found = client.describe()
        quorum_state = quorum_state_of(found)
        changes = reassignment_steps(quorum_state, _keys(found, node_ids))
        unsafe = [step.danger for step in check_order(quorum_state, changes) if step.danger]
        if unsafe:
            raise InvalidConfigError(f"NODE-ID: {unsafe[0]}; see kraft quorum plan, or use --force")
    client.reassign(node_ids)
    if no_wait:
        _print_voters(client.describe(), as_json)
        return
    _wait(client, node_ids, as_json)


@click.command("cancel")
@on_cluster
def cancel_command(cluster: Cluster, as_json: bool) -> None:
    """Stop a reassignment in progress; the voters stay as they are."""
    client = QuorumClient(cluster)
    client.reassign(None)
    _print_voters(client.describe(), as_json)


def quorum_state_of(found: Description) -> QuorumState:
    """Return the quorum as its leader describes it."""
    now_ms = time.time_ns() // 1_000_000
    keys = {each: ReplicaKey(each.node_id, each.directory_id) for each in found.replicas}
    leader = next(key for each, key in keys.items() if each.node_id == found.leader)
    return QuorumState(
        tuple(sorted(key for each, key in keys.items() if each.voter)), leader,
        tuple(key for each, key in keys.items()
              if each.node_id == found.leader or 0 <= now_ms - each.caught_up_ms <= CAUGHT_UP_MS))


def _keys(found: Description, node_ids: tuple[int, ...]) -> list[ReplicaKey]:
    """Return the replicas of these nodes; for a node with two disks the one that fetched last."""
    known = {each.node_id: ReplicaKey(each.node_id, each.directory_id)
             for each in sorted(found.replicas, key=lambda each: (each.voter, each.fetch_ms))}
    missing = [node_id for node_id in node_ids if node_id not in known]
    if missing:
        raise InvalidConfigError(f"NODE-ID: {', '.join(map(str, missing))}: the leader does not know them; they "
                                 "have to run and follow the log first")
    return [known[node_id] for node_id in dict.fromkeys(node_ids)]


def parse_order(found: Description, order: str) -> list[Change]:
    """Return the steps of `+ID,-ID,...`."""
    changes: list[Change] = []
    for text in order.split(","):
        sign, digits = text.strip()[:1], text.strip()[1:]
        if sign not in ("+", "-") or not digits.isdecimal():
            raise InvalidConfigError(f"--order: {text!r} is not +ID or -ID")
        key = _keys(found, (int(digits),))[0]
        changes.append(Add(key) if sign == "+" else Remove(key))
    return changes


def _print_steps(steps: list[PlannedStep], as_json: bool) -> None:
    rows: list[Fields] = [{
        "step": number, "change": str(step.change), "voters": [key.node_id for key in step.after.voters],
        "majority": step.after.majority, "survived_before": step.before.survives, "survived_after": step.after.survives,
        "spare_before": step.before.spare, "spare_after": step.after.spare, "danger": step.danger,
    } for number, step in enumerate(steps, 1)]
    if as_json:
        print_json(rows)
        return
    if not rows:
        click.echo("these nodes vote, and nobody else: there is nothing to do")
        return
    print_table(("step", "change", "voters", "majority", "failures survived", "with those up now", "unsafe"), [
        [row["step"], row["change"], row["voters"], row["majority"],
         f"{row['survived_before']} then {row['survived_after']}", f"{row['spare_before']} then {row['spare_after']}",
         row["danger"]] for row in rows])


def _print_voters(found: Description, as_json: bool) -> None:
    voters = [each.node_id for each in found.voters]
    if as_json:
        print_json([{"voters": voters, "targets": found.targets, "leader": found.leader, "epoch": found.epoch}])
        return
    to = "" if found.targets is None else f", to become {','.join(map(str, found.targets))}"
    click.echo(f"voters {','.join(map(str, voters))}{to}; {found.leader} leads epoch {found.epoch}")


def _wait(client: QuorumClient, node_ids: tuple[int, ...], as_json: bool) -> None:
    """Report every intermediate set of voters. Leaders may change meanwhile; another reassignment ends the wait."""
    printed: tuple[list[int], tuple[int, ...] | None] | None = None
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            found = client.describe()
        except (RefusedError, ConnectionFailedError) as error:
            click.echo(f"kraft: {error}", err=True)
            time.sleep(POLL_SECONDS)
            continue
        state = [each.node_id for each in found.voters], found.targets
        if state != printed:
            _print_voters(found, as_json)
            printed = state
        if found.targets is None:
            if sorted(state[0]) == sorted(dict.fromkeys(node_ids)):
                return
            raise InvalidConfigError("NODE-ID: the reassignment was cancelled on the way")
        if sorted(found.targets) != sorted(dict.fromkeys(node_ids)):
            raise InvalidConfigError(f"NODE-ID: another reassignment, to {','.join(map(str, found.targets))}, has come")
        time.sleep(POLL_SECONDS)
    raise InvalidConfigError(f"NODE-ID: not done after {WAIT_SECONDS:.0f} s; the leader continues, kraft why names "
                             "what it waits for")
