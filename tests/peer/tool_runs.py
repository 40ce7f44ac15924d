"""Runs of Kafka's command-line tools against a cluster of three nodes: the same for ours and for Kafka's."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import TopicPartition

from tests.integration.clients import Record, librdkafka_consumer, librdkafka_produce, take
from tests.peer.cluster import ThreeNodes
from tests.peer.tools import ToolOutput, Tools
from tests.peer.transaction_runs import (
    DIFFERS,
    OF_ABORTED,
    OF_HANGING,
    OF_OPEN,
    OF_TERMINATED,
    TOOL,
    VERIFICATION,
    hang,
    open_transaction,
    settle,
    without_changing,
)

TOPIC: Final = "orders"
GROUP: Final = "readers"
ACTIVE: Final = "busy"
ASSIGNMENT: Final = "1:2:3,2:3:1,3:1:2"


class Run(NamedTuple):
    """One run of a tool: its words, with {files} filled in.

    `controller`: the run queries the controllers. `differs`: the reason why the answer is not Kafka's, if it is not.
    """

    tool: str
    words: str
    controller: bool = False
    differs: str = ""


TOPICS: Final = (
    Run("kafka-topics", f"--create --topic {TOPIC} --replica-assignment {ASSIGNMENT} --config retention.ms=86400000"),
    Run("kafka-topics", "--create --topic spread --partitions 2 --replication-factor 3 --config min.insync.replicas=2"),
    Run("kafka-topics", f"--create --topic {TOPIC}"),
    Run("kafka-topics", f"--create --topic {TOPIC} --if-not-exists"),
    Run("kafka-topics", "--create --topic wide --replication-factor 5"),
    Run("kafka-topics", "--create --topic wrong --config no.such.setting=1"),
    Run("kafka-topics", "--create --topic wrong --config retention.ms=soon"),
    Run("kafka-topics", "--create --topic wr*ng"),
    Run("kafka-topics", "--list"),
    Run("kafka-topics", f"--describe --topic {TOPIC}"),
    Run("kafka-topics", "--describe --topic missing"),
    Run("kafka-topics", "--describe --topics-with-overrides --exclude-internal"),
    Run("kafka-topics", "--describe --under-replicated-partitions"),
    Run("kafka-topics", "--describe --unavailable-partitions"),
    Run("kafka-topics", "--describe --at-min-isr-partitions"),
    Run("kafka-topics", f"--alter --topic {TOPIC} --partitions 4 --replica-assignment {ASSIGNMENT},1:3:2"),
    Run("kafka-topics", f"--alter --topic {TOPIC} --partitions 2"),
    Run("kafka-topics", "--alter --topic missing --partitions 2"),
    Run("kafka-topics", "--delete --topic spread"),
    Run("kafka-topics", "--delete --topic missing"),
    Run("kafka-topics", "--delete --topic missing --if-exists"),
)
CONFIGS: Final = (
    Run("kafka-configs", f"--alter --entity-type topics --entity-name {TOPIC} --add-config "
                         "max.message.bytes=65536,cleanup.policy=[compact,delete]"),
    Run("kafka-configs", f"--alter --entity-type topics --entity-name {TOPIC} --add-config segment.bytes=few"),
    Run("kafka-configs", f"--alter --entity-type topics --entity-name {TOPIC} --delete-config cleanup.policy"),
    Run("kafka-configs", f"--alter --entity-type topics --entity-name {TOPIC} --delete-config no.such.setting"),
    Run("kafka-configs", f"--describe --entity-type topics --entity-name {TOPIC}"),
    Run("kafka-configs", f"--describe --entity-type topics --entity-name {TOPIC} --all"),
    Run("kafka-configs", "--describe --entity-type topics"),
    Run("kafka-configs", "--describe --entity-type topics --entity-name missing"),
    Run("kafka-configs", "--alter --entity-type brokers --entity-name 1 --add-config log.cleaner.threads=2"),
    Run("kafka-configs", "--alter --entity-type brokers --entity-default --add-config log.retention.ms=90000000"),
    Run("kafka-configs", "--alter --entity-type brokers --entity-name 1 --add-config broker.rack=here"),
    Run("kafka-configs", "--describe --entity-type brokers --entity-name 1"),
    Run("kafka-configs", "--describe --entity-type brokers --entity-default"),
    Run("kafka-configs", "--describe --entity-type brokers --entity-name 1 --all",
        differs="our own settings, `kraft.*`, are listed too"),
    Run("kafka-configs", "--alter --entity-type users --entity-name ann --add-config producer_byte_rate=1024"),
    Run("kafka-configs", "--alter --entity-type clients --entity-default --add-config request_percentage=50"),
    Run("kafka-configs", "--alter --entity-type users --entity-name ann --add-config no_such_quota=1"),
    Run("kafka-configs", "--describe --entity-type users"),
    Run("kafka-configs", "--describe --entity-type clients --entity-default"),
    Run("kafka-configs", "--alter --entity-type users --entity-name bob --add-config SCRAM-SHA-256=[password=secret]"),
    Run("kafka-configs", "--describe --entity-type users --entity-name bob"),
    Run("kafka-configs", "--alter --entity-type users --entity-name bob --delete-config SCRAM-SHA-256"),
    Run("kafka-configs", "--alter --entity-type groups --entity-name g --add-config consumer.session.timeout.ms=50000"),
    Run("kafka-configs", "--describe --entity-type groups --entity-name g"),
    Run("kafka-configs", "--alter --entity-type client-metrics --entity-name cm --add-config interval.ms=1000"),
    Run("kafka-configs", "--describe --entity-type client-metrics --entity-name cm"),
    Run("kafka-configs", "--describe --entity-type broker-loggers --entity-name 1",
        differs="the loggers are those of this node's modules"),
    Run("kafka-client-metrics", "--list"),
)
GROUPS: Final = (
    Run("kafka-consumer-groups", "--list"),
    Run("kafka-consumer-groups", "--list --state"),
    Run("kafka-consumer-groups", "--list --type"),
    Run("kafka-groups", "--list"),
    Run("kafka-consumer-groups", f"--describe --group {GROUP}"),
    Run("kafka-consumer-groups", f"--describe --group {GROUP} --state"),
    Run("kafka-consumer-groups", f"--describe --group {GROUP} --members --verbose"),
    Run("kafka-consumer-groups", "--describe --group missing"),
    Run("kafka-consumer-groups", f"--reset-offsets --group {GROUP} --to-earliest --all-topics --dry-run"),
    Run("kafka-consumer-groups", f"--reset-offsets --group {GROUP} --to-offset 3 --topic {TOPIC}:0 --execute"),
    Run("kafka-consumer-groups", f"--reset-offsets --group {GROUP} --to-datetime 2020-01-01T00:00:00.000 "
                                 f"--topic {TOPIC} --execute"),
    Run("kafka-consumer-groups", f"--describe --group {GROUP} --offsets"),
    Run("kafka-consumer-groups", f"--delete-offsets --group {GROUP} --topic {TOPIC}:1"),
    Run("kafka-consumer-groups", "--describe --all-groups"),
    Run("kafka-consumer-groups", f"--describe --group {ACTIVE} --members --verbose"),
    Run("kafka-consumer-groups", f"--describe --group {ACTIVE} --state"),
    Run("kafka-consumer-groups", f"--reset-offsets --group {ACTIVE} --to-earliest --all-topics --execute"),
    Run("kafka-consumer-groups", f"--delete --group {ACTIVE}"),
    Run("kafka-consumer-groups", f"--delete --group {GROUP}"),
    Run("kafka-consumer-groups", "--delete --group missing"),
)
MOVES: Final = (
    Run("kafka-reassign-partitions", "--list"),
    Run("kafka-reassign-partitions", "--execute --reassignment-json-file {files}/move.json --throttle 10000000"),
    Run("kafka-reassign-partitions", "--verify --reassignment-json-file {files}/move.json --preserve-throttles"),
    Run("kafka-configs", f"--describe --entity-type topics --entity-name {TOPIC}"),
    Run("kafka-configs", "--describe --entity-type brokers --entity-name 1"),
    Run("kafka-reassign-partitions", "--verify --reassignment-json-file {files}/move.json"),
    Run("kafka-configs", f"--describe --entity-type topics --entity-name {TOPIC}"),
    Run("kafka-topics", f"--describe --topic {TOPIC}"),
    Run("kafka-reassign-partitions", "--execute --reassignment-json-file {files}/wrong.json"),
    Run("kafka-reassign-partitions", "--cancel --reassignment-json-file {files}/move.json"),
    Run("kafka-leader-election", f"--election-type preferred --topic {TOPIC} --partition 0"),
    Run("kafka-leader-election", f"--election-type preferred --topic {TOPIC} --partition 0"),
    Run("kafka-leader-election", f"--election-type unclean --topic {TOPIC} --partition 1"),
    Run("kafka-leader-election", "--election-type preferred --topic missing --partition 0"),
    Run("kafka-topics", f"--describe --topic {TOPIC}"),
)
DATA: Final = (
    Run("kafka-get-offsets", f"--topic {TOPIC}"),
    Run("kafka-get-offsets", f"--topic {TOPIC} --time earliest"),
    Run("kafka-get-offsets", f"--topic {TOPIC} --time max-timestamp"),
    Run("kafka-delete-records", "--offset-json-file {files}/delete.json"),
    Run("kafka-get-offsets", f"--topic {TOPIC} --time earliest"),
    Run("kafka-log-dirs", f"--describe --broker-list 1,2,3 --topic-list {TOPIC}"),
    Run("kafka-log-dirs", "--describe --broker-list 9"),
    Run("kafka-transactions", "list"),
    Run("kafka-transactions", f"describe-producers --topic {TOPIC} --partition 0"),
    Run("kafka-transactions", f"find-hanging --topic {TOPIC}"),
    Run("kafka-transactions", "describe --transactional-id missing"),
    Run("kafka-transactions", f"abort --topic {TOPIC} --partition 0 --start-offset 0"),
)
TRANSACTIONS: Final = tuple(Run(TOOL, words, differs=DIFFERS.get(words, "")) for words in OF_OPEN)
TERMINATED: Final = tuple(Run(TOOL, words) for words in OF_TERMINATED)
UNVERIFIED: Final = Run("kafka-configs",
                        f"--alter --entity-type brokers --entity-default --add-config {VERIFICATION}=false")
HANGING: Final = tuple(Run(TOOL, words) for words in OF_HANGING)
AFTER_ABORT: Final = (
    *(Run(TOOL, words) for words in OF_ABORTED),
    Run("kafka-configs", f"--alter --entity-type brokers --entity-default --delete-config {VERIFICATION}"),
)
CLUSTER: Final = (
    Run("kafka-cluster", "cluster-id"),
    Run("kafka-cluster", "cluster-id", controller=True),
    Run("kafka-cluster", "list-endpoints"),
    Run("kafka-cluster", "list-endpoints --include-fenced-brokers"),
    Run("kafka-cluster", "list-endpoints", controller=True),
    Run("kafka-cluster", "unregister --id 9"),
    Run("kafka-metadata-quorum", "describe --status"),
    Run("kafka-metadata-quorum", "describe --replication"),
    Run("kafka-metadata-quorum", "describe --replication --human-readable", controller=True),
    Run("kafka-features", "describe"),
    Run("kafka-features", "describe", controller=True),
    Run("kafka-features", "upgrade --feature group.version=1"),
    Run("kafka-features", "upgrade --feature transaction.version=9"),
    Run("kafka-features", "downgrade --feature share.version=0 --dry-run"),
    Run("kafka-features", "downgrade --metadata 4.0"),
    Run("kafka-features", "upgrade --release-version 4.3"),
    Run("kafka-features", "version-mapping"),
    Run("kafka-broker-api-versions", "", differs="this project's own APIs (1000, 1002) are listed too"),
    Run("kafka-broker-api-versions", "", controller=True),
    Run("kafka-acls", "--list"),
    Run("kafka-delegation-tokens", "--describe"),
)
LAST: Final = Run("kafka-replica-verification", f"--topics-include {TOPIC} --time -2 --report-interval-ms 500")


def write_files(directory: Path) -> None:
    """Write the files that runs read."""
    def write(name: str, content: object) -> None:
        (directory / name).write_text(json.dumps(content))

    move = [{"topic": TOPIC, "partition": 0, "replicas": [2, 1]}, {"topic": TOPIC, "partition": 1, "replicas": [2, 3]}]
    write("move.json", {"version": 1, "partitions": move})
    write("wrong.json", {"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "replicas": [1, 9]}]})
    write("delete.json", {"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "offset": 4},
                                                       {"topic": TOPIC, "partition": 2, "offset": 999}]})


def fill(cluster: ThreeNodes) -> None:
    """Records in each partition of the topic, and a group that read some of them."""
    for partition in range(3):
        librdkafka_produce(cluster, TOPIC, [Record(b"k%d" % i, b"value %d" % i) for i in range(20)],
                           partition=partition, linger_ms=200, idempotent=True)
    consumer = librdkafka_consumer(cluster, GROUP)
    consumer.commit(offsets=[TopicPartition(TOPIC, partition, 5) for partition in range(3)], asynchronous=False)
    consumer.close()


@contextmanager
def active_group(cluster: ThreeNodes) -> Iterator[None]:
    """A group with a member that has its assignment."""
    consumer = librdkafka_consumer(cluster, ACTIVE, client_id="reader", session_timeout_ms=60_000)
    consumer.subscribe([TOPIC])
    take(consumer, 60)
    consumer.commit(asynchronous=False)
    try:
        yield
    finally:
        consumer.close()


def run_all(cluster: ThreeNodes, tools: Tools, files: Path,
            see: Callable[[Run, ToolOutput], None]) -> None:
    """Run every tool, one after the other."""
    write_files(files)
    for run in (*TOPICS, *CONFIGS):
        see(run, run_tool(cluster, tools, files, run))
    fill(cluster)
    with active_group(cluster):
        for run in GROUPS:
            see(run, run_tool(cluster, tools, files, run))
    for run in DATA:
        see(run, run_tool(cluster, tools, files, run))
    with open_transaction(cluster.address) as client:
        for run in TRANSACTIONS:
            see(run, run_tool(cluster, tools, files, run))
        settle(client)
        for run in (*TERMINATED, UNVERIFIED):
            see(run, run_tool(cluster, tools, files, run))
        hang(client)
        for run in (*HANGING, *AFTER_ABORT):
            see(run, run_tool(cluster, tools, files, run))
    for run in (*MOVES, *CLUSTER):
        see(run, run_tool(cluster, tools, files, run))
    see(LAST, run_tool(cluster, tools, files, LAST, linger_ms=2500))


def run_tool(cluster: ThreeNodes, tools: Tools, files: Path, run: Run, linger_ms: int = 0) -> ToolOutput:
    """One run, on nodes that have all changes of earlier runs."""
    cluster.await_same_metadata()
    words = run.words.format(files=files).split()
    option = "--broker-list" if run is LAST else "--bootstrap-controller" if run.controller else "--bootstrap-server"
    address = cluster.controller_addresses if run.controller else cluster.address
    if run.tool == "kafka-cluster":        # its sub-command comes first
        words = [words[0], option, address, *words[1:]]
    else:
        words = [option, address, *words]
    return tools.run(run.tool, *words, linger_ms=linger_ms)


# Parts that differ between clusters and between moments.
CHANGING: Final = tuple((re.compile(pattern, re.MULTILINE), written) for pattern, written in (
    (r"TopicId: \S{22}", "TopicId: ID"),
    (r"\b[\w-]{22}\b(?=\t|\")", "ID"),
    (r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "-ID"),
    (r"\b1\d{12}\b|\d+ ms ago|^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", "TIME"),
    (r"(HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs|LeaderId|LeaderEpoch):.*|(Epoch): \d+", r"\1\2: N"),
    (r"^\d+ *\tID\t.*(Leader|Follower|Observer).*", r"\1"),
    (r"127\.0\.0\.1:PORT\d +\(\d\)", "COORDINATOR"),
    # A producer id: its block depends on the order in which the brokers came.
    (r"^\d+ *\t(?=\d+ +\t-?\d+ +\t\d+ +\tTIME)", "PRODUCER\t"),
    (r" +$|\t+ *$", ""),
))
# The text of an error is the cluster's own; its kind is not.
SENTENCES: Final = tuple((re.compile(pattern, re.MULTILINE), written) for pattern, written in (
    (r"(org\.apache\.kafka\.common\.errors\.\w+): .*", r"\1"),
    (r"^(Error while executing topic command :|Could not (?:up|down)grade \S+ to \d+\.).*", r"\1"),
))


def settled(cluster: ThreeNodes, files: Path, run: Run, printed: ToolOutput) -> ToolOutput:
    """The output without what cannot be the same of another cluster."""
    text = printed.text.replace(str(files), "FILES")
    if run.tool == TOOL:
        text = without_changing(text)
    for node in cluster.nodes:
        text = re.sub(rf"\b{node.port}\b", f"PORT{node.node_id}", text)
        text = re.sub(rf"\b{node.controller_port}\b", f"CONTROLLER{node.node_id}", text)
    for pattern, written in (*CHANGING, *SENTENCES):
        text = pattern.sub(written, text)
    lines = text.splitlines()
    if run.tool in UNORDERED:
        lines.sort()
    return ToolOutput(printed.code, "\n".join(lines))


UNORDERED: Final = ("kafka-delete-records", "kafka-broker-api-versions", "kafka-metadata-quorum")
"""Tools that print things in the order in which they received them."""


def table() -> str:
    """All runs and how they compare, as docs/interop.md lists them."""
    rows = ["| tool | command | same? |", "|---|---|---|"]
    for run in (*TOPICS, *CONFIGS, *GROUPS, *DATA, *TRANSACTIONS, *TERMINATED, UNVERIFIED, *HANGING, *AFTER_ABORT,
                *MOVES, *CLUSTER, LAST):
        words = f"`{run.words}`" if run.words else ""
        where = " (controllers)" if run.controller else ""
        rows.append(f"| {run.tool}{where} | {words} | {f'no: {run.differs}' if run.differs else 'yes'} |")
    return "\n".join(dict.fromkeys(rows))
