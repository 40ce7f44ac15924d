"""StreamsGroupHeartbeat and StreamsGroupDescribe: members join, share tasks, are fenced, expire and leave."""

from typing import Any

import pytest

from kraft.broker.groups.streams import assigning, heartbeats
from kraft.broker.groups.streams.cluster import StreamsGroupConfig
from kraft.broker.groups.streams.configuring import StatusCode
from kraft.broker.groups.streams.group import GroupState
from kraft.broker.groups.streams.heartbeats import TOPOLOGY_MAX
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kraft.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kraft.protocol.messages.streams_group_heartbeat_request import (
    Endpoint,
    KeyValue,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.broker.groups.streams.streams_client import (
    CHANGELOG,
    INTERNAL,
    REPARTITION,
    TASKS,
    Member,
    StreamsNode,
    copartition,
    group_of,
    ids,
    settle,
    stable,
    topology,
)
from tests.broker.node import TOPICS


def all_active(members: list[Member]) -> dict[str, tuple[int, ...]]:
    """Return the active tasks of all members; fails when two have the same."""
    found: dict[str, list[int]] = {}
    for member in members:
        for subtopology, partitions in member.active.items():
            found.setdefault(subtopology, []).extend(partitions)
    assert all(len(set(partitions)) == len(partitions) for partitions in found.values())
    return {subtopology: tuple(sorted(partitions)) for subtopology, partitions in sorted(found.items())}


def size(member: Member) -> int:
    return sum(map(len, member.active.values()))


# -------------------------------------------------------------------- joining and rebalancing

def test_the_first_members_wait_and_share_the_first_target() -> None:
    node = StreamsNode()
    first, second = Member(node, "a"), Member(node, "b")
    for member in (first, second):
        assert member.join() == ErrorCode.NONE
        assert (member.active, member.statuses) == ({}, [StatusCode.ASSIGNMENT_DELAYED])
    node.advance(2_999)
    assert group_of(node).state is GroupState.ASSIGNING
    node.advance(1)
    settle(node, first, second)
    assert (size(first), size(second)) == (8, 8)
    assert all_active([first, second]) == TASKS
    assert (group_of(node).state, first.statuses, first.epoch) == (GroupState.STABLE, [], 3)


def test_without_a_delay_the_first_member_has_all_tasks_at_once() -> None:
    node = StreamsNode()
    node.topics.configs["g"] = {"streams.initial.rebalance.delay.ms": "0"}
    member = Member(node, "a")
    assert member.join() == ErrorCode.NONE
    assert all_active([member]) == TASKS
    assert member.response.heartbeat_interval_ms == 5_000


def test_a_member_gets_a_task_when_the_other_has_given_it_up() -> None:
    node, [first] = stable("a")
    second = Member(node, "b")
    assert second.join() == ErrorCode.NONE
    kept = dict(first.active)
    assert first.beat() == ErrorCode.NONE       # it learns what to give up
    assert size(first) == 8
    assert second.beat() == ErrorCode.NONE
    assert second.active == {}, "the first member has not said that it gave them up"
    assert group_of(node).state is GroupState.RECONCILING
    settle(node, first, second)
    assert all_active([first, second]) == TASKS
    assert all(index in kept[each] for each, partitions in first.active.items() for index in partitions)


def test_a_member_that_does_not_give_up_its_tasks_is_removed() -> None:
    node, [first] = stable("a")
    second = Member(node, "b")
    second.join()
    for _ in range(3):
        assert first.send(active_tasks=None, standby_tasks=None, warmup_tasks=None).error_code == ErrorCode.NONE
        assert second.beat() == ErrorCode.NONE
        node.advance(10_000)
    assert first.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    settle(node, second)
    assert all_active([second]) == TASKS


def test_a_member_that_is_silent_or_leaves_gives_its_tasks_to_the_others() -> None:
    node, [first, second, third] = stable("a", "b", "c")
    for _ in range(5):
        node.advance(10_000)
        assert (first.beat(), second.beat()) == (ErrorCode.NONE, ErrorCode.NONE)
    assert third.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert second.leave() == ErrorCode.NONE
    settle(node, first)
    assert all_active([first]) == TASKS
    assert first.leave() == ErrorCode.NONE
    assert group_of(node).state is GroupState.EMPTY


def test_standby_tasks_are_on_another_process_than_the_active_one() -> None:
    node, [first, second] = stable("a@p", "b@q")
    node.topics.configs["g"] = {"streams.num.standby.replicas": "1"}
    settle(node, first, second)
    for member, other in ((first, second), (second, first)):
        stateful = {"1": other.active["1"]} if "1" in other.active else {}
        assert member.standby == stateful, "only the second subtopology has a state"
    node.topics.configs["g"] = {}
    settle(node, first, second)
    assert (first.standby, second.standby) == ({}, {})


def test_a_standby_task_becomes_active_on_the_same_process() -> None:
    """The thread that has the state must give it up before another thread of its process opens it."""
    node, members = stable("a@p", "b@q", "c@p")
    node.topics.configs["g"] = {"streams.num.standby.replicas": "1"}
    settle(node, *members)
    first, second, third = members
    held = {index for member in (first, third) for index in member.standby.get("1", [])}
    assert held == set(second.active["1"])
    assert second.leave() == ErrorCode.NONE
    settle(node, first, third)
    assert all_active([first, third]) == TASKS
    assert (first.standby, third.standby) == ({}, {})


def test_a_large_group_gets_its_target_between_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assigning, "AT_ONCE", 3)
    node, [first, second] = stable("a", "b")
    assert all_active([first, second]) == TASKS
    third = Member(node, "c")
    assert third.join() == ErrorCode.NONE
    settle(node, first, second, third)
    assert all_active([first, second, third]) == TASKS


def test_a_target_waits_for_the_assignment_interval() -> None:
    node, [first] = stable("a")
    node.topics.configs["g"] = {"streams.assignment.interval.ms": "15000"}
    second, third = Member(node, "b"), Member(node, "c")
    node.advance(15_000)
    first.beat()
    assert second.join() == ErrorCode.NONE
    assert third.join() == ErrorCode.NONE
    assert third.statuses == [StatusCode.ASSIGNMENT_DELAYED]
    assert "interval" in third.response.status[0].status_detail
    node.advance(15_000)
    settle(node, first, second, third)
    assert all_active([first, second, third]) == TASKS


# -------------------------------------------------------------------- topics

def test_missing_internal_topics_are_named_until_they_exist() -> None:
    node = StreamsNode(has_internal=False)
    member = Member(node, "a")
    assert member.join() == ErrorCode.NONE
    assert member.statuses == [StatusCode.ASSIGNMENT_DELAYED, StatusCode.MISSING_INTERNAL_TOPICS]
    assert {each.name: (each.partitions, each.configs) for each in node.missing} == {
        REPARTITION: (8, ()), CHANGELOG: (8, (("cleanup.policy", "compact"),))}
    node.advance(3_000)
    assert member.beat() == ErrorCode.NONE
    assert (group_of(node).state, member.active) == (GroupState.NOT_READY, {})
    assert len(node.missing) == 2
    node.topics.change(REPARTITION, *INTERNAL[REPARTITION])
    member.beat()
    assert [each.name for each in node.missing] == [CHANGELOG]
    node.topics.change(CHANGELOG, *INTERNAL[CHANGELOG])
    settle(node, member)
    assert (all_active([member]), node.missing, member.statuses) == (TASKS, (), [])


def test_a_deleted_source_topic_takes_the_tasks_away_until_it_is_back() -> None:
    node, [member] = stable("a")
    node.topics.change("orders", None)
    settle(node, member)
    assert (member.active, member.statuses) == ({}, [StatusCode.MISSING_SOURCE_TOPICS])
    assert group_of(node).state is GroupState.NOT_READY
    node.topics.change("orders", *TOPICS["orders"])
    settle(node, member)
    assert all_active([member]) == TASKS


def test_an_internal_topic_with_another_number_of_partitions_is_reported() -> None:
    node = StreamsNode()
    node.topics.change(CHANGELOG, INTERNAL[CHANGELOG][0], 3)
    member = Member(node, "a")
    assert member.join() == ErrorCode.NONE
    assert StatusCode.INCORRECTLY_PARTITIONED_TOPICS in member.statuses
    assert "expected 8, found 3" in member.response.status[-1].status_detail


# -------------------------------------------------------------------- refusals

@pytest.mark.parametrize(("changes", "message"), [
    ({"member_id": ""}, "MemberId can't be empty."),
    ({"group_id": ""}, "GroupId can't be empty."),
    ({"rack_id": ""}, "RackId can't be empty."),
    ({"instance_id": "i"}, "Static membership is not yet supported."),
    ({"task_offsets": [TaskOffset()]}, "TaskOffsets are not supported yet."),
    ({"warmup_tasks": ids({"0": [1]})}, "WarmupTasks are not supported yet."),
    ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
    ({"active_tasks": ids({"0": [1]})}, "ActiveTasks must be empty when (re-)joining."),
    ({"topology": None}, "Topology must be non-null when (re-)joining."),
    ({"member_epoch": -2}, "InstanceId can't be null."),
    ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
    ({"member_epoch": 1}, "Topology can only be provided when (re-)joining."),
    ({"topology": None, "member_epoch": 1, "standby_tasks": None},
     "If one task-type is non-null, all must be non-null."),
    ({"topology": topology(source_topic_regex=["a.*"])},
     "Regular expressions for source topics are not supported yet."),
    ({"topology": Topology(subtopologies=[Subtopology(source_topics=["t"] * TOPOLOGY_MAX)])}, "Topology has more than"),
])
def test_a_malformed_request_is_refused(changes: dict[str, Any], message: str) -> None:
    node = StreamsNode()
    member = Member(node, "a")
    response = member.send(**{"topology": topology(), "rebalance_timeout_ms": 1, "process_id": "p", **changes})
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message.startswith(message)
    assert node.group("g") is None


@pytest.mark.parametrize("large", [
    {"source_topics": ["t"] * TOPOLOGY_MAX},
    {"state_changelog_topics": [TopicInfo(name="t")] * TOPOLOGY_MAX},
    {"repartition_source_topics": [TopicInfo(topic_configs=[KeyValue()] * TOPOLOGY_MAX)]},
    {"copartition_groups": [copartition([0] * TOPOLOGY_MAX, [])]}])
def test_a_topology_that_is_too_large_is_not_converted(
        large: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The conversion of a hundred thousand topics takes hundreds of milliseconds."""
    monkeypatch.setattr(heartbeats, "topology_of", None)
    response = Member(StreamsNode(), "a").send(
        topology=Topology(subtopologies=[Subtopology(**large)]), rebalance_timeout_ms=1, process_id="p")
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message.startswith("Topology has more than 2000")


@pytest.mark.parametrize(("changes", "message"), [
    ({"state_changelog_topics": [TopicInfo(name=CHANGELOG, partitions=2)]}, "must have an undefined partition count"),
    ({"subtopology_id": "0"}, "same id"),
    ({"copartition_groups": [copartition([0], [0])]}, "does not have"),
    ({"repartition_source_topics": []}, "No source topics"),
    ({"repartition_source_topics": [TopicInfo(name="unwritten")]}, "never used as a sink topic"),
    ({"repartition_source_topics": [TopicInfo(name="loop")], "repartition_sink_topics": ["loop"]}, "loops"),
])
def test_a_topology_that_no_topics_could_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    node = StreamsNode()
    member = Member(node, "a")
    assert member.join(topology=topology(**changes)) == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert message in member.response.error_message
    assert node.group("g") is None


def test_another_topology_is_refused_and_an_older_one_is_stale() -> None:
    node = StreamsNode()
    first, second = Member(node, "a"), Member(node, "b")
    assert first.join(topology=topology(epoch=1)) == ErrorCode.NONE
    assert second.join(topology=topology(epoch=2)) == ErrorCode.INVALID_REQUEST
    assert second.join(topology=topology(epoch=1, source_topics=["clicks"])) == ErrorCode.INVALID_REQUEST
    assert second.join(topology=topology(epoch=0)) == ErrorCode.NONE
    assert second.statuses[0] == StatusCode.STALE_TOPOLOGY
    assert second.beat() == ErrorCode.NONE
    assert second.statuses[0] == StatusCode.STALE_TOPOLOGY


def test_members_of_other_epochs_and_tasks_are_refused() -> None:
    node, [member] = stable("a")
    epoch = member.epoch
    assert member.send(member_epoch=epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert member.send(member_epoch=epoch - 1, standby_tasks=ids({"0": [1]})).error_code == (
        ErrorCode.FENCED_MEMBER_EPOCH), "it names a task that it does not have"
    assert member.send(active_tasks=ids({"0": [8]})).error_code == ErrorCode.INVALID_REQUEST
    assert member.send(active_tasks=ids({"7": [0]})).error_code == ErrorCode.INVALID_REQUEST
    assert Member(node, "x").send(member_epoch=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert Member(node, "x", group="none").send(member_epoch=1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert member.beat() == ErrorCode.NONE


def test_a_member_whose_answer_was_lost_repeats_its_epoch_and_learns_its_tasks() -> None:
    node = StreamsNode()
    member = Member(node, "a")
    member.join()
    node.advance(3_000)
    lost = member.send()
    assert lost.member_epoch > member.epoch
    assert member.beat() == ErrorCode.NONE
    assert all_active([member]) == TASKS


def test_a_full_group_refuses_a_member() -> None:
    node = StreamsNode(streams=StreamsGroupConfig(max_size=1))
    first = Member(node, "a")
    assert first.join() == ErrorCode.NONE
    assert Member(node, "b").join() == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.join() == ErrorCode.NONE


# -------------------------------------------------------------------- what members learn of each other

def test_members_with_endpoints_learn_the_owner_of_each_partition() -> None:
    node, [first, second] = stable("a", "b")
    first.beat(user_endpoint=Endpoint(host="one", port=1))
    second.beat(user_endpoint=Endpoint(host="two", port=2))
    settle(node, first, second)
    shown = first.send(endpoint_information_epoch=-1)
    found = {each.user_endpoint.host: {topic.topic: list(topic.partitions) for topic in each.active_partitions}
             for each in shown.partitions_by_user_endpoint}
    inputs = {"0": "orders", "1": REPARTITION}
    assert found == {name: {inputs[each]: partitions for each, partitions in member.active.items()}
                     for name, member in (("one", first), ("two", second))}
    assert first.send(endpoint_information_epoch=shown.endpoint_information_epoch).partitions_by_user_endpoint is None


def test_a_shutdown_of_the_application_reaches_all_members_until_they_have_left() -> None:
    _, [first, second] = stable("a", "b")
    assert first.beat(shutdown_application=True) == ErrorCode.NONE
    assert second.beat() == ErrorCode.NONE
    assert second.statuses == [StatusCode.SHUTDOWN_APPLICATION]
    assert "a" in second.response.status[0].status_detail
    first.leave()
    second.leave()
    assert first.join() == ErrorCode.NONE
    assert StatusCode.SHUTDOWN_APPLICATION not in first.statuses


# -------------------------------------------------------------------- descriptions, offsets, other kinds

def test_a_group_is_described() -> None:
    node, [first, second] = stable("a@p", "b@q")
    first.beat(client_tags=[KeyValue(key="zone", value="x")])
    settle(node, first, second)
    [group, none] = node.call(StreamsGroupDescribeRequest(group_ids=["g", "none"])).groups
    assert (group.error_code, group.group_state, group.group_epoch == group.assignment_epoch) == (
            ErrorCode.NONE, "Stable", True)
    assert [(each.subtopology_id, list(each.source_topics), [(topic.name, topic.partitions) for topic in (
        *each.repartition_source_topics, *each.state_changelog_topics)]) for each in group.topology.subtopologies] == [
            ("0", ["orders"], []), ("1", [], [(REPARTITION, 8), (CHANGELOG, 8)])]
    assert [(each.member_id, each.process_id) for each in group.members] == [("b", "q"), ("a", "p")]
    assert {each.subtopology_id: list(each.partitions) for each in group.members[1].assignment.active_tasks
            } == first.active
    assert [(each.key, each.value) for each in group.members[1].client_tags] == [("zone", "x")]
    assert none.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    [listed] = node.call(ListGroupsRequest(states_filter=[], types_filter=["Streams"])).groups
    assert (listed.group_id, listed.protocol_type, listed.group_type, listed.group_state) == (
        "g", "streams", "streams", "Stable")


def commit(node: StreamsNode, member: str, epoch: int, topic: str = "orders", partition: int = 0) -> int:
    [found] = node.call(OffsetCommitRequest(
        group_id="g", member_id=member, generation_id_or_member_epoch=epoch, topics=[OffsetCommitRequestTopic(
            name=topic, partitions=[OffsetCommitRequestPartition(partition_index=partition, committed_offset=5)])]),
        9).topics
    error: int = found.partitions[0].error_code
    return error


def test_members_commit_in_their_epoch_or_since_they_have_the_task() -> None:
    node, [first] = stable("a")
    epoch = first.epoch
    assert commit(node, "a", epoch) == ErrorCode.NONE
    assert commit(node, "a", epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(node, "x", epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(node, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    second = Member(node, "b")
    second.join()
    settle(node, first, second)
    assert first.epoch > epoch
    inputs = {"0": "orders", "1": REPARTITION}
    (kept, [index, *_]), (given, [other, *_]) = next(iter(first.active.items())), next(iter(second.active.items()))
    assert commit(node, "a", epoch, inputs[kept], index) == ErrorCode.NONE
    assert commit(node, "a", epoch, inputs[given], other) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(node, "b", epoch, inputs[given], other) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(node, "a", epoch, topic="clicks") == ErrorCode.STALE_MEMBER_EPOCH
    for member_epoch, error in ((first.epoch, ErrorCode.NONE), (epoch, ErrorCode.STALE_MEMBER_EPOCH)):
        [fetched] = node.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(
            group_id="g", member_id="a", member_epoch=member_epoch, topics=None)])).groups
        assert fetched.error_code == error


def test_offsets_of_topics_that_are_read_do_not_expire() -> None:
    node, [member] = stable("a", offsets_retention_ms=120_000, offsets_retention_check_interval_ms=30_000)
    assert commit(node, "a", member.epoch) == ErrorCode.NONE
    for _ in range(10):
        node.advance(40_000)
        assert member.beat() == ErrorCode.NONE
    state = node.state_of("g")
    assert state.offsets.get("g", "orders", 0) is not None
    member.leave()
    node.advance(200_000)
    assert node.group("g") is None


def test_an_empty_group_gives_way_to_a_classic_one_and_back() -> None:
    node, [member] = stable("a")
    join = JoinGroupRequest(group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
                            protocol_type="consumer", protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")])
    assert node.call(join, 3).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    member.leave()
    assert node.send(join, 3).response.error_code == ErrorCode.NONE
    assert member.join() == ErrorCode.GROUP_ID_NOT_FOUND
    node.advance(60_000)
    assert member.join() == ErrorCode.NONE
    [result] = node.call(DeleteGroupsRequest(groups_names=["g"])).results
    assert result.error_code == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    [result] = node.call(DeleteGroupsRequest(groups_names=["g"])).results
    assert result.error_code == ErrorCode.NONE
    node.kill()
    assert node.group("g") is None


def test_a_new_coordinator_continues_where_the_previous_one_was() -> None:
    node, [first, second] = stable("a", "b")
    before = dict(first.active)
    node.kill()
    settle(node, first, second)
    assert first.active == before
    node.advance(46_000)
    assert first.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_tasks_named_twice_count_once() -> None:
    _, [member] = stable("a")
    named = [TaskIds(subtopology_id="0", partitions=[1, 1]), TaskIds(subtopology_id="0", partitions=[0])]
    assert member.send(active_tasks=named).error_code == ErrorCode.NONE
