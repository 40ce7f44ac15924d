"""The data source on a node of Kafka's: with TLS and SASL, by our own client and by the client library.

Transactions that were committed, aborted and left open are read both ways.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from kraft.spark.fetch import RangeReader
from kraft.spark.library_fetch import LibraryReader
from tests.peer.kafka import KafkaNode, require_kafka
from tests.ports import free_ports

confluent_kafka = pytest.importorskip("confluent_kafka")
pytest.importorskip("pyspark")

from confluent_kafka.admin import AdminClient, NewTopic  # noqa: E402

from kraft.client import ConnectionFailedError  # noqa: E402
from kraft.spark import cluster  # noqa: E402
from kraft.spark.options import read_options  # noqa: E402
from kraft_native.base.errors import InvalidArgumentError  # noqa: E402
from kraft_native.columns.reader import ColumnReader  # noqa: E402
from tests.spark.conftest import no_leaks  # noqa: E402, F401 - the library's descriptors are not checked
from tests.spark.reading import rows  # noqa: E402
from tests.spark.streams import Stream  # noqa: E402
from tests.spark.test_sink import batch_of, staging, stream_writer, task_of, write  # noqa: E402

pytestmark = pytest.mark.peer

SECONDS = 30.0
PASSWORD = "secret-of-the-store"
# Only the client library connects without a check of the node's certificate.
UNCHECKED = {"kafka.enable.ssl.certificate.verification": "false"}
WAYS = ("plain", "own", "library")
BOTH = pytest.mark.parametrize("more", [{}, UNCHECKED], ids=["own client", "library"])
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_reader="reader-secret";'


class SecureNode(KafkaNode):
    """A node with a plain listener, and one with TLS (a self-signed certificate) and SASL/PLAIN."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        store, self.certificate = home / "store.p12", home / "certificate.pem"
        keytool("-genkeypair", "-keyalg", "RSA", "-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1", "-validity", "3",
                store=store)
        keytool("-exportcert", "-rfc", "-file", str(self.certificate), store=store)
        plain, secure, controller = free_ports(3)
        listeners = f"PLAINTEXT://127.0.0.1:{plain},SECURE://127.0.0.1:{secure}"
        super().__init__(home, **{
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}", "advertised.listeners": listeners,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
            "ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(store), "ssl.keystore.password": PASSWORD,
            "sasl.enabled.mechanisms": "PLAIN", "listener.name.secure.plain.sasl.jaas.config": LOGIN})
        self.port = plain
        self.secure = {
            "bootstrap.servers": f"127.0.0.1:{secure}", "security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN",
            "sasl.username": "reader", "sasl.password": "reader-secret", "ssl.ca.location": str(self.certificate)}

    def options(self, topic: str, **more: str) -> dict[str, str]:
        """Options of a query through the listener with TLS."""
        return {f"kafka.{name}": value for name, value in self.secure.items()} | {"subscribe": topic, **more}


def keytool(*arguments: str, store: Path) -> None:
    """Run a tool of the Java; its output goes where a failing test shows it."""
    subprocess.run(["keytool", *arguments, "-alias", "node", "-keystore", str(store), "-storetype", "PKCS12",
                    "-storepass", PASSWORD], check=True, timeout=SECONDS)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    require_kafka()
    process = SecureNode(tmp_path_factory.mktemp("kafka") / "home")
    process.format()
    process.start()
    yield process
    process.kill()


def create(node: SecureNode, topic: str, partitions: int = 2) -> None:
    admin = AdminClient({**node.secure, "log_level": 2})
    for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        made.result(SECONDS)


@BOTH
def test_rows_go_out_and_in_with_tls_and_sasl(node: SecureNode, more: dict[str, str]) -> None:
    topic = f"orders{len(more)}"
    create(node, topic)
    to = node.options(topic, **more) | {"topic": topic, "includeHeaders": "true"}
    del to["subscribe"]
    kind = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    headers = pa.array([[{"key": "h", "value": b"%d" % number}] if number % 2 else None for number in range(500)], kind)
    write(to, batch_of(range(500), headers=headers, partition=pa.array([number % 2 for number in range(500)],
                                                                       pa.int32())))
    found = rows(node.options(topic, includeHeaders="true", minPartitions="4", **more))
    assert sorted(int(row["value"]) for row in found) == list(range(500))
    assert all((row["headers"] is None) == (row["partition"] == 0) for row in found)
    # The same as without TLS.
    plain = rows({"kafka.bootstrap.servers": node.bootstrap, "subscribe": topic, "includeHeaders": "true"})
    assert sorted(found, key=str) == sorted(plain, key=str)


@BOTH
def test_a_stream_with_tls_and_sasl(node: SecureNode, more: dict[str, str]) -> None:
    topic = f"stream{len(more)}"
    create(node, topic, 1)
    to = node.options(topic, delivery="at-least-once", **more) | {"topic": topic}
    del to["subscribe"]
    writer = stream_writer(to)
    writer.commit([writer.write(iter([batch_of(range(20))]))], 0)
    stream = Stream(node.options(topic, startingOffsets="earliest", maxOffsetsPerTrigger="12",
                                 publishOffsets="lag", **more))
    try:
        assert stream.batch() == list(range(12))
        assert stream.batch() == list(range(12, 20))
        assert stream.batch() is None
    finally:
        stream.close()


@BOTH
def test_a_stream_writes_exactly_once_with_tls_and_sasl(node: SecureNode, tmp_path: Path, more: dict[str, str]) -> None:
    """It writes in a transaction, with key, headers and time; a repeated batch is dropped."""
    topic = f"once{len(more)}"
    create(node, topic)
    to = node.options(topic, checkpointLocation=str(tmp_path), **more) | {
        "topic": topic, "kafka.compression.type": "zstd"}
    del to["subscribe"]
    headers = pa.array([[{"key": "h", "value": b"%d" % number}] if number % 2 else None for number in range(300)],
                       pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
    keys = pa.array([b"key %d" % (number % 7) if number % 3 else None for number in range(300)], pa.binary())
    wanted = batch_of(range(300), headers=headers, key=keys)
    writer = stream_writer(to, wanted.schema)
    times_ms: list[int] = []
    for _ in range(2):
        part = task_of(writer, [wanted])
        for _, batch in staging(writer).batches(part.files):
            staged = pa.record_batch(ColumnReader(("timestamp",)).read(batch))
            times_ms += staged["timestamp"].cast(pa.int64()).to_pylist()
        writer.commit([part], 0)
        (staging(writer).decisions / "0.json").unlink()     # the driver died before it noted that
    writer.commit([task_of(writer, [batch_of(range(300, 320))])], 1)
    node.settle()
    found = rows(node.options(topic, includeHeaders="true", **{"kafka.isolation.level": "read_committed"}))
    assert sorted(int(row["value"]) for row in found) == list(range(320))
    given = {int(row["value"]): row for row in found}
    for number in range(300):
        assert given[number]["key"] == keys[number].as_py()
        assert given[number]["headers"] == headers[number].as_py()
    read_ms = [round(given[number]["timestamp"].timestamp() * 1000) for number in range(300)]
    assert sorted(read_ms) == sorted(times_ms[:300])
    assert all(abs(row["timestamp"].timestamp() - time.time()) < 600 for row in found)
    # The same partitions as without TLS.
    plain = {"kafka.bootstrap.servers": node.bootstrap, "topic": topic, "delivery": "at-least-once"}
    again = stream_writer(plain, wanted.schema)
    again.commit([again.write(iter([wanted]))], 0)
    everything = rows({"kafka.bootstrap.servers": node.bootstrap, "subscribe": topic})
    placed = {(row["key"], row["partition"]) for row in everything if row["key"] is not None}
    assert len(placed) == 7


def test_the_library_writes_exactly_once_only_in_transactions(node: SecureNode) -> None:
    to = node.options("t", checkpointLocation="/tmp/nowhere", transactions="false", **UNCHECKED) | {"topic": "t"}
    del to["subscribe"]
    with pytest.raises(InvalidArgumentError, match="option transactions: exactly-once is not possible without them"):
        stream_writer(to)


def test_untrusted_servers_and_untrusted_clients(node: SecureNode) -> None:
    create(node, "guarded", 1)
    patience = {"fetchOffset.numRetries": "0", "kafkaConsumer.pollTimeoutMs": "4000"}
    for name, value in (("kafka.sasl.password", "guessed"), ("kafka.ssl.ca.location", "/etc/ssl/certs")):
        with pytest.raises(ConnectionFailedError, match=r"^127\."):
            rows(node.options("guarded", **{name: value}, **patience))


def transactions(node: SecureNode, topic: str) -> list[int]:
    """Write in one partition: committed, aborted, committed, aborted and left open; return what was committed."""
    create(node, topic, 1)
    kept: list[int] = []
    for number, how in enumerate(("commit", "abort", "commit", "abort", "open")):
        producer = confluent_kafka.Producer({"bootstrap.servers": node.bootstrap, "log_level": 2,
                                             "transactional.id": f"{topic}-{number}"})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        values = range(number * 100, number * 100 + 50)
        for value in values:
            producer.produce(topic, b"%d" % value, partition=0)
        assert producer.flush(SECONDS) == 0
        if how == "commit":
            producer.commit_transaction(SECONDS)
            kept += values
        elif how == "abort":
            producer.abort_transaction(SECONDS)
    return kept


def options_of(node: SecureNode, topic: str, way: str) -> dict[str, str]:
    """Options of a query without TLS, or with it by our own client or the library."""
    if way == "plain":
        return {"kafka.bootstrap.servers": node.bootstrap, "subscribe": topic}
    return node.options(topic, **(UNCHECKED if way == "library" else {}))


def streamed(options: dict[str, str]) -> list[int]:
    """The values of all batches of a stream."""
    stream = Stream(options)
    try:
        seen: list[int] = []
        while (batch := stream.batch()) is not None:
            seen += batch
        return seen
    finally:
        stream.close()


@pytest.mark.parametrize("way", WAYS)
def test_read_committed(node: SecureNode, way: str) -> None:
    topic = f"transactions-{way}"
    kept = transactions(node, topic)
    options = options_of(node, topic, way)
    committed = options | {"kafka.isolation.level": "read_committed"}
    assert [int(row["value"]) for row in rows(committed)] == kept
    found = [int(row["value"]) for row in rows(options)]
    assert found == [number * 100 + value for number in range(5) for value in range(50)]
    # Ranges that begin and end within transactions, and at their markers.
    for start in (49, 50, 51, 101, 130):
        begun = committed | {"startingOffsets": f'{{"{topic}":{{"0":{start}}}}}', "maxRecordsPerPartition": "37"}
        wanted = {int(row["value"]) for row in rows(committed) if row["offset"] >= start}
        assert {int(row["value"]) for row in rows(begun)} == wanted
    assert streamed(committed | {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "60"}) == kept
    assert streamed(options | {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "60"}) == found


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_of_control_records_only(node: SecureNode, way: str) -> None:
    """One offset per trigger, over the marker of a transaction that was committed and one that was aborted."""
    topic = f"markers-{way}"
    transactions(node, topic)
    options = options_of(node, topic, way)
    one = options | {"maxOffsetsPerTrigger": "1"}
    for isolation, aborted in (("read_committed", []), ("read_uncommitted", [149])):
        for start, wanted in ((49, [[49], []]), (100, [aborted, [], [200]])):
            stream = Stream(one | {"kafka.isolation.level": isolation,
                                   "startingOffsets": f'{{"{topic}":{{"0":{start}}}}}'})
            try:
                assert [stream.batch() for _ in wanted] == wanted
            finally:
                stream.close()


def test_the_library_reads_where_only_it_can(node: SecureNode) -> None:
    create(node, "read", 1)
    write({"kafka.bootstrap.servers": node.bootstrap, "topic": "read"}, batch_of([1]))
    for options, kind in ((node.options("read", **UNCHECKED), LibraryReader), (node.options("read"), RangeReader), (
            {"kafka.bootstrap.servers": node.bootstrap, "subscribe": "read"}, RangeReader)):
        topics = cluster.ClusterTopics(read_options(options, streaming=False))
        name = topics.partitions()[0]
        for piece in topics.ranges({name: (0, 1)}):
            assert len(list(topics.read(piece, ("offset",)))) == 1
        assert type(topics._reader) is kind
        topics.close()
