"""Kafka's command-line tools, all in one process of Java's, and a cluster of each kind for them."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.peer.kafka import HERE, QUICK_START, classpath

CLASSES: Final = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}


class ToolOutput(NamedTuple):
    """Output of a tool, and its exit code."""

    code: int
    text: str


class Tools:
    """A process that runs tools, one at a time."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def run(self, name: str, *arguments: str, linger_ms: int = 0) -> ToolOutput:
        """Run the script of that name.

        The output of its threads ends `linger_ms` after its main method: a tool with such threads must be the last.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = "\t".join((str(linger_ms), CLASSES[name], *arguments)) + "\n"
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()
        head = self._process.stdout.readline().split()
        assert len(head) == 2, f"{name} ended the process"
        return ToolOutput(int(head[0]), self._process.stdout.read(int(head[1])).decode())


@contextmanager
def tools(directory: Path) -> Iterator[Tools]:
    """Start the process in `directory`; it is killed at the end."""
    command = ["java", "-Xmx512m", *QUICK_START, "-Dpeer.level=off", "-cp", f"{HERE}:{classpath()}",
               str(HERE / "Tools.java")]
    with subprocess.Popen(command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Tools(process)
        finally:
            process.kill()
