"""Machines of a page's cluster, all of them in the page's sandbox.

Every address of 10.0.0.0/24 is local. The machine at an address has directories of its own, which its commands see as
/etc/kraft and /var/lib/kraft. `ssh ADDRESS COMMAND` runs a command there, `systemctl` starts and stops the node of the
machine that it runs on. Both are small programs in `shims`.
"""

import fcntl
import os
import shutil
import socket
import struct
import subprocess
from pathlib import Path
from typing import Final

from tools.documents import blocks
from tools.tree import ROOT

MACHINES: Final = Path("/srv/machines")
SHIMS: Final = Path(__file__).parent / "shims"
NETWORK, MASK = "10.0.0.1", "255.255.255.0"
SIOCSIFADDR, SIOCSIFNETMASK = 0x8916, 0x891C
CONTROLLERS: Final = ",".join(f"10.0.0.{node}:9093" for node in (1, 2, 3))


def output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def make_addresses_local() -> None:
    """Give the loopback interface the whole network."""
    with socket.socket() as any_socket:
        for request, address in ((SIOCSIFADDR, NETWORK), (SIOCSIFNETMASK, MASK)):
            fcntl.ioctl(any_socket, request, struct.pack("16sH2x4s8x", b"lo:1", socket.AF_INET,
                                                         socket.inet_aton(address)))


def make_etc_writable() -> None:
    """Lay a copy over /etc, which has the directory for the settings of a machine."""
    copy = Path("/srv/etc")
    shutil.copytree("/etc", copy, symlinks=True, ignore=_unreadable, ignore_dangling_symlinks=True)
    (copy / "kraft").mkdir(exist_ok=True)
    output("mount", "--bind", str(copy), "/etc")
    Path("/var/lib/kraft").mkdir()


def _unreadable(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if not _is_readable(Path(directory) / name)]


def _is_readable(path: Path) -> bool:
    return os.access(path, os.R_OK | os.X_OK) if path.is_dir() else path.is_file() and os.access(path, os.R_OK)


def make_machine(node: int, settings: str) -> None:
    home = MACHINES / f"10.0.0.{node}"
    for name in ("etc", "lib"):
        (home / name).mkdir(parents=True)
    (home / "etc" / "server.properties").write_text(settings)


def start_cluster(page: str, log_dirs: str = "/var/lib/kraft/data") -> None:
    """Start three nodes that are brokers and controllers, on the machines 10.0.0.1 to 3, with a topic. Make a machine
    for each sample of settings on the page; its node is not formatted. Metadata logs are in /var/lib/kraft/metadata."""
    make_addresses_local()
    make_etc_writable()
    os.environ["PATH"] = f"{SHIMS}{os.pathsep}{os.environ['PATH']}"
    os.environ["KRAFT_BOOTSTRAP"] = "10.0.0.1:9092,10.0.0.2:9092,10.0.0.3:9092"
    cluster_id = output("kraft", "storage", "random-uuid")
    voters = ",".join(f"{node}@10.0.0.{node}:9093:{output('kraft', 'storage', 'random-uuid')}" for node in (1, 2, 3))
    for node in (1, 2, 3):
        make_machine(node, f"""process.roles=broker,controller
node.id={node}
listeners=PLAINTEXT://10.0.0.{node}:9092,CONTROLLER://10.0.0.{node}:9093
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers={CONTROLLERS}
log.dirs={log_dirs}
metadata.log.dir=/var/lib/kraft/metadata
default.replication.factor=3
min.insync.replicas=2
kraft.metrics.listener=10.0.0.{node}:9404
""")
        output("ssh", f"10.0.0.{node}", "kraft storage format --config /etc/kraft/server.properties "
                                        f"--cluster-id {cluster_id} --initial-controllers {voters}")
    starting = [subprocess.Popen(["ssh", f"10.0.0.{node}", "systemctl enable --now kraft"]) for node in (1, 2, 3)]
    assert [each.wait() for each in starting] == [0, 0, 0]
    output("kraft", "topics", "create", "orders", "--partitions", "12")
    subprocess.run(["kraft", "produce", "orders"], check=True, input="one\ntwo\nthree\n", text=True)
    for block in blocks((ROOT / page).read_text()):
        if block.language == "properties":
            settings = dict(line.split("=", 1) for line in block.code.splitlines())
            make_machine(int(settings["node.id"]), block.code)
