"""Surroundings of a page's commands: running nodes, and directories with data.

Each function runs inside the sandbox of its page, in the page's directory. Nodes end with the sandbox.
"""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kraft import LogDir
from tests.documents.machines import MACHINES, start_cluster

SECONDS: Final = 60


def kraft(*arguments: str, text: str = "") -> None:
    subprocess.run(["kraft", *arguments], check=True, input=text, text=True, stdout=subprocess.DEVNULL)


def start_node(data: str, **settings: str) -> None:
    """Start a node at its default address; return when it accepts connections."""
    options = [text for name, value in settings.items() for text in ("--set", f"{name.replace('_', '.')}={value}")]
    subprocess.Popen(["kraft", "server", "start", "--data", data, *options], stdout=subprocess.DEVNULL)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", 9092)) == 0:
                return
    raise TimeoutError("no node at 127.0.0.1:9092")


def fill(directory: str) -> None:
    """Create a data directory with one partition of `orders`. Every call writes the same bytes."""
    Path(directory).mkdir(parents=True)
    with LogDir(directory) as log_dir:
        for number in range(50):
            log_dir.log("orders", 0).append_record(b"%d" % number, timestamp_ms=1_700_000_000_000 + number)


def readme() -> None:
    Path("/var/lib/kafka").symlink_to(Path("kraft-data").absolute())


def cluster() -> None:
    """Three nodes with a topic, and copies of a metadata log from before and after the topic was created."""
    process = subprocess.Popen(["kraft", "cluster", "up", "--nodes", "3", "--json"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    *nodes, ready = (json.loads(process.stdout.readline()) for _ in range(4))
    os.environ["KRAFT_BOOTSTRAP"] = ready["bootstrap"]
    shutil.copytree(nodes[0]["data"], "/srv/backup/metadata")
    kraft("topics", "create", "orders", "--partitions", "3", "--replication-factor", "2")
    kraft("produce", "orders", text="one\ntwo\n")
    shutil.copytree(nodes[0]["data"], "/var/lib/kraft")


def spark() -> None:
    for name in "abc":
        fill(f"/srv/{name}/data")


def pipeline() -> None:
    """A running node whose directory is /srv/node1, two more replicas, and files to ingest."""
    start_node("/srv/node1")
    kraft("topics", "create", "orders")
    kraft("produce", "orders", text="".join(f"{number}\n" for number in range(50)))
    for name in ("node2", "node3"):
        shutil.copytree("/srv/node1", f"/srv/{name}")
    Path("orders").mkdir()
    Path("orders/a.jsonl").write_text('{"customer": "ann", "sum": 3}\n{"customer": "bob", "sum": 4}\n')


def gateway() -> None:
    start_node("kraft-data")
    kraft("topics", "create", "orders")
    Path("picture.jpg").write_bytes(bytes(range(256)))


def metrics() -> None:
    start_node("kraft-data", kraft_metrics_listener="127.0.0.1:9404")


def recorder() -> None:
    start_node("kraft-data")


def transactions() -> None:
    start_node("kraft-data", transaction_two_phase_commit_enable="true")
    for topic in ("invoices", "orders"):
        kraft("topics", "create", topic)


def disks() -> None:
    """Three nodes with two data directories each; the second one of node 2 is lost."""
    start_cluster("docs/operate/disks.md", "/var/lib/kraft/disk1,/var/lib/kraft/disk2")
    lost = MACHINES / "10.0.0.2" / "lib" / "disk2"
    lost.rename(lost.with_name("lost"))
    until = time.monotonic() + SECONDS
    while subprocess.run(["kraft", "cluster", "status"], stdout=subprocess.DEVNULL, check=False).returncode == 0:
        assert time.monotonic() < until, "the loss of a directory is not noticed"


def members() -> None:
    start_cluster("docs/operate/members.md")


def upgrade() -> None:
    start_cluster("docs/operate/upgrade.md")


PREPARATIONS: Final[dict[str, Callable[[], None]]] = {
    "README.md": readme,
    "docs/cluster.md": cluster,
    "docs/gateway.md": gateway,
    "docs/internals/recorder.md": recorder,
    "docs/metrics.md": metrics,
    "docs/operate/disks.md": disks,
    "docs/operate/members.md": members,
    "docs/pipeline.md": pipeline,
    "docs/spark.md": spark,
    "docs/operate/upgrade.md": upgrade,
    "docs/transactions.md": transactions,
}
