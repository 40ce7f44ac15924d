"""Workers of Kafka Connect, as processes, by their REST interface."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kraft.local.cluster import LocalCluster
from tests.integration.admin import wait_until
from tests.peer.kafka import HERE as LOGGING
from tests.peer.kafka import QUICK_START, classpath
from tests.ports import free_ports

SOURCES: Final = Path(__file__).parent / "java"
SECONDS: Final = 90.0
LOG_CHARS: Final = 4_000


def java(*arguments: str, sources: Path = SOURCES) -> list[str]:
    """Return the command of a Java program with the artifacts of that directory's `pom.xml`."""
    return ["java", "-Xmx768m", *QUICK_START, "-Dpeer.level=warn", "-cp", f"{LOGGING}:{classpath(sources)}", *arguments]


class Worker:
    """A worker of a Connect cluster, by its REST interface."""

    def __init__(self, url: str) -> None:
        self._url = url

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the answer; None when there is none, or a refusal for now."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                text = answer.read()
        except (urllib.error.URLError, ConnectionError):
            return None
        return json.loads(text) if text else None

    def make(self, name: str, **config: str) -> None:
        until(lambda: self.call("POST", "/connectors", {"name": name, "config": {"tasks.max": "2", **config}}), name)

    def runs(self, name: str, tasks: int) -> bool:
        status = self.call("GET", f"/connectors/{name}/status") or {"connector": {"state": ""}, "tasks": []}
        states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
        return states == ["RUNNING"] * (tasks + 1)


def until(done: Callable[[], object], what: str) -> None:
    wait_until(lambda: bool(done()), what, SECONDS)


@contextmanager
def connect(cluster: LocalCluster, directory: Path, sources: Path = SOURCES) -> Iterator[Worker]:
    """A worker of a cluster whose configuration, offsets and states are in topics."""
    port, = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    settings = {
        "bootstrap.servers": cluster.bootstrap, "group.id": "workers", "listeners": url,
        "plugin.discovery": "service_load",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.flush.interval.ms": "200", "scheduled.rebalance.max.delay.ms": "0", "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
        **{f"{what}.storage.topic": f"connect-{what}" for what in ("config", "offset", "status")},
    }
    properties = directory / "worker.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = java("org.apache.kafka.connect.cli.ConnectDistributed", str(properties), sources=sources)
    with (directory / "worker.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        worker = Worker(url)
        try:
            until(lambda: process.poll() is not None or worker.call("GET", "/connectors") is not None, "it serves")
            assert process.poll() is None, "the worker has ended"
            yield worker
        except AssertionError as error:
            raise AssertionError(f"{error}\n{(directory / 'worker.log').read_text()[-LOG_CHARS:]}") from error
        finally:
            process.kill()
