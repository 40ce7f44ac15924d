"""ShareFetch and ShareAcknowledge: sessions, acknowledgements, long polls, limits and every error."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import share_acknowledge_request as acknowledging
from kraft.protocol.messages import share_acknowledge_response as acknowledged
from kraft.protocol.messages import share_fetch_request as fetching
from kraft.protocol.messages import share_fetch_response as fetched
from kraft_native.base import clock
from kraft_native.partition.purgatory import Purgatory, now_ms
from kraft_native.partition.table import PartitionTable
from kraft_native.request.permissions import PermissionCache
from kraft_native.request.reply import LateHandler, Reply
from kraft_native.share.partitions import SharePartition, SharePartitions, ShareSettings
from kraft_native.share.request import ShareHandler
from kraft_native.share.sessions import ShareSessions
from kraft_native.share.window import ShareWindow
from tests.native.logs import batch
from tests.native.serving import Node, Sink, body_of, topic_id_of

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
READ, TOPIC, GROUP = 3, 2, 3
LOCK_MS = 1000
HEADER_BYTES = 5
Acks = list[tuple[int, int, list[int]]]


class Group(Node):
    """A node with share groups, whose loop the test runs and whose state it stores."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.turns: list[Callable[[], None]] = []
        self.purgatory = Purgatory(self.turns.append)
        self.table = PartitionTable(self.purgatory)
        self.settings = ShareSettings(LOCK_MS, 20, 3)
        self.loading: list[SharePartition] = []
        self.loads = True
        self.writes: list[tuple[int, int, list[tuple[int, int, int, int]]]] = []
        self.writing: list[SharePartition] = []
        self.error: int | None = 0
        """Outcome of writes; None: it does not come."""
        self.partitions = SharePartitions(
            self.purgatory, load=self._load, write=self._write, settings_of=lambda _group: self.settings,
            arm=lambda _deadline_ms: None)
        self.connections: list[object] = []
        self.sessions_of_members = ShareSessions(3, on_connection=self.connections.append)
        self.handler = ShareHandler(self.table, self.partitions, self.sessions_of_members)
        self.epochs: dict[str, int] = {}

    def _load(self, share: SharePartition) -> None:
        if self.loads:
            share.loaded(7, 0, [])
        else:
            self.loading.append(share)

    def _write(self) -> None:
        for share in self.partitions.take_due():
            if (taken := share.take_write()) is not None:
                self.writes.append(taken)
                if self.error is None:
                    self.writing.append(share)
                else:
                    share.written(self.error)

    def run(self) -> None:
        """Run what the loop would: writes, and the requests that they wake."""
        while self.turns:
            self.turns.pop(0)()

    def window(self, index: int = 0) -> ShareWindow:
        share = self.partitions.get(b"g", topic_id_of("t"), index)
        assert share is not None
        return share.window

    def share_fetch(self, member: str = "m", *topics: tuple[str, int] | tuple[str, int, Acks], epoch: int | None = None,
              version: int = 2, sink: Sink | None = None, group: str | None = "g", forgotten: tuple[str, ...] = (),
              **fields: Any) -> Reply:
        epoch = self.epochs.get(member, 0) if epoch is None else epoch
        self.epochs[member] = epoch + 1
        request = fetching.ShareFetchRequest(
            group_id=group, member_id=member, share_session_epoch=epoch,
            **{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500,
               **fields},
            topics=[fetching.FetchTopic(topic_id=UUID(bytes=topic_id_of(topic)), partitions=[fetching.FetchPartition(
                partition_index=index, acknowledgement_batches=[fetching.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=types)
                    for first, last, types in (acks[0] if acks else [])])]) for topic, index, *acks in topics],
            forgotten_topics_data=[fetching.ForgottenTopic(topic_id=UUID(bytes=topic_id_of(topic)), partitions=[0])
                                   for topic in forgotten])
        reply = Reply(sink or self.sink, ApiKey.SHARE_FETCH, version, 1, b"test")
        self.handler.handle_bytes(reply, request.encode(version))
        return reply

    def acknowledge(self, member: str, *topics: tuple[str, int, Acks], epoch: int | None = None, version: int = 2,
                    renews: bool = False, group: str = "g") -> Reply:
        epoch = self.epochs.get(member, 0) if epoch is None else epoch
        self.epochs[member] = epoch + 1
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=group, member_id=member, share_session_epoch=epoch, is_renew_ack=renews,
            topics=[acknowledging.AcknowledgeTopic(
                topic_id=UUID(bytes=topic_id_of(topic)), partitions=[acknowledging.AcknowledgePartition(
                    partition_index=index, acknowledgement_batches=[acknowledging.AcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=types)
                        for first, last, types in acks])])
                for topic, index, acks in topics])
        reply = Reply(self.sink, ApiKey.SHARE_ACKNOWLEDGE, version, 1, b"test")
        self.handler.handle_bytes(reply, request.encode(version))
        return reply




def response_of(reply: Reply) -> Any:
    kind = fetched.ShareFetchResponse if reply.api_key == ApiKey.SHARE_FETCH else acknowledged.ShareAcknowledgeResponse
    body = body_of(reply)[HEADER_BYTES:]
    response = kind.decode(body, reply.api_version)
    assert response.encode(reply.api_version) == body, "not as the schema has it"
    return response


def parts_of(reply: Reply) -> dict[tuple[bytes, int], Any]:
    response = response_of(reply)
    assert response.error_code == ErrorCode.NONE
    return {(topic.topic_id.bytes, part.partition_index): part for topic in response.responses
            for part in topic.partitions}


def ranges(reply: Reply, topic: str = "t", index: int = 0) -> list[tuple[int, int, int]]:
    """Return first offset, last offset and delivery count of what a reply has of a partition."""
    part = parts_of(reply).get((topic_id_of(topic), index))
    if part is None:
        return []
    assert part.error_code == ErrorCode.NONE
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in part.acquired_records]


def ack_error(reply: Reply, topic: str = "t", index: int = 0) -> int:
    part = parts_of(reply)[topic_id_of(topic), index]
    return part.acknowledge_error_code if reply.api_key == ApiKey.SHARE_FETCH else part.error_code


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    clock.simulate(1_000_000_000, 1_700_000_000_000)
    made = Group(tmp_path)
    try:
        made.partition().append(batch(10))
        yield made
    finally:
        made.turns.clear()
        made.close()
        clock.use_system()


def pass_time(group: Group, ms: int) -> None:
    now = now_ms() + ms
    clock.simulate(now * 1_000_000, 1_700_000_000_000 + now)
    group.partitions.expire(now)
    group.purgatory.expire(now)
    group.run()


# --- delivery


@pytest.mark.parametrize("version", [1, 2])
def test_records_are_delivered_to_one_member_of_a_group(group: Group, version: int) -> None:
    reply = group.share_fetch("a", ("t", 0), version=version)
    assert ranges(reply) == [(0, 9, 1)]
    partition = group.table.get("t", 0)
    assert partition is not None
    assert parts_of(reply)[topic_id_of("t"), 0].records == bytes(partition.log.read(0))
    assert response_of(reply).acquisition_lock_timeout_ms == LOCK_MS
    assert ranges(group.share_fetch("b", ("t", 0), version=version)) == []
    assert ranges(group.share_fetch("c", ("t", 0), version=version, group="h")) == [(0, 9, 1)], "another group"


def test_only_the_batches_with_acquired_records_are_sent(group: Group) -> None:
    partition = group.table.get("t", 0)
    assert partition is not None
    for _ in range(2):
        partition.append(batch(5))
    group.share_fetch("a", ("t", 0), max_records=10)
    reply = group.share_fetch("b", ("t", 0), max_records=3)
    assert ranges(reply) == [(10, 14, 1)], "whole batches"
    assert len(parts_of(reply)[topic_id_of("t"), 0].records) == len(batch(5))
    assert ranges(group.share_fetch("b", max_records=3, share_acquire_mode=1)) == [(15, 17, 1)], "at most so many"


def test_an_acknowledgement_is_answered_when_it_is_written(group: Group) -> None:
    group.share_fetch("a", ("t", 0))
    group.error = None
    reply = group.acknowledge("a", ("t", 0, [(0, 4, [ACCEPT]), (5, 7, [RELEASE, REJECT, ACCEPT])]))
    group.run()
    assert not reply.answered
    assert group.writes == [(0, 7, [(0, 4, 2, 1), (5, 5, 0, 1), (6, 6, 4, 1), (7, 7, 2, 1)])]
    group.writing.pop().written(0)
    group.run()
    assert ack_error(reply) == 0
    assert group.window().start == 5
    assert ranges(group.share_fetch("b", ("t", 0))) == [(5, 5, 2)], "the released one"


def test_a_failed_write_is_the_answer_and_the_member_still_has_the_records(group: Group) -> None:
    """KAFKA-17442: errors of the persister were lost."""
    group.share_fetch("a", ("t", 0))
    group.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    reply = group.acknowledge("a", ("t", 0, [(0, 9, [ACCEPT])]))
    group.run()
    assert ack_error(reply) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    group.error = 0
    reply = group.acknowledge("a", ("t", 0, [(0, 9, [ACCEPT])]))
    group.run()
    assert ack_error(reply) == 0


def test_a_share_fetch_carries_acknowledgements(group: Group) -> None:
    group.share_fetch("a", ("t", 0))
    reply = group.share_fetch("a", ("t", 0, [(0, 3, [ACCEPT]), (4, 9, [RELEASE])]))
    group.run()
    assert ack_error(reply) == 0
    assert ranges(reply) == [(4, 9, 2)], "what it released is delivered again by the same request"


def test_what_is_decided_during_a_write_is_in_the_next_one(group: Group) -> None:
    group.share_fetch("a", ("t", 0))
    group.error = None
    replies = [group.acknowledge("a", ("t", 0, [(at, at, [ACCEPT])])) for at in range(2)]
    group.run()
    replies += [group.acknowledge("a", ("t", 0, [(at, at, [ACCEPT])])) for at in range(2, 5)]
    group.run()
    assert [each[2] for each in group.writes] == [[(0, 1, 2, 1)]]
    group.writing.pop().written(0)
    group.run()
    assert [each.answered for each in replies] == [True, True, False, False, False]
    assert group.writes[1] == (2, 3, [(2, 4, 2, 1)])
    group.writing.pop().written(0)
    group.run()
    assert all(each.answered for each in replies)


def test_locks_end_and_are_renewed(group: Group) -> None:
    group.share_fetch("a", ("t", 0))
    pass_time(group, LOCK_MS - 1)
    reply = group.acknowledge("a", ("t", 0, [(0, 4, [RENEW])]), renews=True)
    assert ack_error(reply) == 0
    assert not group.writes, "nothing is written"
    pass_time(group, 1)
    assert group.writes == [(0, 0, [(5, 9, 0, 1)])]
    assert ranges(group.share_fetch("b", ("t", 0))) == [(5, 9, 2)]
    assert ack_error(group.acknowledge("a", ("t", 0, [(5, 9, [ACCEPT])]))) == ErrorCode.INVALID_RECORD_STATE
    pass_time(group, LOCK_MS)
    assert ranges(group.share_fetch("b")) == [(0, 4, 2), (5, 9, 3)]


def test_a_renewal_must_be_announced_and_fetches_nothing(group: Group) -> None:
    group.share_fetch("a", ("t", 0))
    assert ack_error(group.acknowledge("a", ("t", 0, [(0, 4, [RENEW])]))) == ErrorCode.INVALID_REQUEST
    assert ack_error(group.acknowledge("a", ("t", 0, [(0, 4, [RENEW])]), version=1)) == ErrorCode.INVALID_REQUEST
    reply = group.share_fetch("a", ("t", 0, [(0, 4, [RENEW])]), is_renew_ack=True)
    assert response_of(reply).error_code == ErrorCode.INVALID_REQUEST
    group.epochs["a"] -= 1
    reply = group.share_fetch("a", ("t", 0, [(0, 4, [RENEW])]), is_renew_ack=True, max_bytes=0, max_records=0,
                              min_bytes=0)
    assert ack_error(reply) == 0
    assert group.window().states()[0][:3] == (0, 9, "ACQUIRED")


def test_control_records_and_aborted_records_are_passed_over(group: Group) -> None:
    group.settings = ShareSettings(LOCK_MS, 20, 3, committed=True)
    partition = group.partition("u")
    partition.append(batch(2, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True))
    partition.append(batch(1))
    assert ranges(group.share_fetch("a", ("u", 0)), "u") == [], "the transaction is open"
    partition.append_marker(5, 0, 0, commit=False)
    partition.append(batch(1))
    assert ranges(group.share_fetch("a"), "u") == [(2, 2, 1), (4, 4, 1)]
    share = group.partitions.get(b"g", topic_id_of("u"), 0)
    assert share is not None
    assert share.window.start == 2


def test_what_was_deleted_or_lost_is_not_delivered(group: Group) -> None:
    partition = group.table.get("t", 0)
    assert partition is not None
    group.share_fetch("a", ("t", 0))
    partition.append(batch(5))
    partition.delete_records(12)
    assert ranges(group.share_fetch("b", ("t", 0))) == [(12, 14, 1)]
    assert ack_error(group.acknowledge("a", ("t", 0, [(0, 9, [ACCEPT])]))) == 0


# --- long polls


def test_a_fetch_waits_for_records_for_released_ones_and_for_the_state(group: Group) -> None:
    group.loads = False
    first = group.share_fetch("a", ("t", 0), max_wait_ms=100)
    assert not first.answered
    group.loading.pop().loaded(0, 0, [])
    group.run()
    assert ranges(first) == [(0, 9, 1)]
    second = group.share_fetch("b", ("t", 0), max_wait_ms=100)
    third = group.share_fetch("c", ("t", 0), max_wait_ms=100)
    group.acknowledge("a", ("t", 0, [(0, 9, [RELEASE])]))
    group.run()
    assert ranges(second) == [(0, 9, 2)]
    assert not third.answered
    group.table.get("t", 0).append(batch(3))  # type: ignore[union-attr]
    group.run()
    assert ranges(third) == [(10, 12, 1)]
    fourth = group.share_fetch("c", max_wait_ms=100)
    pass_time(group, 99)
    assert not fourth.answered
    pass_time(group, 1)
    assert ranges(fourth) == []
    assert (group.purgatory.parked_count, group.handler.waiting_entries) == (0, 0)


def test_a_fetch_that_waits_for_a_write_is_answered_when_that_never_ends(group: Group) -> None:
    """KAFKA-18129: a fetch and the persister waited for each other."""
    group.share_fetch("a", ("t", 0))
    group.error = None
    reply = group.share_fetch("a", ("t", 0, [(0, 9, [ACCEPT])]), max_wait_ms=100)
    pass_time(group, 200)
    assert not reply.answered
    pass_time(group, 30_000)
    assert ack_error(reply) == ErrorCode.REQUEST_TIMED_OUT
    assert group.purgatory.parked_count == 0


def test_the_limit_of_records_in_flight(group: Group) -> None:
    partition = group.table.get("t", 0)
    assert partition is not None
    for _ in range(3):
        partition.append(batch(10))
    assert ranges(group.share_fetch("a", ("t", 0), batch_size=1)) == [(0, 9, 1), (10, 19, 1)]
    waiting = group.share_fetch("b", ("t", 0), max_wait_ms=100)
    assert not waiting.answered
    group.acknowledge("a", ("t", 0, [(0, 0, [ACCEPT])]))
    group.run()
    assert ranges(waiting) == [(20, 29, 1)]


def test_partitions_take_turns(group: Group) -> None:
    for index in (1, 2):
        group.partition(index=index).append(batch(10))
    found = []
    group.share_fetch("a", ("t", 0), ("t", 1), ("t", 2), max_records=10)
    for _ in range(2):
        reply = group.share_fetch("a", max_records=10)
        found += [index for _, index in parts_of(reply)]
    assert found == [1, 2]


def test_a_closed_connection_leaves_nothing(group: Group) -> None:
    sink = Sink()
    group.share_fetch("a", ("t", 0), sink=sink)
    waiting = group.share_fetch("a", sink=sink, max_wait_ms=100)
    assert group.connections == [sink]
    waited = group.share_fetch("b", ("t", 0), max_wait_ms=100)
    group.handler.left(sink)
    group.run()
    assert ranges(waited) == [(0, 9, 1)], "released, and the delivery does not count"
    assert response_of(waiting).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert len(group.sessions_of_members) == 1


# --- sessions


def test_sessions(group: Group) -> None:
    def error(reply: Reply) -> int:
        return int(response_of(reply).error_code)

    assert error(group.share_fetch("a", epoch=1)) == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert error(group.acknowledge("a", epoch=0)) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert error(group.share_fetch("a", ("t", 0, [(0, 0, [ACCEPT])]), epoch=0)) == ErrorCode.INVALID_REQUEST
    assert error(group.share_fetch("a", ("t", 0), epoch=0)) == 0
    assert error(group.share_fetch("a", epoch=2)) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert error(group.share_fetch("a", epoch=1)) == 0
    assert error(group.acknowledge("a", epoch=1)) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert error(group.acknowledge("a", epoch=2)) == 0
    assert error(group.share_fetch("a", ("t", 0), epoch=0)) == 0, "begins again"
    for member in ("b", "c"):
        assert error(group.share_fetch(member, epoch=0)) == 0
    assert error(group.share_fetch("d", epoch=0)) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert error(group.acknowledge("c", epoch=-1)) == 0
    assert error(group.share_fetch("d", epoch=0)) == 0
    assert error(group.share_fetch("", epoch=0)) == error(group.share_fetch("a", epoch=0, group=None)) \
        == ErrorCode.INVALID_REQUEST


def test_the_end_of_a_session_releases_what_is_not_acknowledged(group: Group) -> None:
    group.share_fetch("a", ("t", 0))
    group.error = None
    reply = group.acknowledge("a", ("t", 0, [(0, 3, [ACCEPT])]), epoch=-1)
    group.run()
    group.writing.pop().written(0)
    group.run()
    assert ack_error(reply) == 0
    assert [run[:4] for run in group.window().states()] == [(4, 9, "AVAILABLE", 0)]
    assert response_of(group.acknowledge("a", epoch=-1)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_the_last_session_of_a_group_leaves_no_share_partitions(group: Group) -> None:
    other = Sink()
    group.share_fetch("a", ("t", 0))
    group.share_fetch("b", ("t", 0), sink=other)
    group.acknowledge("a", epoch=-1)
    pass_time(group, 1)
    assert len(group.partitions) == 1, "another member of the group has a session"
    group.error = None
    assert ranges(group.share_fetch("b", sink=other)) == [(0, 9, 1)]
    group.acknowledge("b", ("t", 0, [(0, 3, [ACCEPT])]))
    group.run()
    group.handler.left(group.sink)
    pass_time(group, 1)
    assert len(group.partitions) == 1, "its write is not over"
    group.error = 0
    group.writing.pop().written(0)
    group.run()
    pass_time(group, 1)
    assert len(group.partitions) == 0
    group.loads = False
    waiting = group.share_fetch("c", ("t", 0), max_wait_ms=100)
    group.loading.pop().loaded(8, 2, [])
    group.run()
    assert ranges(waiting) == [(2, 9, 1)], "as stored, not as it was remembered"


def test_a_share_partition_stays_when_a_member_comes_back(group: Group) -> None:
    group.share_fetch("a", ("t", 0))
    share = group.partitions.get(b"g", topic_id_of("t"), 0)
    group.acknowledge("a", epoch=-1)
    group.share_fetch("a", ("t", 0), epoch=0)
    pass_time(group, 1)
    assert group.partitions.get(b"g", topic_id_of("t"), 0) is share is not None


def test_a_session_is_changed_by_its_requests(group: Group) -> None:
    group.partition("u").append(batch(2))
    assert ranges(group.share_fetch("a", ("u", 0)), "u") == [(0, 1, 1)]
    reply = group.share_fetch("a", ("t", 0), forgotten=("u",))
    assert list(parts_of(reply)) == [(topic_id_of("t"), 0)]
    group.table.get("u", 0).append(batch(2))  # type: ignore[union-attr]
    assert list(parts_of(group.share_fetch("a"))) == []


# --- errors


def test_errors_of_partitions(group: Group) -> None:
    group.partition("other", leader=False).become_follower(4, 2)
    group.table.set_endpoint(2, "host", 9092, "rack")
    reply = group.share_fetch("a", ("missing", 0), ("t", 7), ("other", 0))
    codes = {key: part.error_code for key, part in parts_of(reply).items()}
    assert codes == {(topic_id_of("missing"), 0): ErrorCode.UNKNOWN_TOPIC_ID,
                     (topic_id_of("t"), 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                     (topic_id_of("other"), 0): ErrorCode.NOT_LEADER_OR_FOLLOWER}
    leader = parts_of(reply)[topic_id_of("other"), 0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (2, 4)
    [node] = response_of(reply).node_endpoints
    assert (node.node_id, node.host, node.port, node.rack) == (2, "host", 9092, "rack")
    acks: Acks = [(0, 0, [ACCEPT])]
    reply = group.acknowledge("a", ("missing", 0, acks), ("other", 0, acks), ("t", 0, acks))
    assert [ack_error(reply, name) for name in ("missing", "other", "t")] == [
        ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("acks", [
    [(4, 3, [ACCEPT])], [(0, 3, [])], [(0, 3, [ACCEPT, ACCEPT])], [(0, 3, [5])], [(0, 3, [-1])],
    [(4, 5, [ACCEPT]), (0, 3, [ACCEPT])], [(0, 3, [ACCEPT]), (3, 4, [ACCEPT])], [(0, 2**63 - 1, [ACCEPT])],
])
def test_acknowledgements_that_make_no_sense(group: Group, acks: Acks) -> None:
    group.share_fetch("a", ("t", 0))
    assert ack_error(group.acknowledge("a", ("t", 0, acks))) == ErrorCode.INVALID_REQUEST
    assert [run[2] for run in group.window().states()] == ["ACQUIRED"]


def test_a_share_partition_ends_with_the_leadership(group: Group) -> None:
    partition = group.table.get("t", 0)
    assert partition is not None
    group.share_fetch("a", ("t", 0))
    group.error = None
    acked = group.acknowledge("a", ("t", 0, [(0, 4, [ACCEPT])]))
    waiting = group.share_fetch("b", ("t", 0), max_wait_ms=100)
    group.run()
    partition.become_follower(1, 2)
    group.run()
    assert parts_of(waiting)[topic_id_of("t"), 0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ack_error(acked) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition.become_leader(2, node_id=1)
    assert ranges(group.share_fetch("b")) == [(0, 9, 1)], "loaded again"
    group.writing.pop().written(0)


def test_a_state_that_cannot_be_read(group: Group) -> None:
    group.loads = False
    waiting = group.share_fetch("a", ("t", 0), max_wait_ms=100)
    group.loading.pop().failed(ErrorCode.GROUP_ID_NOT_FOUND)
    group.run()
    assert parts_of(waiting)[topic_id_of("t"), 0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    waiting = group.share_fetch("a", max_wait_ms=100)
    group.loading.pop().paused(500)
    group.run()
    assert not waiting.answered
    pass_time(group, 100)
    assert ranges(waiting) == []
    group.share_fetch("a")
    assert not group.loading, "not yet"
    pass_time(group, 400)
    group.share_fetch("a")
    group.loading.pop().loaded(0, 0, [])
    assert ranges(group.share_fetch("a")) == [(0, 9, 1)]


def test_clients_without_permission(group: Group) -> None:
    allowed: dict[tuple[int, str], bool] = {}
    refused: list[tuple[int, int, bytes, bool]] = []
    cache = PermissionCache(lambda _client, _host, kind, name: (1 << READ) * allowed.get((kind, name), False),
                            lambda _client: (len(allowed),))
    cache.on_refused = lambda _reply, *what: refused.append(what)
    group.handler.permissions = cache
    assert response_of(group.share_fetch("a", ("t", 0), epoch=0)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert refused == [(GROUP, READ, b"g", False)]
    allowed[GROUP, "g"] = True
    cache.changed()
    reply = group.share_fetch("a", ("t", 0), epoch=0)
    assert parts_of(reply)[topic_id_of("t"), 0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert refused[1:] == [(TOPIC, READ, topic_id_of("t"), True)]
    reply = group.acknowledge("a", ("t", 0, [(0, 0, [ACCEPT])]), epoch=1)
    assert ack_error(reply) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allowed[TOPIC, "t"] = True
    cache.changed()
    assert ranges(group.share_fetch("a", epoch=2)) == [(0, 9, 1)]


def test_a_late_handler_is_created_by_its_first_request(group: Group) -> None:
    created: list[ShareHandler] = []
    late = LateHandler(lambda: created.append(group.handler) or group.handler)  # type: ignore[func-returns-value]
    assert late.handler is None
    for _ in range(2):
        reply = Reply(group.sink, ApiKey.SHARE_FETCH, 2, 1, b"test")
        late.handle_bytes(reply, b"")
        assert reply.refused
    assert created == [group.handler]


def test_share_groups_that_are_no_feature_of_the_cluster(group: Group) -> None:
    group.handler.enabled = False
    assert response_of(group.share_fetch("a", ("t", 0))).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert response_of(group.acknowledge("a")).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_bytes_that_are_no_request_close_the_connection(group: Group) -> None:
    for key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE):
        whole = Reply(group.sink, key, 2, 1, b"test")
        for body in (b"", b"\2g\2m\0", b"\2g\2m" + bytes(4) + b"\xff" * 40):
            reply = Reply(group.sink, key, 2, 1, b"test")
            group.handler.handle_bytes(reply, body)
            assert reply.refused
        assert not whole.answered
