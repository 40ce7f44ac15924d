"""Transactional producers of others, one test for all: what commits is read, and nothing else."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.local.cluster import LocalCluster
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest
from kraft.protocol.messages.list_transactions_response import ListTransactionsResponse
from tests.clients.transactional import PRODUCERS, WITH_SESSIONS, AbortError, Input, LostError, program, require
from tests.integration.admin import wait_until

pytestmark = pytest.mark.peer

LONG_MS: Final = 60_000
SHORT_MS: Final = 1_000
SECONDS: Final = 60.0
SETTINGS: Final = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2",
                   "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
                   "group.initial.rebalance.delay.ms": "0"}
ENDED: Final = ("CompleteCommit", "CompleteAbort")
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process, and the admin client closes its sockets at a time of its own."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes for all tests."""
    with LocalCluster(tmp_path_factory.mktemp("cluster"), brokers=3, controllers=0, settings=SETTINGS) as started:
        started.start()
        yield started
        started.check()


@pytest.fixture(params=PRODUCERS)
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    require(found)
    return found


@pytest.fixture
def topic(cluster: LocalCluster) -> str:
    found = f"topic-{next(_numbers)}"
    with Cluster(cluster.bootstrap) as client:
        create_topic(client, found, 2, 3)
    return found


def values(found: list[Input]) -> list[bytes]:
    return [each.value for each in found]


def await_state(cluster: LocalCluster, transactional_id: str, *states: str) -> None:
    """Wait until the transactional id is in one of these states."""
    listing = ListTransactionsRequest(state_filters=list(states))

    def is_reached() -> bool:
        with Cluster(cluster.bootstrap) as client:
            return any(found.transactional_id == transactional_id
                       for node in cluster.brokers
                       for found in client.node(node).send(listing, ListTransactionsResponse).transaction_states)

    wait_until(is_reached, f"{transactional_id} is in {states}", SECONDS)


def committed(cluster: LocalCluster, group: str, topic: str) -> int:
    """Return the group's stable offset of partition 0."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    listing = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    found = admin.list_consumer_group_offsets([listing], require_stable=True)[group].result(SECONDS)
    offset: int = found.topic_partitions[0].offset
    return offset


def test_commits_and_aborts(name: str, cluster: LocalCluster, topic: str) -> None:
    """Every second transaction is aborted; each writes both partitions."""
    offsets: dict[int, int] = {}
    with program(name, cluster.bootstrap, offsets.__setitem__) as producer:
        producer.call("open", topic, LONG_MS)
        for number in range(6):
            producer.call("begin")
            for partition in range(2):
                producer.send(2 * number + partition, topic, partition, b"%d" % number)
            producer.call("abort" if number % 2 else "commit")
        for partition in range(2):
            found = producer.call("read", topic, partition, 3)
            assert values(found) == [b"0", b"2", b"4"]
            assert [each.offset for each in found] == [offsets[2 * number + partition] for number in (0, 2, 4)]


@pytest.mark.parametrize("name", sorted({*PRODUCERS} - {"franz-go"}))
def test_offsets_belong_to_the_transaction(name: str, cluster: LocalCluster, topic: str) -> None:
    """franz-go has offsets only in a session."""
    require(name)
    group = f"group-of-{topic}"
    with program(name, cluster.bootstrap) as producer:
        producer.call("open", topic, LONG_MS)
        for offset, end in ((3, "commit"), (5, "abort")):
            producer.call("begin")
            producer.send(0, topic, 0, b"%d" % offset)
            producer.call("offset", group, topic, 0, offset)
            producer.call(end)
        assert committed(cluster, group, topic) == 3


@pytest.mark.parametrize("name", WITH_SESSIONS)
def test_a_session_consumes_and_produces(name: str, cluster: LocalCluster, topic: str) -> None:
    """Inputs of an aborted transaction are consumed again. The group ends at the end of the input."""
    require(name)
    group = f"group-of-{topic}"
    wanted = [b"%d" % number for number in range(10)]
    with program(name, cluster.bootstrap) as producer:
        producer.call("open", f"input-of-{topic}", LONG_MS)
        for value in wanted:
            producer.call("begin")
            producer.send(0, topic, 0, value)
            producer.call("commit")
    with program(name, cluster.bootstrap) as session:
        session.call("open", f"session-of-{topic}", LONG_MS, group, topic)
        ends = itertools.chain(["abort"], itertools.repeat("commit"))
        produced = 0
        while produced < len(wanted):
            found = [each for each in session.call("poll", 20) if each.partition == 0]
            if not found:
                continue
            session.call("begin")
            for each in found:
                session.send(0, topic, 1, each.value)
            end = next(ends)
            session.call(end)
            produced += len(found) if end == "commit" else 0
        assert values(session.call("read", topic, 1, len(wanted))) == wanted
        # Ten records and ten markers.
        assert committed(cluster, group, topic) == 2 * len(wanted) - 1


def test_a_second_producer_fences_the_first(name: str, cluster: LocalCluster, topic: str) -> None:
    with program(name, cluster.bootstrap) as first, program(name, cluster.bootstrap) as second:
        first.call("open", topic, LONG_MS)
        first.call("begin")
        first.send(0, topic, 0, b"fenced")
        await_state(cluster, topic, "Ongoing")
        second.call("open", topic, LONG_MS)
        with pytest.raises((LostError, AbortError)):
            first.call("commit")
        second.call("begin")
        second.send(0, topic, 0, b"second")
        second.call("commit")
        assert values(second.call("read", topic, 0, 1)) == [b"second"]


def test_a_transaction_that_times_out_is_aborted(name: str, cluster: LocalCluster, topic: str) -> None:
    with program(name, cluster.bootstrap) as producer:
        producer.call("open", topic, SHORT_MS)
        producer.call("begin")
        producer.send(0, topic, 0, b"late")
        await_state(cluster, topic, "CompleteAbort")
        with pytest.raises((LostError, AbortError)):
            producer.call("commit")
        producer.call("open", topic, LONG_MS)
        producer.call("begin")
        producer.send(0, topic, 0, b"next")
        producer.call("commit")
        assert values(producer.call("read", topic, 0, 1)) == [b"next"]


def test_a_killed_producer_is_continued_by_another(name: str, cluster: LocalCluster, topic: str,
                                                   tmp_path: Path) -> None:
    """kill -9 of the client and of a broker between two transactions."""
    with program(name, cluster.bootstrap) as first:
        first.call("open", topic, LONG_MS)
        for number, end in enumerate(("commit", "")):
            first.call("begin")
            first.send(0, topic, 0, b"%d" % number)
            if end:
                first.call(end)
        await_state(cluster, topic, "Ongoing")
    cluster.brokers[1].kill_and_start()
    with program(name, cluster.bootstrap) as second:
        second.call("open", topic, LONG_MS)
        second.call("begin")
        second.send(0, topic, 0, b"2")
        second.call("commit")
        assert values(second.call("read", topic, 0, 2)) == [b"0", b"2"]
