"""Partitions: roles and epochs, results of look-ups, changes of settings, and their table."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, ReplicaState
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft_native.base.errors import (
    FencedLeaderEpochError,
    InvalidArgumentError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from kraft_native.facade.log import Log
from kraft_native.partition.partition import Partition
from kraft_native.partition.purgatory import Purgatory, now_ms
from kraft_native.partition.table import PartitionTable
from kraft_native.segment.config import LogConfig
from tests.native.logs import START_MS, batch
from tests.native.serving import (
    NODE_ID,
    Node,
    fetch_response,
    fetched,
    produce_response,
    produced,
    serving,
    topic_id_of,
)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with serving(tmp_path) as made:
        yield made


def test_roles_and_epochs(node: Node) -> None:
    partition = node.partition(leader=False)
    assert (partition.leader_epoch, partition.leader_id, partition.is_leader) == (-1, -1, False)
    assert produced(node.produce(batch())).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition.become_leader(3, node_id=NODE_ID)
    assert partition.log.epochs.latest_epoch == 3
    for call in (lambda: partition.become_leader(2, node_id=NODE_ID), lambda: partition.become_follower(2, 5)):
        with pytest.raises(FencedLeaderEpochError):
            call()
    assert (partition.leader_epoch, partition.is_leader) == (3, True)
    partition.become_follower(4, 5)
    assert (partition.leader_epoch, partition.leader_id, partition.is_leader) == (4, 5, False)
    with pytest.raises(NotLeaderOrFollowerError):
        partition.append(batch())
    with pytest.raises(NotLeaderOrFollowerError):
        partition.set_isr([1])
    assert "follower, epoch 4" in repr(partition)


def test_replicas_that_cannot_be(node: Node) -> None:
    partition = node.partition()
    with pytest.raises(InvalidArgumentError, match="high_watermark"):
        partition.become_leader(1, node_id=1, replicas=[1, 2], isr=[1])
    manual = node.partition("m", high_watermark="manual")
    for replicas, isr in (([1, 2], [2]), ([1, 2], [1, 3])):
        with pytest.raises(InvalidArgumentError, match="isr"):
            manual.become_leader(1, node_id=1, replicas=replicas, isr=isr)
    manual.become_leader(1, node_id=1, replicas=[1, 2, 3], isr=[1, 2])
    assert (len(manual.progress), manual.progress.in_sync_count) == (2, 2)
    for isr in ([2, 3], [1, 4]):
        with pytest.raises(InvalidArgumentError, match="isr"):
            manual.set_isr(isr)
    with pytest.raises(InvalidArgumentError, match="min_insync_replicas"):
        manual.set_min_insync_replicas(0)


@pytest.mark.parametrize("high_watermark", ["auto", "manual"])
def test_alone_everything_appended_is_committed(node: Node, high_watermark: str) -> None:
    partition = node.partition(high_watermark=high_watermark)
    for count in (1, 3, 5):
        end = partition.append(batch(count)).last_offset + 1
        assert partition.high_watermark == partition.log.high_watermark == end


def test_the_high_watermark_is_the_slowest_in_sync_replica(node: Node) -> None:
    partition = node.partition(high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=1, replicas=[1, 2, 3], isr=[1, 2, 3])
    partition.append(batch(10))
    ends = {2: -1, 3: -1}
    for replica, end in ((2, 4), (3, 2), (3, 6), (2, 10), (3, 9), (2, 3)):
        node.fetch(("t", 0, end), replica_id=replica, version=12)
        ends[replica] = end
        assert partition.high_watermark >= 0
    assert partition.high_watermark == 9, "it never goes back"
    partition.set_isr([1, 3])
    assert partition.high_watermark == 9


def test_a_fetch_of_a_terminated_process_does_not_count(node: Node) -> None:
    """A follower may have lost records when its machine lost power: only its current process counts (KIP-903)."""
    partition = node.partition(high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=1, replicas=[1, 2], isr=[1, 2])
    partition.append(batch(10))
    for epoch, offset, high_watermark in ((5, 4, 4), (7, 6, 6), (5, 10, 6), (7, 8, 8)):
        node.fetch(("t", 0, offset), version=17, replica_state=ReplicaState(replica_id=2, replica_epoch=epoch))
        assert partition.high_watermark == high_watermark
        assert partition.broker_epoch_of(2) == max(epoch, 7 if offset > 4 else 5)


def test_a_follower_below_the_start_of_the_epoch_has_not_caught_up(node: Node) -> None:
    """The high watermark of a new leader may be behind what the previous leader committed. A follower has caught up
    only when it also has everything up to the start of the leader's epoch (KAFKA-7128)."""
    partition = node.partition(high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=NODE_ID, replicas=[1, 2, 3], isr=[1, 2])
    partition.append(batch(10))
    node.fetch(("t", 0, 5), replica_id=2, version=12)
    partition.become_leader(1, node_id=NODE_ID, replicas=[1, 2, 3], isr=[1, 2])
    assert (partition.high_watermark, partition.log.log_end_offset) == (5, 10)
    caught_up: list[int] = []
    partition.watch_followers(lambda _, follower: caught_up.append(follower) or True)
    for offset, reported in ((5, []), (9, []), (10, [3])):
        node.fetch(("t", 0, offset), replica_id=3, version=12)
        assert caught_up == reported


def test_the_in_sync_replicas_may_change_while_a_follower_that_caught_up_is_reported(node: Node) -> None:
    """The keeper proposes the follower at once, which replaces the array of replicas. A sanitized build finds a read of
    the previous array."""
    partition = node.partition(high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=NODE_ID, replicas=[1, 2, 3], isr=[1])
    reported: list[int] = []

    def propose(_: object, follower: int) -> bool:
        reported.append(follower)
        partition.set_isr([1], [1, *reported])
        return True

    partition.watch_followers(propose)
    partition.append(batch(2))
    for follower in (3, 2, 3, 2):
        node.fetch(("t", 0, 2), replica_id=follower, version=12)
    assert reported == [3, 2]
    partition.set_isr([1])                 # the controller refused both
    node.fetch(("t", 0, 2), replica_id=3, version=12)
    assert reported == [3, 2, 3]


def test_a_produce_that_waits_is_not_acknowledged_in_a_later_epoch(node: Node) -> None:
    """Records of the earlier epoch may have been cut and written again in between: only a new request can determine
    that."""
    partition = node.partition(high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=NODE_ID, replicas=[1, 2], isr=[1, 2])
    reply = node.produce(batch(3), acks=-1)
    assert not reply.answered
    partition.become_leader(1, node_id=NODE_ID, replicas=[1, 2], isr=[1])
    node.purgatory.drain()
    assert partition.high_watermark == 3
    assert produced(reply).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_in_sync_followers_lag_that_did_not_have_everything_for_so_long(node: Node) -> None:
    partition = node.partition(high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=NODE_ID, replicas=[1, 2, 3, 4], isr=[1, 2, 3])
    longer_ms = -1                         # more than that has certainly passed
    assert partition.lagging(longer_ms) == [2, 3]       # no follower has fetched yet
    for follower in (2, 3):
        node.fetch(("t", 0, 0), replica_id=follower, version=12)
    assert partition.lagging(longer_ms) == []           # there are no records that they could lack
    partition.append(batch(2))
    assert partition.lagging(longer_ms) == [2, 3]
    assert partition.lagging(60_000) == []
    node.fetch(("t", 0, 2), replica_id=2, version=12)
    node.fetch(("t", 0, 1), replica_id=3, version=12)
    assert partition.lagging(longer_ms) == [3]
    began = now_ms()
    while now_ms() <= began + 20:
        node.fetch(("t", 0, 1), replica_id=3, version=12)       # it is alive, but gets no further
    assert (partition.lagging(20), partition.lagging(60_000)) == ([3], [])
    partition.set_isr([1, 2])
    assert partition.lagging(20) == []
    partition.append(batch())
    assert partition.lagging(longer_ms) == [2]
    partition.become_follower(1, 2)
    assert partition.lagging(longer_ms) == []


def test_a_follower_was_caught_up_when_it_requested_its_present_end(node: Node) -> None:
    """While records keep coming a follower never has everything; its lag is measured from the previous fetch, not
    from this one."""
    partition = node.partition(high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=NODE_ID, replicas=[1, 2], isr=[1, 2])
    partition.append(batch())
    node.fetch(("t", 0, 0), replica_id=2, version=12)           # the leader's log ends at 1
    began = now_ms()
    while now_ms() <= began + 20:
        pass
    partition.append(batch())
    node.fetch(("t", 0, 1), replica_id=2, version=12)           # and now at 2
    assert partition.lagging(15) == [2]
    assert partition.lagging(60_000) == []


def test_look_ups(node: Node) -> None:
    partition = node.partition()
    partition.become_leader(2, node_id=NODE_ID)
    partition.append(batch(4))
    partition.append(batch(2, producer_id=4, producer_epoch=0, base_sequence=0, transactional=True))
    assert partition.earliest() == (0, -1, 2)
    assert partition.latest() == (6, -1, 2)
    assert partition.latest("read_committed") == (4, -1, 2)
    assert partition.latest("log_end") == (6, -1, 2)
    assert partition.offset_for_time(START_MS + 2) == (2, START_MS + 2, 2)
    assert partition.offset_for_time(START_MS + 9) is None
    assert partition.max_timestamp() == (3, START_MS + 3, 2)
    assert partition.end_offset_for_epoch(2) == (2, 6)
    assert partition.end_offset_for_epoch(3) == (-1, -1)
    assert [state.producer_id for state in partition.producers()] == [4]
    with pytest.raises(InvalidArgumentError, match="isolation"):
        partition.latest("dirty")  # type: ignore[arg-type]
    for call in (partition.earliest, partition.latest, partition.max_timestamp):
        call(current_leader_epoch=2)
        with pytest.raises(FencedLeaderEpochError):
            call(current_leader_epoch=1)
        with pytest.raises(UnknownLeaderEpochError):
            call(current_leader_epoch=3)
    partition.become_follower(3, 9)
    for call in (partition.earliest, partition.latest, partition.max_timestamp):
        with pytest.raises(NotLeaderOrFollowerError):
            call()
    assert [state.producer_id for state in partition.producers()] == [4], "a follower answers too"


def test_the_end_is_not_known_until_the_high_watermark_reaches_the_start_of_the_epoch(node: Node) -> None:
    """A node whose high watermark is 5 begins to lead. Consumers of the previous leader may have seen all ten records:
    the end must not move back for them (KIP-207)."""
    partition = node.partition(high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=NODE_ID, replicas=[1, 2], isr=[1, 2])
    partition.append(batch(10))
    node.fetch(("t", 0, 5), replica_id=2, version=12)
    assert partition.latest() == (5, -1, 0), "this leader's own records beyond that were not seen by anybody"
    partition.become_leader(1, node_id=NODE_ID, replicas=[1, 2], isr=[1, 2])
    for offset in (5, 9):
        node.fetch(("t", 0, offset), replica_id=2, version=12)
        assert partition.high_watermark == offset
        for look_up in (partition.latest, partition.max_timestamp, lambda: partition.latest("read_committed"),
                        lambda: partition.offset_for_time(START_MS + 20)):
            with pytest.raises(OffsetNotAvailableError, match="the start of the leader epoch, 10"):
                look_up()
        assert partition.offset_for_time(START_MS + 2) == (2, START_MS + 2, 0)
        assert (partition.earliest(), partition.latest("log_end")) == ((0, -1, 0), (10, -1, 1))
    node.fetch(("t", 0, 10), replica_id=2, version=12)
    assert partition.latest() == (10, -1, 1)
    assert partition.max_timestamp() == (9, START_MS + 9, 0)
    assert partition.offset_for_time(START_MS + 20) is None


def test_records_are_deleted(node: Node) -> None:
    partition = node.partition()
    partition.append(batch(4))
    assert partition.delete_records(2) == 2
    assert fetched(node.fetch(("t", 0, 1)))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    with pytest.raises(OffsetOutOfRangeError):
        partition.delete_records(5)
    assert partition.delete_records(-1) == 4
    assert partition.earliest() == (4, -1, 0)


def fetch_as(node: Node, replica: int, offset: int, log_start_offset: int) -> None:
    requested = FetchPartition(partition=0, fetch_offset=offset, log_start_offset=log_start_offset)
    node.fetch(("t", requested), replica_id=replica, version=12)


class Deletion:
    """Record the callbacks of `call_when_deleted`."""

    def __init__(self, partition: Partition, before_offset: int, alive: set[int], timeout_ms: int = 1000) -> None:
        self.outcomes: list[tuple[int, int]] = []
        partition.call_when_deleted(before_offset, alive.__contains__, lambda *what: self.outcomes.append(what),
                                    timeout_ms=timeout_ms)


def test_records_are_deleted_when_all_live_replicas_say_so(node: Node) -> None:
    partition = node.partition(leader=False, high_watermark="manual")
    partition.become_leader(0, node_id=1, replicas=(1, 2, 3), isr=(1, 2, 3))
    partition.append(batch(4))
    fetch_as(node, 2, 4, log_start_offset=0)
    fetch_as(node, 3, 4, log_start_offset=0)
    partition.delete_records(3)
    alive = {2, 3}
    deletion = Deletion(partition, 3, alive)
    assert (deletion.outcomes, partition.low_watermark(alive.__contains__)) == ([], 0)
    fetch_as(node, 2, 4, log_start_offset=3)
    node.purgatory.drain()
    assert deletion.outcomes == []
    fetch_as(node, 3, 4, log_start_offset=3)
    node.purgatory.drain()
    assert deletion.outcomes == [(0, 3)]
    assert Deletion(partition, 3, alive).outcomes == [(0, 3)]


def test_waiters_for_a_deletion_receive_its_outcome(node: Node) -> None:
    partition = node.partition(leader=False, high_watermark="manual")
    partition.become_leader(0, node_id=1, replicas=(1, 2, 3), isr=(1,))
    partition.append(batch(4))
    partition.delete_records(3)
    fetch_as(node, 2, 4, log_start_offset=2)
    assert Deletion(partition, 3, {2}, timeout_ms=0).outcomes == [(7, 2)]
    assert Deletion(partition, 3, set()).outcomes == [(0, 3)], "removed replicas need not report"
    alive = {2, 3}
    deletions = [Deletion(partition, 3, alive)]
    node.purgatory.expire(now_ms() + 2000)
    deletions.append(Deletion(partition, 3, alive))
    alive -= {2, 3}
    node.purgatory.expire(now_ms() + 4000)
    deletions.append(Deletion(partition, 3, {2}))
    partition.become_follower(1, 2)
    node.purgatory.drain()
    partition.become_leader(2, node_id=1, replicas=(1, 2))
    deletions.append(Deletion(partition, 3, {2}))
    node.table.remove("t", 0)
    node.purgatory.drain()
    assert [each.outcomes for each in deletions] == [[(7, -1)], [(0, 3)], [(6, -1)], [(3, -1)]]
    partition.log.close()


def test_a_log_in_another_place_takes_over(node: Node, tmp_path: Path) -> None:
    partition = node.partition()
    partition.become_leader(3, node_id=NODE_ID)
    partition.append(batch(4))
    before = partition.log
    with Log(tmp_path / "shorter") as shorter, pytest.raises(InvalidArgumentError, match="it ends at 0"):
        partition.replace_log(shorter)
    copied = Log(tmp_path / "copied")
    copied.append_as_follower(before.read(0))
    partition.replace_log(copied)
    before.close()
    partition.append(batch(2))
    assert (partition.log, partition.high_watermark, partition.end_offset_for_epoch(3)) == (copied, 6, (3, 6))
    assert fetched(node.fetch(("t", 0, 4)))[0].high_watermark == 6


def test_settings_change_while_running(node: Node) -> None:
    partition = node.partition()
    assert produced(node.produce(batch(50))).error_code == ErrorCode.NONE
    partition.reconfigure(LogConfig(max_message_bytes=200))
    partition.set_min_insync_replicas(2)
    assert produced(node.produce(batch(50))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    answer = produced(node.produce(batch(), acks=-1))
    assert answer.error_code == ErrorCode.NONE, "at most as many as there are replicas"


def test_requests_of_clients_are_counted(node: Node) -> None:
    partition = node.partition()
    node.produce(batch(5))
    node.produce(b"junk")
    node.fetch(("t", 0, 0))
    node.fetch(("t", 0, 9))
    assert (partition.produced_records, partition.produced_bytes) == (5, len(batch(5)))
    assert (partition.fetched_bytes, partition.refused_produces, partition.refused_fetches) == (len(batch(5)), 1, 1)


def test_the_table(node: Node, tmp_path: Path) -> None:
    table = node.table
    first, second = node.partition("a", 0), node.partition("a", 2)
    other = node.partition("b", 0)
    assert list(table) == [first, second, other] and len(table) == 3
    assert table.get("a", 2) is second and table.get("a", 1) is None and table.get("a", -1) is None
    assert table.get("c", 0) is None
    assert table.get_by_id(topic_id_of("a"), 0) is first and table.get_by_id(topic_id_of("c"), 0) is None
    with pytest.raises(InvalidArgumentError, match="in the table"):
        table.add(first)
    log = Log(tmp_path / "extra")
    with pytest.raises(InvalidArgumentError, match="another topic"):
        table.add(Partition(log, "c", topic_id_of("a"), 0))
    with pytest.raises(InvalidArgumentError, match="not its topic"):
        table.add(Partition(log, "a", topic_id_of("c"), 1))
    with pytest.raises(InvalidArgumentError, match="index"):
        table.add(Partition(log, "c", topic_id_of("c"), 1_000_001))
    with pytest.raises(InvalidArgumentError, match="topic_id"):
        Partition(log, "c", b"short", 0)
    with pytest.raises(InvalidArgumentError, match="index"):
        Partition(log, "c", topic_id_of("c"), -1)
    log.close()
    for partition in (first, second):
        assert table.remove("a", partition.index) is partition and partition.removed
        partition.log.close()
    assert len(table) == 1 and table.get_by_id(topic_id_of("a"), 0) is None
    with pytest.raises(InvalidArgumentError, match="not in the table"):
        table.remove("a", 0)
    with pytest.raises(InvalidArgumentError, match="removed"):
        table.add(first)


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_that_was_removed_is_not_found_any_more(node: Node, version: int) -> None:
    """Neither the cached partition of the last request nor its successor by name is mistaken for it."""
    old = node.partition("a")
    assert produced(node.produce(batch(2), topic="a", version=version)).base_offset == 0
    node.table.remove("a", 0)
    answer = produced(node.produce(batch(), topic="a", version=version))
    assert answer.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    old.log.close()
    shutil.rmtree(node.directory / "a-0")
    node.partition("a")
    assert produced(node.produce(batch(), topic="a", version=version)).base_offset == 0


def test_the_timer_is_armed_only_when_it_must_fire_earlier(tmp_path: Path) -> None:
    armed: list[int] = []
    soon: list[object] = []
    with serving(tmp_path) as node:
        node.purgatory = Purgatory(soon.append, armed.append)
        node.table = PartitionTable(node.purgatory)
        node.fetch_handler = type(node.fetch_handler)(node.table, node.sessions)
        partition = node.partition()
        first = node.fetch(("t", 0, 0), max_wait_ms=500)
        second = node.fetch(("t", 0, 0), max_wait_ms=900)
        assert len(armed) == 1
        third = node.fetch(("t", 0, 0), max_wait_ms=100)
        assert len(armed) == 2 and armed[1] == node.purgatory.deadline_ms < armed[0]
        far = node.fetch(("t", 0, 0), max_wait_ms=60_000)
        # Waiters are woken once per iteration of the loop, however many appends happen.
        partition.append(batch())
        partition.append(batch())
        assert len(soon) == 1 and not first.answered
        node.purgatory.drain()
        assert all(reply.answered for reply in (first, second, third, far))
        far = node.fetch(("t", 0, 2), max_wait_ms=60_000)
        assert len(armed) == 2
        # The timer finds nothing due and returns the next time to check: no wait is shorter than a turn of the wheel.
        fired = armed[1]
        again = node.purgatory.expire(fired)
        assert fired < again <= fired + 2048 and not far.answered
        deadline = node.purgatory.deadline_ms
        while not far.answered:
            deadline = node.purgatory.expire(deadline)
            assert deadline < fired + 70_000
        assert node.purgatory.deadline_ms == deadline == -1


def test_answers_of_waiters_are_sent_before_the_next_turn(tmp_path: Path) -> None:
    """A sender requests an iteration of the loop when a reply is finished; while waiters are woken it runs right
    after."""
    soon: list[Callable[[], None]] = []
    turns: list[bool] = []
    with serving(tmp_path) as node:
        purgatory = node.purgatory = Purgatory(soon.append)
        node.table = PartitionTable(purgatory)
        partition = node.partition(high_watermark="manual", leader=False)
        partition.become_leader(0, node_id=NODE_ID)
        end = partition.append(batch()).last_offset + 1
        partition.call_when_committed(end + 1, lambda _: purgatory.call_soon(lambda: turns.append(True)))
        partition.append(batch())
        assert len(soon) == 1
        soon.pop()()
        assert turns == [True] and soon == [], "the loop was not used"
        purgatory.call_soon(lambda: turns.append(False))
        assert len(soon) == 1, "outside of a wake it is the loop's next turn"
    soon.clear()


def test_a_proposed_follower_does_not_count_for_the_minimum(node: Node) -> None:
    """The high watermark waits for a proposed follower. The follower counts for min.insync.replicas once the
    proposal is committed, also where the metadata repeats that this node leads."""
    partition = node.partition(high_watermark="manual", leader=False)
    partition.set_min_insync_replicas(2)
    partition.become_leader(0, node_id=1, replicas=[1, 2, 3], isr=[1])
    partition.append(batch(5))
    partition.become_leader(0, node_id=1, replicas=[1, 2, 3], isr=[1], maximal=[1, 2])
    node.fetch(("t", 0, 5), replica_id=2, version=12)
    assert partition.high_watermark == 0
    partition.set_isr([1, 2])
    assert partition.high_watermark == 5


@pytest.mark.parametrize("version", [12, 13])
def test_a_leader_whose_process_has_ended_is_not_named(node: Node, version: int) -> None:
    """The rule holds in refusals of Produce and Fetch, for partitions that are here and others, at once and after a
    wait. The leader is named again when its time is over."""
    waiting = node.partition(high_watermark="manual", leader=False)
    waiting.become_leader(0, node_id=NODE_ID, replicas=[1, 2], isr=[1, 2])
    reply = node.produce(batch(), version=version, acks=-1)
    refusing = {4: now_ms() + 60_000, 5: now_ms() + 60_000}
    node.table.hide(refusing)
    node.table.set_endpoint(4, "host-4", 9092)
    elsewhere = {1: SimpleNamespace(leader=4, leader_epoch=7)}
    node.table.explain(lambda _key, _by_id: (3, "t", elsewhere, (), NODE_ID))
    waiting.become_follower(7, 4)
    node.purgatory.drain()

    def named(response: Any) -> tuple[int, int, int, int]:
        [part] = [part for topic in response.responses for part in (
            topic.partition_responses if isinstance(response, ProduceResponse) else topic.partitions)]
        return (part.error_code, part.current_leader.leader_id, part.current_leader.leader_epoch,
                len(response.node_endpoints))

    assert named(produce_response(reply)) == (6, -1, 7, 0)
    for until_ms, leader, endpoints in ((refusing[4], -1, 0), (now_ms(), 4, 1)):
        refusing[4] = until_ms
        assert named(produce_response(node.produce(batch(), version=version))) == (6, leader, 7, endpoints)
        assert named(produce_response(node.produce(batch(), version=version, index=1))) == (6, leader, 7, endpoints)
        assert named(fetch_response(node.fetch(("t", 1, 0), version=16))) == (6, leader, 7, endpoints)
        # Consumers may read from a follower, but not from one of an earlier epoch.
        fetch = ("t", FetchPartition(partition=0, current_leader_epoch=6))
        assert named(fetch_response(node.fetch(fetch, version=16))) == (74, leader, 7, endpoints)
