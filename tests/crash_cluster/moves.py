"""Replicas that move all the time, and leaders that change."""

import random
from collections.abc import Mapping, Sequence
from typing import Final

from kraft.cli.leaders import PREFERRED, elect
from kraft.client import Cluster
from kraft.client.partitions import Partition
from kraft.client.reassignments import ongoing, reassign
from kraft.local.cluster import LocalCluster
from kraft_native.base.errors import KraftError
from tests.crash_cluster.clients import Client
from tests.crash_cluster.faults import wait_until

OFFSETS_TOPIC: Final = "__consumer_offsets"
REPLICAS: Final = 3
REPLICAS_MIN: Final = 2
REQUEST_SECONDS: Final = 5.0
PAUSES: Final = (0.05, 0.3, 1.0)


class Moves(Client):
    """Reassigns partitions to two or three brokers in random order, cancels some reassignments, and runs preferred
    elections. `partitions` is the number of partitions of each topic."""

    def __init__(self, cluster: LocalCluster, partitions: Mapping[str, int], seed: str) -> None:
        super().__init__("moves")
        self.requested = self.elections = self.cancelled = self.refused = 0
        self._cluster = cluster
        self._partitions = [(topic, index) for topic, count in partitions.items() for index in range(count)]
        self._chance = random.Random(seed)

    def work(self) -> None:
        while not self._end.is_set():
            try:
                with self._cluster.client(seconds=REQUEST_SECONDS) as client:
                    while not self._end.wait(self._chance.choice(PAUSES) * self._chance.random()):
                        self._move(client)
            except KraftError:      # from brokers that are offline; others may answer
                self.refused += 1
                self._end.wait(PAUSES[0])

    def _move(self, client: Cluster) -> None:
        what = self._chance.random()
        if what < 0.2:
            elect(client, None, PREFERRED)
            self.elections += 1
        elif what < 0.3:
            self.refused += len(reassign(client, dict.fromkeys(ongoing(client))))
            self.cancelled += 1
        else:
            wanted: dict[Partition, Sequence[int] | None] = {}
            for partition in self._chance.sample(self._partitions, self._chance.choice((1, 1, 2, 4))):
                count = self._chance.choice((REPLICAS_MIN, REPLICAS))
                wanted[partition] = self._chance.sample(list(self._cluster.brokers), count)
            self.refused += len(reassign(client, wanted))
            self.requested += len(wanted)

    def settle(self) -> None:
        """Wait, after the end, until all partitions have three replicas again and all of them are in sync."""
        brokers = list(self._cluster.brokers)
        wanted = {partition: [brokers[(number + place) % len(brokers)] for place in range(REPLICAS)]
                  for number, partition in enumerate(self._partitions)}

        def requested() -> bool:
            try:
                with self._cluster.client(seconds=REQUEST_SECONDS) as client:
                    return not reassign(client, wanted)
            except KraftError:
                return False

        wait_until(requested, "all partitions are to have three replicas again")
        wait_until(lambda: all(replicas == wanted[partition] and sorted(isr) == sorted(replicas)
                               for partition, (replicas, isr) in self.replicas().items()), "all replicas are in sync")

    def replicas(self) -> dict[Partition, tuple[list[int], list[int]]]:
        """Replicas and in-sync replicas of each partition, as far as a broker reports them."""
        found = {}
        try:
            with self._cluster.client(seconds=REQUEST_SECONDS) as client:
                for topic in client.metadata(sorted(dict.fromkeys(topic for topic, _ in self._partitions))).topics:
                    for each in topic.partitions:
                        found[topic.name or "", each.partition_index] = (list(each.replica_nodes), list(each.isr_nodes))
        except KraftError:
            pass
        return {partition: found.get(partition, ([], [])) for partition in self._partitions}
