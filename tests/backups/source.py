"""A cluster to back up, its state as clients see it, and the comparison of restored files with a backup."""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from kraft.backups.manifest import Manifest, PartitionCopy
from kraft.backups.store import Store, read
from kraft.client import Cluster
from kraft.client.configs import SOURCE_TOPIC, describe_configs
from kraft.client.fetcher import Fetcher
from kraft.client.groups import commit_offsets, committed_offsets
from kraft.client.partitions import EARLIEST, LATEST, Partition, every, list_all_offsets
from kraft.client.producer import Producer
from kraft.client.topics import create_topic
from kraft.client.transactional_producer import TransactionalProducer
from kraft.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraft.protocol.messages.delete_records_response import DeleteRecordsResponse
from kraft_native.batch.batch import walk
from kraft_native.batch.records import BatchBuilder, records

TIME_MS: Final = 1_700_000_000_000
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
LISTENERS: Final = ("--set", "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                    "--set", "controller.listener.names=CONTROLLER")
"""Settings of a restored node whose ports the system chooses."""


def batch_of(first: int, count: int, codec: str = "none") -> bytes:
    """Batch whose records are numbered, a second apart."""
    builder = BatchBuilder(codec)
    for number in range(first, first + count):
        builder.append(b"value %d" % number, b"key %d" % (number % 7), TIME_MS + number * 1000,
                       {"number": b"%d" % number})
    return builder.build()


class Source:
    """Topics, records, transactions and groups of a cluster. `open` is the transaction that nobody has ended."""

    def __init__(self, cluster: Cluster, seed: int = 1) -> None:
        self.cluster = cluster
        self.chance = random.Random(seed)
        self.producer = Producer(cluster)
        self.sent = 0

    def create(self) -> None:
        create_topic(self.cluster, "orders", 2, configs={"retention.ms": "-1", "message.timestamp.type": "CreateTime"})
        create_topic(self.cluster, "shortened", 1, configs={"retention.ms": "-1"})
        create_topic(self.cluster, "empty", 1)
        for name in ("from", "to"):
            create_topic(self.cluster, name, 1, configs={"retention.ms": "-1"})
        self.produce(40)
        for number in range(6):
            self.producer.send({("shortened", 0): batch_of(number * 10, 10)})
        self.delete_before("shortened", 25)
        with TransactionalProducer(self.cluster, "ended") as ended:
            for number in range(4):
                for topic in ("from", "to"):
                    ended.send(topic, 0, [(b"%d" % number, b"ended %d" % number)])
                (ended.commit if number % 2 == 0 else ended.abort)()
        self.open = TransactionalProducer(self.cluster, "open")
        for topic in ("from", "to"):
            self.open.send(topic, 0, [(b"open", b"open")])
        commit_offsets(self.cluster, "billing", {("orders", 0): 17, ("orders", 1): 3})

    def produce(self, batches: int) -> None:
        for _ in range(batches):
            count = self.chance.randint(1, 20)
            self.producer.send({("orders", self.chance.randint(0, 1)): batch_of(
                self.sent, count, self.chance.choice(CODECS))})
            self.sent += count

    def delete_before(self, topic: str, offset: int) -> None:
        request = DeleteRecordsRequest(timeout_ms=10_000, topics=[DeleteRecordsTopic(
            name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])])
        self.cluster.leader(topic, 0).send(request, DeleteRecordsResponse)


def state_of(cluster: Cluster, ends: Mapping[Partition, int] | None = None) -> dict[str, Any]:
    """Everything that clients see, with the records below `ends`, by default all."""
    topics = [topic for topic in cluster.metadata().topics if not (topic.name or "").startswith("__")]
    latest = list_all_offsets(cluster, topics, every(topics, LATEST))
    ends = latest if ends is None else ends
    starts = list_all_offsets(cluster, topics, every(topics, EARLIEST))
    return {
        "ids": {topic.name: topic.topic_id for topic in topics},
        "configs": {name: {each.name: each.value for each in found if each.config_source == SOURCE_TOPIC}
                    for name, found in describe_configs(
                        cluster, "topic", [topic.name or "" for topic in topics]).items()},
        "starts": starts,
        "records": {place: seen(cluster, place, starts[place], ends[place]) for place in sorted(latest)},
        "groups": committed_offsets(cluster, "billing"),
    }


def seen(cluster: Cluster, place: Partition, start: int, end: int) -> list[tuple[Any, ...]]:
    """Records of a partition, with all that a client may see of them."""
    found: list[tuple[Any, ...]] = []
    for fetched in Fetcher(cluster).fetch(*place, start, end):
        for batch in walk(fetched.batches):
            of_batch = (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.codec,
                        batch.is_transactional, batch.is_control, batch.leader_epoch)
            found += [(each.offset, each.timestamp_ms, each.key, each.value, each.headers, *of_batch)
                      for each in records(bytes(batch), control=True) if start <= each.offset < end]
    return found


def visible(cluster: Cluster, place: Partition) -> list[bytes | None]:
    """Values that a reader of committed records gets."""
    topic = cluster.topic(place[0])
    end = list_all_offsets(cluster, [topic], {place: LATEST})[place]
    found: list[bytes | None] = []
    aborted: dict[int, list[int]] = {}
    for fetched in Fetcher(cluster, committed=True, stall_seconds=5).fetch(*place, 0, end):
        for producer_id, first in fetched.aborted:
            aborted.setdefault(producer_id, []).append(first)
        for batch in walk(fetched.batches):
            if batch.is_control:
                aborted[batch.producer_id] = [each for each in aborted.get(batch.producer_id, ())
                                              if each > batch.base_offset]
            elif not any(first <= batch.base_offset for first in aborted.get(batch.producer_id, ())):
                found += [each.value for each in records(bytes(batch))]
    return found


def differences(store: Store, manifest: Manifest, log_dir: Path) -> list[str]:
    """Partitions whose restored files are not the batches of the backup, followed by markers of the restore at most."""
    wrong = []
    for copy in manifest.partitions:
        wanted = b"".join(read(store, copy.file(segment)) for segment in copy.segments)
        found = files_of(log_dir / copy.name)
        if not found.startswith(wanted) or not all(each.is_control for each in walk(found[len(wanted):])):
            wrong.append(f"{copy.name}: {len(found)} bytes, not the {len(wanted)} of the backup")
    return wrong


def files_of(directory: Path) -> bytes:
    """Content of a log's segment files."""
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def ends_of(copies: Iterable[PartitionCopy]) -> dict[Partition, int]:
    return {(each.topic, each.partition): each.end_offset for each in copies}
