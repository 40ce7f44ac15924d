"""`kraft cluster up`: a cluster of real processes on this machine, for experiments."""

import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kraft.cli.number_types import IntRange
from kraft.cli.options import BOOTSTRAP_VARIABLE, JSON, Fields, print_json
from kraft.cli.server_config import parse_assignments, refuse_unknown
from kraft.config.node_config import NodeConfig
from kraft.config.properties import with_released_names
from kraft.runtime.base import log_output

if TYPE_CHECKING:
    from kraft.local.cluster import LocalCluster
    from kraft.local.local_node import LocalNode

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
CHECK_SECONDS: Final = 0.2
ANY_NODE: Final = {
    "node.id": "1", "process.roles": "broker,controller", "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"}
"""Settings against which the command line's are checked before any node is created."""


@click.command("up")
@click.option("--nodes", default=3, show_default=True, type=IntRange(1, 100), help="How many brokers.")
@click.option("--controllers", default=0, show_default=True, type=IntRange(0, 9),
              help="Controllers in processes of their own; 0: the brokers are the controllers too.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False),
              help="Keep the data here; the same cluster is up again the next time [default: removed at the end].")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE",
              help="A setting of all nodes; may be given again.")
@click.option("--log-level", type=click.Choice(log_output.LEVELS), default="info", show_default=True,
              help="Lowest level of the lines in the nodes' log files.")
@JSON
def up_command(nodes: int, controllers: int, data: Path | None, assignments: tuple[str, ...], log_level: str,
               as_json: bool) -> None:
    """Start a cluster on this machine, each node a process, and run it until Ctrl-C.

    It prints one line for each node, and then how to use them. Kill or stop the processes as you like: the others
    continue. At the end all are stopped gracefully.
    """
    settings = with_released_names(parse_assignments(assignments))
    refuse_unknown(NodeConfig({**ANY_NODE, **settings}), settings)
    # Imported only now: a wrong option is reported at once.
    from kraft.local.cluster import LocalCluster

    with ExitStack() as stack:
        directory = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kraft-cluster-")))
        cluster = stack.enter_context(LocalCluster(
            directory.absolute(), brokers=nodes, controllers=controllers, settings=settings, log_level=log_level))
        seconds = cluster.start()
        with _waiting_for_end() as ended:
            _print_ready(cluster, seconds, as_json)
            _watch(cluster, ended, as_json)
            cluster.stop()


@contextmanager
def _waiting_for_end() -> Iterator[tuple[signal.Signals, ...]]:
    """Block Ctrl-C and SIGTERM inside the block, which waits for them, so that neither interrupts the shutdown."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield STOP_SIGNALS
    finally:
        while signal.sigtimedwait(STOP_SIGNALS, 0):
            pass    # a second signal: the first one already ends the cluster
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _watch(cluster: "LocalCluster", ended: tuple[signal.Signals, ...], as_json: bool) -> None:
    """Wait for the end, and report nodes that end before it."""
    up = list(cluster.nodes.values())   # one may have ended since it was reported
    while up and signal.sigtimedwait(ended, CHECK_SECONDS) is None:
        for node in [each for each in up if not each.running]:
            up.remove(node)
            if as_json:
                print_json([{"event": "ended", "node_id": node.node_id, "status": node.ended}])
            else:
                click.echo(f"node {node.node_id} has ended with {node.ended}; its log: {node.log_path}")


def node_fields(node: "LocalNode") -> Fields:
    """Return the fields that describe a serving node."""
    return {"event": "node", "node_id": node.node_id, "roles": list(node.roles), "pid": node.pid,
            "listeners": {name: f"{node.host}:{port}" for name, port in node.ports.items()},
            "data": str(node.directory), "log": str(node.log_path)}


def _print_ready(cluster: "LocalCluster", seconds: float, as_json: bool) -> None:
    rows = [node_fields(node) for node in cluster.nodes.values()]
    if as_json:
        print_json([*rows, {"event": "ready", "cluster_id": cluster.cluster_id, "bootstrap": cluster.bootstrap,
                            "start_seconds": round(seconds, 3)}])
        return
    for row in rows:
        listeners = ", ".join(f"{name}://{address}" for name, address in row["listeners"].items())
        click.echo(f"node {row['node_id']}, {' and '.join(row['roles'])}: {listeners}; pid {row['pid']}, "
                   f"data {row['data']}")
    click.echo(f"\ncluster {cluster.cluster_id} ready in {seconds:.2f} s; Ctrl-C stops it. In another shell:\n\n"
               f"  export {BOOTSTRAP_VARIABLE}={cluster.bootstrap}\n"
               f"  kraft topics create demo --partitions 3 --replication-factor {min(3, len(cluster.brokers))}\n"
               f"  echo hello | kraft produce demo\n"
               f"  kraft cluster status")
