"""`kraft clients`: the clients that push their metrics to a node (KIP-714), and what they pushed."""

from collections import Counter
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from kraft.cli import scrape
from kraft.cli.command import kraft
from kraft.cli.options import JSON, TIMEOUT, print_json, print_table
from kraft.client.pushed_metrics import ClientInstance, Pushed, parsed

ADDRESS_DEFAULT: Final = "http://127.0.0.1:9404"


@kraft.command("clients")
@click.option("--metrics", "address", default=ADDRESS_DEFAULT, show_default=True, metavar="URL",
              help="The node's kraft.metrics.listener.")
@click.option("--token-file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="File whose first line is a token of kraft.metrics.token.file.")
@click.option("--ca-file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Certificates in PEM that are trusted, for a listener with TLS.")
@click.option("--client-id", "client_ids", multiple=True, metavar="ID", help="Only this client; may be given again.")
@click.option("--metric", "prefixes", multiple=True, metavar="PREFIX",
              help="Print the values of metrics that begin so, in place of the clients; may be given again.")
@TIMEOUT
@JSON
def clients_command(address: str, token_file: Path | None, ca_file: Path | None, client_ids: tuple[str, ...],
                    prefixes: tuple[str, ...], timeout: float, as_json: bool) -> None:
    """List the clients that push their metrics to a node, or values that they pushed.

    A client pushes what a subscription names: kraft configs set client-metrics NAME metrics=* interval.ms=10000.
    """
    if urlsplit(address).scheme not in ("http", "https"):
        raise click.UsageError(f"--metrics {address!r} is no http or https URL")
    infos, values = parsed(scrape.fetch(address, "/metrics", scrape.access_of(token_file, ca_file, timeout)))
    infos = [each for each in infos if not client_ids or each.client_id in client_ids]
    known = {each.instance: each for each in infos}
    values = [each for each in values if each.instance in known]
    if prefixes:
        _print_values([each for each in values if each.metric.startswith(prefixes)], known, as_json)
        return
    counts = Counter(each.instance for each in values)
    rows = [{**each._asdict(), "metrics": counts[each.instance]} for each in infos]
    if as_json:
        print_json({name: value for name, value in row.items() if name != "listener"} for row in rows)
        return
    columns = ("client_id", "software", "version", "address", "group", "transactional_id", "pushed_seconds_ago",
               "metrics", "instance")
    print_table([name.replace("_", " ") for name in columns], ([row[name] for name in columns] for row in rows))


def _print_values(values: list[Pushed], known: dict[str, ClientInstance], as_json: bool) -> None:
    rows = [{"client_id": known[each.instance].client_id, **each._asdict()} for each in values]
    if as_json:
        print_json(rows)
    else:
        print_table(("client id", "metric", "attributes", "value"),
                    ([row["client_id"], row["metric"], row["attributes"], f"{row['value']:g}"] for row in rows))
