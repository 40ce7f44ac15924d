"""Short forms of admin calls, by librdkafka, and of requests that no client sends by itself."""

import functools
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from kraft.client.connection import Connection
from tests.integration.process import NodeProcess

SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.02
METADATA_SECONDS: Final = 60.0
METADATA_STEP_SECONDS: Final = 5.0
APPEND: Final = AlterConfigOpType.APPEND
SUBTRACT: Final = AlterConfigOpType.SUBTRACT
SET: Final = AlterConfigOpType.SET
DELETE: Final = AlterConfigOpType.DELETE


class Running(Protocol):
    """A node; each of its runs is another process."""

    @property
    def address(self) -> str: ...

    @property
    def pid(self) -> int: ...


def admin(node: Running) -> AdminClient:
    """Return librdkafka's admin client, one for each run of a node. It must outlive its answers, and it does not find a
    group's coordinator again after the only broker was offline."""
    return _admin(node.address, node.pid)


@functools.cache
def _admin(address: str, _: int) -> AdminClient:
    return AdminClient({"bootstrap.servers": address, "log_level": 2})


def close_admins() -> None:
    """Close all admin clients. Those of nodes that ended would connect again and again."""
    _admin.cache_clear()


def connect(node: NodeProcess) -> Connection:
    """Connect to the node, to send requests in a version or of a kind that clients do not send by themselves."""
    return Connection("127.0.0.1", node.port, timeout=SECONDS)


def create(node: NodeProcess, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
    """Create a topic."""
    made = admin(node).create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))])
    made[topic].result(SECONDS)


def alter(node: NodeProcess, topic: str, name: str, value: str | None,
          operation: AlterConfigOpType = AlterConfigOpType.SET,
          kind: ConfigResource.Type = ConfigResource.Type.TOPIC) -> None:
    """Change one setting by an incremental request."""
    entry = ConfigEntry(name, value, incremental_operation=operation)
    resource = ConfigResource(kind, topic, incremental_configs=[entry])
    admin(node).incremental_alter_configs([resource])[resource].result(SECONDS)


def configs(node: NodeProcess, name: str,
            kind: ConfigResource.Type = ConfigResource.Type.TOPIC) -> dict[str, ConfigEntry]:
    """Return the settings of one resource by DescribeConfigs."""
    resource = ConfigResource(kind, name)
    found: dict[str, ConfigEntry] = admin(node).describe_configs([resource])[resource].result(SECONDS)
    return found


def metadata(client: AdminClient, topic: str = "") -> ClusterMetadata:
    """Return what the cluster answers to Metadata for one topic, or for all topics.

    librdkafka repeats such a request at the broker that it chose first, even when that broker has died meanwhile. So
    this function waits for a short time, and sends the request again.
    """
    deadline = time.monotonic() + METADATA_SECONDS
    while True:
        try:
            return client.list_topics(*filter(None, [topic]), timeout=METADATA_STEP_SECONDS)
        except KafkaException as error:
            waits = error.args[0].code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)
            if not waits or time.monotonic() >= deadline:
                raise


def start_offset(node: NodeProcess, topic: str, partition: int = 0) -> int:
    """Return the earliest offset of a partition."""
    where = TopicPartition(topic, partition)
    return int(admin(node).list_offsets({where: OffsetSpec.earliest()})[where].result(SECONDS).offset)


def end_offset(node: NodeProcess, topic: str, partition: int = 0) -> int:
    """Return the offset that the next record gets."""
    where = TopicPartition(topic, partition)
    return int(admin(node).list_offsets({where: OffsetSpec.latest()})[where].result(SECONDS).offset)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """Wait for what the node does in its own time: check again and again, for `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(PAUSE_SECONDS)
