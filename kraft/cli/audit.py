"""`kraft audit`: events of the nodes' audit."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import click

from kraft.cli.client_config import bootstrap_options, implied_servers
from kraft.cli.command import kraft
from kraft.cli.moments import time_ms, time_text
from kraft.cli.number_types import IntRange
from kraft.cli.options import ADDRESS_DEFAULT, BOOTSTRAP_VARIABLE, JSON, TIMEOUT, count_of, print_json
from kraft.security.audit.reading import DECISIONS, Seen, Wanted, line_text


@kraft.command("audit")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--principal", metavar="USER", help="Only events of this user, such as User:ann or ann.")
@click.option("--address", metavar="HOST", help="Only events of clients with this address.")
@click.option("--api", metavar="NAME", help="Only requests of this API, such as CreateTopics.")
@click.option("--resource", metavar="NAME", help="Only events about this thing, such as orders or topic:orders.")
@click.option("--decision", type=click.Choice(DECISIONS), help="Only events with this result.")
@click.option("--since", metavar="TIME", help="Only events from this time on, such as 2026-01-31T09:00:00Z.")
@click.option("--until", metavar="TIME", help="Only events up to this time.")
@click.option("--offset", type=IntRange(0), help="Only the event that caused this record of the metadata log.")
@click.option("--follow", "-f", is_flag=True, help="Wait for further events, until Ctrl-C.")
@bootstrap_options(envvar=BOOTSTRAP_VARIABLE, help=f"Nodes of the cluster to contact first; also {BOOTSTRAP_VARIABLE} "
                                                   f"[default, without a file: {ADDRESS_DEFAULT}].")
@TIMEOUT
@JSON
def audit_command(files: tuple[Path, ...], principal: str | None, address: str | None, api: str | None,
                  resource: str | None, decision: str | None, since: str | None, until: str | None,
                  offset: int | None, bootstrap: str | None, timeout: float, *, follow: bool, as_json: bool) -> None:
    """Show logins, denials and changes, with the users and clients that caused them.

    Reads the topic __kraft_audit of the cluster, or each FILE of a node (kraft.audit.file) together with the files that
    it replaced. Events are in the order of time.
    """
    wanted = Wanted(principal, address, api, resource, decision,
                    None if since is None else time_ms("--since", since, "a time"),
                    None if until is None else time_ms("--until", until, "a time"), offset)
    with ExitStack() as opened:
        for seen in _events(opened, files, bootstrap, timeout, wanted, follow=follow):
            if not wanted.includes(seen):
                continue
            if as_json:
                print_json([seen.event])
            else:
                click.echo(line_text(seen, time_text(seen.time_ms)))


def _events(opened: ExitStack, files: tuple[Path, ...], bootstrap: str | None, timeout: float, wanted: Wanted, *,
            follow: bool) -> Iterator[Seen]:
    from kraft.cli.audit_source import file_sources, followed, merged, topic_sources

    sources = (file_sources(opened, files) if files
               else topic_sources(opened, bootstrap or implied_servers(ADDRESS_DEFAULT), timeout, wanted.since_ms))
    yield from followed(sources) if follow else merged(sources)
    if unreadable := sum(each.unreadable for each in sources):
        click.echo(f"kraft: {count_of(unreadable, 'line')} cannot be read as events", err=True)
