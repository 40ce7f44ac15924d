"""The servers that are compared. Each can be started, killed and started again, and reports its processor time."""

from __future__ import annotations

import compileall
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import kraft
from kraft.client import Cluster
from kraft_native.base.errors import KraftError
from tests.peer.kafka import KafkaNode
from tests.ports import free_ports

START_SECONDS = 120.0
STOP_SECONDS = 60.0
POLL_PAUSE_SECONDS = 0.005
HEAP = "1g"
# Not the default of 15 s: the cleaner must begin within the time of one measurement.
CLEANER_BACKOFF_MS = 1000
INITIAL_DELAY_MS = 30_000      # Kafka's default, which the peer tests change
HERE: Final = Path(kraft.__file__).parent.parent
"""This checkout."""
OUTPUT_FILE: Final = "output.log"
"""Output of a node of ours, in its directory."""


Process = subprocess.Popen[bytes] | subprocess.Popen[str]


class Server(Protocol):
    """One node on loopback, or several; without `pids` before the first start. `start` returns the seconds from the
    launch to the first Metadata reply that lists all of them."""

    name: str
    bootstrap: str
    data: Path

    @property
    def pids(self) -> list[int]: ...
    def start(self) -> float: ...
    def kill(self) -> None: ...
    def stop(self) -> None: ...


class KraftServer:
    """Our node, as `kraft server start` of a built checkout runs it; of this one by default."""

    name = "kraft"

    def __init__(self, home: Path, checkout: Path = HERE) -> None:
        self.home = home
        self.checkout = checkout
        self.data = home / "data"
        self.bootstrap = f"127.0.0.1:{free_ports(1)[0]}"
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True, exist_ok=True)
        compile_kraft(checkout)

    @property
    def pids(self) -> list[int]:
        return [] if self._process is None else [self._process.pid]

    def listening(self) -> list[str]:
        """Return the options that name its listeners."""
        return [f"--listen={self.bootstrap}"]

    def start(self) -> float:
        begin = time.monotonic()
        self._process = launch_kraft(self.home, [
            f"--data={self.data}", *self.listening(), "--set=group.initial.rebalance.delay.ms=0",
            f"--set=log.cleaner.backoff.ms={CLEANER_BACKOFF_MS}"], self.checkout)
        return await_brokers([self.bootstrap], [self._process], 1, begin)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_SECONDS)

    def stop(self) -> None:
        if self._process is not None:
            terminate(self._process)


class KafkaServer:
    """Apache Kafka with its defaults, except the cleaner's pause, and 1 GiB of heap. Its directory is formatted
    beforehand."""

    name = "kafka"

    def __init__(self, home: Path, **settings: str) -> None:
        self._node = KafkaNode(home, log_cleaner_backoff_ms=str(CLEANER_BACKOFF_MS),
                               log_initial_task_delay_ms=str(INITIAL_DELAY_MS), **settings)
        self.data = self._node.data
        self._node.heap = HEAP
        self._node.format()
        self.bootstrap = self._node.bootstrap

    @property
    def pids(self) -> list[int]:
        return [] if self._node.process is None else [self._node.process.pid]

    def start(self) -> float:
        begin = time.monotonic()
        return await_brokers([self.bootstrap], [self._node.launch()], 1, begin)

    def kill(self) -> None:
        self._node.kill()

    def stop(self) -> None:
        self._node.kill()


def compile_kraft(checkout: Path = HERE) -> None:
    """Compile the Python modules, as in an installed package. Some environments recompile them at each start."""
    compileall.compile_dir(checkout / "kraft", quiet=1)


def kraft_command(checkout: Path = HERE) -> list[str]:
    """Return the `kraft` command of a built checkout. It finds its modules by the working directory."""
    python = sys.executable if checkout == HERE else str(checkout / ".venv" / "bin" / "python")
    return [python, "-m", "kraft"]


def launch_kraft(home: Path, options: Sequence[str], checkout: Path = HERE) -> subprocess.Popen[bytes]:
    """Run `kraft server start` with these options; its output goes to a file in `home`."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with open(home / OUTPUT_FILE, "ab") as output:
        return subprocess.Popen([*kraft_command(checkout), "server", "start", *options], stdout=output,
                                stderr=output, env=environment, cwd=checkout)


def terminate(process: Process) -> None:
    """Send SIGTERM, unless the process has already ended."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_SECONDS)


def signal_all(pids: Sequence[int], number: signal.Signals) -> None:
    """Send a signal to all processes, mostly SIGSTOP and SIGCONT."""
    for pid in pids:
        os.kill(pid, number)


def compiler_seconds(pids: Sequence[int]) -> float:
    """Return the processor time that Java's compilers in these processes have used so far."""
    ticks = 0
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").glob("*/stat"):
            name, _, rest = path.read_text().rpartition(")")
            if "CompilerThre" in name:
                ticks += sum(map(int, rest.split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def await_brokers(addresses: Sequence[str], processes: Sequence[Process], count: int, begin: float) -> float:
    """Query each address until it lists `count` brokers; return the seconds since `begin`. Each query has a new
    connection, because a starting node drops some."""
    left = list(addresses)
    while time.monotonic() - begin < START_SECONDS:
        if ended := [each for each in processes if each.poll() is not None]:
            raise RuntimeError(f"{left[0]}: a process ended with {ended[0].returncode} before it served")
        left = [address for address in left if _brokers(address) < count]
        if not left:
            return time.monotonic() - begin
        time.sleep(POLL_PAUSE_SECONDS)
    raise RuntimeError(f"{left[0]}: not ready in {START_SECONDS:g} s")


def _brokers(address: str) -> int:
    try:
        with Cluster(address, timeout=10.0) as cluster:
            return len(cluster.metadata([]).brokers)
    except (KraftError, OSError):
        return 0


def resident_megabytes(pids: Sequence[int], *, file_pages: bool) -> float:
    """Return the resident memory of these processes; without `file_pages` only their anonymous memory."""
    name = "VmRSS:" if file_pages else "RssAnon:"
    found = [int(line.split()[1]) * 1024 / 1e6 for pid in pids
             for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(name)]
    if len(found) != len(pids):
        raise RuntimeError(f"processes {pids}: some have no {name} in their status")
    return sum(found)
