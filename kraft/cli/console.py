"""`kraft console`: pages of a cluster for a browser, in a process of its own."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from kraft.cli import scrape
from kraft.cli.command import kraft
from kraft.cli.console_decoders import decoder_of
from kraft.cli.listening import parse_listen, url_of
from kraft.cli.metadata_source import AsOf, from_leader
from kraft.cli.metadata_tree import differences, tree_of
from kraft.cli.options import BOOTSTRAP, Seconds
from kraft.cli.partition_story import Stories
from kraft.cli.partition_why import answers_by_partition
from kraft.cli.recordings import find
from kraft.cli.transaction_why import answers_by_partition as transactions_by_partition
from kraft.cli.why import quorum_answers
from kraft.client import AuthenticationError, Cluster, ConnectionFailedError
from kraft.client.partitions import Partition
from kraft.client.pushed_metrics import ClientInstance, Pushed, parsed
from kraft.client.recorder import collect, of_broker
from kraft.client.security import current, secured
from kraft.console.sources import ClientReports, Difference, Listener, Moment, Recordings
from kraft.metadata.image import MetadataImage
from kraft.recorder.entry import parse
from kraft.recorder.ring import CAPACITY
from kraft.recorder.timeline import merged
from kraft.recorder.why import Answer, Situation
from kraft_native.base.errors import KraftError

LISTEN_DEFAULT: Final = "127.0.0.1:8080"
TIMEOUT_DEFAULT: Final = 3.0
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class CommandSources:
    """Readers of metadata logs, flight recorders and nodes' metrics, as the commands have them
    (`kraft.console.sources.Sources`). `listeners`: those for metrics, with the access to them."""

    def __init__(self, listeners: Sequence[str] = (), access: scrape.Access | None = None) -> None:
        self._listeners = tuple(listeners)
        self._access = access or scrape.Access("", None, TIMEOUT_DEFAULT)

    def client_reports(self) -> ClientReports:
        """Return what clients have pushed to the nodes, the latest report of each instance first."""
        instances: list[ClientInstance] = []
        values: list[Pushed] = []
        missing = {}
        for listener in self._listeners:
            try:
                found = parsed(scrape.fetch(listener, "/metrics", self._access), listener)
            except KraftError as error:
                missing[listener] = str(error)
            else:
                instances += found[0]
                values += found[1]
        return ClientReports(sorted(instances), values, len(self._listeners), missing)

    def image(self, cluster: Cluster, moment: Moment, listener: Listener | None = None) -> MetadataImage:
        """Return the committed metadata at a moment."""
        stories = None if listener is None else Stories((), listener)
        return from_leader(cluster, AsOf(moment.offset, moment.time_ms, "at"), stories)

    def differences(self, before: MetadataImage, after: MetadataImage) -> list[Difference]:
        """Return every value that differs."""
        return [Difference(*each) for each in differences(tree_of(before), tree_of(after))]

    def tree(self, image: MetadataImage) -> Mapping[str, Any]:
        """Return everything in the image by names."""
        return tree_of(image)

    def recordings(self, cluster: Cluster, count: int) -> Recordings:
        """Return the last entries of each node's flight recorder."""
        collected = collect(cluster, count)
        lines = [line for each in collected.lines.values() for line in each]
        missing = {f"node {node_id}": why for node_id, why in collected.silent.items()} | collected.unknown
        for node in cluster.nodes():
            if node.node_id in collected.lines:
                continue
            try:
                lines += of_broker(cluster, node.node_id, count)
            except KraftError as error:
                missing[f"node {node.node_id}"] = str(error)
        return Recordings(merged(map(parse, lines)), missing)

    def about_partitions(self, cluster: Cluster, partitions: Sequence[Partition]) -> list[tuple[Partition, Answer]]:
        """Explain the leaders and the in-sync replicas of partitions."""
        collected = collect(cluster, CAPACITY)
        entries = merged(parse(line) for lines in collected.lines.values() for line in lines)
        situation = Situation(entries, tuple(collected.lines), collected.silent)
        return answers_by_partition(cluster, partitions, situation)

    def about_quorum(self, cluster: Cluster) -> list[Answer]:
        """Explain the leader of the metadata quorum, its voters and its changes."""
        bootstrap = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in
                             cluster.bootstrap)
        with secured(cluster.security):
            found = find((), bootstrap, cluster.timeout, CAPACITY)
            # Answers about addresses are those of brokers that are down: the rules about brokers have them.
            return [each for each in quorum_answers(found, bootstrap, cluster.timeout) if each.about != "node"]

    def about_transactions(self, cluster: Cluster, partitions: Sequence[Partition]) -> list[tuple[Partition, Answer]]:
        """Name the transactions that hold back readers of committed records."""
        return transactions_by_partition(cluster, partitions)


@kraft.command("console")
@BOOTSTRAP
@click.option("--timeout", default=TIMEOUT_DEFAULT, show_default=True, type=Seconds(),
              help="Seconds that one request to a node may take.")
@click.option("--listen", metavar="HOST:PORT", default=LISTEN_DEFAULT, show_default=True,
              help="Where browsers connect; port 0: one that the system chooses.")
@click.option("--host-name", "hosts", multiple=True, metavar="NAME",
              help="A further name under which browsers reach the console, as behind a proxy; may be given again.")
@click.option("--allow-changes", is_flag=True,
              help="Let visitors that log in change topics, settings and groups, with their own credentials.")
@click.option("--decoder", "decoders", multiple=True, metavar="NAME=FORMAT:FILE[:MESSAGE]",
              help="Show keys and values by a schema: avro or json with a schema file, protobuf with a descriptor set "
              "and a message; may be given again.")
@scrape.access_options
@click.option("--check", "only_check", is_flag=True,
              help="Only check that the cluster answers and that the address can be used.")
def console_command(bootstrap: str, timeout: float, listen: str, hosts: tuple[str, ...], allow_changes: bool,
                    decoders: tuple[str, ...], listeners: tuple[str, ...], metrics_token_file: Path | None,
                    metrics_ca: Path | None, only_check: bool) -> None:
    """Serve pages of a cluster for a browser, until SIGTERM or Ctrl-C.

    Brokers, topics, records with search, groups with lag, transactions, quorum, settings, quotas and ACLs. Also earlier
    states of the metadata, one time line of all nodes, and the reason for everything that is red.

    It only reads, unless --allow-changes is given. The pages have no login for reading: every browser that reaches the
    address reads what --client-config may read.
    """
    from kraft.console.serving import listen as listen_at
    from kraft.console.serving import serve
    from kraft.console.visits import Console, Options

    host, port = parse_listen(listen)
    names = tuple(dict.fromkeys((*LOOPBACK, host.lower(), *(name.lower() for name in hosts))))
    options = Options(bootstrap, timeout, current(), allow_changes, names, dict(map(decoder_of, decoders)))
    sources = CommandSources(listeners, scrape.access_of(metrics_token_file, metrics_ca, timeout))
    try:
        with Cluster(bootstrap, timeout=timeout) as cluster:
            cluster.check_access()
    except ConnectionFailedError as error:
        if only_check or isinstance(error, AuthenticationError):
            raise
        # Its pages are of most use while nodes are down.
        click.echo(f"kraft: the cluster does not answer yet: {error}", err=True)
    listener = listen_at(host, port)
    if only_check:
        listener.close()
        click.echo("the cluster answers, and the address can be used")
        return
    address = f"{url_of('http', host, listener.getsockname()[1])}/"
    serve(Console(options, sources), listener, lambda: click.echo(f"console: {address}"))
