"""The OpenTelemetry collector: log records by OTLP into a topic, and from the topic by OTLP to a receiver."""

import json
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest

from kraft.client.topics import create_topic
from kraft.local.cluster import LocalCluster
from tests.integration.admin import wait_until
from tests.ports import free_ports

pytestmark = [pytest.mark.long, pytest.mark.kraft_cluster(brokers=3, controllers=0)]

HERE: Final = Path(__file__).parent / "go"
COLLECTOR: Final = Path(__file__).parents[2] / "build" / "wall" / "collector"
BUILD_SECONDS: Final = 900
SECONDS: Final = 60.0
REQUESTS: Final = 200
TOPIC: Final = "telemetry"
LOG_CHARS: Final = 3_000


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process, and librdkafka closes its sockets at a time of its own."""


def require_collector() -> None:
    """Build the collector from its lock file; skip the test, visibly, when that fails."""
    if shutil.which("go") is None:
        pytest.skip("needs the OpenTelemetry collector: go is not installed")
    done = subprocess.run(["go", "build", "-o", str(COLLECTOR), "."], cwd=HERE, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=BUILD_SECONDS)
    if done.returncode:
        pytest.skip(f"needs the OpenTelemetry collector: {done.stdout[-500:]}")


class Receiver(BaseHTTPRequestHandler):
    """Collects the bodies of log records that the collector exports as OTLP in JSON."""

    bodies: set[str]

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.bodies |= {record["body"]["stringValue"] for resource in sent["resourceLogs"]
                        for scope in resource["scopeLogs"] for record in scope["logRecords"]}
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def received() -> Iterator[tuple[int, set[str]]]:
    """Receive at a port; the set holds every body that has come."""
    bodies: set[str] = set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Receiver,), {"bodies": bodies}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, bodies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def settings(cluster: LocalCluster, port: int, receiver: int) -> dict[str, object]:
    """Two pipelines: from OTLP to the topic, and from the topic to OTLP. Every answer of the first one is that of the
    brokers, because it has no queue."""
    brokers = cluster.bootstrap.split(",")
    return {
        "receivers": {
            "otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}},
            "kafka": {"brokers": brokers, "group_id": "collector", "initial_offset": "earliest",
                      "logs": {"topics": [TOPIC], "encoding": "otlp_proto"}}},
        "exporters": {
            "kafka": {"brokers": brokers, "logs": {"topic": TOPIC, "encoding": "otlp_proto"},
                      "producer": {"required_acks": -1}, "sending_queue": {"enabled": False}},
            "otlphttp": {"endpoint": f"http://127.0.0.1:{receiver}", "encoding": "json", "compression": "none",
                         "sending_queue": {"enabled": False}}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"logs/in": {"receivers": ["otlp"], "exporters": ["kafka"]},
                          "logs/out": {"receivers": ["kafka"], "exporters": ["otlphttp"]}}}}


def post(port: int, body: str) -> bool:
    """Send one log record; return whether the collector has accepted it."""
    record = {"timeUnixNano": "1", "body": {"stringValue": body}}
    data = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/logs", data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


def test_a_collector_sends_and_receives_telemetry(kraft_cluster: LocalCluster, tmp_path: Path) -> None:
    """Every log record that the collector accepted comes out again. A broker dies meanwhile."""
    require_collector()
    with kraft_cluster.client() as client:
        create_topic(client, TOPIC, 3, 3)
    port, = free_ports(1)
    log = tmp_path / "collector.log"
    with received() as (receiver, bodies):
        config = tmp_path / "collector.json"
        config.write_text(json.dumps(settings(kraft_cluster, port, receiver)))
        with log.open("wb") as output, subprocess.Popen([str(COLLECTOR), "--config", f"file:{config}"], stdout=output,
                                                        stderr=output) as process:
            try:
                wait_until(lambda: process.poll() is not None or post(port, "first"), "it serves", SECONDS)
                accepted = {"first"}
                for number in range(REQUESTS):
                    if number == REQUESTS // 2:
                        kraft_cluster.brokers[1].kill_and_start()
                    if post(port, f"record {number}"):
                        accepted.add(f"record {number}")
                assert len(accepted) > REQUESTS * 3 // 4
                wait_until(lambda: accepted <= bodies, "all that was accepted has come", SECONDS)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{log.read_text(errors='replace')[-LOG_CHARS:]}") from error
            finally:
                process.kill()
