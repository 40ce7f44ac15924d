"""OffsetCommit, OffsetFetch, OffsetDelete."""

from typing import Any
from uuid import UUID

import pytest

from kraft.broker.coordinator.shard import StoredRecord
from kraft.broker.groups.classic.group import GroupState
from kraft.broker.groups.group_records import OffsetReplay, decode
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.broker.groups.group_client import (
    commit,
    errors_of,
    fetch,
    form_group,
    join,
    join_new,
    leave,
    subscription,
    sync,
)
from tests.broker.node import TOPICS, Node

# -------------------------------------------------------------------- OffsetCommit

@pytest.mark.parametrize("version", range(2, 11))
def test_a_commit_without_a_group(version: int) -> None:
    """The commit creates a simple group, which has no record of its own."""
    node = Node()
    done = commit(node, {("orders", 1): 7, ("clicks", 0): 9}, version=version, metadata="m")
    assert errors_of(done) == [0, 0]
    assert node.group("g").is_simple
    assert fetch(node) == {("orders", 1): 7, ("clicks", 0): 9}
    node.kill()
    assert node.group("g").is_simple
    assert fetch(node) == {("orders", 1): 7, ("clicks", 0): 9}
    stored = node.state_of("g").offsets.get("g", "orders", 1)
    assert (stored.metadata, stored.topic_id, stored.commit_timestamp_ms) == ("m", TOPICS["orders"][0], node.now_ms)


def test_members_commit_in_their_generation() -> None:
    node = Node()
    leader, follower = form_group(node, 2)
    member = {"member": follower.member_id, "generation": 2}
    offsets = {("orders", 0): 1}
    assert errors_of(commit(node, offsets, **member)) == [ErrorCode.NONE]
    assert errors_of(commit(node, offsets)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert errors_of(commit(node, offsets, member="nobody", generation=2)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert errors_of(commit(node, offsets, member=follower.member_id, generation=1)) == [ErrorCode.ILLEGAL_GENERATION]
    assert errors_of(commit(node, offsets, member=follower.member_id)) == [ErrorCode.ILLEGAL_GENERATION]
    assert errors_of(commit(node, offsets, **member, instance="red")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    newcomer = join_new(node)
    assert errors_of(commit(node, offsets, **member)) == [ErrorCode.NONE]        # the last chance before it joins again
    joined = [join(node, member=m.member_id) for m in (leader, follower)]
    refused = commit(node, offsets, member=follower.member_id, generation=3)
    assert errors_of(refused) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert newcomer.response.generation_id == joined[0].response.generation_id == 3


@pytest.mark.parametrize(("version", "error"), [
    (8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND), (10, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_commit_of_a_member_to_a_group_that_does_not_exist(version: int, error: int) -> None:
    node = Node()
    assert errors_of(commit(node, {("orders", 0): 1}, member="m", generation=1, version=version)) == [error]
    assert node.group("g") is None


def test_topics_that_do_not_exist() -> None:
    node = Node()
    done = node.call(OffsetCommitRequest(group_id="g", topics=[
        OffsetCommitRequestTopic(name="nothing", partitions=[OffsetCommitRequestPartition(partition_index=0)]),
        OffsetCommitRequestTopic(name="orders", partitions=[
            OffsetCommitRequestPartition(partition_index=0, committed_offset=4),
            OffsetCommitRequestPartition(partition_index=8, committed_offset=4)]),
    ]), 9)
    found = {(topic.name, p.partition_index): p.error_code for topic in done.topics for p in topic.partitions}
    assert found == {
        ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ("orders", 8): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("orders", 0): ErrorCode.NONE}
    assert len(done.topics) == 2
    by_id = node.call(OffsetCommitRequest(group_id="other", topics=[
        OffsetCommitRequestTopic(topic_id=UUID(int=5), partitions=[OffsetCommitRequestPartition(partition_index=0)])]))
    assert by_id.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert node.group("other") is None


def test_metadata_is_limited_in_the_units_of_java() -> None:
    node = Node(offset_metadata_max_bytes=4)
    assert errors_of(commit(node, {("orders", 0): 1}, metadata="abcd")) == [ErrorCode.NONE]
    assert errors_of(commit(node, {("orders", 0): 2}, metadata="abcde")) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert errors_of(commit(node, {("orders", 0): 3}, metadata="\U0001f600\U0001f600")) == [ErrorCode.NONE]
    too_long = commit(node, {("orders", 0): 4}, metadata="\U0001f600\U0001f600a")
    assert errors_of(too_long) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert fetch(node) == {("orders", 0): 3}


def test_a_failed_append_is_reported_and_nothing_is_committed() -> None:
    node = Node()
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert errors_of(commit(node, {("orders", 0): 1})) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert node.group("g") is None
    assert fetch(node, keys=[("orders", 0)]) == {("orders", 0): -1}


def test_commits_in_flight_keep_their_order_and_stay_unseen_until_they_are_committed() -> None:
    node = Node(1, lag=True)
    pending = [commit(node, {("orders", 0): offset}) for offset in (1, 2, 3)]
    read = node.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]))
    assert not any(one.answered for one in [*pending, read])
    node.commit(0, 2)
    assert [one.answered for one in [*pending, read]] == [True, True, False, False]
    node.commit()
    assert read.response.groups[0].topics[0].partitions[0].committed_offset == 3


def test_a_commit_that_is_not_committed_in_time() -> None:
    node = Node(lag=True)
    pending = commit(node, {("orders", 0): 1})
    node.advance(5_000)
    assert errors_of(pending) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


# -------------------------------------------------------------------- OffsetFetch

@pytest.mark.parametrize("version", range(1, 8))
def test_fetching_from_one_group(version: int) -> None:
    node = Node()
    commit(node, {("orders", 1): 7}, metadata="m")
    request = OffsetFetchRequest(group_id="g", topics=[
        OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1]),
        OffsetFetchRequestTopic(name="nothing", partition_indexes=[5])])
    answer = node.call(request, version)
    found = {(topic.name, p.partition_index): (p.committed_offset, p.metadata, p.error_code)
             for topic in answer.topics for p in topic.partitions}
    assert found == {
        ("orders", 0): (-1, "", ErrorCode.NONE), ("orders", 1): (7, "m", ErrorCode.NONE),
        ("nothing", 5): (-1, "", ErrorCode.NONE)}
    assert answer.error_code == ErrorCode.NONE
    if version >= 2:
        everything = node.call(OffsetFetchRequest(group_id="g", topics=None), version)
        assert [(topic.name, len(topic.partitions)) for topic in everything.topics] == [("orders", 1)]


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
def test_fetching_where_nobody_coordinates(version: int) -> None:
    node = Node(load=False)
    if version < 8:
        answer = node.call(OffsetFetchRequest(group_id="g", topics=[
            OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]), version)
        if version == 1:
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        else:
            assert (answer.error_code, answer.topics) == (ErrorCode.NOT_COORDINATOR, [])
    else:
        answer = node.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), version)
        assert (answer.groups[0].error_code, answer.groups[0].topics) == (ErrorCode.NOT_COORDINATOR, [])


def test_fetching_from_many_groups_by_id() -> None:
    node = Node()
    for number in range(5):
        commit(node, {("orders", 1): number}, group=f"g{number}")
    node.topics.topics.pop("clicks")
    orders = TOPICS["orders"][0]
    request = OffsetFetchRequest(groups=[
        *(OffsetFetchRequestGroup(group_id=f"g{n}", topics=None) for n in range(5)),
        OffsetFetchRequestGroup(group_id="g3", topics=[
            OffsetFetchRequestTopics(topic_id=orders, partition_indexes=[1, 2]),
            OffsetFetchRequestTopics(topic_id=UUID(int=5), partition_indexes=[0])]),
    ])
    answer = node.call(request, 10)
    assert [group.group_id for group in answer.groups] == ["g0", "g1", "g2", "g3", "g4", "g3"]
    for number, group in enumerate(answer.groups[:5]):
        (topic,) = group.topics
        assert (topic.topic_id, topic.partitions[0].committed_offset) == (orders, number)
    known, unknown = answer.groups[5].topics
    assert [p.committed_offset for p in known.partitions] == [3, -1]
    assert [(p.committed_offset, p.error_code) for p in unknown.partitions] == [(-1, ErrorCode.UNKNOWN_TOPIC_ID)]


def test_the_offset_of_an_older_topic_of_that_name_is_not_returned_by_id() -> None:
    node = Node()
    commit(node, {("orders", 1): 7}, version=10)
    node.topics.topics["orders"] = (UUID(int=0xB), 8)
    answer = node.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[
        OffsetFetchRequestTopics(topic_id=UUID(int=0xB), partition_indexes=[1])])]), 10)
    assert answer.groups[0].topics[0].partitions[0].committed_offset == -1
    assert fetch(node) == {("orders", 1): 7}


# -------------------------------------------------------------------- OffsetDelete

def delete(node: Node, keys: list[tuple[str, int]], group: str = "g") -> Any:
    return node.call(OffsetDeleteRequest(group_id=group, topics=[
        OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)])
        for topic, partition in keys]))


def results(response: Any) -> dict[tuple[str, int], int]:
    return {(topic.name, p.partition_index): p.error_code for topic in response.topics for p in topic.partitions}


def test_deleting_offsets() -> None:
    node = Node()
    commit(node, {("orders", 0): 1, ("orders", 1): 2})
    written = sum(map(len, node.logs.records))
    response = delete(node, [("orders", 0), ("nothing", 3), ("clicks", 1), ("clicks", 9)])
    assert response.error_code == ErrorCode.NONE
    assert results(response) == {
        ("orders", 0): ErrorCode.NONE, ("nothing", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("clicks", 1): ErrorCode.NONE, ("clicks", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert sum(map(len, node.logs.records)) == written + 1      # one tombstone
    assert fetch(node) == {("orders", 1): 2}
    node.kill()
    assert fetch(node) == {("orders", 1): 2}


def test_offsets_of_subscribed_topics_stay() -> None:
    node = Node()
    (member,) = form_group(node, 1)
    commit(node, {("orders", 0): 1, ("clicks", 0): 2}, member=member.member_id, generation=1)
    assert results(delete(node, [("orders", 0), ("clicks", 0)])) == \
        {("orders", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ("clicks", 0): 0}
    leave(node, member.member_id)
    assert results(delete(node, [("orders", 0)])) == {("orders", 0): 0}
    assert fetch(node) == {}


def test_groups_that_do_not_let_their_offsets_be_deleted() -> None:
    node = Node()
    assert delete(node, [("orders", 0)]).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(node, [("orders", 0)], group="").error_code == ErrorCode.INVALID_GROUP_ID
    form_group(node, 1, protocol_type="connect")
    response = delete(node, [("orders", 0), ("nothing", 1)])
    assert (response.error_code, response.topics) == (ErrorCode.NON_EMPTY_GROUP, [])


def test_a_subscription_that_cannot_be_read_keeps_every_topic() -> None:
    node = Node()
    (member,) = form_group(node, 1, protocols={"own": b"\x7f"})
    assert node.group("g").subscribed_topics is None
    commit(node, {("orders", 0): 1}, member=member.member_id, generation=1)
    assert results(delete(node, [("orders", 0)])) == {("orders", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


@pytest.mark.parametrize("metadata", [
    b"", b"\0", b"\0\1\0\0\0", b"\0\1\0\0\0\1", b"\0\1\0\0\0\1\0\5abc", b"\0\1\x7f\xff\xff\xff",
    b"\0\1\xff\xff\xff\xff", b"\xff\xff\0\0\0\0", b"\0\1\0\0\0\1\xff\xff", b"\0\1\0\0\0\1\0\1\xff",
])
def test_hostile_subscriptions(metadata: bytes) -> None:
    node = Node()
    (member,) = form_group(node, 1, protocols={"own": metadata})
    assert node.group("g").state is GroupState.STABLE
    assert node.group("g").subscribed_topics is None
    assert member.error_code == ErrorCode.NONE


def test_all_members_subscriptions_count() -> None:
    node = Node(group_initial_rebalance_delay_ms=1_000)
    pending = [join_new(node, protocols={"range": subscription(topic)}) for topic in ("orders", "clicks")]
    node.advance(5_000)
    for one in pending:
        sync(node, one.response)
    assert set(node.group("g").subscribed_topics) == {"orders", "clicks"}


# -------------------------------------------------------------------- records

def test_a_commit_with_its_own_retention_is_written_in_the_version_that_has_it() -> None:
    node = Node()
    commit(node, {("orders", 0): 1}, retention_ms=60_000, version=4)
    (record,) = [record for log in node.logs.records for record in log]
    assert record.value is not None
    assert record.value[:2] == b"\0\1"
    replayed = decode(StoredRecord(0, record.key, record.value))
    assert isinstance(replayed, OffsetReplay)
    assert replayed.offset is not None
    assert replayed.offset.expire_timestamp_ms == node.now_ms + 60_000
