"""Products for the Java virtual machine: Spring Kafka, Debezium with PostgreSQL, MirrorMaker 2 with Kafka itself."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.local.cluster import LocalCluster
from tests.clients.connect import connect, java, until
from tests.clients.transactional import java_command, java_reason
from tests.examples.postgres import Postgres
from tests.examples.postgres import missing as postgres_missing
from tests.integration.admin import metadata, wait_until
from tests.peer.kafka import KafkaNode, kafka_node, require_kafka
from tests.ports import free_ports
from tests.wall.copying import SECONDS, Program, check_copy, send

pytestmark = [pytest.mark.long, pytest.mark.kraft_cluster(brokers=3, controllers=0)]

HERE: Final = Path(__file__).parent / "java"
ROWS: Final = 2_000
MIRRORED: Final = 1_000
GROUP: Final = "readers"


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process, and librdkafka closes its sockets at a time of its own."""


def test_a_listener_of_spring_copies_a_topic(kraft_cluster: LocalCluster, tmp_path: Path) -> None:
    if (reason := java_reason(HERE / "spring")) is not None:
        pytest.skip(f"needs Spring Kafka: {reason}")
    command = java_command("Copy", level="warn", directory=HERE / "spring")
    check_copy(kraft_cluster, Program(command, is_exactly_once=True), tmp_path)


def admin_of(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})


# --- Debezium


def values_of(bootstrap: str, topic: str, partitions: int = 1) -> list[Any]:
    """Return the values of all records, as JSON, in the order of each partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "judge", "log_level": 2,
                         "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found, ended = [], 0
    while ended < partitions:
        for record in consumer.consume(10_000, 1.0):
            if record.error() is not None:
                ended += 1
            elif record.value() is not None:
                found.append(json.loads(record.value()))
    consumer.close()
    return found


def test_debezium_captures_changes_of_postgresql(kraft_cluster: LocalCluster, tmp_path: Path) -> None:
    """A snapshot and then each change of a table, in order. The worker and a broker are killed meanwhile."""
    require_kafka(HERE / "debezium")
    if (reason := postgres_missing()) is not None:
        pytest.skip(reason)
    port, = free_ports(1)
    with Postgres("wal_level=logical", "listen_addresses=127.0.0.1", port=port) as database, \
            psycopg.connect(database.dsn, autocommit=True) as client:
        client.execute("CREATE TABLE orders (id int PRIMARY KEY, amount int)")
        client.execute("INSERT INTO orders SELECT n, 0 FROM generate_series(1, %s) n", [ROWS // 2])
        settings = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "tasks.max": "1",
            "plugin.name": "pgoutput", "database.hostname": "127.0.0.1", "database.port": str(port),
            "database.user": "postgres", "database.password": "", "database.dbname": "postgres", "topic.prefix": "shop",
            "table.include.list": "public.orders", "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "3",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false", "key.converter.schemas.enable": "false"}
        with connect(kraft_cluster, tmp_path, HERE / "debezium") as worker:
            worker.make("orders", **settings)
            until(lambda: worker.runs("orders", 1), "the connector runs")
            until(lambda: "shop.public.orders" in metadata(admin_of(kraft_cluster.bootstrap)).topics, "it has begun")
            until(lambda: len(_last(kraft_cluster)) == ROWS // 2, "the snapshot has come")
        kraft_cluster.brokers[1].kill_and_start()
        client.execute("INSERT INTO orders SELECT n, 0 FROM generate_series(%s::int, %s::int) n", [ROWS // 2 + 1, ROWS])
        client.execute("UPDATE orders SET amount = id * 2")
        client.execute("DELETE FROM orders WHERE mod(id, 10) = 0")
        with connect(kraft_cluster, tmp_path, HERE / "debezium") as worker:
            until(lambda: worker.runs("orders", 1), "the connector runs again")
            expected = dict(client.execute("SELECT id, amount FROM orders").fetchall())
            until(lambda: _last(kraft_cluster) == expected, "the topic has the whole table")


def _last(cluster: LocalCluster) -> dict[int, int]:
    """Return the rows that exist, according to the topic."""
    rows: dict[int, int] = {}
    for change in values_of(cluster.bootstrap, "shop.public.orders"):
        if change["op"] == "d":
            rows.pop(change["before"]["id"], None)
        else:
            rows[change["after"]["id"]] = change["after"]["amount"]
    return rows


# --- MirrorMaker


@contextmanager
def mirroring(cluster: LocalCluster, kafka: KafkaNode, directory: Path) -> Iterator[None]:
    """Run MirrorMaker 2 in both directions."""
    settings = {
        "clusters": "ours, theirs",
        "ours.bootstrap.servers": cluster.bootstrap, "theirs.bootstrap.servers": kafka.bootstrap,
        "ours->theirs.enabled": "true", "theirs->ours.enabled": "true",
        "ours->theirs.topics": "from-ours", "theirs->ours.topics": "from-theirs", "groups": GROUP,
        "ours.replication.factor": "3", "theirs.replication.factor": "1", "tasks.max": "2",
        **{f"{name}.{what}.storage.replication.factor": count for what in ("config", "offset", "status")
           for name, count in (("ours", "3"), ("theirs", "1"))},
        **{f"{name}.{what}.replication.factor": count for what in ("offset-syncs.topic", "checkpoints.topic",
                                                                  "heartbeats.topic")
           for name, count in (("ours", "3"), ("theirs", "1"))},
        "sync.group.offsets.enabled": "true", "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.interval.seconds": "1", "refresh.topics.interval.seconds": "2",
        "refresh.groups.interval.seconds": "2", "offset.lag.max": "10", "offset.flush.interval.ms": "500"}
    properties = directory / "mirror.properties"
    properties.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    log = directory / "mirror.log"
    command = java("org.apache.kafka.connect.mirror.MirrorMaker", str(properties), sources=HERE / "mirror")
    with log.open("ab") as output, subprocess.Popen(command, stdout=output, stderr=output, cwd=directory) as process:
        try:
            yield
        except AssertionError as error:
            raise AssertionError(f"{error}\n{log.read_text(errors='replace')[-3_000:]}") from error
        finally:
            process.kill()


def commit(bootstrap: str, topic: str, offset: int) -> None:
    """Commit an offset of the group. The library does not look for a new coordinator by itself."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 2})

    def committed() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException:
            return False
        return True

    wait_until(committed, f"{offset} of {topic} is committed", SECONDS)
    consumer.close()


def committed(bootstrap: str, topic: str) -> int:
    admin = admin_of(bootstrap)
    wanted = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(topic, 0)])
    found = admin.list_consumer_group_offsets([wanted])[GROUP].result(SECONDS)
    return int(found.topic_partitions[0].offset)


def test_mirror_maker_copies_both_ways_with_kafka(kraft_cluster: LocalCluster, tmp_path: Path) -> None:
    """Records, in order, and a group's offset go from our cluster to Kafka and back. A broker is killed meanwhile."""
    require_kafka()
    require_kafka(HERE / "mirror")
    with kafka_node(tmp_path / "kafka") as kafka:
        kafka.start()
        sides = {"ours": kraft_cluster.bootstrap, "theirs": kafka.bootstrap}
        for side, bootstrap in sides.items():
            admin = admin_of(bootstrap)
            made = admin.create_topics([NewTopic(f"from-{side}", 1, 3 if side == "ours" else 1)])
            made[f"from-{side}"].result(SECONDS)
            send(bootstrap, f"from-{side}", range(MIRRORED // 2))
            commit(bootstrap, f"from-{side}", MIRRORED // 2)
        with mirroring(kraft_cluster, kafka, tmp_path):
            for side, other in (("ours", "theirs"), ("theirs", "ours")):
                wait_until(lambda side=side, other=other: f"{side}.from-{side}" in metadata(
                    admin_of(sides[other])).topics, f"{side} is mirrored", SECONDS)
            kraft_cluster.brokers[1].kill_and_start()
            for side, bootstrap in sides.items():
                send(bootstrap, f"from-{side}", range(MIRRORED // 2, MIRRORED))
                commit(bootstrap, f"from-{side}", MIRRORED)
            for side, other in (("ours", "theirs"), ("theirs", "ours")):
                topic = f"{side}.from-{side}"
                wait_until(lambda topic=topic, other=other: values_of(sides[other], topic) == list(range(MIRRORED)),
                           f"all of {topic} has come, in order", SECONDS)
                wait_until(lambda topic=topic, other=other: committed(sides[other], topic) == MIRRORED,
                           f"the offset of the group in {topic} has come", SECONDS)
