"""The quorums that are measured: processes on loopback, each with a directory of its own."""

from __future__ import annotations

import io
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

from kraft.cli.command import run
from kraft.protocol.ids import id_text
from kraft.runtime.storage.formatting import random_id
from tests.ports import free_ports

CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
START_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.02
LOG_TAIL_CHARS: Final = 4000

Event = dict[str, Any]


class Replica:
    """One process of `bench.commit.replica`; its events go to the quorum's queue."""

    def __init__(self, node_id: int, directory: Path, settings: dict[str, str], events: queue.Queue[Event]) -> None:
        self.node_id = node_id
        self.port = 0
        self.lives = 0
        self.is_ending = False
        self._directory = directory
        self._settings = [f"--set={name}={value}" for name, value in settings.items()]
        self._events = events
        self._process: subprocess.Popen[str] | None = None
        self._collector: threading.Thread | None = None

    def format(self, voters: str) -> None:
        with redirect_stdout(io.StringIO()):
            code = run(["storage", "format", f"--data={self._directory}", f"--cluster-id={CLUSTER_ID}",
                        f"--initial-controllers={voters}", *self._settings])
        if code:
            raise RuntimeError(f"formatting {self._directory} ended with {code}")

    def launch(self) -> None:
        self.lives += 1
        self.is_ending = False
        command = [sys.executable, "-m", "bench.commit.replica", f"--data={self._directory}", *self._settings]
        with open(self._directory.with_suffix(".log"), "ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                             text=True)
        self._collector = threading.Thread(target=self._collect, args=(self._process, self.lives), daemon=True)
        self._collector.start()

    def _collect(self, process: subprocess.Popen[str], life: int) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._events.put(json.loads(line))
        process.wait()
        self._events.put({"event": "ended", "node": self.node_id, "life": life, "at": time.monotonic()})

    def order(self, **order: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def signal(self, number: int) -> None:
        """Send it a signal that ends it."""
        assert self._process is not None
        self.is_ending = True
        self._process.send_signal(number)

    def await_end(self) -> None:
        """Wait for its end after a signal."""
        assert self._process is not None
        self._process.wait(START_SECONDS)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def log_tail(self) -> str:
        """Return the last lines of its log."""
        return self._directory.with_suffix(".log").read_text("utf-8", "replace")[-LOG_TAIL_CHARS:]

    def end(self) -> None:
        if self._process is not None:
            self.signal(signal.SIGKILL)
            assert self._process.stdin is not None
            assert self._collector is not None
            self._process.stdin.close()
            self._collector.join()


class KraftQuorum:
    """Our controllers. `leader` is known when `start` returns, and after each `await_leader`."""

    name = "kraft"

    def __init__(self, home: Path, count: int, settings: dict[str, str] | None = None) -> None:
        ports = free_ports(count)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        self.events: queue.Queue[Event] = queue.Queue()
        shared = {"process.roles": "controller", "controller.listener.names": "CONTROLLER",
                  "controller.quorum.bootstrap.servers": ",".join(addresses), **(settings or {})}
        self.replicas = {
            node_id: Replica(node_id, home / str(node_id),
                             {"node.id": str(node_id), "listeners": f"CONTROLLER://{address}", **shared}, self.events)
            for node_id, address in enumerate(addresses, 1)}
        voters = ",".join(f"{node_id}@{address}:{id_text(random_id(uuid.uuid4))}"
                          for node_id, address in enumerate(addresses, 1))
        home.mkdir(parents=True, exist_ok=True)
        for each in self.replicas.values():
            each.format(voters)
        self.leader = self.replicas[1]
        self.epoch = 0

    def start(self) -> None:
        for each in self.replicas.values():
            each.launch()
        ready = 0
        while ready < len(self.replicas):
            event = self._next(START_SECONDS)
            ready += event["event"] == "ready"
        if self.epoch == 0:
            self.await_leader()

    def _next(self, timeout: float) -> Event:
        try:
            event = self.events.get(timeout=timeout)
        except queue.Empty:
            raise RuntimeError(f"the quorum reported nothing in {timeout:g} s") from None
        if event["event"] == "ready":
            self.replicas[event["node"]].port = event["port"]
        elif event["event"] == "leads" and event["epoch"] > self.epoch:
            self.epoch = event["epoch"]
            self.leader = self.replicas[event["node"]]
        elif event["event"] == "ended":
            ended = self.replicas[event["node"]]
            if event["life"] == ended.lives and not ended.is_ending:    # else it was ended on purpose or restarted
                raise RuntimeError(f"replica {event['node']} ended by itself:\n{ended.log_tail()}")
        return event

    def await_event(self, name: str, node_id: int | None = None, timeout: float = START_SECONDS) -> Event:
        """Wait for the next event of that name, from that node if one is given."""
        while True:
            event = self._next(timeout)
            if event["event"] == name and node_id in (None, event["node"]):
                return event

    def await_leader(self) -> Event:
        """Wait for the first commit of a new leader."""
        return self.await_event("leads")

    def measure(self, size: int, in_flight: int, seconds: float) -> Event:
        """Let the leader itself propose, and return its result."""
        self.leader.order(bytes=size, in_flight=in_flight, seconds=seconds)
        return self.await_event("measured", self.leader.node_id, seconds + START_SECONDS)

    @property
    def leader_port(self) -> int:
        """Port at which clients propose."""
        return self.leader.port

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self.replicas.values()]

    def stop(self) -> None:
        for each in self.replicas.values():
            each.end()


class EtcdQuorum:
    """etcd with its defaults, except that no snapshot falls into a run."""

    name = "etcd"

    def __init__(self, home: Path, count: int) -> None:
        ports = free_ports(2 * count)
        self._clients = [f"http://127.0.0.1:{port}" for port in ports[:count]]
        self._peers = [f"http://127.0.0.1:{port}" for port in ports[count:]]
        self._home = home
        self._processes: list[subprocess.Popen[bytes]] = []
        self.leader_port = 0
        home.mkdir(parents=True, exist_ok=True)

    @staticmethod
    def missing() -> str | None:
        """Return the reason why etcd is unavailable; None if it is available."""
        return None if shutil.which("etcd") else "etcd is not installed (Debian: etcd-server)"

    def start(self) -> None:
        cluster = ",".join(f"n{number}={peer}" for number, peer in enumerate(self._peers))
        for number, (client, peer) in enumerate(zip(self._clients, self._peers, strict=True)):
            with open(self._home / f"{number}.log", "ab") as log:
                self._processes.append(subprocess.Popen(
                    ["etcd", f"--name=n{number}", f"--data-dir={self._home / str(number)}",
                     f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                     f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                     f"--initial-cluster={cluster}", "--initial-cluster-state=new", "--snapshot-count=10000000",
                     "--log-level=error"], stdout=log, stderr=log))
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            for client in self._clients:
                if self._leads(client):
                    self.leader_port = int(client.rpartition(":")[2])
                    return
            time.sleep(POLL_SECONDS)
        raise RuntimeError(f"etcd found no leader in {START_SECONDS:g} s; see {self._home}")

    def _leads(self, client: str) -> bool:
        request = urllib.request.Request(f"{client}/v3/maintenance/status", b"{}")
        try:
            with urllib.request.urlopen(request, timeout=1) as answer:
                status = json.load(answer)
        except OSError:
            return False
        return bool(status.get("leader")) and status["leader"] == status["header"]["member_id"]

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self._processes]

    def stop(self) -> None:
        for each in self._processes:
            each.kill()
            each.wait()


def cpu_seconds(pids: Sequence[int]) -> float:
    """Return the user and system time of these processes so far."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")
