"""Kafka Streams and Kafka Connect of Apache Kafka 4.3.1, on three nodes of ours.

What they build on their clients works here, too: internal topics, changelogs, group protocols of their own, and
compacted topics as stores.
"""

import subprocess
from collections import Counter
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.client import Cluster
from kraft.local.cluster import LocalCluster
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kraft.protocol.messages.streams_group_describe_response import StreamsGroupDescribeResponse
from tests.clients.connect import SECONDS, SOURCES, Worker, connect, java, until
from tests.integration.admin import metadata
from tests.peer.kafka import require_kafka

pytestmark = [pytest.mark.peer, pytest.mark.kraft_cluster(brokers=3, controllers=0)]

WORDS: Final = tuple(f"word{number}" for number in range(50))


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process, and librdkafka closes its sockets at a time of its own."""


@pytest.fixture(autouse=True)
def _needs() -> None:
    require_kafka(SOURCES)


# --- Streams


def count_words(cluster: LocalCluster, expected: int, directory: Path, protocol: str) -> dict[str, int]:
    """Return the counts of an application instance whose state is in that directory."""
    command = java(str(SOURCES / "Words.java"), cluster.bootstrap, "words", "lines", "counts", str(expected),
                   str(directory), protocol)
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
    words = [line.split() for line in done.stdout.splitlines() if line.startswith("word")]
    return {word: int(count) for word, count in words}


def send_lines(cluster: LocalCluster, count: int) -> Counter[str]:
    """Send lines of three words each, keyed; return how often each word occurs."""
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    words = [[WORDS[(number * step) % len(WORDS)] for step in (1, 3, 7)] for number in range(count)]
    for number, line in enumerate(words):
        producer.produce("lines", " ".join(line), str(number))
    assert producer.flush(SECONDS) == 0
    return Counter(word for line in words for word in line)


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_streams_count_and_restore(kraft_cluster: LocalCluster, tmp_path: Path, protocol: str) -> None:
    """Words go through a repartition topic into a store. Its changelog gives the next instance the first one's state.

    A broker dies between the two instances.
    """
    admin = AdminClient({"bootstrap.servers": kraft_cluster.bootstrap, "log_level": 2})
    for made in admin.create_topics([NewTopic(name, 4, 3) for name in ("lines", "counts")]).values():
        made.result(SECONDS)
    expected = send_lines(kraft_cluster, 3_000)
    assert count_words(kraft_cluster, expected.total(), tmp_path / "one", protocol) == expected
    kraft_cluster.brokers[1].kill_and_start()
    expected += send_lines(kraft_cluster, 2_000)
    assert count_words(kraft_cluster, expected.total(), tmp_path / "two", protocol) == expected
    with Cluster(kraft_cluster.bootstrap) as client:
        [described] = client.coordinator("words").send(
            StreamsGroupDescribeRequest(group_ids=["words"]), StreamsGroupDescribeResponse).groups
    assert (described.error_code == ErrorCode.NONE) == (protocol == "streams")
    topics = set(metadata(admin).topics)
    assert {"words-counts-changelog", "words-counts-repartition"} <= topics


# --- Connect


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_connect_moves_a_file_through_a_topic(kraft_cluster: LocalCluster, tmp_path: Path) -> None:
    """A source and a sink move it. The successor of a killed worker finds both connectors and their positions."""
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    lines = [f"line {number}" for number in range(2_000)]
    source.write_text("".join(f"{line}\n" for line in lines[:1_000]))
    with connect(kraft_cluster, tmp_path) as worker:
        worker.make("source", **{
            "connector.class": "FileStreamSource", "file": str(source), "topic": "moved",
            "topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "3"})
        until(lambda: worker.runs("source", 1), "the source runs")
        worker.make("sink", **{
            "connector.class": "FileStreamSink", "file": str(sink), "topics": "moved",
            "consumer.override.auto.offset.reset": "earliest", "consumer.override.session.timeout.ms": "6000"})
        until(lambda: sorted(lines_of(sink)) == sorted(lines[:1_000]), "the first half has come")
        until(lambda: _read_by(worker, "sink") == 1_000, "the sink's offsets are committed")
        until(lambda: _position(worker) == source.stat().st_size, "the source's offset is in its topic")
    kraft_cluster.brokers[2].kill_and_start()
    with source.open("a") as more:
        more.write("".join(f"{line}\n" for line in lines[1_000:]))
    with connect(kraft_cluster, tmp_path) as worker:
        until(lambda: worker.runs("source", 1) and worker.runs("sink", 2), "both run again")
        until(lambda: sorted(lines_of(sink)) == sorted(lines), "all has come, once")
        worker.call("DELETE", "/connectors/sink")
        until(lambda: worker.call("GET", "/connectors") == ["source"], "the sink is deleted")


def _read_by(worker: Worker, name: str) -> int:
    offsets = (worker.call("GET", f"/connectors/{name}/offsets") or {"offsets": []})["offsets"]
    return sum(each["offset"]["kafka_offset"] for each in offsets)


def _position(worker: Worker) -> int:
    offsets = (worker.call("GET", "/connectors/source/offsets") or {"offsets": []})["offsets"]
    return sum(int(each["offset"]["position"]) for each in offsets)
