"""`kraft debug`: the facts that explain a fault from afar."""

import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from kraft.cli import scrape
from kraft.cli.bundle import Bundle, listing, tail
from kraft.cli.bundle_host import host, versions
from kraft.cli.client_config import chosen_properties
from kraft.cli.cluster import description, size_text, status
from kraft.cli.command import kraft
from kraft.cli.number_types import IntRange
from kraft.cli.options import BOOTSTRAP, OUTPUT_FILE, TIMEOUT, count_of
from kraft.cli.redaction import Redactor, is_secret
from kraft.cli.topics import describe_topics
from kraft.client import Cluster
from kraft.client.configs import describe_configs
from kraft.client.groups import list_groups
from kraft.client.recorder import collect, of_broker
from kraft.config.properties import read_properties
from kraft.recorder.ring import CAPACITY
from kraft_native.base.errors import KraftError

TOPICS_MAX: Final = 1_000
GROUPS_MAX: Final = 1_000
LOG_BYTES_DEFAULT: Final = 4 << 20
OWN_FILES: Final = ("meta.properties", "recovery-point-offset-checkpoint", "replication-offset-checkpoint",
                    "log-start-offset-checkpoint", "cleaner-offset-checkpoint")


@kraft.group("debug")
def debug_group() -> None:
    """Collect the facts that explain a fault."""


@debug_group.command("bundle")
@click.option("-c", "--config", "files", multiple=True, type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Settings of a node on this machine: its log, directories and listener for metrics are read, too. "
                   "May be given again.")
@scrape.access_options
@click.option("--log-bytes", default=LOG_BYTES_DEFAULT, show_default=True, type=IntRange(0),
              help="Bytes of the end of each log.")
@click.option("--out", type=OUTPUT_FILE, help="The archive [default: kraft-debug-TIME.tar.gz here].")
@BOOTSTRAP
@TIMEOUT
def bundle_command(files: tuple[Path, ...], listeners: tuple[str, ...], metrics_token_file: Path | None,
                   metrics_ca: Path | None, log_bytes: int, out: Path | None, bootstrap: str, timeout: float) -> None:
    """Write one archive with the state of the cluster, of its nodes and of this machine, without secrets.

    It has versions, kernel and disk facts, flight recorders, and the cluster's brokers, topics, groups and settings. Of
    each listener for metrics it has the values, readiness and the stacks of its threads. With --config it also has the
    node's settings, the sizes of its files, and the end of its log.

    Passwords, keys and tokens are replaced by "(hidden)", in the logs too. Names of topics, groups, users and addresses
    stay: read the archive before it leaves your house. Exit code 1 when the cluster did not answer; the archive has the
    rest.
    """
    now = time.time()
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    path = out or Path(f"kraft-debug-{moment}.tar.gz")
    redactor = Redactor()
    access = scrape.access_of(metrics_token_file, metrics_ca, timeout)
    redactor.learn((access.token, *(value for name, value in chosen_properties().items() if is_secret(name))))
    with Bundle(path, f"kraft-debug-{moment}", now, redactor) as bundle:
        named = [*listeners, *(listener for file in files if (listener := _add_node(bundle, file, log_bytes)))]
        bundle.add("versions.txt", versions)
        bundle.add("host.json", host)
        for listener in dict.fromkeys(named):
            _add_listener(bundle, listener, access)
        cause = _add_cluster(bundle, bootstrap, timeout)
    if cause is not None:
        click.echo(f"kraft: {cause}; {path} has the rest", err=True)
        raise click.exceptions.Exit(1)
    more = f", {count_of(len(bundle.failed), 'part')} could not be read (errors.txt)" if bundle.failed else ""
    click.echo(f"{path}: {count_of(bundle.count, 'file')}, {size_text(path.stat().st_size)}{more}")


def _add_node(bundle: Bundle, file: Path, log_bytes: int) -> str | None:
    """Add what the settings of a node lead to; return its listener for metrics."""
    texts = read_properties(file)
    shown = bundle.redactor.settings(texts)         # first: everything after it is searched for these secrets
    top = f"node-{texts.get('node.id', texts.get('broker.id', file.stem))}"
    token_file = texts.get("kraft.metrics.token.file")
    if token_file:
        try:
            bundle.redactor.learn(Path(token_file).read_text("utf-8", "replace").split())
        except OSError as error:
            bundle.failed[f"{top}/token"] = str(error)
    bundle.add(f"{top}/server.properties", lambda: "".join(f"{name}={value}\n" for name, value in shown.items()))
    directories = [each.strip() for each in texts.get("log.dirs", texts.get("log.dir", "")).split(",") if each.strip()]
    for number, each in enumerate(directories):
        directory = Path(each)
        bundle.add(f"{top}/directory-{number}.json", partial(listing, directory))
        for name in OWN_FILES:
            if (directory / name).exists():
                bundle.add(f"{top}/directory-{number}/{name}", (directory / name).read_text)
    log = texts.get("kraft.log.file")
    if log:
        for number, part in enumerate((Path(log), Path(f"{log}.1"))):
            if number == 0 or part.exists():
                bundle.add(f"{top}/{part.name}", partial(tail, part, log_bytes))
    listener = texts.get("kraft.metrics.listener")
    scheme = "https://" if texts.get("kraft.metrics.security.protocol", "").upper() == "SSL" else ""
    return f"{scheme}{listener}" if listener else None


def _add_listener(bundle: Bundle, listener: str, access: scrape.Access) -> None:
    top = f"listeners/{listener.partition('://')[2] or listener}".replace(":", "-")
    for path, name in (("/metrics", "metrics.txt"), ("/ready", "ready.json"), ("/stacks", "stacks.txt")):
        bundle.add(f"{top}/{name}", partial(scrape.fetch, listener, path, access, any_status=path == "/ready"))


def _add_cluster(bundle: Bundle, bootstrap: str, timeout: float) -> KraftError | None:
    """Add what the cluster answers. Return why it does not answer at all."""
    with Cluster(bootstrap, timeout=timeout) as cluster:
        try:
            metadata = cluster.metadata()
        except KraftError as error:
            bundle.failed["cluster"] = str(error)
            return error
        names = sorted(topic.name or "" for topic in metadata.topics)[:TOPICS_MAX]
        brokers = [broker.node_id for broker in metadata.brokers]
        bundle.add("cluster/status.json", partial(status, cluster))
        bundle.add("cluster/description.json", partial(description, cluster))
        bundle.add("cluster/topics.json", lambda: list(describe_topics(cluster, names, with_configs=True)))
        bundle.add("cluster/groups.json", lambda: [each._asdict() for each in list_groups(cluster)][:GROUPS_MAX])
        bundle.add("cluster/brokers.json", partial(_settings, cluster, brokers))
        bundle.add("recorder/controllers.json", partial(_recordings, cluster))
        for broker in brokers:
            bundle.add(f"recorder/broker-{broker}.jsonl", partial(_recording, cluster, broker))
    return None


def _settings(cluster: Cluster, brokers: list[int]) -> dict[str, Any]:
    """Return the settings of each broker, as it shows them: without the values of secrets."""
    found = describe_configs(cluster, "broker", map(str, brokers))
    return {name: {each.name: {"value": each.value, "source": each.config_source} for each in settings}
            for name, settings in found.items()}


def _recording(cluster: Cluster, broker: int) -> str:
    return "".join(f"{line}\n" for line in of_broker(cluster, broker, CAPACITY))


def _recordings(cluster: Cluster) -> dict[str, Any]:
    found = collect(cluster, CAPACITY)
    return {"entries": {str(node): lines for node, lines in found.lines.items()}, "silent": found.silent,
            "unknown": found.unknown}
