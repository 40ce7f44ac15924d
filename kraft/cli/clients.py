"""`kraft clients`: the clients that push their metrics to a node (KIP-714), and what they pushed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import click

from kraft.cli import scrape
from kraft.cli.command import kraft
from kraft.cli.options import JSON, TIMEOUT, print_json, print_table

ADDRESS_DEFAULT: Final = "http://127.0.0.1:9404"
INFO: Final = "kraft_client_info"
VALUE: Final = "kraft_client_metric"


class Value(NamedTuple):
    """A value that a client instance pushed."""

    instance: str
    metric: str
    attributes: str
    value: float


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
    infos, values = _parsed(scrape.fetch(address, "/metrics", scrape.access_of(token_file, ca_file, timeout)))
    infos = [each for each in infos if not client_ids or each["client_id"] in client_ids]
    known = {str(each["instance"]): each for each in infos}
    values = [each for each in values if each.instance in known]
    if prefixes:
        _print_values([each for each in values if each.metric.startswith(prefixes)], known, as_json)
        return
    for info in infos:
        info["metrics"] = sum(each.instance == info["instance"] for each in values)
    if as_json:
        print_json(infos)
        return
    columns = ("client_id", "software", "version", "address", "group", "transactional_id", "pushed_seconds_ago",
               "metrics", "instance")
    print_table([name.replace("_", " ") for name in columns], ([each[name] for name in columns] for each in infos))


def _print_values(values: list[Value], known: dict[str, dict[str, object]], as_json: bool) -> None:
    rows = [{"client_id": known[each.instance]["client_id"], **each._asdict()} for each in values]
    if as_json:
        print_json(rows)
    else:
        print_table(("client id", "metric", "attributes", "value"),
                    ([row["client_id"], row["metric"], row["attributes"], f"{row['value']:g}"] for row in rows))


def _parsed(text: str) -> tuple[list[dict[str, object]], list[Value]]:
    """Return clients and values of a scrape, by client id."""
    from prometheus_client.parser import text_string_to_metric_families

    infos: list[dict[str, object]] = []
    values: list[Value] = []
    for family in text_string_to_metric_families("\n".join(_lines(text))):
        for sample in family.samples:
            if sample.name == INFO:
                infos.append({**sample.labels, "pushed_seconds_ago": round(sample.value, 1)})
            else:
                values.append(Value(sample.labels["instance"], sample.labels["metric"], sample.labels["attributes"],
                                    sample.value))
    return sorted(infos, key=lambda info: (str(info["client_id"]), str(info["instance"]))), values


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of the two metrics; to parse the others takes long."""
    for line in text.split("\n"):
        if line.startswith((f"{INFO}{{", f"{VALUE}{{")):
            yield line
