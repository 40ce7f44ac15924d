"""Metrics that clients push (KIP-714): those of librdkafka reach the node's own, and the command."""

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from kraft.cli.command import run
from tests.integration import admin
from tests.integration.process import NodeProcess
from tests.ports import free_ports

SECONDS = 30.0


def scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as answer:
        return str(answer.read().decode())


def until(port: int, condition: Callable[[str], bool]) -> str:
    end = time.monotonic() + SECONDS
    while not condition(text := scrape(port)):
        assert time.monotonic() < end, text[text.find("kraft_client"):][:2_000]
        time.sleep(0.1)     # another process pushes at intervals of its own
    return text


def test_librdkafka_pushes_its_metrics(new_node: Callable[..., NodeProcess],
                                       capsys: pytest.CaptureFixture[str]) -> None:
    port, = free_ports(1)
    node = new_node({"kraft.metrics.listener": f"127.0.0.1:{port}"})
    assert run(["configs", "set", "client-metrics", "all", "metrics=org.apache.kafka.", "interval.ms=200",
                "match=client_software_name=confluent-kafka-.*", "--bootstrap", node.address]) == 0
    admin.create(node, "t", 1)
    settings: dict[str, Any] = {"bootstrap.servers": node.address, "enable.metrics.push": True}
    producer = Producer({**settings, "client.id": "p-1"})
    consumer = Consumer({**settings, "client.id": "c-1", "group.id": "g-1", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    try:
        for _ in range(50):
            producer.produce("t", b"x" * 100)
        producer.flush(SECONDS)

        def both(text: str) -> bool:
            consumer.poll(0.1)
            return all(f'client_id="{each}",' in text for each in ("p-1", "c-1"))

        text = until(port, both)
        assert 'kraft_client_telemetry_pushes_total{result="malformed"} 0.0' in text
        assert 'metric="org.apache.kafka.producer.connection.creation.total"' in text
        capsys.readouterr()
        assert run(["clients", "--metrics", f"http://127.0.0.1:{port}", "--json", "--client-id", "p-1"]) == 0
        [info] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert (info["client_id"], info["address"]) == ("p-1", "127.0.0.1")
        assert info["software"] == "confluent-kafka-python"
        assert "rdkafka" in info["version"]
        assert info["metrics"] > 0
        assert run(["clients", "--metrics", f"http://127.0.0.1:{port}", "--metric", "org.apache.kafka.producer."]) == 0
        assert "connection.creation.total" in capsys.readouterr().out
    finally:
        consumer.close()


def test_errors_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    dead, = free_ports(1)
    assert run(["clients", "--metrics", f"http://127.0.0.1:{dead}"]) == 1
    assert f"127.0.0.1:{dead}/metrics: " in capsys.readouterr().err
    assert run(["clients", "--metrics", "ftp://x"]) == 2
