"""Three nodes that are killed and restarted under a paced, idempotent producer with acks=all and librdkafka's defaults,
and how long it had to wait for them."""

import threading
import time
from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import confluent_kafka
from confluent_kafka import ElectionType
from confluent_kafka.admin import NewTopic

from tests.integration.admin import admin, wait_until
from tests.integration.clients import librdkafka_settings
from tests.integration.load import VALUE, read_all
from tests.integration.process import NodeProcess
from tests.integration.quorum import SECONDS, ControllerProcess, Quorum

PACE_SECONDS: Final = 0.004
"""Between two records to each partition; a gap is known to about as much."""
LAST_SECONDS: Final = 60.0
TOPIC: Final = "stream"
NODES: Final = 3
WAIT_SECONDS: Final = 60.0
NOTICED_SECONDS: Final = 0.05
"""After a node's death: what it acknowledged before is with the producer."""
SETTLE_SECONDS: Final = 0.3
"""After the replicas are in sync again: clients have noticed, too."""


class Outcome(NamedTuple):
    """What became of the records, over all partitions."""

    acknowledged: int
    errors: int
    lost: int
    reordered: int
    duplicated: int

    @property
    def is_right(self) -> bool:
        return not any((self.errors, self.lost, self.reordered, self.duplicated))

    def __str__(self) -> str:
        return (f"{self.acknowledged} acknowledged, {self.errors} errors, {self.lost} lost, "
                f"{self.reordered} reordered, {self.duplicated} duplicated")


class Stream(threading.Thread):
    """Sends 0, 1, 2, ... to each partition of `topic` until `end`, and notes when each was acknowledged."""

    def __init__(self, nodes: Sequence[NodeProcess], topic: str, partitions: int) -> None:
        super().__init__(name=f"stream to {topic}", daemon=True)
        self.topic = topic
        self.errors: list[str] = []
        self.sent = 0
        self.unfinished = 0
        self._times = [array("d") for _ in range(partitions)]
        self._offsets: list[dict[int, int]] = [{} for _ in range(partitions)]
        self._end = threading.Event()
        self._producer = confluent_kafka.Producer(librdkafka_settings(nodes[0], {
            "bootstrap_servers": ",".join(node.address for node in nodes), "enable_idempotence": True, "acks": "all"}))

    def run(self) -> None:
        while not self._end.is_set():
            for partition in range(len(self._times)):
                self._send(partition, self.sent)
            self.sent += 1
            self._producer.poll(PACE_SECONDS)
        self.unfinished = self._producer.flush(LAST_SECONDS)

    def _send(self, partition: int, sequence: int) -> None:
        def delivered(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            if error is None:
                self._times[partition].append(time.monotonic())
                self._offsets[partition][sequence] = message.offset() or 0
            else:
                self.errors.append(f"{self.topic}-{partition}, record {sequence}: {error}")

        self._producer.produce(self.topic, VALUE.pack(partition, sequence), partition=partition, on_delivery=delivered)

    def end(self) -> None:
        """No more records; returns when the last one was answered."""
        self._end.set()
        self.join()

    def flows_since(self, moment: float) -> bool:
        """Whether each partition acknowledged something that long after."""
        return all(times and times[-1] > moment for times in self._times)

    def longest_gap(self, since: float) -> float:
        """The longest time, past that moment, for which one of the partitions acknowledged nothing."""
        return max(max(b - max(a, since) for a, b in pairwise(times) if b > since) for times in self._times)

    def outcome(self, node: NodeProcess) -> Outcome:
        """After the end: reads everything back."""
        lost = reordered = duplicated = acknowledged = 0
        for partition, offsets in enumerate(self._offsets):
            stored = read_all(node, self.topic, partition)
            sequences = list(stored.values())
            acknowledged += len(offsets)
            lost += sum(stored.get(offset) != sequence for sequence, offset in offsets.items())
            duplicated += len(sequences) - len(set(sequences))
            reordered += sum(a > b for a, b in pairwise(dict.fromkeys(sequences)))
        return Outcome(acknowledged, len(self.errors) + self.unfinished, lost, reordered, duplicated)


class Failover:
    """The cluster and its producer. Everything has its default."""

    def __init__(self, quorum: Quorum, settings: Mapping[str, str] | None = None) -> None:
        self.quorum = quorum
        self.nodes = list(quorum.nodes.values())
        for node in self.nodes:
            node.settings |= {"broker.heartbeat.interval.ms": "2000", "broker.session.timeout.ms": "9000",
                              **(settings or {})}

    def start(self) -> None:
        self.quorum.start()
        made = admin(self.nodes[0]).create_topics([NewTopic(TOPIC, NODES, NODES, config={"min.insync.replicas": "2"})])
        made[TOPIC].result(SECONDS)
        self.stream = Stream(self.nodes, TOPIC, NODES)
        self.stream.start()
        self.balance()

    def balance(self) -> None:
        """All replicas are in sync, and each node leads one partition."""
        def partitions(node: ControllerProcess) -> list[tuple[int, bool]]:
            found = admin(node).list_topics(TOPIC, timeout=SECONDS).topics[TOPIC].partitions.values()
            return [(each.leader, len(each.isrs) == NODES) for each in found]

        wait_until(lambda: all(whole for node in self.nodes for _, whole in partitions(node)), "in sync", WAIT_SECONDS)
        admin(self.nodes[0]).elect_leaders(ElectionType.PREFERRED).result(SECONDS)
        wait_until(lambda: all(len({leader for leader, _ in partitions(node)}) == NODES for node in self.nodes),
                   "each node leads", WAIT_SECONDS)
        time.sleep(SETTLE_SECONDS)

    def kill(self) -> float:
        """Of the active controller, which is the leader of a partition as well; gives the gap."""
        victim = self.quorum.leader
        began = time.monotonic()
        victim.kill()
        died = time.monotonic()
        wait_until(lambda: self.stream.flows_since(died + NOTICED_SECONDS), "acknowledged again", WAIT_SECONDS)
        time.sleep(SETTLE_SECONDS)
        gap = self.stream.longest_gap(began)
        victim.start()
        self.balance()
        return gap

    def restart_all(self) -> float:
        """One after the other; gives the gap."""
        began = time.monotonic()
        for node in self.nodes:
            node.stop()
            node.start()
            self.balance()
        return self.stream.longest_gap(began)
