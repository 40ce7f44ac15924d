"""Three nodes that are killed and restarted under a paced, idempotent producer with acks=all and librdkafka's defaults.
The result is how long the producer had to wait for them."""

import json
import threading
import time
from array import array
from collections.abc import Mapping
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

import confluent_kafka
from confluent_kafka.admin import NewTopic

from tests.integration.admin import Running, admin, metadata, wait_until
from tests.integration.load import VALUE, acknowledged_offset, lost_of, read_all
from tests.integration.quorum import SECONDS

PACE_SECONDS: Final = 0.004
"""Time between two records to each partition, and about the precision of a gap."""
LAST_SECONDS: Final = 60.0
NODES: Final = 3
WAIT_SECONDS: Final = 60.0
NOTICED_SECONDS: Final = 0.05
"""Time after a node's death until what it acknowledged before has reached the producer."""
SETTLE_SECONDS: Final = 0.3
"""Time after the replicas are in sync again until clients have noticed it, too."""
FINDINGS_MAX: Final = 5
STATISTICS_MS: Final = 100
"""Interval at which a producer reports its connections."""


class Gap(NamedTuple):
    """Time that a producer waited for a killed leader."""

    seconds: float
    is_connected: bool
    """True if each producer had a connection to another node when the leader died. librdkafka 2.16 requests metadata at
    once then. A producer whose only connection was to the dead leader, with nothing in flight, first requests it when
    its timer of a second expires: no node can shorten that wait."""


class Outcome(NamedTuple):
    """Counts of what happened to the records, over all partitions."""

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

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__(name=f"stream to {topic}", daemon=True)
        self.topic = topic
        self.errors: list[str] = []
        self.findings: list[str] = []
        """The first lost records of each partition, after `outcome`."""
        self.sent = 0
        self.unfinished = 0
        self.connected: frozenset[int] = frozenset()
        """The nodes to which the producer has a connection, by its last report."""
        self._times = [array("d") for _ in range(partitions)]
        self._offsets: list[dict[int, int]] = [{} for _ in range(partitions)]
        self._end = threading.Event()
        self._producer = confluent_kafka.Producer({
            "bootstrap.servers": bootstrap, "log_level": 2, "enable.idempotence": True, "acks": "all",
            "statistics.interval.ms": STATISTICS_MS, "stats_cb": self._report})

    def run(self) -> None:
        while not self._end.is_set():
            for partition in range(len(self._times)):
                self._send(partition, self.sent)
            self.sent += 1
            self._producer.poll(PACE_SECONDS)
        self.unfinished = self._producer.flush(LAST_SECONDS)
        del self._producer      # it would continue to report its statistics, which nothing reads

    def _report(self, statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        self.connected = frozenset(each["nodeid"] for each in brokers if each["state"] == "UP" and each["nodeid"] >= 0)

    def _send(self, partition: int, sequence: int) -> None:
        def delivered(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            if error is None:
                self._times[partition].append(time.monotonic())
                self._offsets[partition][sequence] = acknowledged_offset(message)
            else:
                self.errors.append(f"{self.topic}-{partition}, record {sequence}: {error}")

        self._producer.produce(self.topic, VALUE.pack(partition, sequence), partition=partition, on_delivery=delivered)

    def end(self) -> None:
        """Send no more records; return when the last one was answered."""
        self._end.set()
        self.join()

    def flows_since(self, moment: float) -> bool:
        """Return whether each partition acknowledged something after the moment."""
        return all(times and times[-1] > moment for times in self._times)

    def longest_gap(self, since: float) -> float:
        """Return the longest time, past that moment, for which one of the partitions acknowledged nothing."""
        return max(max(b - max(a, since) for a, b in pairwise(times) if b > since) for times in self._times)

    @property
    def partitions(self) -> list[tuple[str, int]]:
        return [(self.topic, partition) for partition in range(len(self._times))]

    def outcome(self, stored_in: Mapping[tuple[str, int], Mapping[int, int]]) -> Outcome:
        """Compare what was acknowledged with what was read back after the end."""
        lost = reordered = duplicated = acknowledged = 0
        for where, offsets in zip(self.partitions, self._offsets, strict=True):
            stored = stored_in[where]
            sequences = list(stored.values())
            acknowledged += len(offsets)
            missing = lost_of(offsets.items(), stored)
            lost += len(missing)
            self.findings += [
                f"{where[0]}-{where[1]}: record {sequence} was acknowledged at offset {offset}, but "
                f"{stored.get(offset)} is read there, and the record at "
                f"{[each for each, number in stored.items() if number == sequence]}; "
                f"the end that is read is {max(stored, default=-1) + 1}"
                for sequence, offset in missing[:FINDINGS_MAX]]
            duplicated += len(sequences) - len(set(sequences))
            reordered += sum(a > b for a, b in pairwise(dict.fromkeys(sequences)))
        return Outcome(acknowledged, len(self.errors) + self.unfinished, lost, reordered, duplicated)


class Member(Running, Protocol):
    """A node of both roles. `start` returns when it serves."""

    @property
    def node_id(self) -> int: ...

    def start(self) -> object: ...

    def stop(self) -> object: ...

    def kill(self) -> object: ...


class Members(Protocol):
    """Three nodes; `leader` is the active controller."""

    @property
    def nodes(self) -> Mapping[int, Member]: ...

    @property
    def leader(self) -> Member: ...


class Failover:
    """Three nodes that run. Each kill and each round of restarts has topics and producers of its own. What a client
    remembers of a node that was offline a moment ago must not affect the next one."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.nodes = list(members.nodes.values())
        self.streams: list[Stream] = []

    def kill(self, *, controller: bool) -> Gap:
        """Kill the active controller, or else another node, which leads a partition. Return the longer gap of two
        producers. One sends to that partition alone: its connections to the other nodes await nothing, so they answer
        its Metadata at once. The other one sends to a partition of each node."""
        victim, streams = self._begin_kill(controller=controller)
        is_connected = all(stream.connected - {victim.node_id} for stream in streams)
        began = time.monotonic()
        victim.kill()
        died = time.monotonic()
        for stream in streams:
            wait_until(lambda stream=stream: stream.flows_since(died + NOTICED_SECONDS),  # type: ignore[misc]
                       "acknowledged again", WAIT_SECONDS)
        gap = Gap(max(stream.longest_gap(began) for stream in streams), is_connected)
        for stream in streams:
            stream.end()
        victim.start()
        return gap

    def _begin_kill(self, *, controller: bool) -> tuple[Member, list[Stream]]:
        while True:
            leader = self.members.leader.node_id
            others = [node for node in self.nodes if node.node_id != leader]
            victim = self.members.nodes[leader] if controller else others[len(self.streams) // 2 % len(others)]
            streams = [self._begin(victim), self._begin()]
            if (self.members.leader is victim) == controller:
                return victim, streams
            for stream in streams:     # another node has become the controller meanwhile
                stream.end()

    def restart_all(self) -> list[float]:
        """Stop each node by SIGTERM, wait and start it, one node after the other once all replicas are in sync again.
        Return the gap of each."""
        stream = self._begin()
        gaps = []
        for node in self.nodes:
            began = time.monotonic()
            node.stop()
            node.start()
            self._await_flow(stream)
            gaps.append(stream.longest_gap(began))
        stream.end()
        return gaps

    def outcomes(self) -> list[Outcome]:
        """Read everything back; return the outcome of each producer's records.

        What is missing is read again, and named in the findings of its stream. A record that only the second reading
        has counts as lost, too.
        """
        stored_in = read_all(self.nodes[0], [each for stream in self.streams for each in stream.partitions])
        outcomes = [stream.outcome(stored_in) for stream in self.streams]
        for stream in (stream for stream, outcome in zip(self.streams, outcomes, strict=True) if outcome.lost):
            time.sleep(SETTLE_SECONDS)
            stream.findings.append("read again:")
            stream.outcome(read_all(self.nodes[0], stream.partitions))
        return outcomes

    def _begin(self, only: Member | None = None) -> Stream:
        """Start a producer whose records flow to each node as the leader of a partition, or to one partition of that
        node."""
        topic = f"stream-{len(self.streams)}"
        ids = sorted(node.node_id for node in self.nodes)
        leaders = ids if only is None else [only.node_id]
        assignment = [[leader, *(each for each in ids if each != leader)] for leader in leaders]
        wait_until(lambda: len(metadata(admin(self.nodes[0])).brokers) == NODES, "all serve")
        made = admin(self.nodes[0]).create_topics([NewTopic(
            topic, len(leaders), replica_assignment=assignment, config={"min.insync.replicas": "2"})])
        made[topic].result(SECONDS)
        stream = Stream(",".join(node.address for node in self.nodes), topic, len(leaders))
        self.streams.append(stream)
        stream.start()
        assert sorted(self._await_flow(stream)) == leaders
        return stream

    def _await_flow(self, stream: Stream) -> list[int]:
        """Wait until all nodes see all replicas in sync and records flow. Return the leaders."""
        def partitions(node: Member) -> list[tuple[int, bool]]:
            found = metadata(admin(node), stream.topic).topics[stream.topic].partitions.values()
            return [(each.leader, len(each.isrs) == NODES) for each in found]

        wait_until(lambda: all(whole for node in self.nodes for _, whole in partitions(node)), "in sync", WAIT_SECONDS)
        now = time.monotonic()
        wait_until(lambda: stream.flows_since(now), "acknowledged", WAIT_SECONDS)
        time.sleep(SETTLE_SECONDS)
        return [leader for leader, _ in partitions(self.nodes[0])]
