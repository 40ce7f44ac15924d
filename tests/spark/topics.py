"""Topics of a node for the tests: created, filled and removed with third-party clients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kraft.client import Cluster
from kraft.client.transaction_admin import list_transactions
from tests.integration.process import NodeProcess

SECONDS = 20.0
ENDING = ("PrepareCommit", "PrepareAbort")
UNFINISHED = ("Ongoing", *ENDING)


def settle(bootstrap: str, states: Sequence[str] = ENDING) -> None:
    """Wait until no transaction of the cluster is in one of these states."""
    with Cluster(bootstrap) as cluster:
        while list_transactions(cluster, states=states):
            pass


class Topics:
    """Operations of tests on the topics of one node."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.admin = AdminClient({"bootstrap.servers": node.address, "log_level": 2})
        self.producer = self._new_producer()

    def _new_producer(self) -> Producer:
        return Producer({"bootstrap.servers": self.node.address, "log_level": 2, "linger.ms": 1})

    @property
    def address(self) -> str:
        return self.node.address

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        for done in self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
            done.result(SECONDS)

    def settle(self) -> None:
        """Wait until every ended transaction is marked as ended in its partitions, which is later than its answer."""
        settle(self.address)

    def grow(self, topic: str, partitions: int) -> None:
        for done in self.admin.create_partitions([NewPartitions(topic, partitions)]).values():
            done.result(SECONDS)
        self.producer = self._new_producer()  # the previous one keeps using the partitions that it knows

    def delete(self, *topics: str) -> None:
        for done in self.admin.delete_topics(list(topics)).values():
            done.result(SECONDS)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        from confluent_kafka import TopicPartition

        for done in self.admin.delete_records([TopicPartition(topic, partition, before)]).values():
            done.result(SECONDS)

    def send(self, topic: str, values: Iterable[Any], partition: int | None = None, *, key: bytes | None = None,
             headers: Sequence[tuple[str, bytes | None]] = (), timestamp_ms: int = 0) -> None:
        """Produce values (as text) and wait until all are acknowledged."""
        failures: list[object] = []
        for value in values:
            place = {} if partition is None else {"partition": partition}
            self.producer.produce(topic, None if value is None else str(value).encode(), key, headers=list(headers),
                                  timestamp=timestamp_ms, **place,
                                  on_delivery=lambda error, _: failures.append(error) if error else None)
        assert self.producer.flush(SECONDS) == 0
        assert failures == []
