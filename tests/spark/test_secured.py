"""The data source on a node of ours whose every connection has TLS and a login by SCRAM."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.client import ConnectionFailedError
from kraft.client.security import Security
from kraft.spark.client_options import client_settings, own_security
from kraft.spark.cluster import ClusterTopics
from kraft.spark.fetch import RangeReader
from kraft.spark.options import read_options
from kraft_native.base.errors import InvalidArgumentError
from tests.integration.secure_quorum import (
    ADMIN,
    PASSWORD,
    SCRAM,
    SecureMember,
    client_properties,
    library_settings,
    started,
)
from tests.oauth.provider import SigningKey
from tests.spark.reading import rows
from tests.spark.streams import Stream
from tests.spark.test_sink import batch_of, stream_writer, task_of, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 20.0
CAUSE_SECONDS = 15.0
NAMES = ("java", "library")
"""Names that the options have: those of clients in Java, or of librdkafka."""


@pytest.fixture(scope="module")
def secured_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureMember]:
    with started(tmp_path_factory.mktemp("secured"), SigningKey("unused", "ES256"), 1) as [node]:
        yield node


def options(node: SecureMember, names: str = "java", **more: str) -> dict[str, str]:
    found = client_properties([node]) if names == "java" else library_settings([node])
    return {f"kafka.{name}": str(value) for name, value in found.items() if name != "log_level"} | more


def create(node: SecureMember, topic: str, partitions: int) -> None:
    admin = AdminClient(library_settings([node]))
    for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        made.result(SECONDS)


@pytest.mark.parametrize("names", NAMES)
def test_a_data_set_goes_out_and_in(spark: SparkSession, secured_node: SecureMember, names: str) -> None:
    """The driver plans, and Spark's workers write and read."""
    topic = f"rows-{names}"
    create(secured_node, topic, 2)
    sent = spark.range(2_000).selectExpr("cast(id as string) as value", "cast(id % 7 as string) as key")
    sent.write.format("kraft").options(**options(secured_node, names, topic=topic)).mode("append").save()
    found = spark.read.format("kraft").options(**options(secured_node, names, subscribe=topic)).load()
    pairs = found.selectExpr("cast(value as string)", "cast(key as string)").collect()
    assert sorted((int(value), key) for value, key in pairs) == [(number, str(number % 7)) for number in range(2_000)]


@pytest.mark.parametrize("transactions", ["true", "false"])
def test_a_stream_goes_out_and_in_exactly_once(secured_node: SecureMember, tmp_path: Path, transactions: str) -> None:
    topic = f"stream-{transactions}"
    create(secured_node, topic, 1)
    writer = stream_writer(options(secured_node, topic=topic, checkpointLocation=str(tmp_path),
                                   transactions=transactions))
    for number in (0, 0, 1):       # Spark repeats the first batch
        first = number * 50
        writer.commit([task_of(writer, [batch_of(range(first, first + 50))])], number)
    stream = Stream(options(secured_node, subscribe=topic, startingOffsets="earliest",
                            **{"kafka.isolation.level": "read_committed"}), available_now=True)
    try:
        seen: list[int] = []
        while (batch := stream.batch()) is not None:
            seen += batch
        assert seen == list(range(100))
    finally:
        stream.close()


@pytest.mark.parametrize("names", NAMES)
def test_records_are_read_by_our_own_fetch(secured_node: SecureMember, names: str) -> None:
    topic = f"own-{names}"
    create(secured_node, topic, 1)
    write(options(secured_node, names, topic=topic), batch_of(range(10)))
    topics = ClusterTopics(read_options(options(secured_node, names, subscribe=topic), streaming=False))
    [place] = topics.partitions()
    [piece] = topics.ranges({place: (0, 10)})
    try:
        assert sum(map(len, topics.read(piece, ("offset",)))) == 10
        assert type(topics._reader) is RangeReader
    finally:
        topics.close()


@pytest.mark.parametrize(("names", "wrong", "cause"), [
    ("java", {"kafka.sasl.jaas.config": f'{SCRAM} required username="{ADMIN}" password="guessed";'},
     f"user '{ADMIN}' by SCRAM-SHA-512: not accepted: Authentication failed"),
    ("library", {"kafka.sasl.password": "guessed"}, "not accepted: Authentication failed"),
    ("java", {"kafka.ssl.truststore.location": "OTHER"}, "the server's certificate is not trusted"),
    ("java", {"kafka.security.protocol": "SSL"}, r"the listener requires SASL \(SCRAM-SHA-256, "),
])
def test_the_cause_of_a_refusal(secured_node: SecureMember, names: str, wrong: dict[str, str], cause: str) -> None:
    given = options(secured_node, names) | {
        name: value.replace("OTHER", f"{secured_node.files}/other.pem") for name, value in wrong.items()}
    for act in (lambda: write({**given, "topic": "refused"}, batch_of([1])),
                lambda: rows({**given, "subscribe": "refused"})):
        began = time.monotonic()
        with pytest.raises(ConnectionFailedError, match=cause) as raised:
            act()
        assert time.monotonic() - began < CAUSE_SECONDS
        assert PASSWORD not in str(raised.value)


def test_a_wrong_password_fails_a_query_of_spark(spark: SparkSession, secured_node: SecureMember) -> None:
    given = options(secured_node, "library", **{"kafka.sasl.password": "guessed"})
    with pytest.raises(Exception, match="not accepted: Authentication failed"):
        spark.read.format("kraft").options(**given, subscribe="t").load().count()
    with pytest.raises(Exception, match="not accepted: Authentication failed"):
        spark.range(1).selectExpr("cast(id as string) as value").write.format("kraft").options(
            **given, topic="t").mode("append").save()


def test_names_of_java_become_those_of_the_library() -> None:
    given = {"kafka.bootstrap.servers": "b:1", "kafka.security.protocol": "SASL_SSL", "kafka.linger.ms": "5",
             "kafka.sasl.mechanism": "SCRAM-SHA-256", "kafka.ssl.truststore.type": "PEM",
             "kafka.ssl.truststore.location": "/ca.pem", "kafka.ssl.cipher.suites": "TLS_AES_128_GCM_SHA256",
             "kafka.sasl.jaas.config": f'{SCRAM} required username="u" password="p";'}
    found = client_settings(given)
    assert found == {
        "bootstrap.servers": "b:1", "linger.ms": "5", "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "u", "sasl.password": "p", "ssl.ca.location": "/ca.pem",
        "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "ssl.endpoint.identification.algorithm": "https"}
    assert own_security(found) == Security(
        tls=True, ca_file="/ca.pem", mechanism="SCRAM-SHA-256", username="u", password="p",
        cipher_suites=("TLS_AES_128_GCM_SHA256",))


@pytest.mark.parametrize(("name", "value", "what"), [
    ("sasl.jaas.config", "x", r"option kafka\.sasl\.jaas\.config"),
    ("sasl.jaas.config", f'{SCRAM} required username="u" password="p" tokenauth="true";', "tokenauth is not supported"),
    ("ssl.truststore.location", "/store.jks", r"option kafka\.ssl\.truststore\.location=/store\.jks: only Java reads"),
])
def test_security_of_java_that_is_refused(name: str, value: str, what: str) -> None:
    with pytest.raises(InvalidArgumentError, match=what):
        client_settings({
            "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "SCRAM-SHA-256",
            "kafka.sasl.jaas.config": f'{SCRAM} required username="u" password="p";', f"kafka.{name}": value})


@pytest.mark.parametrize("only", [
    {"enable.ssl.certificate.verification": "false"}, {"ssl.crl.location": "/crl.pem"},
    {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}])
def test_security_that_only_the_library_has(only: dict[str, str]) -> None:
    assert own_security({"security.protocol": "SSL", **only}) is None
