"""Attack a node with TLS: what others wait meanwhile, and what memory the node uses."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.headers import encode_request_header
from kraft.protocol.message import Message
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from tests.fuzz_wire.frames import framed
from tests.golden import REPOSITORY
from tests.hostile_tls.attacker import FAILING, HALF_OPEN
from tests.integration.process import NodeProcess
from tests.ports import free_ports
from tests.tls.files import write_pem

FACTOR_MAX: Final = 2.0
FLOOR_MS: Final = 5.0
"""A percentile below this is no delay, whatever it was before."""
KEPT_BYTES_MAX: Final = 48 << 20
"""Memory that the node may keep after an attack, for later connections."""
SETTLE_SECONDS_MAX: Final = 30.0
BACKLOG: Final = 4096
"""Connections that the system accepts for the node. With Kafka's 50 a burst costs others a second: the system drops
their first packet, and they send it again."""
CLIENTS: Final = ("plain", "tls", "new tls")
USER, PASSWORD = "alice", "a password"
METADATA_VERSION: Final = 12


class HostileNode(NodeProcess):
    """A node with a plain listener, one with TLS, and one with SASL. `authority` is the file of its authority."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.tls_port, self.sasl_port, controller = free_ports(3)
        directory.parent.mkdir(parents=True, exist_ok=True)
        write_pem(directory.parent)
        self.authority = directory.parent / "ca.pem"
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        super().__init__(directory, {
            "controller.listener.names": "CONTROLLER", "socket.listen.backlog.size": str(BACKLOG),
            "ssl.keystore.type": "PEM", "ssl.keystore.location": f"{directory.parent}/server.pem",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,LOGIN:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.login.plain.sasl.jaas.config": f'{module} required user_{USER}="{PASSWORD}";',
            **(settings or {})})
        self.settings["listeners"] = (f"PLAINTEXT://127.0.0.1:{self.port},TLS://127.0.0.1:{self.tls_port},"
                                      f"LOGIN://127.0.0.1:{self.sasl_port},CONTROLLER://127.0.0.1:{controller}")

    def _options(self) -> list[str]:
        return []


@dataclass
class Report:
    """Lines, and what is wrong."""

    lines: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([*self.lines, *(f"WRONG: {each}" for each in self.wrong)])


def on_node(directory: Path, settings: Mapping[str, str], work: Callable[[HostileNode], Report]) -> Report:
    """Run a node on `directory` for the time of the work, and kill it."""
    node = HostileNode(directory, settings)
    node.start()
    try:
        return work(node)
    finally:
        node.kill()


def frame(request: Message, correlation_id: int, version: int) -> bytes:
    """Return the frame of a request."""
    header = encode_request_header(API_BY_KEY[request.API_KEY], version, correlation_id, None)
    return framed(header + request.encode(version))


def small_request() -> bytes:
    """Return the frame of a small request."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="absent")], allow_auto_topic_creation=False)
    return frame(request, 1, METADATA_VERSION)


class Others:
    """The other clients' process."""

    def __init__(self, node: HostileNode) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile_tls.others", str(node.port), str(node.tls_port), str(node.authority),
             small_request().hex()], cwd=REPOSITORY, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def measured(self, seconds: float) -> dict[str, dict[str, Any]]:
        """Return the percentiles of so many seconds from now on."""
        self._take()
        time.sleep(seconds)
        return self._take()

    def _take(self) -> dict[str, dict[str, Any]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, dict[str, Any]] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        self._process.communicate("")


@contextmanager
def attacking(kind: str, count: int, port: int) -> Iterator[list[dict[str, Any]]]:
    """Attack until the end of the block; the list has the attacker's report then. A failing one ends by itself."""
    process = subprocess.Popen([sys.executable, "-m", "tests.hostile_tls.attacker", kind, str(count), str(port)],
                               cwd=REPOSITORY, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    found: list[dict[str, Any]] = []
    try:
        if process.stdout.readline() != "holding\n":
            raise AssertionError(f"the attacker ({kind}) failed")
        yield found
        if kind == FAILING:
            found.append(json.loads(process.stdout.readline()))
    finally:
        output, _ = process.communicate("")
    if kind == HALF_OPEN:
        found.append(json.loads(output))


def attack(node: HostileNode, connections: int, seconds: float) -> Report:
    """Measure the others before, during and after each attack. The node runs."""
    report = Report()
    others = Others(node)
    try:
        others.measured(seconds)           # code that is loaded on first use
        for kind in (HALF_OPEN, FAILING):
            before, start_bytes = others.measured(seconds), node.resident_bytes()
            with attacking(kind, connections, node.tls_port) as found:
                during, most_bytes = others.measured(seconds), node.resident_bytes()
            done = found[0]
            kept_bytes = settled(node, start_bytes)
            report.lines.append(f"{connections} {kind} connections: {done['begun']} begun in {done['seconds']:.1f} s; "
                                f"memory {start_bytes >> 20} MiB, {most_bytes >> 20} during, {kept_bytes >> 20} after "
                                f"({max(0, most_bytes - start_bytes) // connections} bytes each)")
            report.lines.append(f"  ends: {done['ends']}")
            compare(report, kind, before, during)
            if kept_bytes - start_bytes > KEPT_BYTES_MAX:
                report.wrong.append(f"{kind}: {(kept_bytes - start_bytes) >> 20} MiB are kept")
            if done["begun"] < connections:
                report.wrong.append(f"{kind}: only {done['begun']} connections")
    finally:
        others.close()
    check_node(node, report)
    return report


def compare(report: Report, kind: str, before: Mapping[str, Mapping[str, Any]],
            during: Mapping[str, Mapping[str, Any]]) -> None:
    """Report what the others waited. A client that is not served is wrong, and so is one that waits much longer."""
    for name in CLIENTS:
        was, now = before[name], during[name]
        report.lines.append(f"  {name:8} p50 {was['p50']:.2f} -> {now['p50']:.2f} ms, p99 {was['p99']:.2f} -> "
                            f"{now['p99']:.2f} ms, max {now['max']:.2f} ms, {now['count']} requests")
        if now["failure"] or not now["count"]:
            report.wrong.append(f"{kind}: the client {name} is not served: {now['failure']}")
        elif now["p99"] > max(FLOOR_MS, FACTOR_MAX * was["p99"]):
            report.wrong.append(f"{kind}: the client {name} waits {now['p99']:.2f} ms, {was['p99']:.2f} ms before")


def settled(node: HostileNode, start_bytes: int) -> int:
    """Return the node's memory once it has closed the attackers' connections and returned what it does not use."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while (found := node.resident_bytes()) - start_bytes > KEPT_BYTES_MAX and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


def check_node(node: HostileNode, report: Report) -> None:
    """Report a node that died or logged a fault."""
    if not node.running:
        report.wrong.append(f"the node died:\n{node.log(40)}")
    elif alarms := node.alarms():
        report.wrong.append(f"the node logged {alarms[:5]}")
