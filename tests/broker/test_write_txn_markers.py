"""WriteTxnMarkers: markers in the logs of a broker, each with its own outcome, answered once they are committed."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraft.broker.api import RequestContext
from kraft.broker.apis.write_txn_markers import COMMIT_WAIT_MS, write_txn_markers
from kraft.broker.broker import Broker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition
from kraft.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kraft.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse
from kraft.steps import finish
from kraft_native.batch import control
from tests.native.logs import batch
from tests.native.serving import NODE_ID, Node, serving

NOW_MS = 1_700_000_000_000


class Marked:
    """A broker with logs; it notes the markers of which the coordinator of groups is notified."""

    def __init__(self, logs: Node) -> None:
        self.logs = logs
        self.noted: list[tuple[Any, ...]] = []
        self.answers: list[WriteTxnMarkersResponse] = []
        self.broker = cast(Broker, SimpleNamespace(
            partition=logs.table.get, integer=lambda _name: 1000,
            absence=lambda topic, _index: (ErrorCode.NOT_LEADER_OR_FOLLOWER if topic == "elsewhere"
                                           else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            groups=SimpleNamespace(marker_appended=lambda *marker: self.noted.append(marker))))

    def send(self, *markers: WritableTxnMarker, version: int = 2) -> None:
        request = WriteTxnMarkersRequest.decode(WriteTxnMarkersRequest(markers=list(markers)).encode(version), version)
        context = RequestContext(version, "broker", "127.0.0.1", "PLAINTEXT", NOW_MS)
        finish(write_txn_markers(self.broker, request, context, lambda answer: self.answers.append(
            WriteTxnMarkersResponse.decode(answer.encode(version), version))))

    @property
    def codes(self) -> list[tuple[int, str, int, int]]:
        """(producer id, topic, partition, error) of the only answer."""
        [answer] = self.answers
        return [(marker.producer_id, topic.name, part.partition_index, part.error_code)
                for marker in answer.markers for topic in marker.topics for part in topic.partitions]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Marked]:
    with serving(tmp_path) as logs:
        marked = Marked(logs)
        yield marked
        vars(marked).clear()


def marker(producer_id: int, *partitions: tuple[str, list[int]], epoch: int = 0, commit: bool = True,
           coordinator_epoch: int = 0, transaction_version: int = 0) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id, producer_epoch=epoch, transaction_result=commit, coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in partitions])


def transactional(producer_id: int, epoch: int = 0) -> bytes:
    return batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)


def test_each_partition_has_its_own_outcome(node: Marked) -> None:
    first, second = node.logs.partition("t", 0), node.logs.partition("t", 1)
    node.logs.partition("t", 2).become_follower(1, 5)
    first.append(transactional(7))
    second.append(transactional(8, epoch=4))
    node.send(marker(7, ("t", [0, 2]), ("elsewhere", [0]), ("unknown", [0])),
              marker(8, ("t", [0, 1]), epoch=3, commit=False))
    assert node.codes == [
        (7, "t", 0, ErrorCode.NONE), (7, "t", 2, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (7, "elsewhere", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER), (7, "unknown", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (8, "t", 0, ErrorCode.NONE), (8, "t", 1, ErrorCode.INVALID_PRODUCER_EPOCH)]
    assert not first.has_open_transaction(7, 0)
    assert second.has_open_transaction(8, 4)
    assert node.noted == []


@pytest.mark.parametrize(("version", "expected"), [(1, ErrorCode.NONE), (2, ErrorCode.INVALID_PRODUCER_EPOCH)])
def test_version_2_has_the_version_of_the_transaction(node: Marked, version: int, expected: int) -> None:
    """A marker of the epoch in which a transaction is open belongs to an earlier one, by transaction.version 2."""
    node.logs.partition().append(transactional(7))
    node.send(marker(7, ("t", [0]), transaction_version=2), version=version)
    assert node.codes == [(7, "t", 0, expected)]


def test_a_coordinator_that_was_replaced_is_refused(node: Marked) -> None:
    node.logs.partition()
    node.send(marker(7, ("t", [0]), coordinator_epoch=3))
    node.answers.clear()
    node.send(marker(7, ("t", [0]), coordinator_epoch=2), marker(7, ("t", [0]), coordinator_epoch=-1))
    assert [code for *_, code in node.codes] == [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_REQUEST]


def test_the_answer_waits_for_the_replicas(node: Marked) -> None:
    partition = node.logs.partition(high_watermark="manual", leader=False)
    partition.become_leader(1, node_id=NODE_ID, replicas=[NODE_ID, 2], isr=[NODE_ID, 2])
    node.logs.partition("u")
    node.send(marker(7, ("u", [0]), ("t", [0])))
    assert node.answers == []
    partition.set_isr([NODE_ID])
    node.logs.purgatory.drain()
    assert [code for *_, code in node.codes] == [ErrorCode.NONE, ErrorCode.NONE]


def test_a_marker_that_is_not_replicated_in_time_is_retried(node: Marked) -> None:
    partition = node.logs.partition(high_watermark="manual", leader=False)
    partition.become_leader(1, node_id=NODE_ID, replicas=[NODE_ID, 2], isr=[NODE_ID, 2])
    node.send(marker(7, ("t", [0])))
    node.logs.partition("u")
    node.send(marker(8, ("t", [0]), ("u", [0])))
    node.logs.purgatory.expire(time.monotonic_ns() // 1_000_000 + COMMIT_WAIT_MS)
    assert len(node.answers) == 2
    node.answers.pop(0)
    assert node.codes == [(8, "t", 0, ErrorCode.REQUEST_TIMED_OUT), (8, "u", 0, ErrorCode.NONE)]


def test_a_retry_waits_for_the_marker_that_is_in_the_log(node: Marked) -> None:
    """Another marker with every attempt lay further behind what the slow followers had, so none was confirmed."""
    partition = node.logs.partition(high_watermark="manual", leader=False)
    partition.become_leader(1, node_id=NODE_ID, replicas=[NODE_ID, 2], isr=[NODE_ID, 2])
    partition.append(transactional(7))
    for _ in range(2):
        node.send(marker(7, ("t", [0])))
        partition.append(batch(3))
        node.logs.purgatory.expire(time.monotonic_ns() // 1_000_000 + COMMIT_WAIT_MS)
    assert [part.error_code for answer in node.answers for each in answer.markers for topic in each.topics
            for part in topic.partitions] == [ErrorCode.REQUEST_TIMED_OUT] * 2
    assert partition.log.log_end_offset == 8
    node.answers.clear()
    node.send(marker(7, ("t", [0])))
    node.logs.fetch(("t", FetchPartition(partition=0, fetch_offset=2, partition_max_bytes=1 << 20)), version=14,
                    replica_id=2)
    node.logs.purgatory.drain()
    assert node.codes == [(7, "t", 0, ErrorCode.NONE)]
    assert node.noted == []


def test_a_partition_that_is_named_twice_gets_one_marker(node: Marked) -> None:
    """The second is decided after the first."""
    partition, unknown = node.logs.partition(), node.logs.partition("u")
    partition.append(transactional(7))
    node.send(marker(7, ("t", [0, 0]), ("t", [0]), ("u", [0, 0])), marker(7, ("t", [0]), commit=False))
    assert [code for *_, code in node.codes] == [ErrorCode.NONE] * 6
    assert (partition.log.log_end_offset, unknown.log.log_end_offset) == (2, 1)
    assert bytes(partition.log.read(1, 1 << 20, "log_end")) == control.marker(
        commit=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS, base_offset=1,
        leader_epoch=0)


def test_too_few_replicas_in_sync_refuse_the_marker(node: Marked) -> None:
    partition = node.logs.partition(high_watermark="manual", leader=False, min_insync_replicas=2)
    partition.become_leader(1, node_id=NODE_ID, replicas=[NODE_ID, 2], isr=[NODE_ID])
    node.send(marker(7, ("t", [0])))
    assert node.codes == [(7, "t", 0, ErrorCode.NOT_ENOUGH_REPLICAS)]
    assert partition.log.log_end_offset == 0


@pytest.mark.parametrize("commit", [True, False])
def test_the_coordinator_of_groups_learns_of_its_markers(node: Marked, commit: bool) -> None:
    partition = node.logs.partition("__consumer_offsets", 3)
    partition.append(transactional(7))
    node.send(marker(7, ("__consumer_offsets", [3]), commit=commit), marker(8, ("__consumer_offsets", [4])))
    assert node.noted == [(3, 7, commit, 2, NOW_MS)]
    partition.append(batch(3))
    node.send(marker(7, ("__consumer_offsets", [3]), commit=commit))
    assert node.noted[1:] == [(3, 7, commit, 5, NOW_MS)], "a retry voids offsets that are being verified"


def test_no_markers_are_answered_at_once(node: Marked) -> None:
    node.send()
    assert node.codes == []
