"""Metrics that Apache Kafka's own Java clients push (KIP-714): as the node,
the command and the console show them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.cli.command import run
from kraft.cli.console import CommandSources
from tests.console.browsers import browsing
from tests.integration import admin
from tests.integration.process import NodeProcess
from tests.integration.test_client_metrics import scrape
from tests.peer.kafka import java, require_kafka
from tests.ports import free_ports

pytestmark = pytest.mark.peer

RECORDS = 3_000
SETTINGS = "client.id={client}\nenable.metrics.push=true\n"


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process; the loop of the first console in a process keeps descriptors."""


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_ports(1)[0]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, metrics_port: int) -> Iterator[NodeProcess]:
    require_kafka()
    made = NodeProcess(tmp_path_factory.mktemp("client-metrics") / "data",
                       {"kraft.metrics.listener": f"127.0.0.1:{metrics_port}"})
    made.start()
    yield made
    made.stop()


def perform(node: NodeProcess, directory: Path) -> None:
    """Run Kafka's own producer of its performance tools and its console consumer until both have pushed.

    When Kafka's producer closes, it sends no last push if no request is in flight. Otherwise it may build that push
    before those requests are answered. So the values that the node keeps may lack the records of the last interval.
    """
    for client in ("java-p", "java-c"):
        (directory / client).write_text(SETTINGS.format(client=client))
    java("org.apache.kafka.tools.ProducerPerformance", "--topic", "t", "--num-records", str(RECORDS), "--record-size",
         "100", "--throughput", "2000", "--bootstrap-server", node.address, "--command-config",
         str(directory / "java-p"))
    java("org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", "t", "--from-beginning", "--max-messages",
         str(RECORDS), "--group", "java-g", "--bootstrap-server", node.address, "--command-config",
         str(directory / "java-c"))


def test_java_clients_push_their_metrics(node: NodeProcess, metrics_port: int, tmp_path: Path,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["configs", "set", "client-metrics", "java", "metrics=*", "interval.ms=200",
                "match=client_software_name=apache-kafka-java", "--bootstrap", node.address]) == 0
    admin.create(node, "t", 1)
    perform(node, tmp_path)
    text = scrape(metrics_port)
    assert 'kraft_client_telemetry_pushes_total{result="malformed"} 0.0' in text
    assert "kraft_client_telemetry_dropped_total 0.0" in text
    capsys.readouterr()
    assert run(["clients", "--metrics", f"http://127.0.0.1:{metrics_port}", "--json"]) == 0
    infos = {each["client_id"]: each for each in map(json.loads, capsys.readouterr().out.splitlines())}
    assert set(infos) == {"java-p", "java-c"}
    assert {each["software"] for each in infos.values()} == {"apache-kafka-java"}
    assert {each["version"] for each in infos.values()} == {"4.3.1"}
    assert infos["java-c"]["group"] == "java-g"
    sources = CommandSources([f"127.0.0.1:{metrics_port}"])
    with browsing(node.address, sources=sources) as browser:
        shown = browser.get("/clients")
        assert "java-p" in shown and "apache-kafka-java 4.3.1" in shown and "client_software_name=" in shown
        assert 'href="/groups/java-g"' in shown
        values = browser.get(f"/clients/{infos['java-p']['instance']}?q=record.send.total")
    sent = re.search(r">producer\.record\.send\.total</td><td[^>]*>-</td><td[^>]*>([\d,.]+)<", values)
    assert sent is not None, values
    assert 0 < int(sent[1].replace(",", "")) <= RECORDS, "of the last push, see perform"
