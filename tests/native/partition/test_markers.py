"""Markers of a transaction's end: `Partition.append_marker`, its checks, and the readers that wait for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition
from kraft_native.base.errors import (
    InvalidArgumentError,
    InvalidProducerEpochError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    TransactionCoordinatorFencedError,
)
from kraft_native.batch.control import control_records, marker
from kraft_native.batch.records import records
from kraft_native.partition.partition import Partition
from tests.native.logs import batch
from tests.native.serving import NODE_ID, Node, fetched, serving

READ_COMMITTED = 1


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with serving(tmp_path) as made:
        yield made


def begin(partition: Partition, count: int = 1, *, epoch: int = 0, sequence: int = 0, producer_id: int = 7) -> int:
    return partition.append(batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
                                  transactional=True)).first_offset


def stable(partition: Partition) -> int:
    return partition.latest("read_committed")[0]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_ends_a_transaction(node: Node, commit: bool) -> None:
    partition = node.partition()
    begin(partition, 3)
    assert partition.has_open_transaction(7, 0)
    assert not partition.has_open_transaction(7, 1) and not partition.has_open_transaction(8, 0)
    assert stable(partition) == 0
    info = partition.append_marker(7, 0, 4, commit, now_ms=99)
    assert (info.first_offset, info.last_offset, info.duplicate) == (3, 3, False)
    assert not partition.has_open_transaction(7, 0)
    assert stable(partition) == 4
    stored = partition.log.read(3, 1 << 20, "log_end")
    assert bytes(stored) == marker(commit=commit, producer_id=7, producer_epoch=0, coordinator_epoch=4,
                                   timestamp_ms=99, base_offset=3, leader_epoch=0)
    [state] = partition.producers()
    assert (state.coordinator_epoch, state.txn_first_offset) == (4, -1)
    [answer] = fetched(node.fetch(("t", 0, 0), isolation_level=READ_COMMITTED))
    assert [(one.producer_id, one.first_offset) for one in answer.aborted_transactions or []] == (
        [] if commit else [(7, 0)])


def test_a_marker_fits_every_setting_of_a_topic(node: Node) -> None:
    """A limit or a codec that an operator sets later must not keep a transaction open."""
    strict = node.partition("s", compression_type="gzip", message_timestamp_type="LogAppendTime", max_message_bytes=1)
    strict.append_marker(7, 0, 0, True, now_ms=5)
    [record] = control_records(strict.log.read(0, 1 << 20, "log_end"))
    assert (record.type_name, record.timestamp_ms) == ("COMMIT", 5)


def test_the_epoch_of_a_marker_up_to_version_1(node: Node) -> None:
    partition = node.partition()
    begin(partition, epoch=3)
    with pytest.raises(InvalidProducerEpochError, match="older"):
        partition.append_marker(7, 2, 0, False, transaction_version=1)
    assert partition.has_open_transaction(7, 3)
    partition.append_marker(7, 3, 0, True, transaction_version=1)
    partition.append_marker(7, 3, 0, True, transaction_version=1)       # a retry
    partition.append_marker(7, 4, 0, False, transaction_version=1)      # of a producer that was fenced
    assert partition.producers()[0].producer_epoch == 4


def test_the_epoch_of_a_marker_from_version_2(node: Node) -> None:
    """Each transaction ends in a higher epoch; a late marker does not end the one after it (KIP-890)."""
    partition = node.partition()
    begin(partition, epoch=3)
    for epoch in (2, 3):
        with pytest.raises(InvalidProducerEpochError):
            partition.append_marker(7, epoch, 0, True, transaction_version=2)
    partition.append_marker(7, 4, 0, True, transaction_version=2)
    begin(partition, epoch=4)
    with pytest.raises(InvalidProducerEpochError, match="is open since"):
        partition.append_marker(7, 4, 0, False, transaction_version=2)
    assert partition.has_open_transaction(7, 4)
    partition.append_marker(7, 5, 0, True, transaction_version=2)
    assert partition.producers()[0].txn_first_offset == -1


def test_a_retried_marker_succeeds(node: Node) -> None:
    """A coordinator that recovers sends its marker again: same epoch, nothing open (KAFKA-19999)."""
    partition = node.partition()
    begin(partition, epoch=3)
    partition.append_marker(7, 4, 0, True, transaction_version=2)
    assert partition.append_marker(7, 4, 1, True, transaction_version=2).duplicate is False
    assert partition.producers()[0].coordinator_epoch == 1
    with pytest.raises(TransactionCoordinatorFencedError):
        partition.append_marker(7, 4, 0, True, transaction_version=2)
    assert partition.log.log_end_offset == 3


@pytest.mark.parametrize(("version", "epoch"), [(0, 3), (1, 3), (2, 4)])
def test_a_retried_marker_of_the_same_coordinator_appends_nothing(node: Node, version: int, epoch: int) -> None:
    """A partition whose followers were slow got another marker with every attempt."""
    partition = node.partition()
    begin(partition, epoch=3)
    partition.append_marker(7, epoch, 5, True, transaction_version=version)
    partition.append(batch(2))
    info = partition.append_marker(7, epoch, 5, True, transaction_version=version)
    assert (info.first_offset, info.last_offset, info.duplicate) == (1, 1, True)
    assert partition.log.log_end_offset == 4
    begin(partition, epoch=epoch, sequence=0 if epoch > 3 else 1)
    assert partition.append_marker(7, 4, 5, True, transaction_version=1).duplicate is False
    assert not partition.has_open_transaction(7, epoch)


def test_after_a_restart_a_retried_marker_is_somewhere_below_the_end(tmp_path: Path) -> None:
    for is_second in (False, True):
        with serving(tmp_path) as made:
            partition = made.partition(producer_id_expiration_ms=2**60)
            if not is_second:
                begin(partition)
                partition.append_marker(7, 0, 5, True)
                partition.append(batch(3))
                partition.log.close()
                continue
            info = partition.append_marker(7, 0, 5, True)
            assert (info.last_offset, info.duplicate) == (4, True)
            assert partition.log.log_end_offset == 5


def test_a_marker_of_an_unknown_producer_is_accepted(node: Node) -> None:
    """A transaction may have no records here, or its producer may have expired."""
    partition = node.partition()
    partition.append_marker(7, 1, 0, False, transaction_version=2)
    assert stable(partition) == 1
    [state] = partition.producers()
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (7, 1, -1)


def test_markers_that_cannot_be_appended(node: Node) -> None:
    partition = node.partition(high_watermark="manual", min_insync_replicas=2)
    partition.become_leader(1, node_id=NODE_ID, replicas=[NODE_ID, 2], isr=[NODE_ID])
    with pytest.raises(NotEnoughReplicasError):
        partition.append_marker(7, 0, 0, True)
    for wrong in ((-1, 0, 0), (7, -1, 0), (7, 0, -1)):
        with pytest.raises(InvalidArgumentError, match="0 or more"):
            partition.append_marker(*wrong, True)
    partition.become_follower(2, 2)
    with pytest.raises(NotLeaderOrFollowerError):
        partition.append_marker(7, 0, 0, True)
    assert partition.log.log_end_offset == 0


# --- readers of committed records


def values(data: object) -> list[bytes | None]:
    return [record.value for record in records(data)]      # type: ignore[arg-type]


def test_a_waiting_reader_wakes_when_the_last_stable_offset_moves(node: Node) -> None:
    partition = node.partition()
    begin(partition, 2)
    poll = node.fetch(("t", 0, 0), isolation_level=READ_COMMITTED, max_wait_ms=10_000)
    begin(partition, 1, sequence=2)
    node.purgatory.drain()
    assert not poll.answered
    partition.append_marker(7, 0, 0, True)
    node.purgatory.drain()
    [answer] = fetched(poll)
    assert (answer.last_stable_offset, answer.high_watermark) == (4, 4)
    assert len(values(answer.records)) == 3


def test_a_waiting_reader_counts_only_stable_bytes(node: Node) -> None:
    """Bytes behind the last stable offset do not count for MinBytes; those that a marker uncovers do, all of them."""
    partition = node.partition()
    size = len(batch(5, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    poll = node.fetch(("t", 0, 0), isolation_level=READ_COMMITTED, max_wait_ms=10_000, min_bytes=2 * size)
    for sequence in (0, 5, 10):
        begin(partition, 5, sequence=sequence)
        node.purgatory.drain()
        assert not poll.answered
    partition.append_marker(7, 0, 0, False)
    node.purgatory.drain()
    [answer] = fetched(poll)
    assert answer.last_stable_offset == 16
    assert [(one.producer_id, one.first_offset) for one in answer.aborted_transactions or []] == [(7, 0)]


def test_a_marker_uncovers_nothing_while_an_older_transaction_is_open(node: Node) -> None:
    partition = node.partition()
    begin(partition, producer_id=1)
    begin(partition, producer_id=2)
    poll = node.fetch(("t", 0, 0), isolation_level=READ_COMMITTED, max_wait_ms=10_000)
    partition.append_marker(2, 0, 0, True)
    node.purgatory.drain()
    assert not poll.answered
    assert stable(partition) == 0
    partition.append_marker(1, 0, 0, True)
    node.purgatory.drain()
    assert fetched(poll)[0].last_stable_offset == 4


def test_with_followers_the_marker_must_be_replicated(node: Node) -> None:
    """The last stable offset moves with the high watermark over the marker, and wakes the readers then."""
    partition = node.partition(high_watermark="manual", leader=False)
    partition.become_leader(1, node_id=NODE_ID, replicas=[NODE_ID, 2], isr=[NODE_ID, 2])

    def follower_has(offset: int) -> None:
        node.fetch(("t", FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)), version=14,
                   replica_id=2)
        node.purgatory.drain()

    begin(partition, 2)
    follower_has(2)
    poll = node.fetch(("t", 0, 0), isolation_level=READ_COMMITTED, max_wait_ms=10_000)
    dirty = node.fetch(("t", 0, 0), max_wait_ms=10_000)
    assert dirty.answered and fetched(dirty)[0].last_stable_offset == 0
    partition.append_marker(7, 0, 0, True)
    node.purgatory.drain()
    assert not poll.answered
    assert stable(partition) == 0
    follower_has(3)
    assert fetched(poll)[0].last_stable_offset == 3


def test_with_group_commit_the_marker_must_be_durable(node: Node) -> None:
    partition = node.partition(durability="group-commit")
    begin(partition, 2)
    poll = node.fetch(("t", 0, 0), isolation_level=READ_COMMITTED, max_wait_ms=10_000)
    info = partition.append_marker(7, 0, 0, True)
    partition.log.flush()
    node.purgatory.flush_done()
    assert fetched(poll)[0].last_stable_offset == info.last_offset + 1


def test_a_follower_knows_the_transactions_of_its_leader(node: Node) -> None:
    leader, follower = node.partition("a"), node.partition("b", leader=False, high_watermark="manual")
    begin(leader, 2)
    follower.become_leader(0, node_id=NODE_ID)
    copied = leader.log.read(0, 1 << 20, "log_end")
    follower.log.append_as_follower(copied)
    assert follower.has_open_transaction(7, 0)
    leader.append_marker(7, 1, 5, False, transaction_version=2)
    follower.log.append_as_follower(leader.log.read(2, 1 << 20, "log_end"))
    [state] = follower.producers()
    assert (state.producer_epoch, state.coordinator_epoch, state.txn_first_offset) == (1, 5, -1)


def test_look_ups_of_readers_of_committed_records(node: Node) -> None:
    partition = node.partition()
    partition.append(batch(2))
    begin(partition, 2)
    assert partition.latest("read_committed")[0] == 2
    assert partition.latest()[0] == 4
    assert partition.max_timestamp("read_committed") == partition.max_timestamp()
    partition.append_marker(7, 0, 0, True)
    assert partition.latest("read_committed")[0] == 5


def test_records_of_an_open_transaction_can_be_deleted(node: Node) -> None:
    """DeleteRecords reaches the high watermark, whatever is open; the marker still ends the transaction."""
    partition = node.partition()
    begin(partition, 2)
    assert partition.delete_records(-1) == 2
    assert stable(partition) == 2
    [answer] = fetched(node.fetch(("t", 0, 2), isolation_level=READ_COMMITTED))
    assert answer.error_code == ErrorCode.NONE
    partition.append_marker(7, 0, 0, False)
    assert stable(partition) == 3
    [answer] = fetched(node.fetch(("t", 0, 2), isolation_level=READ_COMMITTED))
    assert (answer.error_code, answer.last_stable_offset) == (ErrorCode.NONE, 3)
