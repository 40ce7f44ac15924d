"""ListGroups, DescribeGroups, DeleteGroups, expiry, and groups of other protocols."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from kraft.broker.coordinator import shards
from kraft.broker.coordinator.shard import Record
from kraft.broker.groups import expiry, steps
from kraft.broker.groups.classic.group import ClassicGroup, GroupState
from kraft.broker.groups.shard import GroupShard
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.list_groups_response import ListGroupsResponse
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kraft.protocol.messages.share_group_metadata_key import ShareGroupMetadataKey
from kraft.protocol.messages.share_group_metadata_value import ShareGroupMetadataValue
from kraft.protocol.messages.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from kraft.protocol.messages.streams_group_member_metadata_value import StreamsGroupMemberMetadataValue
from kraft.protocol.messages.streams_group_metadata_key import StreamsGroupMetadataKey
from kraft.protocol.messages.streams_group_metadata_value import StreamsGroupMetadataValue
from kraft.protocol.record_frames import GROUPS
from tests.broker.groups.group_client import commit, errors_of, fetch, form_group, heartbeat, join, join_new, leave
from tests.broker.node import Node, Pending

DAY_MS = 24 * 3_600_000
WEEK_MS = 7 * DAY_MS


def listed(node: Node, states: list[str] | None = None, types: list[str] | None = None) -> dict[str, tuple[str, ...]]:
    response = node.call(ListGroupsRequest(states_filter=states or [], types_filter=types or []))
    assert response.error_code == ErrorCode.NONE
    return {group.group_id: (group.protocol_type, group.group_state, group.group_type) for group in response.groups}


def test_listing() -> None:
    node = Node()
    form_group(node, 1, "stable")
    join_new(node, "joining")
    commit(node, {("orders", 0): 1}, group="simple")
    everything = {
        "stable": ("consumer", "Stable", "classic"),
        "joining": ("consumer", "CompletingRebalance", "classic"),
        "simple": ("", "Empty", "classic"),
    }
    assert listed(node) == everything
    assert listed(node, ["STABLE", " empty "]).keys() == {"stable", "simple"}
    assert listed(node, types=["Classic"]) == everything
    assert listed(node, types=["consumer"]) == listed(node, ["nonsense"]) == {}
    for version in range(6):
        assert len(node.call(ListGroupsRequest(), version).groups) == 3


def test_listing_while_it_loads_or_without_a_topic() -> None:
    node = Node(load=False)
    assert node.call(ListGroupsRequest()).groups == []
    node.coordinator.shards.start_load(1, 1)
    assert node.call(ListGroupsRequest()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    node.coordinator.shards.fail_load(1)
    assert node.call(ListGroupsRequest()).error_code == ErrorCode.NONE
    node.coordinator.partition_count = None
    assert node.call(ListGroupsRequest()) == ListGroupsResponse(groups=[])


@pytest.mark.parametrize("version", range(7))
def test_describing(version: int) -> None:
    node = Node()
    (member,) = form_group(node, 1, "stable")
    joining = join_new(node, "joining").response
    response = node.call(DescribeGroupsRequest(groups=["stable", "joining", "nothing"],
                                               include_authorized_operations=version >= 3), version)
    stable, other, nothing = (next(g for g in response.groups if g.group_id == name)
                              for name in ("stable", "joining", "nothing"))
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == ("Stable", "consumer", "range")
    (described,) = stable.members
    assert described.member_id == member.member_id
    assert (described.client_id, described.client_host) == ("client", "/127.0.0.1")
    assert described.member_metadata[:2] == b"\0\1"
    assert described.member_assignment == f"to {member.member_id}".encode()
    assert (other.group_state, other.protocol_data) == ("CompletingRebalance", "")
    assert [(m.member_id, m.member_metadata) for m in other.members] == [(joining.member_id, b"")]
    assert nothing.group_state == "Dead"
    assert nothing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version == 6 else ErrorCode.NONE)
    assert nothing.error_message == ("Group nothing not found." if version == 6 else None)
    assert stable.authorized_operations == (3400 if version >= 3 else -2**31)


def test_describing_elsewhere() -> None:
    node = Node(load=False)
    (group,) = node.call(DescribeGroupsRequest(groups=["g"])).groups
    assert (group.error_code, group.group_state) == (ErrorCode.NOT_COORDINATOR, "")
    node.coordinator.partition_count = None
    (group,) = node.call(DescribeGroupsRequest(groups=["g"])).groups
    assert group.error_code == ErrorCode.NOT_COORDINATOR
    assert node.call(DescribeGroupsRequest(groups=[])).groups == []


def deleted(node: Node, *groups: str) -> dict[str, int]:
    response = node.call(DeleteGroupsRequest(groups_names=list(groups)))
    assert len(response.results) == len(set(groups))
    return {result.group_id: result.error_code for result in response.results}


def test_deleting() -> None:
    node = Node()
    (member,) = form_group(node, 1, "used")
    commit(node, {("orders", 0): 1, ("orders", 1): 2}, group="simple")
    commit(node, {("orders", 0): 1}, group="kept")
    assert deleted(node, "used", "simple", "nothing", "simple") == {
        "used": ErrorCode.NON_EMPTY_GROUP, "simple": ErrorCode.NONE, "nothing": ErrorCode.GROUP_ID_NOT_FOUND}
    assert listed(node).keys() == {"used", "kept"}
    leave(node, member.member_id, group="used")
    assert deleted(node, "used") == {"used": 0}
    node.kill()
    assert listed(node).keys() == {"kept"}
    assert fetch(node, "simple") == {}
    assert heartbeat(node, member, "used") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_deletion_that_cannot_be_written() -> None:
    node = Node()
    commit(node, {("orders", 0): 1})
    node.logs.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert deleted(node, "g") == {"g": ErrorCode.NOT_COORDINATOR}
    assert fetch(node) == {("orders", 0): 1}


def start_deleting(node: Node, *groups: str) -> Pending:
    """Begin the deletion; the test itself ticks and commits from here on."""
    node.lag = True
    return node.send(DeleteGroupsRequest(groups_names=list(groups)))


def results_of(pending: Pending) -> dict[str, int]:
    return {result.group_id: result.error_code for result in pending.response.results}


def is_due(node: Node) -> bool:
    return (node.coordinator.deadline_ms or 0) <= node.now_ms


def test_a_large_group_is_deleted_in_slices_and_no_client_sees_a_part_of_it() -> None:
    node = Node(1)
    node.topics.topics["orders"] = UUID(int=0xA1), 1_000
    commit(node, {("orders", partition): 1 for partition in range(1_000)}, group="many")
    commit(node, {("orders", 0): 1}, group="other")
    state = node.state_of("many")
    deletion = start_deleting(node, "many", "nothing")
    ticks = 0
    while is_due(node):
        before = state.offsets.committed_count
        commits = [commit(node, {("orders", 0): 1}, group=group) for group in ("many", "other")]
        offsets = node.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="many", topics=None)]))
        again = node.send(DeleteGroupsRequest(groups_names=["many"]))
        joined = join(node, "many")
        node.commit()
        assert [errors_of(each) for each in commits] == [[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS], [0]]
        assert offsets.response.groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert results_of(again) == {"many": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        assert joined.response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert not deletion.answered
        node.coordinator.tick(node.now_ms)
        assert 0 <= before - state.offsets.committed_count <= shards.STEPS_PER_TICK
        ticks += 1
    assert ticks == 1_001 // shards.STEPS_PER_TICK + 1
    assert not deletion.answered, "its last record is not committed"
    node.commit()
    assert results_of(deletion) == {"many": 0, "nothing": ErrorCode.GROUP_ID_NOT_FOUND}
    node.lag = False
    assert errors_of(commit(node, {("orders", 5): 7}, group="third")) == [ErrorCode.NONE]
    node.kill()
    assert listed(node).keys() == {"other", "third"}
    assert len(form_group(node, 1, "many")) == 1
    assert fetch(node, "many") == {}


@pytest.mark.parametrize("ticks", range(4))
def test_a_deletion_that_breaks_off_can_be_repeated(ticks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion can stop with any part of it in the log. Until the next attempt the group can be used."""
    monkeypatch.setattr(shards, "STEPS_PER_TICK", 3)
    node = Node()
    committed = {("orders", partition): 1 for partition in range(8)}
    commit(node, committed)
    start_deleting(node, "g")
    for _ in range(ticks):
        node.coordinator.tick(node.now_ms)
    node.lag = False
    node.kill()
    assert listed(node).keys() == ({"g"} if ticks < 3 else set())
    assert fetch(node) == dict(list(committed.items())[3 * ticks:])
    assert errors_of(commit(node, {("orders", 0): 5})) == [0]
    assert deleted(node, "g") == {"g": 0}
    node.kill()
    assert not listed(node)


def test_a_deletion_whose_rest_cannot_be_written_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "STEPS_PER_TICK", 3)
    node = Node(1)
    commit(node, {("orders", partition): 1 for partition in range(4)}, group="small")
    commit(node, {("orders", partition): 1 for partition in range(8)}, group="large")
    deletion = start_deleting(node, "small", "large")
    for _ in range(2):
        node.coordinator.tick(node.now_ms)
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    node.coordinator.tick(node.now_ms)
    assert not is_due(node)
    node.commit()
    assert results_of(deletion) == {"small": 0, "large": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    node.logs.error = None
    node.lag = False
    assert len(fetch(node, "large")) == 7
    assert errors_of(commit(node, {("orders", 0): 5}, group="small")) == [0]
    assert deleted(node, "large") == {"large": 0}
    assert listed(node).keys() == {"small"}


def test_a_deletion_of_a_group_that_expires_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "STEPS_PER_TICK", 3)
    node = Node(1)
    commit(node, {("orders", partition): 1 for partition in range(2)})
    node.now_ms += WEEK_MS
    deletion = start_deleting(node, "g")
    node.coordinator.tick(node.now_ms)
    assert node.group("g") is None
    assert is_due(node), "the deletion has not checked it yet"
    node.coordinator.tick(node.now_ms)
    node.commit()
    assert results_of(deletion) == {"g": 0}
    node.lag = False
    assert errors_of(commit(node, {("orders", 0): 5})) == [0]
    node.kill()
    assert fetch(node) == {("orders", 0): 5}


def test_a_deletion_fails_when_another_node_becomes_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "STEPS_PER_TICK", 3)
    node = Node(1)
    commit(node, {("orders", partition): 1 for partition in range(8)})
    deletion = start_deleting(node, "g", "nothing")
    node.coordinator.tick(node.now_ms)
    node.coordinator.shards.resign(0, node.epoch + 1)
    assert results_of(deletion) == {"g": ErrorCode.NOT_COORDINATOR, "nothing": ErrorCode.NOT_COORDINATOR}


# -------------------------------------------------------------------- expiry

def test_offsets_of_a_simple_group_expire_after_their_commit() -> None:
    node = Node()
    commit(node, {("orders", 0): 1})
    node.advance(DAY_MS)
    commit(node, {("orders", 1): 2})
    node.advance(WEEK_MS - DAY_MS - 1)
    assert len(fetch(node)) == 2
    node.advance(600_000)
    assert fetch(node) == {("orders", 1): 2}
    node.advance(DAY_MS + 600_000)
    assert node.group("g") is None
    node.kill()
    assert node.group("g") is None


def test_offsets_of_a_group_that_had_members_expire_after_the_last_one_left() -> None:
    node = Node()
    (member,) = form_group(node, 1, session_ms=1_800_000)
    commit(node, {("orders", 0): 1, ("clicks", 0): 1}, member=member.member_id, generation=1)
    for _ in range(520):
        heartbeat(node, member)
        node.advance(1_700_000)
    assert fetch(node) == {("orders", 0): 1}        # nobody subscribes to the other
    leave(node, member.member_id)
    node.kill()
    node.advance(WEEK_MS - 1)
    assert fetch(node) == {("orders", 0): 1}
    node.advance(600_001)
    assert node.group("g") is None


def test_a_group_of_another_type_keeps_its_offsets_while_it_has_members() -> None:
    node = Node()
    (member,) = form_group(node, 1, protocol_type="connect", session_ms=1_800_000)
    commit(node, {("orders", 0): 1}, member=member.member_id, generation=1)
    for _ in range(420):
        heartbeat(node, member)
        node.advance(1_700_000)
    assert fetch(node) == {("orders", 0): 1}


def test_a_commit_may_bring_its_own_retention() -> None:
    node = Node()
    commit(node, {("orders", 0): 1}, retention_ms=1_000, version=4)
    commit(node, {("orders", 1): 1}, retention_ms=2 * WEEK_MS, version=4)
    node.advance(600_000)
    assert fetch(node) == {("orders", 1): 1}
    node.advance(WEEK_MS + 600_000)
    assert fetch(node) == {("orders", 1): 1}


def test_a_group_without_offsets_goes_at_once_and_one_with_members_stays() -> None:
    node = Node()
    (member,) = form_group(node, 1, "left")
    leave(node, member.member_id, group="left")
    (member,) = form_group(node, 1, "used", session_ms=1_800_000)
    node.advance(600_000)
    assert listed(node).keys() == {"used"}


def test_expiry_works_in_slices_and_survives_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "STEPS_PER_TICK", 3)
    node = Node(1)
    for number in range(10):
        commit(node, {("orders", partition): 1 for partition in range(5)}, group=f"g{number}")
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    node.advance(WEEK_MS)
    assert len(listed(node)) == 10
    node.logs.error = None
    before = len(node.logs.records[0])
    node.advance(600_000)
    assert not listed(node)
    assert len(node.logs.records[0]) - before == 10 * (5 + 1)
    state = node.coordinator.shards.serving(0, node.now_ms)[1]
    assert not state.offsets.groups()


def test_one_tick_checks_few_groups_and_offsets_of_all_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound holds for any number of offsets in one group."""
    node = Node(3)
    node.topics.topics["orders"] = UUID(int=0xA1), 1_000
    for number in range(500):
        commit(node, {("orders", 0): 1}, group=f"g{number}")
    commit(node, {("orders", partition): 1 for partition in range(1_000)}, group="many")
    looked_at: list[steps.Unit] = []
    expire = expiry.expire

    def noted(state: GroupShard, units: Sequence[steps.Unit]) -> None:
        looked_at.extend(units)
        expire(state, units)

    monkeypatch.setattr(expiry, "expire", noted)
    node.now_ms += WEEK_MS
    ticks = 0
    while (node.coordinator.deadline_ms or 0) <= node.now_ms:
        before = len(looked_at)
        node.coordinator.tick(node.now_ms)
        node.commit()
        assert len(looked_at) - before <= shards.STEPS_PER_TICK
        ticks += 1
    assert sorted(looked_at, key=repr) == sorted([
        *((f"g{number}", key) for number in range(500) for key in (("orders", 0), None)),
        *(("many", ("orders", partition)) for partition in range(1_000)), ("many", None)], key=repr)
    assert ticks == 2_001 // shards.STEPS_PER_TICK + 1
    assert not listed(node)


def test_settings_change_while_running() -> None:
    node = Node()
    commit(node, {("orders", 0): 1})
    node.coordinator.config = node.config.__class__(offsets_retention_ms=60_000)
    assert node.coordinator.config.offsets_retention_ms == 60_000
    node.advance(600_000)
    assert node.group("g") is None


def test_offsets_of_deleted_partitions_go() -> None:
    node = Node()
    commit(node, {("orders", 0): 1, ("orders", 1): 1, ("clicks", 0): 1}, group="a")
    commit(node, {("orders", 0): 1}, group="b")
    node.coordinator.partitions_deleted([("orders", 0), ("orders", 5)], node.now_ms)
    node.advance(0)
    assert fetch(node, "a") == {("orders", 1): 1, ("clicks", 0): 1}
    assert fetch(node, "b") == {}
    node.logs.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.coordinator.partitions_deleted([("orders", 1)], node.now_ms)
    node.advance(0)
    node.logs.error = None
    assert fetch(node, "a") == {("orders", 1): 1, ("clicks", 0): 1}


def test_offsets_of_deleted_partitions_are_removed_in_slices_and_those_of_the_next_topic_stay() -> None:
    node = Node(1)
    for number in range(600):
        commit(node, {("orders", 0): 1, ("clicks", 0): 1}, group=f"g{number}")
    state = node.coordinator.shards.serving(0, node.now_ms)[1]
    node.lag = True     # the test ticks itself
    node.coordinator.partitions_deleted([("orders", 0)], node.now_ms)
    node.coordinator.partitions_deleted([("clicks", 0)], node.now_ms)
    ticks = 0
    while (node.coordinator.deadline_ms or 0) <= node.now_ms:
        before = state.offsets.committed_count
        node.coordinator.tick(node.now_ms)
        node.commit()
        assert before - state.offsets.committed_count <= shards.STEPS_PER_TICK
        if ticks == 0:
            assert not state.offsets.get("g0", "orders", 0)
            commit(node, {("orders", 0): 7}, group="g0")
        ticks += 1
    assert ticks > 2 * 2 * 600 // shards.STEPS_PER_TICK
    node.lag = False
    assert fetch(node, "g0") == {("orders", 0): 7}
    assert state.offsets.committed_count == 1


def test_an_offset_for_a_new_topic_of_the_same_name_survives_the_deletion_of_the_old_one() -> None:
    """The deletion visits groups one after the other; a commit that overtakes it belongs to the new topic."""
    node = Node(1)
    commit(node, {("orders", 0): 1}, group="a")
    node.lag = True
    node.coordinator.partitions_deleted([("orders", 0)], node.now_ms)
    commit(node, {("orders", 0): 7}, group="a")
    node.commit()
    node.lag = False
    node.advance(0)
    assert fetch(node, "a") == {("orders", 0): 7}


# -------------------------------------------------------------------- streams groups that Kafka left

def left(node: Node, *records: tuple[Any, Any]) -> None:
    """Append records of a streams group, as Kafka left them in the log, and load it."""
    for key, value in records:
        partition = node.coordinator.shards.partition_for(key.group_id)
        node.logs.append(partition, [Record(GROUPS.encode_key(key), GROUPS.encode_value(value, 0), node.now_ms)])
    node.logs.committed = [len(log) for log in node.logs.records]
    node.kill()


STREAMS_GROUP = StreamsGroupMetadataKey(group_id="g"), StreamsGroupMetadataValue(epoch=2)
STREAMS_MEMBER = (StreamsGroupMemberMetadataKey(group_id="g", member_id="m"),
                  StreamsGroupMemberMetadataValue(rebalance_timeout_ms=1_000))


def test_a_streams_group_with_members_is_no_classic_group() -> None:
    node = Node()
    left(node, STREAMS_MEMBER, STREAMS_GROUP)
    assert listed(node) == {"g": ("streams", "NotReady", "streams")}
    assert join(node).response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert errors_of(commit(node, {("orders", 0): 1})) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert deleted(node, "g") == {"g": ErrorCode.NON_EMPTY_GROUP}
    (group,) = node.call(DescribeGroupsRequest(groups=["g"])).groups
    assert (group.error_code, group.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a classic group.")
    (answer,) = node.call(OffsetFetchRequest(groups=[
        OffsetFetchRequestGroup(group_id="g", member_id="x", member_epoch=1, topics=None)])).groups
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_one_gives_way_to_a_classic_member_and_keeps_its_offsets() -> None:
    node = Node()
    left(node, STREAMS_GROUP)
    assert errors_of(commit(node, {("orders", 0): 5})) == [0]
    assert listed(node) == {"g": ("streams", "Empty", "streams")}
    assert join(node, member="m").response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    form_group(node, 1)
    assert isinstance(node.group("g"), ClassicGroup)
    assert fetch(node) == {("orders", 0): 5}
    node.kill()
    assert node.group("g").state is GroupState.STABLE
    assert fetch(node) == {("orders", 0): 5}


def test_an_empty_one_expires() -> None:
    node = Node()
    left(node, STREAMS_GROUP)
    commit(node, {("orders", 0): 5})
    node.advance(WEEK_MS + 600_000)
    assert not listed(node)
    node.kill()
    assert not listed(node)


def test_a_share_group_has_no_offsets_here() -> None:
    node = Node()
    key, value = ShareGroupMetadataKey(group_id="g"), ShareGroupMetadataValue(epoch=2)
    node.logs.append(node.coordinator.shards.partition_for("g"), [
        Record(GROUPS.encode_key(key), GROUPS.encode_value(value, 0), 0)])
    node.kill()
    assert listed(node) == {"g": ("share", "Empty", "share")}
    assert join(node).response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert errors_of(commit(node, {("orders", 0): 5})) == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert fetch(node) == {}


def test_offsets_may_come_before_the_group_after_compaction() -> None:
    node = Node()
    commit(node, {("orders", 0): 5})
    left(node, STREAMS_GROUP)
    assert listed(node) == {"g": ("streams", "Empty", "streams")}
    assert fetch(node) == {("orders", 0): 5}


def test_records_of_a_later_kafka_are_skipped() -> None:
    node = Node()
    commit(node, {("orders", 0): 5})
    partition = node.coordinator.shards.partition_for("g")
    node.logs.append(partition, [Record(b"\0\x63\0\1x", b"\0\0", 0)])
    node.kill()
    assert fetch(node) == {("orders", 0): 5}
