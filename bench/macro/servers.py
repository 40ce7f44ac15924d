"""The two nodes that are compared: each can be started, killed, started again, and asked for its processor time."""

from __future__ import annotations

import compileall
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol

import kraft
from kraft.client import Cluster
from kraft_native.errors import KraftError
from tests.peer.kafka import KafkaNode, free_port

START_SECONDS = 120.0
STOP_SECONDS = 60.0
ASK_PAUSE_SECONDS = 0.005
HEAP = "1g"
# Not the default of 15 s: the cleaner is to begin within the time of one measurement.
CLEANER_BACKOFF_MS = 1000
INITIAL_DELAY_MS = 30_000      # Kafka's default, which the peer tests change


class Server(Protocol):
    """One node on loopback. `start` gives the seconds from the launch to the first Metadata reply."""

    name: str
    bootstrap: str
    pid: int
    data: Path

    def start(self) -> float: ...
    def kill(self) -> None: ...
    def stop(self) -> None: ...


class KraftServer:
    """Our node as `kraft server start` runs it."""

    name = "kraft"

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "data"
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.pid = 0
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True, exist_ok=True)
        # As an installed package is; some environments have Python compile its modules again at each start.
        compileall.compile_dir(Path(kraft.__file__).parent, quiet=1)
        self._environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def start(self) -> float:
        command = [sys.executable, "-m", "kraft", "server", "start", "--data", str(self.data), "--listen",
                   self.bootstrap, "--set", "group.initial.rebalance.delay.ms=0",
                   "--set", f"log.cleaner.backoff.ms={CLEANER_BACKOFF_MS}"]
        begin = time.monotonic()
        with open(self.home / "output.log", "ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, env=self._environment)
        self.pid = self._process.pid
        return _first_reply(self.bootstrap, self._process, begin)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_SECONDS)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(STOP_SECONDS)


class KafkaServer:
    """Apache Kafka with its defaults, the cleaner's pause aside, and 1 GiB of heap. Its directory is formatted
    beforehand."""

    name = "kafka"

    def __init__(self, home: Path) -> None:
        self._node = KafkaNode(home, log_cleaner_backoff_ms=str(CLEANER_BACKOFF_MS),
                               log_initial_task_delay_ms=str(INITIAL_DELAY_MS))
        self.data = self._node.data
        self._node.heap = HEAP
        self._node.format()
        self.bootstrap = self._node.bootstrap
        self.pid = 0

    def start(self) -> float:
        begin = time.monotonic()
        process = self._node.launch()
        self.pid = process.pid
        return _first_reply(self.bootstrap, process, begin)

    def kill(self) -> None:
        self._node.kill()

    def stop(self) -> None:
        self._node.kill()


def _first_reply(bootstrap: str, process: subprocess.Popen[bytes] | subprocess.Popen[str], begin: float) -> float:
    """Asks until a broker says that it is one; a new connection each time, because a node that starts drops some."""
    while time.monotonic() - begin < START_SECONDS:
        if process.poll() is not None:
            raise RuntimeError(f"{bootstrap}: the process ended with {process.returncode} before it served")
        try:
            with Cluster(bootstrap, timeout=10.0) as cluster:
                if cluster.metadata([]).brokers:
                    return time.monotonic() - begin
        except (KraftError, OSError):
            pass
        time.sleep(ASK_PAUSE_SECONDS)
    raise RuntimeError(f"{bootstrap}: no reply in {START_SECONDS:g} s")


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_megabytes(pid: int, *, file_pages: bool) -> float:
    """Resident memory; without `file_pages` only what is the process's own."""
    name = "VmRSS:" if file_pages else "RssAnon:"
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"process {pid} has no {name} in its status")
