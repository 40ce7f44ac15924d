"""Search of a live topic: partitions in order, limits of a slice, times, and records that are deleted meanwhile."""

import pytest

from kraft.client import Cluster, RefusedError
from kraft.client.partitions import every, list_offsets
from kraft.client.producer import Producer
from kraft.client.refusals import check
from kraft.client.topics import create_topic
from kraft.console.search import NEEDLE_BYTES_MAX, Cursor, Query, ranges, search
from kraft.console.state.digests import BLOCK_OFFSETS, compare_replicas
from kraft.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraft.protocol.messages.delete_records_response import DeleteRecordsResponse
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.batch.records import BatchBuilder

FIRST_MS = 1_700_000_000_000


def fill(cluster: Cluster, topic: str, partitions: int = 2, count: int = 50) -> None:
    create_topic(cluster, topic, partitions, configs={"retention.ms": "-1"})    # its times are old
    for partition in range(partitions):
        builder = BatchBuilder("lz4" if partition else "none")
        for number in range(count):
            builder.append(b"value %d" % number, key=b"key %d" % partition, timestamp_ms=FIRST_MS + number)
        Producer(cluster).send({(topic, partition): builder.build()})


def whole(cluster: Cluster, topic: str, query: Query, **options: int) -> list[tuple[int, int]]:
    found, cursor, done = [], None, -1
    while True:
        part = search(cluster, topic, query, cursor, **options)
        found += [(each.partition, each.offset) for each in part.matches]
        assert part.done > done or part.cursor is None
        done, cursor = part.done, part.cursor
        if cursor is None:
            assert part.done == part.total
            return found


def test_partitions_in_order_and_slices_of_any_size(cluster: Cluster) -> None:
    fill(cluster, "order")
    wanted = [(partition, offset) for partition in (0, 1) for offset in range(50)]
    for size in (1, 7, 100, 1_000):
        assert whole(cluster, "order", Query(), matches_max=size) == wanted
    assert whole(cluster, "order", Query(b"value 4"), matches_max=3) == [
        (partition, offset) for partition in (0, 1) for offset in (4, *range(40, 50))]
    assert whole(cluster, "order", Query(b"key 1", partition=0)) == []
    assert whole(cluster, "order", Query(b"key 1", start=10, end=12)) == [(1, 10), (1, 11)]


def test_a_slice_without_time_continues_where_it_ended(cluster: Cluster) -> None:
    fill(cluster, "timeless")
    first = search(cluster, "timeless", Query(b"nothing"), seconds=0)
    assert first.matches == () and first.cursor == Cursor(0, 0)
    assert whole(cluster, "timeless", Query(b"value 7")) == [(0, 7), (1, 7)]


def test_times(cluster: Cluster) -> None:
    fill(cluster, "times")
    query = Query(from_ms=FIRST_MS + 10, to_ms=FIRST_MS + 11)
    assert whole(cluster, "times", query) == [(0, 10), (0, 11), (1, 10), (1, 11)]
    assert whole(cluster, "times", Query(from_ms=FIRST_MS + 1_000)) == []


def test_records_that_are_deleted_meanwhile(cluster: Cluster) -> None:
    fill(cluster, "deleted", 1)
    request = DeleteRecordsRequest(timeout_ms=10_000, topics=[DeleteRecordsTopic(name="deleted", partitions=[
        DeleteRecordsPartition(partition_index=0, offset=20)])])
    answer = cluster.leader("deleted", 0).send(request, DeleteRecordsResponse)
    check("records", answer.topics[0].partitions[0].error_code)
    found = search(cluster, "deleted", Query(), Cursor(0, 5))
    assert [each.offset for each in found.matches] == list(range(20, 50))
    assert [each.start for each in ranges(cluster, "deleted", Query())] == [20]


def test_bad_input(cluster: Cluster) -> None:
    with pytest.raises(RefusedError, match="topic missing-topic"):
        search(cluster, "missing-topic", Query())
    with pytest.raises(InvalidArgumentError, match="at most"):
        search(cluster, "missing-topic", Query(b"x" * (NEEDLE_BYTES_MAX + 1)))


def test_digests_of_replicas(cluster: Cluster) -> None:
    fill(cluster, "digests", 1)
    node_id = cluster.nodes()[0].node_id
    end = list_offsets(cluster, cluster.metadata(["digests"]).topics, every(cluster.metadata(["digests"]).topics, -1))
    found = compare_replicas(cluster, "digests", 0, 0, end["digests", 0], (node_id, 77))
    assert [each.broker for each in found.replicas] == [node_id, 77]
    [block] = found.replicas[0].blocks.otherwise(())
    assert (block.number, block.batches, found.compared, found.differing) == (0, 1, 1, ())
    assert "node 77" in (found.replicas[1].blocks.problem or "")
    assert BLOCK_OFFSETS > 50
