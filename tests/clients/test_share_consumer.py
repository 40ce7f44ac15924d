"""Share consumers of Apache Kafka 4.3.1 on a node of ours: every type of acknowledgement, members and nodes that are
killed."""

import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from typing import Final

import confluent_kafka
import pytest

from tests.clients.connect import SECONDS, SOURCES, java
from tests.integration.admin import create, wait_until
from tests.integration.conftest import new_node  # noqa: F401
from tests.integration.process import NodeProcess
from tests.integration.test_share_partitions import SETTINGS, begin_with
from tests.peer.kafka import require_kafka

pytestmark = pytest.mark.peer

RECORDS: Final = 3_000
POLL_MAX: Final = 1_000
"""More records than one poll returns. The client's limit of 500 is soft: it acquires whole batches."""


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process, and librdkafka closes its sockets at a time of its own."""


@pytest.fixture(autouse=True)
def _needs() -> None:
    require_kafka(SOURCES)


class ShareMember:
    """One process of `ShareMember.java`, and the lines that it printed."""

    def __init__(self, node: NodeProcess, group: str, topic: str, count: int) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(java(str(SOURCES / "ShareMember.java"), node.address, group, topic, str(count)),
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.lines.append(line.strip())

    def ended(self) -> list[str]:
        """Wait for the end, and return the lines."""
        code = self.process.wait(SECONDS)
        self.reader.join()
        assert code == 0, "\n".join(self.lines[-30:])
        return self.lines

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join()


def send(node: NodeProcess, topic: str, values: list[str]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": node.address, "log_level": 2})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(SECONDS) == 0


def test_every_type_of_acknowledgement(new_node: Callable[..., NodeProcess]) -> None:  # noqa: F811
    node = new_node(SETTINGS)
    create(node, "orders", 2)
    begin_with(node, "workers", "earliest")
    values = [f"{kind}-{number}" for number in range(25) for kind in ("ACCEPT", "RELEASE", "REJECT", "RENEW")]
    send(node, "orders", values)
    lines = ShareMember(node, "workers", "orders", len(values)).ended()
    deliveries = {"ACCEPT": (1,), "RELEASE": (1, 2), "REJECT": (1,), "RENEW": (1, 1)}
    assert Counter(lines) == Counter(f"{value} {delivery}" for value in values
                                     for delivery in deliveries[value.split("-")[0]])


def test_a_killed_member_and_a_killed_node(new_node: Callable[..., NodeProcess]) -> None:  # noqa: F811
    """Records of a killed member go to another one. After a kill of the node nothing acknowledged comes again."""
    node = new_node(SETTINGS)
    create(node, "orders", 2)
    begin_with(node, "workers", "earliest")
    send(node, "orders", [f"ACCEPT-{number}" for number in range(RECORDS)])
    first = ShareMember(node, "workers", "orders", 0)
    wait_until(lambda: len(first.lines) >= RECORDS, "the first member has all records", SECONDS)
    first.kill()
    node.kill()
    node.start()
    send(node, "orders", [f"ACCEPT-{number}" for number in range(RECORDS, RECORDS + 100)])
    lines = ShareMember(node, "workers", "orders", 100).ended()
    again = [line for line in lines if int(line.split()[0].split("-")[1]) < RECORDS]
    assert len(again) <= POLL_MAX, "at most the last poll, which was perhaps not acknowledged"
