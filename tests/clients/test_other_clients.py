"""Third-party clients: a group of theirs reads every acknowledged record once and in order.

That holds also when the brokers die and restart under them.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.local.cluster import LocalCluster
from tests.clients.programs import LIBRARIES, Library, Read, Running, acknowledged, reads, require, running
from tests.integration.admin import metadata

pytestmark = [pytest.mark.peer, pytest.mark.kraft_cluster(brokers=3, controllers=0)]

TOPIC: Final = "numbers"
PARTITIONS: Final = 4
RECORDS: Final = 500
RATE: Final = 10_000
SECONDS: Final = 60.0
ENDLESS: Final = 1_000_000
STEADY_RATE: Final = 400


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process, and the admin client closes its sockets at a time of its own."""


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.name)
def library(request: pytest.FixtureRequest) -> Library:
    found: Library = request.param
    require(found)
    return found


@pytest.fixture
def admin(kraft_cluster: LocalCluster) -> AdminClient:
    client = AdminClient({"bootstrap.servers": kraft_cluster.bootstrap, "log_level": 2})
    config = {"min.insync.replicas": "2"}
    client.create_topics([NewTopic(TOPIC, PARTITIONS, 3, config=config)])[TOPIC].result(SECONDS)
    return client


@pytest.fixture
def start(library: Library, kraft_cluster: LocalCluster, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start a program of the library: `start("member", "consume", GROUP)`."""
    with ExitStack() as stack:
        def start(name: str, verb: str, *arguments: str) -> Running:
            command = library.command(verb, kraft_cluster.bootstrap, TOPIC, *arguments)
            return stack.enter_context(running(tmp_path, name, command))

        yield start


def count_of(*members: Running) -> int:
    return sum(len(member.lines) for member in members)


def committed(admin: AdminClient, group: str) -> dict[int, int]:
    listing = ConsumerGroupTopicPartitions(group, [TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
    offsets_found = admin.list_consumer_group_offsets([listing])[group].result(SECONDS)
    return {each.partition: each.offset for each in offsets_found.topic_partitions}


def ends(records: list[Read]) -> dict[int, int]:
    return {partition: max(read.offset for read in records if read.partition == partition) + 1
            for partition in {read.partition for read in records}}


def test_a_group_reads_what_was_sent(
    library: Library, kraft_cluster: LocalCluster, admin: AdminClient, start: Callable[..., Running]
) -> None:
    """Each codec of the library, read by two members; each leaves gracefully and has committed."""
    offsets_found = {}
    for codec in library.codecs:
        offsets_found[codec] = acknowledged(start(codec, "produce", codec, str(RECORDS), str(RATE)).wait())
        assert sorted(each.value for each in offsets_found[codec]) == list(range(RECORDS))
    total = RECORDS * len(library.codecs)
    members = [start(f"member-{number}", "consume", "readers") for number in range(2)]
    kraft_cluster.wait_until(lambda: count_of(*members) >= total, "all is read", SECONDS)
    records = [read for member in members for read in reads(member.stop())]
    placed = {(read.partition, read.offset): read.value for read in records}
    assert len(placed) == total, "a record was read twice, or not at all"
    assert sorted(placed.values()) == sorted(list(range(RECORDS)) * len(library.codecs))
    assert all(read.key == read.header == read.value for read in records)
    assert placed == {(each.partition, each.offset): each.value for codec in offsets_found
                      for each in offsets_found[codec]}
    assert committed(admin, "readers") == ends(records)


def test_brokers_are_killed(
    library: Library, kraft_cluster: LocalCluster, admin: AdminClient, start: Callable[..., Running]
) -> None:
    """Kill each broker once with -9 under a producer and a group: every acknowledged record is present, in order."""
    producer = start("producer", "produce", "none", str(ENDLESS), str(STEADY_RATE))
    member = start("member", "consume", "survivors")
    for broker in kraft_cluster.brokers.values():
        before = count_of(producer), count_of(member)
        kraft_cluster.wait_until(lambda before=before: before[0] < count_of(producer), "records flow", SECONDS)
        kraft_cluster.wait_until(lambda before=before: before[1] < count_of(member), "the group reads", SECONDS)
        broker.kill_and_start()
        kraft_cluster.wait_until(lambda: in_sync(admin), "all are in sync again", SECONDS)
    offsets_found = acknowledged(producer.stop())
    wanted = set(range(len(offsets_found)))
    assert {each.value for each in offsets_found} == wanted
    kraft_cluster.wait_until(lambda: {read.value for read in reads(member.lines)} >= wanted, "all is read", SECONDS)
    records = reads(member.stop())
    placed = {(read.partition, read.offset): read.value for read in records}
    assert set(placed.values()) == wanted
    assert placed.items() >= {(each.partition, each.offset): each.value for each in offsets_found}.items()
    if library.is_idempotent:
        assert len(placed) == len(wanted), "a record stands twice"
        for partition in range(PARTITIONS):
            values = [value for (where, _), value in sorted(placed.items()) if where == partition]
            assert values == sorted(values), f"partition {partition} is out of order"


def in_sync(admin: AdminClient) -> bool:
    partitions = metadata(admin, TOPIC).topics[TOPIC].partitions.values()
    return all(len(each.isrs) == 3 for each in partitions)
